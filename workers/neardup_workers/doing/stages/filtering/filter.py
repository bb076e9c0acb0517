"""The filter: verdicts in, accepted documents out, byte for byte, one transaction a step.

The group of filters reads ``verdicts``; partition s of ``documents`` is read next to it, by offset. An accepted
document goes to the same partition of ``documents.unique``, with the same key, value and time, and the same headers
before one with the generation. A removal goes there too, as the same tombstone. States of a partition: *waiting*
(assigned, without position), *running*, *revoked* (its pending records are dropped).

A step, and the effect of a crash after each part:

1. ``poll`` verdicts, for the membership, and documents. *A crash loses nothing: both are read again.*
2. Join the two by offset. *A crash loses nothing.*
3. ``transact``: the documents, and the offsets of ``verdicts`` with a ``FilterMetadata`` as metadata. *They become
   visible together, or not at all.*

After an abort, the partitions of the step restart at their committed offsets.

If a wanted document is not in the log, retention has deleted it. The worker then stops; with ``allow_gap`` it skips the
document and counts it.

A filter can continue where the filters of another generation stopped. Both generations decide the documents of one
topic, each in a topic of verdicts of its own. So a position in one of the two says nothing about the other; the offset
in ``documents`` is common to both. A filter commits it with its position. The filter that follows begins at its own
first verdict, and skips the verdicts below this offset.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from neardup.errors import ConfigError
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.starts import check_end, committed_start, decoded_metadata
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.telemetry.observer import stage
from neardup_workers.outside.topics.names import FILTER, Names, generation_header
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Message,
    OffsetGoneError,
    Record,
    Transport,
    UnreachableError,
    record_bytes,
)

_METADATA_VERSION = 2


class FilterMetadata(NamedTuple):
    """The position of a filter in a partition, in addition to the offset of a record of verdicts.

    ``row``: number of processed verdicts of that record. ``document``: offset in ``documents`` behind the last
    processed verdict, if it is known. ``follows``: the filter continues there, and has processed nothing yet.
    """

    row: int
    document: int | None = None
    follows: bool = False


def encode_metadata(metadata: FilterMetadata) -> str:
    """Return the metadata of a committed offset."""
    fields: dict[str, Any] = {"version": _METADATA_VERSION, "row": metadata.row}
    if metadata.document is not None:
        fields["document"] = metadata.document
    if metadata.follows:
        fields["follows"] = True
    return orjson.dumps(fields).decode()


def decode_metadata(committed: Committed) -> FilterMetadata:
    """Return the position; raises ``ConfigError`` for metadata of another program."""
    with decoded_metadata(committed.metadata, _METADATA_VERSION, "filter") as fields:
        document = fields.get("document")
        return FilterMetadata(
            int(fields["row"]), None if document is None else int(document), bool(fields.get("follows"))
        )


def positions_after(transport: Transport, before: Names) -> dict[int, FilterMetadata]:
    """Return where the filters of another generation stopped, by partition.

    Raises ``ConfigError`` if there were none, if they still work, or if they are of a version that does not commit the
    offset.
    """
    group = before.group(FILTER)
    committed = transport.group_offsets(group, before.topics.verdicts)
    if not committed:
        raise ConfigError(
            f"no filter has worked in group {group}, so there is nothing to follow: "
            "neardup topics describe with the settings of that generation prints its name"
        )
    members = transport.members(group)
    if members:
        raise ConfigError(
            f"{members} filters of generation {before.generation} still work, and both would forward the same "
            f"documents: stop the members of group {group}, then start this filter again"
        )
    positions = {partition: decode_metadata(at) for partition, at in committed.items()}
    unknown = sorted(s for s, at in positions.items() if at.document is None and at.row)
    if unknown:
        raise ConfigError(
            f"filters of generation {before.generation} have not committed where they are in partitions {unknown} of "
            f"{before.topics.documents}: run them with this version until each has forwarded a document, then stop them"
        )
    return {partition: FilterMetadata(0, at.document, at.document is not None) for partition, at in positions.items()}


def check_follows(transport: Transport, topic: str, partition: int, document: int, first: int) -> None:
    """Raise ``OffsetGoneError`` if documents from the offset ``document`` on, before the first verdict, have no
    verdict of this generation."""
    for records in transport.read(topic, partition, document, first) if document < first else ():
        if records:
            raise OffsetGoneError(
                f"the verdicts of partition {partition} begin at offset {first} of {topic}, and the filters before "
                f"stopped at {document}: the documents between would be lost; let those filters work until they are "
                "behind that offset, or go on without these documents with --allow-gap"
            )


# Maximum documents of a step: the producer sends them in about a second.
_STEP_DOCUMENTS_MAX = 20_000
# A partition with about this many pending verdicts is paused.
_HAND_VERDICTS_MAX = 50_000


class FilterPlan(NamedTuple):
    """What a filter needs in addition to the records. ``forward``: the statuses of accepted documents. ``follows``: the
    names of the generation where a group without committed offsets continues."""

    names: Names
    forward: tuple[str, ...]
    start: str | None  # "earliest" or "latest" for a group without committed offsets; None refuses it
    allow_gap: bool  # continue without documents that retention has deleted
    step_bytes_max: int = LIMITS.step_bytes_max
    follows: Names | None = None


@dataclass
class _Run:
    """A record of verdicts: its offset, its number of verdicts, the offset behind its last document, and row and offset
    of each wanted document."""

    offset: int
    rows: int
    end: int
    wanted: deque[tuple[int, int]]


@dataclass
class _Lane:
    """A running partition with its pending verdicts and documents. ``metadata`` belongs to the record at ``offset``.
    This record is the first of ``runs``, or the next to arrive."""

    offset: int
    metadata: FilterMetadata
    runs: deque[_Run] = field(default_factory=deque)
    hand: deque[Record] = field(default_factory=deque)
    hand_bytes: int = 0
    verdicts: int = 0
    is_placed: bool = False  # documents are read from the first wanted one on

    def wanted(self) -> int | None:
        """The offset of the next wanted document."""
        return next((run.wanted[0][1] for run in self.runs if run.wanted), None)

    def end_run(self) -> None:
        """Remove a processed record of verdicts."""
        run = self.runs.popleft()
        self.offset, self.metadata = run.offset + 1, FilterMetadata(0, max(run.end, self.metadata.document or 0))
        self.verdicts -= run.rows

    def next_document(self, position: int) -> Record | int | None:
        """Return the next wanted document of the first run; its offset if it is not in the log; ``None`` if it has not
        arrived yet. ``position`` is the position of the reader."""
        run = self.runs[0]
        row, offset = run.wanted[0]
        while self.hand and self.hand[0].offset < offset:
            self.hand_bytes -= record_bytes(self.hand.popleft())
        if not self.hand and (not self.is_placed or position <= offset):
            return None
        run.wanted.popleft()
        self.offset, self.metadata = run.offset, FilterMetadata(row + 1, offset + 1)
        if not self.hand or self.hand[0].offset > offset:
            return offset
        record = self.hand.popleft()
        self.hand_bytes -= record_bytes(record)
        return record


class FilterWorker:
    """The loop of a filter; ``turn`` runs it once. See the module for the states."""

    def __init__(self, member: WorkerMember, plan: FilterPlan) -> None:
        self.member, self.plan, self.observer = member, plan, member.observer
        self.topics = plan.names.topics
        self._header = generation_header(plan.names.generation)
        self.reader = member.transport.reader(plan.names.topics.documents)
        self._lanes: dict[int, _Lane] = {}

    @property
    def ready(self) -> bool:
        """Whether every assigned partition is running."""
        return not self.member.waiting

    @property
    def running(self) -> set[int]:
        """The partitions whose verdicts are read."""
        return set(self._lanes)

    def waiting_records(self) -> dict[int, int]:
        """Return the number of pending records of verdicts, by partition; partitions without any are absent."""
        return {partition: len(lane.runs) for partition, lane in self._lanes.items() if lane.runs}

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, join, publish one step; returns the records read and the documents forwarded.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (restart), ``UnreachableError`` (call it again),
        ``ConfigError``, ``OffsetGoneError``, ``UnknownTopicError`` (stop).
        """
        behind = any(lane.wanted() is not None for lane in self._lanes.values())
        with stage(self.observer, "poll"):
            polled = self.member.poll(timeout_seconds, records_max, self.plan.step_bytes_max, at_hand=behind)
        for partition in polled.revoked:
            self._drop(partition)
        for record in polled.records:
            if record.partition in self._lanes:
                self._take_run(record)
        self.member.begin(self._begin)
        read = self._read(timeout_seconds, records_max)
        done = 0 if polled.is_joining else self._step()
        # Pause the partitions with enough pending verdicts.
        full = {partition for partition, lane in self._lanes.items() if lane.verdicts >= _HAND_VERDICTS_MAX}
        self.member.hold(full, self._lanes.keys())
        return len(polled.records) + read + done

    def close(self) -> None:
        """Free the reader; never raises."""
        self.reader.close()

    def _start(self, partition: int) -> Committed | None:
        """Return where a partition begins: at its first verdict if it was added after the group began."""
        follows, transport = self.plan.follows, self.member.transport
        # Of the generation before, for the first start of the group only.
        positions: dict[int, FilterMetadata] | None = None

        def first(added: int, offset: int) -> str:
            nonlocal positions
            if follows is not None and positions is None:
                others = transport.group_offsets(self.member.membership.group, self.topics.verdicts)
                positions = {} if others else positions_after(transport, follows)
            return encode_metadata((positions or {}).get(added, FilterMetadata(0)))

        return committed_start(self.member, self.topics.verdicts, partition, self.plan.start, first)

    def _begin(self, partition: int) -> bool:
        """Start a partition at its committed offset; returns whether that is known."""
        committed = self._start(partition)
        if committed is None:
            return False
        metadata, group = decode_metadata(committed), self.member.membership.group
        for topic, offset in (
            (self.topics.verdicts, committed.offset),
            (self.topics.documents, metadata.document or 0),
        ):
            check_end(self.member.transport, topic, group, {partition: offset})
        self._lanes[partition] = _Lane(committed.offset, metadata)
        self.member.start(partition, committed.offset)
        return True

    def _drop(self, partition: int) -> None:
        if self._lanes.pop(partition, None) is not None:
            self._follow({})

    def _restart(self, partition: int) -> None:
        """Begin a partition again at its committed offset."""
        self._drop(partition)
        self.member.consumer.pause([partition])
        self.member.waiting.add(partition)

    def _follow(self, starts: dict[int, int]) -> None:
        """Continue to read documents of the placed partitions, and of others from the offsets in ``starts``."""
        positions = self.reader.positions()
        placed = {s: positions[s] for s, lane in self._lanes.items() if lane.is_placed and s in positions}
        self.reader.follow({**placed, **starts})

    def _take_run(self, record: Record) -> None:
        """Queue the wanted documents of a record of verdicts that are not processed yet."""
        lane = self._lanes[record.partition]
        lines = parse_run(record.value)
        skipped = lane.metadata.row if not lane.runs and record.offset == lane.offset else 0
        begin = lane.metadata.document or 0
        if lane.metadata.follows and not lane.runs and not self.plan.allow_gap:
            try:
                check_follows(self.member.transport, self.topics.documents, record.partition, begin, lines[0]["offset"])
            except UnreachableError:
                self._restart(record.partition)
                raise
        kept = {*self.plan.forward, "removed"}
        wanted = [
            (row, line["offset"])
            for row, line in enumerate(lines)
            if row >= skipped and line["status"] in kept and line["offset"] >= begin
        ]
        lane.runs.append(_Run(record.offset, len(lines), lines[-1]["offset"] + 1, deque(wanted)))
        lane.verdicts += len(lines)

    def _read(self, timeout_seconds: float, records_max: int) -> int:
        """Read documents of the partitions that want some; returns the number of records."""
        starts = {}
        for partition, lane in self._lanes.items():
            wanted = lane.wanted()
            if not lane.is_placed and wanted is not None:
                starts[partition] = wanted
                lane.is_placed = True
        if starts:
            self._follow(starts)
        self.reader.hold({s for s in self.reader.positions() if self._lanes[s].wanted() is None or self._has(s)})
        left = self.plan.step_bytes_max - sum(lane.hand_bytes for lane in self._lanes.values())
        with stage(self.observer, "poll"):
            try:
                records = self.reader.poll(timeout_seconds if starts else 0.0, records_max, max(1, left))
            except OffsetGoneError:
                if not self.plan.allow_gap:
                    raise
                firsts = {s: first for s, (first, _) in self.member.transport.bounds(self.topics.documents).items()}
                self._follow({s: max(at, firsts[s]) for s, at in self.reader.positions().items()})
                records = []
        for record in records:
            lane = self._lanes[record.partition]
            lane.hand.append(record)
            lane.hand_bytes += record_bytes(record)
        return len(records)

    def _has(self, partition: int) -> bool:
        """Whether all wanted documents of a partition have arrived."""
        lane = self._lanes[partition]
        last = next((run.wanted[-1][1] for run in reversed(lane.runs) if run.wanted), -1)
        return bool(lane.hand) and lane.hand[-1].offset >= last

    def _step(self) -> int:
        """Forward the wanted documents that have arrived; returns their number."""
        messages: list[Message] = []
        offsets: dict[int, Committed] = {}
        positions = self.reader.positions()
        size = gone = 0
        for partition, lane in self._lanes.items():
            before = lane.offset, lane.metadata.row
            while lane.runs and size < self.plan.step_bytes_max and len(messages) < _STEP_DOCUMENTS_MAX:
                if not lane.runs[0].wanted:
                    lane.end_run()
                    continue
                document = lane.next_document(positions.get(partition, -1))
                if document is None:
                    break
                if isinstance(document, Record):
                    time = document.timestamp_ms if document.timestamp_ms >= 0 else None
                    headers = *document.headers, self._header
                    place = self.topics.unique, document.partition
                    messages.append(Message(*place, document.value, document.key, time, headers))
                    size += record_bytes(document)
                else:
                    if not self.plan.allow_gap:
                        documents = self.topics.documents
                        raise OffsetGoneError(
                            f"offset {document} of partition {partition} of {documents} is to be kept and is no longer "
                            f"in the log: give {documents} a longer retention, or go on without it with --allow-gap"
                        )
                    gone += 1
            if (lane.offset, lane.metadata.row) != before:
                offsets[partition] = Committed(lane.offset, encode_metadata(lane.metadata))
        if not offsets:
            return 0
        try:
            self.member.transact(messages, self.topics.verdicts, offsets)
        except AbortedError:
            self.member.aborted_in_row += 1
            for partition in offsets:
                self._restart(partition)
            return 0
        self.member.aborted_in_row = 0
        self.observer.count("documents", len(messages))
        self.observer.count("bytes", size)
        self.observer.count("gone", gone)
        return len(messages)
