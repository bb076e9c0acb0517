"""Where each shard of a deployment is in ``signed``, and who has its table, from offsets and group of the matchers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.table import Table

from neardup_workers.doing.stages.matching.shard_table import decode_window
from neardup_workers.outside.display.printing import table_of, time_text
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import MATCH, names_of
from neardup_workers.outside.topics.signed import PARTITION
from neardup_workers.outside.transport.protocol import Committed, Transport, UnknownTopicError

_MICROSECONDS = 1e6


class ShardState(NamedTuple):
    """A shard: the messages of ``signed`` in its window and behind its offset, and the stream time before the window in
    seconds; none of them without a committed offset. The matchers that own it and that stand by for it."""

    shard: int
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
        owner = next((name for name, share in shares if shard in share.owned), None)
        standbys = tuple(name for name, share in shares if shard in share.standbys)
        if shard not in committed:
            states.append(ShardState(shard, None, None, None, owner, standbys))
            continue
        reached, window = committed[shard].offset, decode_window(committed[shard].metadata)
        time = None if window.stream_time is None else window.stream_time / _MICROSECONDS
        states.append(
            ShardState(shard, reached - max(first, window.start), max(0, end - reached), time, owner, standbys)
        )
    return states


def shard_table(states: list[ShardState]) -> Table:
    """Return the shards for reading."""
    rows = []
    for shard, window, behind, time, owner, standbys in states:
        begins = "-" if time is None else time_text(time)
        counts = ("-" if n is None else f"{n:,}" for n in (window, behind))
        rows.append((str(shard), *counts, begins, owner or "-", ", ".join(standbys) or "-"))
    return table_of(
        ("shard", "in the window", "behind", "the window begins after", "matcher", "standbys"), rows, justify="left",
        title=f"{len(states)} shards", title_justify="left", title_style="bold",
    )  # fmt: skip
