"""The follower: one thread copies verdicts and pairs from the topics of a deployment into the view.

Theory of operation. A verdict has a number over all partitions (``arrival``), and the linker leaves no gap between
numbers. The partitions are read independently, so lines *wait* until every line before them is in the view. A step, and
the effect of a crash after each part:

1. Poll ``verdicts``, and keep the lines in order of their numbers. *A crash loses nothing.*
2. If lines are next, read ``candidates`` up to its present end: the pairs of a document are committed before its
   verdict. *A crash loses nothing.*
3. Verdicts, pairs and positions go to the view, in one transaction. *A crash loses no answer.*
4. Requests that wait for a verdict get it, and events are sent. *A crash loses answers; the same document, sent again,
   gets the same status.*

The position of a partition is the record of its first line that waits. Lines that are read twice change nothing.

Retention deletes old verdicts of each partition separately, so the numbers at the beginning of the log have gaps. A
line waits for the lines before it at most ``GAP_SECONDS``. A partition that is far ahead of the others is not read.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import orjson

from neardup.documents.ids import stored_id
from neardup.pairs.batches import MICROSECONDS
from neardup.stories.verdicts.rule import REFUSED, STATUSES
from neardup_workers.outside.store.answers import Answer, verdict_of
from neardup_workers.outside.store.rows import StoredRow
from neardup_workers.outside.store.view import PairRow, View, ViewReader
from neardup_workers.outside.topics.names import Topics
from neardup_workers.outside.topics.places import place_of
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import Reader, Record, Transport, UnreachableError

# A transaction becomes visible in its partitions one after the other; this is longer than any broker takes.
GAP_SECONDS = 10.0
# Waiting lines of a partition beyond which it is not read.
_WAITING_MAX = 20_000
_POLL_SECONDS = 0.1
_RECORDS_MAX, _BYTES_MAX = 500, 8 << 20
# How often expired rows are dropped and new partitions are looked for, in seconds.
_DROP_SECONDS, _PARTITIONS_SECONDS = 1.0, 10.0

_log = logging.getLogger(__name__)


class _Line(NamedTuple):
    """A line that waits: its number, its partition, the offset of its record, its fields, when it was read."""

    number: int
    partition: int
    record: int
    fields: dict[str, Any]
    read_seconds: float


class Resolved(NamedTuple):
    """What became of a document: its answer, or the number of removed versions."""

    answer: Answer
    removed: int = 0


class Follower:
    """The thread, which alone uses the view until ``stop`` returns, and the requests that wait for verdicts.

    Documents that are older than ``window_seconds`` behind the newest leave the view (``None``: none). On this thread,
    ``on_step`` is called with the answers of each step, ``on_removed`` with each id that was removed and its
    collection, and ``on_broken`` once if the thread ends by an error, which is then in ``error``. ``clock`` only grows;
    ``separate``: documents have collections, and the ids of the view are full ids.
    """

    def __init__(
        self,
        transport: Transport,
        topics: Topics,
        view: View,
        reader: ViewReader,
        window_seconds: float | None,
        on_step: Callable[[list[Answer]], None] = lambda answers: None,
        on_broken: Callable[[], None] = lambda: None,
        on_removed: Callable[[str, str | None], None] = lambda id_, collection: None,
        clock: Callable[[], float] = time.monotonic,
        *,
        separate: bool = False,
    ) -> None:
        self._transport, self._topics, self._view, self._reader = transport, topics, view, reader
        self._window = None if window_seconds is None else int(window_seconds * MICROSECONDS)
        self._on_step, self._on_broken, self._on_removed = on_step, on_broken, on_removed
        self._clock, self._separate = clock, separate
        self._lock = threading.Lock()
        self._awaited: dict[int, Future[Resolved]] = {}
        self._heap: list[_Line] = []
        self._next: int | None = view.meta()["places"] if view.positions(topics.verdicts) else None
        self._stopping = threading.Event()
        self._lag: dict[int, int] = {}
        self._dropped = self._looked = -math.inf
        self.error: BaseException | None = None
        self.reachable, self.ready = True, False
        self._verdicts, self._pairs = transport.reader(topics.verdicts), transport.reader(topics.candidates)
        self._goal = self._follow(self._verdicts, topics.verdicts)
        self._follow(self._pairs, topics.candidates)
        self._thread = threading.Thread(target=self._run, name="follower")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        for reader in (self._verdicts, self._pairs):
            reader.close()

    @property
    def alive(self) -> bool:
        """Whether the view follows the topics."""
        return self._thread.is_alive() and self.error is None

    def expect(self, places: Iterable[int]) -> list[Future[Resolved]]:
        """Return futures of the verdicts about these places; call it before the documents are committed."""
        with self._lock:
            futures: list[Future[Resolved]] = [Future() for _ in places]
            self._awaited.update(zip(places, futures, strict=True))
            return futures

    def forget(self, places: Iterable[int]) -> None:
        """Expect these verdicts no longer."""
        with self._lock:
            for place in places:
                self._awaited.pop(place, None)

    def _follow(self, reader: Reader, topic: str) -> dict[int, int]:
        """Begin where the view ends, in new partitions at the beginning; returns the present end of each partition."""
        stored = self._view.positions(topic)
        bounds = self._transport.bounds(topic)
        reader.follow({partition: max(first, stored.get(partition, 0)) for partition, (first, _) in bounds.items()})
        return {partition: end for partition, (_, end) in bounds.items()}

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self.turn(_POLL_SECONDS)
                    self.reachable = True
                except UnreachableError as error:
                    if self.reachable:
                        _log.warning("the view waits for the broker: %s", error)
                    self.reachable = False
                    self._stopping.wait(1.0)
        except BaseException as error:
            _log.critical("the view ends: %s", error, exc_info=error)
            self.error = error
            self._on_broken()

    def turn(self, timeout_seconds: float) -> int:
        """Do one step; returns the number of verdicts that were added."""
        if self._clock() - self._looked > _PARTITIONS_SECONDS:
            # Follow partitions that were added.
            for reader, topic in ((self._pairs, self._topics.candidates), (self._verdicts, self._topics.verdicts)):
                positions = reader.positions()
                bounds = self._transport.bounds(topic)
                added = {partition: first for partition, (first, _) in bounds.items() if partition not in positions}
                if added:
                    reader.follow({**positions, **added})
            self._looked = self._clock()
        records = self._verdicts.poll(timeout_seconds, _RECORDS_MAX, _BYTES_MAX)
        now = self._clock()
        for record in records:
            for fields in parse_run(record.value):
                heapq.heappush(self._heap, _Line(fields["arrival"], record.partition, record.offset, fields, now))
        waiting = Counter(line.partition for line in self._heap)
        self._verdicts.hold([partition for partition, count in waiting.items() if count > _WAITING_MAX])
        ready = self._ready()
        pairs = self._pairs.poll(0.0, _RECORDS_MAX, _BYTES_MAX)
        if ready:
            ends = {partition: end for partition, (_, end) in self._transport.bounds(self._topics.candidates).items()}
            while any(position < ends.get(partition, 0) for partition, position in self._pairs.positions().items()):
                self._commit([], pairs)
                pairs = self._pairs.poll(_POLL_SECONDS, _RECORDS_MAX, _BYTES_MAX)
        if ready or pairs:
            self._commit(ready, pairs)
        positions, ends = self._verdicts.positions(), self._verdicts.ends()
        self._lag = {partition: max(0, end - positions[partition]) for partition, end in ends.items()}
        if not self.ready and not self._heap:
            self.ready = all(positions.get(partition, 0) >= end for partition, end in self._goal.items())
        return len(ready)

    def lag(self) -> dict[int, int]:
        """Return records of verdicts that were not read, by partition, as of the last turn."""
        return self._lag

    def _ready(self) -> list[_Line]:
        """Return the lines that are next, in order."""
        ready: list[_Line] = []
        late = self._clock() - GAP_SECONDS
        while self._heap:
            line = self._heap[0]
            if self._next is not None and line.number > self._next and line.read_seconds > late:
                break
            if self._next is None and line.number > 0 and line.read_seconds > late:
                break
            ready.append(heapq.heappop(self._heap))
            self._next = max(self._next or 0, line.number + 1)
        return ready

    def _commit(self, lines: Sequence[_Line], pairs: Sequence[Record]) -> None:
        """Commit one step to the view, then answer."""
        view, topics = self._view, self._topics
        positions = self._verdicts.positions()
        for line in self._heap:
            positions[line.partition] = min(positions.get(line.partition, line.record), line.record)
        with view.transaction():
            _add_pairs(view, pairs, self._separate)
            rows = view.add([(line.partition, line.fields) for line in lines], separate=self._separate)
            view.move(topics.verdicts, positions)
            view.move(topics.candidates, self._pairs.positions())
            now = self._clock()
            if self._window is not None and now - self._dropped > _DROP_SECONDS:
                self._dropped = now
                newest = view.meta()["stream_time"]
                if newest is not None:
                    view.drop_before(newest - self._window)
        if any(isinstance(row, int) and row for row in rows):
            view.checkpoint()
        self._answer(lines, rows)

    def _answer(self, lines: Sequence[_Line], rows: Sequence[StoredRow | int]) -> None:
        answers, awaited = [], []
        for line, row in zip(lines, rows, strict=True):
            with self._lock:
                future = self._awaited.pop(place_of(line.partition, line.fields["offset"]), None)
            decided = self._decided(line, row, with_pairs=future is not None)
            if isinstance(row, StoredRow):
                answers.append(decided.answer)
            elif row:
                self._on_removed(decided.answer.id, decided.answer.collection)
            if future is not None and future.set_running_or_notify_cancel():
                awaited.append((future, decided))
        self._on_step(answers)
        for future, decided in awaited:  # a request that is answered is counted, and its event is sent
            future.set_result(decided)

    def _decided(self, line: _Line, row: StoredRow | int, *, with_pairs: bool) -> Resolved:
        id_, collection = str(line.fields.get("id", "")), line.fields.get("collection")
        if isinstance(row, int):
            refused = "refused" if line.fields["status"] == STATUSES[REFUSED] else None
            return Resolved(Answer(id_, refused, collection=collection), row)
        verdict = verdict_of(row, line.fields.get("duplicate_of"))
        pairs = self._reader.earlier(row.id) if with_pairs else ()
        return Resolved(Answer(id_, None, verdict, pairs, collection=collection))


def _add_pairs(view: View, records: Sequence[Record], separate: bool) -> None:
    """Add pairs, and apply notices of removals, in order."""

    def named(fields: dict[str, Any], name: str) -> bytes:
        return stored_id(fields[name], fields.get("collection"), separate=separate)

    rows: list[PairRow] = []
    for record in records:
        fields = orjson.loads(record.value or b"{}")
        if "removed" in fields:
            view.add_pairs(rows)
            rows = []
            view.remove_pairs(named(fields, "removed"))
        elif "newer" in fields:
            rows.append(
                PairRow(
                    named(fields, "newer"), named(fields, "older"), fields["similarity"], fields["buckets"],
                    round(fields["newer_timestamp"] * MICROSECONDS),
                )
            )  # fmt: skip
    view.add_pairs(rows)
