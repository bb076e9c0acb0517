"""What a matcher needs in addition to the records, and from where on it needs the log."""

from __future__ import annotations

from typing import NamedTuple

from neardup.stream.config import Config
from neardup.workers.settings.kafka import STEP_BYTES_MAX, STEP_PAIRS_MAX
from neardup.workers.stages.matching.shard_table import ShardTable, decode_window
from neardup.workers.stages.verdicts.positions import decode_signed_metadata
from neardup.workers.topics.messages import Envelope
from neardup.workers.topics.names import Topics
from neardup.workers.topics.signed import PARTITION
from neardup.workers.transport.protocol import OffsetGoneError, Transport


class MatchPlan(NamedTuple):
    """What a matcher needs in addition to the records."""

    config: Config
    topics: Topics
    shards: int
    candidate_partitions: int
    envelope: Envelope
    start: str | None  # "earliest" or "latest" for a group without committed offsets; None refuses it
    allow_gap: bool  # continue if the beginning of a window is no longer in the log
    link_group: str  # the group of linkers, which read signed too
    step_bytes_max: int = STEP_BYTES_MAX
    step_pairs_max: int = STEP_PAIRS_MAX
    canaries: bool = False  # look up those of signed
    verdicts: bool = False  # publish links for linkers, and trim nothing before the first linker works
    standbys: int = 0  # other members that keep a table of each shard


class Restore(NamedTuple):
    """A table that is replayed: from an offset up to a position, which is committed."""

    table: ShardTable
    start: int
    end: int


def needed_from(transport: Transport, plan: MatchPlan, group: str) -> int:
    """Return the offset from which on a matcher or a linker needs the log; -1 if that is not known."""
    offsets = transport.group_offsets(group, plan.topics.links)
    linker = transport.group_offsets(plan.link_group, plan.topics.signed).get(PARTITION)
    if len(offsets) < plan.shards or (linker is None and plan.verdicts):
        return -1
    starts = [decode_window(committed.metadata).start for committed in offsets.values()]
    return min(starts if linker is None else [*starts, linker.offset, decode_signed_metadata(linker).window])


def check_gap(plan: MatchPlan, shard: int, start: int, first: int) -> None:
    """Raise ``OffsetGoneError`` if the window of a shard begins before the log, and no gap is allowed."""
    if start < first and not plan.allow_gap:
        raise OffsetGoneError(
            f"the window of shard {shard} begins at offset {start}, the log of {plan.topics.signed} at {first}: "
            "pairs with the documents between would be missed; restore the log, or accept that with --allow-gap"
        )
