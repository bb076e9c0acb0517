"""The restore of a linker: it reads the decisions of the window from ``verdicts``, in stretches between polls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.decisions import VerdictLimits
from neardup.workers.stages.verdicts.clusters import Clusters
from neardup.workers.stages.verdicts.positions import decode_arrivals_place, decode_verdicts_place
from neardup.workers.stages.verdicts.state import LinkState
from neardup.workers.topics.names import Topics
from neardup.workers.topics.verdicts import DecidedRows, decided_rows, join_decided, parse_run
from neardup.workers.transport.protocol import Committed, OffsetGoneError, Transport


class Restored(NamedTuple):
    """What a linker holds between two steps."""

    state: LinkState
    clusters: Clusters


def restored(
    transport: Transport,
    topics: Topics,
    limits: VerdictLimits,
    arrivals: Committed,
    verdicts: Mapping[int, Committed],
    *,
    allow_gap: bool,
) -> Iterator[Restored | None]:
    """Read the verdicts from the committed places on. Yields ``None`` after each stretch, then the state of the last
    linker.

    Raises ``OffsetGoneError`` if retention has deleted verdicts of the window and ``allow_gap`` is off.
    """
    place = decode_arrivals_place(arrivals)
    parts: list[DecidedRows] = []
    decided = {}
    for partition, committed in sorted(verdicts.items()):
        known = decode_verdicts_place(committed)
        decided[partition] = known.decided
        for part in _partition(transport, topics.verdicts, partition, committed, allow_gap):
            if part is not None:
                parts.append(part.select((part.numbers >= place.first).nonzero()[0]))
            yield None
    state = LinkState(limits, place.arrivals, place.row)
    stream_time = int(NO_TIME) if place.stream_time is None else place.stream_time
    found = join_decided(parts or [decided_rows(0, [], int(NO_TIME))])
    state.restore(found, stream_time, decided)
    clusters, records = Clusters(limits), []
    for partition, (first, end) in transport.bounds(topics.clusters).items():
        for stretch in transport.read(topics.clusters, partition, first, end):
            records += stretch
            yield None
    clusters.restore(records, found, stream_time)
    yield Restored(state, clusters)


def _partition(
    transport: Transport, topic: str, partition: int, committed: Committed, allow_gap: bool
) -> Iterator[DecidedRows | None]:
    """Read the verdicts of one partition, from the committed offset to the last decided one.

    The markers of a transaction reach the partitions one after the other. So the committed offset may be visible before
    the last verdict. The log is read again until the verdict is visible.
    """
    place = decode_verdicts_place(committed)
    at, reached = committed.offset, place.marked
    while reached < place.decided:
        first, end = transport.bounds(topic)[partition]
        if at < first:
            if not allow_gap:
                raise OffsetGoneError(
                    f"the verdicts of partition {partition} in the window begin at offset {at}, the log of {topic} at "
                    f"{first}: copies of the documents between would be kept; give {topic} a longer retention, or "
                    "accept that with --allow-gap"
                )
            at, reached = first, place.decided if first >= end else reached
        for records in transport.read(topic, partition, at, end):
            lines = [line for record in records for line in parse_run(record.value)]
            if lines:
                reached = lines[-1]["offset"] + 1
                yield decided_rows(partition, lines, int(NO_TIME))
        at = max(at, end)
        yield None
