"""Where each shard of a deployment and its linker are in ``signed``, and who has their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.table import Table

from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.display.printing import table_of, time_text
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import LINK, MATCH, names_of
from neardup_workers.outside.topics.signed import PARTITION
from neardup_workers.outside.transport.assignment import Share
from neardup_workers.outside.transport.protocol import Committed, Transport, UnknownTopicError

_MICROSECONDS = 1e6


class ShardState(NamedTuple):
    """A shard, or the linker, which has no number: the messages of ``signed`` in its window and behind its offset, and
    the stream time before the window in seconds, of a shard; none of them without a committed offset. The members that
    own it and that stand by for it."""

    shard: int | None
    window: int | None
    behind: int | None
    time: float | None
    owner: str | None
    standbys: tuple[str, ...]


def states_of(transport: Transport, settings: StreamSettings, committed: Mapping[int, Committed]) -> list[ShardState]:
    """Return the shards in order, by the offsets of the matchers; none if the topics are missing. Markers of
    transactions count as messages.

    Shards that a growth has added, and that have not begun, are none yet.
    """
    names = names_of(settings)
    try:
        first, end = transport.bounds(names.topics.signed)[PARTITION]
        shares = sorted(transport.shares(names.group(MATCH)).items())
    except UnknownTopicError:
        return []
    states = []
    for shard in range(max([settings.shards, *(one + 1 for one in committed)])):
        owner, standbys = _holders(shares, shard)
        if shard not in committed:
            states.append(ShardState(shard, None, None, None, owner, standbys))
            continue
        reached, window = committed[shard].offset, decode_window(committed[shard].metadata)
        time = None if window.stream_time is None else window.stream_time / _MICROSECONDS
        states.append(
            ShardState(shard, reached - max(first, window.start), max(0, end - reached), time, owner, standbys)
        )
    return states


def linker_of(transport: Transport, settings: StreamSettings, linked: Committed | None) -> list[ShardState]:
    """Return the linker, by the offset of its group in ``signed``; nothing if the topic is missing."""
    names = names_of(settings)
    try:
        first, end = transport.bounds(names.topics.signed)[PARTITION]
        owner, standbys = _holders(sorted(transport.shares(names.group(LINK)).items()), PARTITION)
    except UnknownTopicError:
        return []
    if linked is None:
        return [ShardState(None, None, None, None, owner, standbys)]
    window = linked.offset - max(first, decode_signed_metadata(linked).window)
    return [ShardState(None, window, max(0, end - linked.offset), None, owner, standbys)]


def _holders(shares: list[tuple[str, Share]], partition: int) -> tuple[str | None, tuple[str, ...]]:
    """Return the member that owns a partition, and those that stand by for it."""
    owner = next((name for name, share in shares if partition in share.owned), None)
    return owner, tuple(name for name, share in shares if partition in share.standbys)


def shard_table(states: list[ShardState]) -> Table:
    """Return the shards, and the linker, for reading."""
    rows = []
    for shard, window, behind, time, owner, standbys in states:
        begins = "-" if time is None else time_text(time)
        counts = ("-" if n is None else f"{n:,}" for n in (window, behind))
        part = "linker" if shard is None else str(shard)
        rows.append((part, *counts, begins, owner or "-", ", ".join(standbys) or "-"))
    return table_of(
        ("shard", "in the window", "behind", "the window begins after", "member", "standbys"), rows, justify="left",
        title=f"{sum(one.shard is not None for one in states)} shards", title_justify="left", title_style="bold",
    )  # fmt: skip
