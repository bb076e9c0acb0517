"""Where a linker begins: without offsets behind the last verdicts, or where matchers began to publish links."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.pairs.shards import Growth
from neardup.schemes.config import Config, is_weighted
from neardup.stories.verdicts.rule import is_document
from neardup_workers.doing.stages.growth import growth_at
from neardup_workers.doing.stages.matching.plan import passed_growth
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.positions import (
    SignedMetadata,
    VerdictsMetadata,
    decode_signed_metadata,
    encode_metadata,
)
from neardup_workers.outside.topics.links import NO_PROGRESS, decode_links
from neardup_workers.outside.topics.places import offsets_of, partitions_of
from neardup_workers.outside.topics.signed import PARTITION, decode_signed, offset_and_row, position_of
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import Committed, OffsetGoneError, Record, Transport

_log = logging.getLogger(__name__)


def continued(
    transport: Transport, plan: LinkPlan, start: int, end: int
) -> tuple[Committed, dict[int, Committed]] | None:
    """Return the offsets to commit for a group without any in ``signed`` and ``verdicts``: behind the last verdicts.

    A group that was deleted, or whose offsets have expired, thus decides no document twice. ``start`` and ``end`` are
    where it is read: rows from ``start`` on that have no verdict.
    The first linker begins where the matchers publish links (``_linked_from``), and counts the documents before; it
    waits for matchers that have worked and publish none yet: ``None``.
    """
    topics, config, growths = plan.topics, plan.config, passed(transport, plan)
    decided: dict[int, int] = {}
    offsets: dict[int, Committed] = {}
    arrivals = row = skipped = 0
    firsts = transport.bounds(topics.verdicts)
    for partition, line in last_verdicts(transport, topics.verdicts).items():
        decided[partition], arrivals = line["offset"] + 1, max(arrivals, line["arrival"] + 1)
        offsets[partition] = Committed(firsts[partition][0], encode_metadata(VerdictsMetadata(decided[partition], -1)))
    if decided:
        ends = np.full(max(decided) + 1, -1)
        ends[list(decided)] = list(decided.values())
        start, row = _first_open(transport, topics.signed, start, end, config, ends)
    elif not plan.allow_gap:
        position = _linked_from(transport, plan, start, growths)
        if position is None:
            return None
        skipped = _documents(transport, topics.signed, start, position, config)
        start, row = offset_and_row(position)
    growth = growth_at(transport, topics, config, growths, start)
    counted = _counted_from(transport, plan, position_of(start, row))
    metadata = SignedMetadata(row, arrivals, 0, None, growth, skipped=skipped, counted=counted)
    return Committed(start, encode_metadata(metadata)), offsets


def _counted_from(transport: Transport, plan: LinkPlan, position: int) -> int | None:
    """Return from where on documents count for a linker that begins at a position: from where they do for a matcher, if
    that is before it; ``None`` if rarity weighs nothing."""
    if not is_weighted(plan.config):
        return None
    offsets = transport.group_offsets(plan.match_group, plan.topics.links).values()
    begun = (decode_window(at.metadata).counted for at in offsets)
    return max((at for at in begun if at is not None and at <= position), default=position)


def disagreement(transport: Transport, plan: LinkPlan) -> str:
    """Return what a linker waits for if shards were matched last with other settings than its own; else nothing."""
    offsets, own = transport.group_offsets(plan.match_group, plan.topics.links), plan.config.matching_fingerprint
    others = {shard: decode_window(at.metadata).fingerprint for shard, at in sorted(offsets.items())}
    shards = [shard for shard, fingerprint in others.items() if fingerprint != own]
    return (
        f"matchers with its settings of matching ({own[:8]}): shards {shards} were matched last with "
        f"{', '.join(sorted({others[shard][:8] for shard in shards}))}; give every matcher and the linker the same "
        "window, lateness, limits and min_similarity"
        if shards
        else ""
    )


def _linked_from(transport: Transport, plan: LinkPlan, start: int, growths: Mapping[int, Growth]) -> int | None:
    """Return the first position from ``start`` on from which all shards publish links; ``None`` if it is not known yet.

    Matchers that worked without ``verdicts`` publish links of their window when they start with it; what came before
    has none. A shard begins where its first record says. A log of links that was trimmed had a linker, so what is
    missing in it is lost and no beginning.
    """
    topics, config, position = plan.topics, plan.config, position_of(start)
    # In this order: what a matcher publishes between the two answers is in the second one.
    offsets = transport.group_offsets(plan.match_group, topics.links)
    bounds = transport.bounds(topics.links)
    if any(first for first, _ in bounds.values()):
        return position
    ahead = {s for s, at in offsets.items() if position_of(at.offset, decode_window(at.metadata).row) > position}
    begun: dict[int, int] = {}
    for shard, (first, end) in bounds.items():
        links = (
            decode_links(record.value or b"", config.signing_fingerprint)
            for records in transport.read(topics.links, shard, first, end)
            for record in records
        )
        found = next((each.first for each in links if each.first != NO_PROGRESS), None)
        if found is not None:
            begun[shard] = found
    while True:
        shards = growth_at(transport, topics, config, growths, offset_and_row(position)[0]).shards
        if any(shard < shards for shard in ahead - begun.keys()):
            return None
        furthest = max([position, *(at for shard, at in begun.items() if shard < shards)])
        if furthest == position:
            return position
        position = furthest


def _documents(transport: Transport, topic: str, start: int, position: int, config: Config) -> int:
    """Return the number of documents in ``signed`` from an offset up to a position."""
    count, (offset, row) = 0, offset_and_row(position)
    for records in transport.read(topic, PARTITION, start, offset + (row > 0)) if start < offset + (row > 0) else ():
        for record in records:
            rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
            if rows.growth is None:
                kinds = rows.kinds if record.offset < offset else rows.kinds[:row]
                count += int(is_document(kinds).sum())
    return count


def last_verdicts(transport: Transport, topic: str) -> dict[int, dict[str, Any]]:
    """Return the last verdict of each partition that has one."""
    bounds = transport.bounds(topic).items()
    records = {partition: last_record(transport, topic, partition, first, end) for partition, (first, end) in bounds}
    return {partition: dict(parse_run(record.value)[-1]) for partition, record in records.items() if record is not None}


def last_record(transport: Transport, topic: str, partition: int, first: int, end: int) -> Record | None:
    """Return the last record before ``end``. Markers may follow it, so larger and larger ends of the log are read."""
    count = 1
    while first < end:
        start = max(first, end - count)
        records = [record for batch in transport.read(topic, partition, start, end) for record in batch]
        if records:
            return records[-1]
        if start == first:
            break
        count *= 8
    return None


def _first_open(
    transport: Transport, topic: str, start: int, end: int, config: Config, decided: npt.NDArray[np.int64]
) -> tuple[int, int]:
    """Return offset and row of the first arrival without a verdict; ``decided`` are the ends by partition."""
    for records in transport.read(topic, PARTITION, start, end):
        for record in records:
            rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
            if rows.growth is not None:
                continue
            places = rows.places
            partitions = partitions_of(places)
            known = np.where(partitions < len(decided), decided[np.minimum(partitions, len(decided) - 1)], -1)
            is_open = offsets_of(places) >= known
            if is_open.any():
                return record.offset, int(is_open.argmax())
    return end, 0


def passed(transport: Transport, plan: LinkPlan) -> dict[int, Growth]:
    """Return how many shards there are, by the offsets of the matchers in ``signed``."""
    return passed_growth(transport, plan.match_group, plan.topics.links, plan.shards)


def name_skipped(plan: LinkPlan, signed: Committed) -> None:
    """Log what the first linker of the stream passes."""
    if skipped := decode_signed_metadata(signed).skipped:
        _log.warning(
            "the first linker begins at offset %d of %s: %d documents before it get no verdict, and no filter "
            "forwards them, because matchers published no links of them (verdicts was off)",
            signed.offset, plan.topics.signed, skipped,
        )  # fmt: skip


def after_gap(transport: Transport, plan: LinkPlan, signed: Committed, first: int) -> Committed:
    """Return where ``signed`` is read: behind what is no longer in the log, which begins at ``first``."""
    if signed.offset >= first:
        return signed
    topics = plan.topics
    gone = (
        f"offsets {signed.offset} to {first} of {topics.signed} are no longer in the log: their documents get "
        "no verdict, and no filter forwards them"
    )
    if not plan.allow_gap:
        raise OffsetGoneError(f"{gone}; send them again, and go on with --allow-gap")
    _log.warning("%s (allow_gap)", gone)
    growth = growth_at(transport, topics, plan.config, passed(transport, plan), first)
    return Committed(first, encode_metadata(decode_signed_metadata(signed)._replace(row=0, growth=growth)))


def gone_links(plan: LinkPlan, starts: Mapping[int, int], firsts: Mapping[int, int]) -> list[int]:
    """Return the partitions of ``links`` of which the log begins behind where it is read; raises ``OffsetGoneError``
    unless that is allowed."""
    gone = [partition for partition, at in starts.items() if at < firsts[partition]]
    if gone and not plan.allow_gap:
        raise OffsetGoneError(
            f"the log of partitions {gone} of {plan.topics.links} begins behind the committed offsets: pairs "
            "of documents without a verdict are gone; accept that with --allow-gap"
        )
    return gone
