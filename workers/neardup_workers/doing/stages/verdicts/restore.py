"""The restore of a linker: it reads the decisions of the window from ``verdicts``, in stretches between polls."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from neardup.errors import NeardupError
from neardup.pairs.shards import Growth
from neardup.schemes.config import Config
from neardup.stories.verdicts.rule import is_document
from neardup.window import NO_TIME
from neardup_workers.doing.stages.growth import growth_at
from neardup_workers.doing.stages.matching.shard_table import decode_window
from neardup_workers.doing.stages.verdicts.clusters import Clusters
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.originals import Stories, read_stories
from neardup_workers.doing.stages.verdicts.positions import (
    SignedMetadata,
    VerdictsMetadata,
    decode_signed_metadata,
    decode_verdicts_metadata,
    encode_metadata,
)
from neardup_workers.doing.stages.verdicts.sources import Gathered, KeptSources, Sources, read_sources
from neardup_workers.doing.stages.verdicts.state import LinkState
from neardup_workers.outside.topics.links import NO_PROGRESS, decode_links
from neardup_workers.outside.topics.places import offsets_of, partitions_of
from neardup_workers.outside.topics.signed import PARTITION, decode_signed, offset_and_row, position_of
from neardup_workers.outside.topics.verdicts import DecidedRows, decided_rows, join_decided, parse_run
from neardup_workers.outside.transport.protocol import Committed, OffsetGoneError, Record, Transport


class RecordsLostError(NeardupError):
    """Records that a linker has committed are no longer in a compacted topic; another attempt does not help."""


_Kept = TypeVar("_Kept", Stories, KeptSources)


class Restored(NamedTuple):
    """What a linker holds between two steps."""

    state: LinkState
    clusters: Clusters
    sources: Sources


def continued(
    transport: Transport, plan: LinkPlan, start: int, end: int, passed: Mapping[int, Growth]
) -> tuple[Committed, dict[int, Committed]] | None:
    """Return the offsets to commit for a group without any in ``signed`` and ``verdicts``: behind the last verdicts.

    A group that was deleted, or whose offsets have expired, thus decides no document twice. ``start`` and ``end`` are
    where it is read: rows from ``start`` on that have no verdict. ``passed`` is what the matchers know of its shards.
    The first linker begins where the matchers publish links (``_linked_from``), and counts the documents before; it
    waits for matchers that have worked and publish none yet: ``None``.
    """
    topics, config = plan.topics, plan.config
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
        position = _linked_from(transport, plan, start, passed)
        if position is None:
            return None
        skipped = _documents(transport, topics.signed, start, position, config)
        start, row = offset_and_row(position)
    growth = growth_at(transport, topics, config, passed, start)
    return Committed(start, encode_metadata(SignedMetadata(row, arrivals, 0, None, growth, skipped=skipped))), offsets


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


def _linked_from(transport: Transport, plan: LinkPlan, start: int, passed: Mapping[int, Growth]) -> int | None:
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
        shards = growth_at(transport, topics, config, passed, offset_and_row(position)[0]).shards
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


def restored(
    transport: Transport, plan: LinkPlan, compared: Compared, signed: Committed, verdicts: Mapping[int, Committed]
) -> Iterator[Restored | int]:
    """Read stories and ledger, the verdicts from the committed offsets on, and the messages of the window. Yields the
    rows of each stretch of the two, at least 1 for one that is not empty, then the state of the last linker.

    Raises, unless ``plan.allow_gap`` is on, ``OffsetGoneError`` if retention has deleted verdicts of the window, and
    ``RecordsLostError`` if stories or the ledger are gone.
    """
    topics, config, metadata = plan.topics, plan.config, decode_signed_metadata(signed)
    stories = yield from compacted(
        transport, plan, topics.originals, metadata.step, lambda read: read_stories(read, config.signing_fingerprint)
    )
    kept = yield from compacted(transport, plan, topics.sources, metadata.sources, read_sources)
    parts: list[DecidedRows] = []
    decided = {}
    for partition, committed in sorted(verdicts.items()):
        known = decode_verdicts_metadata(committed)
        decided[partition] = known.decided
        for part in _partition(transport, topics.verdicts, partition, committed, plan.allow_gap, config.separate):
            if part is not None:
                parts.append(part.select((part.numbers >= metadata.first).nonzero()[0]))
            yield 0 if part is None else max(1, len(parts[-1].numbers))
    state = LinkState(plan.limits, compared, metadata.arrivals, metadata.row)
    stream_time = int(NO_TIME) if metadata.stream_time is None else metadata.stream_time
    past = join_decided(parts or [decided_rows(0, [], int(NO_TIME))])
    state.name(past, stories.kept)
    gathered = Gathered(past, kept)
    sizes = np.zeros(int(is_document(past.rows.kinds).sum()), np.int64)
    first, end = transport.bounds(topics.signed)[PARTITION]
    start, end = max(first, metadata.window), min(end, signed.offset + (metadata.row > 0))
    for stretch in transport.read(topics.signed, PARTITION, start, end) if start < end else ():
        count = 0
        for record in stretch:
            data = record.value or b""
            rows = decode_signed(data, config.signing_fingerprint, config.plan.width)
            if rows.growth is None:
                state.add_message(record.offset, rows, len(data), sizes)
                gathered.add(rows.arrivals(), record.timestamp_ms)
                count += len(rows.kinds)
        yield max(count, min(1, len(stretch)))
    state.restore(past, stream_time, decided, stories.kept, sizes)
    clusters, records = Clusters(plan.limits, separate=config.separate), []
    for partition, (first, end) in transport.bounds(topics.clusters).items():
        for stretch in transport.read(topics.clusters, partition, first, end):
            records += stretch
            yield min(1, len(stretch))
    clusters.restore(records, past, stream_time)
    sources = Sources(plan.sources_max)
    sources.restore(kept, past, gathered, stories.kept.ids, state.decisions.end)
    yield Restored(state, clusters, sources)


def compacted(
    transport: Transport, plan: LinkPlan, topic: str, step: int, read: Callable[[list[Record]], _Kept]
) -> Generator[int, None, _Kept]:
    """Read the topic until it shows the last step that wrote to it. A step is visible in other topics before.

    Its records were acknowledged before its offsets were committed. So they are lost if all that is written was read,
    and no transaction is open there. Some are lost if the log does not begin at 0: compaction leaves its beginning, and
    only a deletion by time or size moves it.
    """
    records: list[Record] = []
    at, end = transport.bounds(topic)[PARTITION]
    if at and not plan.allow_gap:
        raise RecordsLostError(
            f"{topic} begins at {at}: records before that were deleted by time or size; set its cleanup.policy to "
            "compact, and go on without them with --allow-gap: later copies of old originals may be kept, and sources "
            "have too small counts"
        )
    while True:
        for stretch in transport.read(topic, PARTITION, at, end) if at < end else ():
            records += stretch
            yield min(1, len(stretch))
        at = max(at, end)
        kept = read(records)
        if kept.step >= step:
            return kept
        if transport.bounds(topic, written=True)[PARTITION][1] <= at:
            if plan.allow_gap:
                return kept
            raise RecordsLostError(
                f"{topic} ends at {at} without step {step}, which the linker has committed: its records are lost; see "
                "whether the topic was made again, or was deleted by time or size; then --allow-gap goes on without "
                "them: later copies of old originals may be kept, and counts of sources begin again"
            )
        yield 0
        end = transport.bounds(topic)[PARTITION][1]


def _partition(
    transport: Transport, topic: str, partition: int, committed: Committed, allow_gap: bool, separate: bool
) -> Iterator[DecidedRows | None]:
    """Read the verdicts of one partition, from the committed offset to the last decided one.

    The markers of a transaction reach the partitions one after the other. So the committed offset may be visible before
    the last verdict. The log is read again until the verdict is visible.
    """
    metadata = decode_verdicts_metadata(committed)
    at, reached = committed.offset, metadata.marked
    while reached < metadata.decided:
        first, end = transport.bounds(topic)[partition]
        if at < first:
            if not allow_gap:
                raise OffsetGoneError(
                    f"the verdicts of partition {partition} in the window begin at offset {at}, the log of {topic} at "
                    f"{first}: copies of the documents between would be kept; give {topic} a longer retention, or "
                    "accept that with --allow-gap"
                )
            at, reached = first, metadata.decided if first >= end else reached
        for records in transport.read(topic, partition, at, end):
            lines = [line for record in records for line in parse_run(record.value)]
            if lines:
                reached = lines[-1]["offset"] + 1
                yield decided_rows(partition, lines, int(NO_TIME), separate=separate)
        at = max(at, end)
        if reached < metadata.decided and transport.bounds(topic, written=True)[partition][1] <= at:
            if allow_gap:
                return
            raise OffsetGoneError(
                f"partition {partition} of {topic} ends at {at}, and the linker has committed verdicts up to document "
                f"{metadata.decided} behind that: the topic was made again, and what stood in it is lost; accept that "
                "with --allow-gap"
            )
        yield None
