"""The matcher: columnar batches in, pairs out, one table for each of its partitions, one transaction a step.

A partition goes through these states; only this loop changes them:

- *waiting*: assigned, paused, without position. The worker reads the committed offset, whose metadata names the
  beginning of the window. If the read fails (a predecessor's transaction is pending, the broker is away), the next turn
  repeats it.
- *restoring*: the worker applies the log from the beginning of the window to the committed offset without publishing,
  one stretch at a time between polls. So the member stays in the group, and the other partitions continue.
- *running*: its records are matched, and every step commits pairs and offsets.
- *revoked*: its table is dropped, in any state; the next owner restores it from the log.

A step, and the effect of a crash after each part:

1. ``poll``, for the membership alone while records of an earlier poll remain; 2. tables add the messages, each in an
   open step with a journal, until messages and results reach ``step_bytes_max`` or the pairs reach ``step_pairs_max``,
   possibly inside a message. The remaining rows are for the next steps; 3. ``transact`` publishes pairs and offsets. A
   crash in 1 to 3 has no effect: the next owner restores up to the last committed place.
4. The tables commit. A crash between 3 and 4 loses only memory: the next owner restores up to the new place.

If the transaction is known to have failed, the tables undo the step, the records remain, and the next step has half as
many pairs, so that a slow broker can accept it in time. If the outcome is unknown or the member was fenced, the worker
restarts, and its successor inherits the tables with their open steps. A table continues if its partition is assigned
again at once and the table matches the committed place, with or without its open step. Every other table is dropped,
and restored from the log.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from neardup.stream.config import Config
from neardup.stream.partitions import Partition
from neardup.stream.pipeline import SLICE_CANDIDATES
from neardup.stream.table import again
from neardup.workers.settings.kafka import STEP_BYTES_MAX, STEP_PAIRS_MAX
from neardup.workers.stages.link_messages import link_messages, unplaced
from neardup.workers.stages.partition_table import Applied, PartitionTable, Window, decode_window, encode_window
from neardup.workers.stages.starts import start_offset
from neardup.workers.stages.transaction import Message, in_turns, record_bytes, transact
from neardup.workers.telemetry.observer import Observer, stage
from neardup.workers.topics.messages import Envelope, encode_candidates, encode_removal, partition_of_key
from neardup.workers.topics.names import Topics
from neardup.workers.transport.protocol import (
    AbortedError,
    Committed,
    Consumer,
    FencedError,
    Membership,
    OffsetGoneError,
    Polled,
    Producer,
    Record,
    Transport,
    UnreachableError,
)


class MatchPlan(NamedTuple):
    """What a matcher needs in addition to the records."""

    config: Config
    topics: Topics
    partitions: int  # of bands
    candidate_partitions: int
    envelope: Envelope
    start: str | None  # "earliest" or "latest" for partitions without a committed offset; None refuses them
    allow_gap: bool  # continue if the beginning of a window is no longer in the log
    step_bytes_max: int = STEP_BYTES_MAX
    step_pairs_max: int = STEP_PAIRS_MAX
    verdicts: bool = False  # write links


# Maximum candidates of a step. They take seconds to match, even if almost none is a pair.
_STEP_CANDIDATES_MAX = 1 << 22
# An abort halves the pairs of the next step, down to this, and each commit adds a quarter, up to the setting.
_STEP_PAIRS_MIN = 256
# Newest documents of a partition whose buckets are measured at each report.
_SAMPLED_DOCUMENTS = 16
# Maximum time from the commit of the windows to the trim. No session is shorter, so no other member can take over
# before the trim.
_TRIM_SECONDS_MAX = 1.0
_MICROSECONDS = 1e6


class _Restore(NamedTuple):
    table: PartitionTable
    stretches: Iterator[list[Record]]
    start: int
    end: int  # with ``row`` rows of the message there
    row: int


class MatchWorker:
    """The loop of a matcher; ``turn`` runs it once. See the module for the states."""

    def __init__(
        self,
        transport: Transport,
        consumer: Consumer,
        producer: Producer,
        plan: MatchPlan,
        observer: Observer,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.transport, self.consumer, self.producer = transport, consumer, producer
        self.plan, self.observer, self.clock = plan, observer, clock
        self.joined = False
        self.membership = Membership("", -1, "", None)  # of the last poll
        self.aborted_in_row = 0
        self.waiting: set[int] = set()
        self.restoring: dict[int, _Restore] = {}
        self.tables: dict[int, PartitionTable] = {}
        self.kept: dict[int, PartitionTable] = {}  # of the previous worker, until the first assignment
        self.pairs_max = plan.step_pairs_max  # of the next step
        self.hand: list[Record] = []  # polled and not processed
        self._holds_back = False
        self._trimmed: dict[int, int] = {}  # partition -> first offset of the log after the last trim of this worker
        self._refused = -1  # the last partition whose committed offset was not available

    @property
    def ready(self) -> bool:
        """Whether every assigned partition is running."""
        return not self.waiting and not self.restoring

    @property
    def running(self) -> set[int]:
        """The partitions whose records are matched."""
        return set(self.tables)

    def waiting_records(self) -> dict[int, int]:
        """Return the number of polled records that are not processed, by partition. Some rows of the first may be
        processed."""
        return Counter(record.partition for record in self.hand)

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, restore a stretch of each restoring partition, match one step; returns the number of processed records.

        Remaining records stay in ``hand`` for the next turns, which poll only for the membership.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (restart), ``UnreachableError`` (call it again),
        ``WireError``, ``ConfigError``, ``OffsetGoneError`` (stop: a restart does not help).
        """
        with stage(self.observer, "poll"):
            timeout = 0.0 if self.restoring or self.hand else timeout_seconds
            polled = self._poll(timeout, records_max)
        self.membership, self.joined = polled.membership, polled.membership.generation >= 0
        for partition in polled.revoked:
            self.waiting.discard(partition)
            self.restoring.pop(partition, None)
            self.tables.pop(partition, None)
        self.hand = [record for record in self.hand if record.partition not in polled.revoked] + polled.records
        self.waiting.update(polled.assigned)
        if self.joined:
            self.kept = {partition: table for partition, table in self.kept.items() if partition in self.waiting}
        for partition in in_turns(self.waiting, self._refused):
            # If the offset is not available yet, the next turn asks again. The polled records must not be lost.
            try:
                self._assign(partition, polled.membership)
            except (UnreachableError, AbortedError):
                self._refused = partition
                break  # each answer may take seconds, and the group waits for the next poll
            self.waiting.remove(partition)
        for partition in list(self.restoring):
            with stage(self.observer, "restore"):
                self._restore(partition)
        done = self._step(self.hand, polled.membership) if self.hand else 0
        del self.hand[:done]
        self._hold_back()
        return done

    def _hold_back(self) -> None:
        """Pause the consumer while records are in ``hand``, and resume it afterwards."""
        if self.hand:
            self.consumer.pause(list(self.tables))
        elif self._holds_back:
            self.consumer.resume(list(self.tables))
        self._holds_back = bool(self.hand)

    def _poll(self, timeout_seconds: float, records_max: int) -> Polled:
        """Poll; raises ``FencedError`` if records are missing because another owner has matched and trimmed them.

        A member that was suspended for longer than its session continues to read until it learns that its partitions
        have moved.
        """
        try:
            return self.consumer.poll(timeout_seconds, records_max, self.plan.step_bytes_max)
        except OffsetGoneError as gone:
            for partition, position in self.consumer.positions().items():
                committed = self.consumer.committed(partition)
                if committed is not None and committed.offset > position:
                    raise FencedError(
                        f"others have matched partition {partition} of {self.plan.topics.bands} up to offset "
                        f"{committed.offset}, this member up to {position}: restart from the committed offsets"
                    ) from gone
            raise

    def _assign(self, partition: int, membership: Membership) -> None:
        """Read the committed offset, and begin to restore the window that its metadata names.

        Without a committed offset, the worker commits the requested start at once. If it dies, its successor starts at
        the same offset, not at a later end of the log. If the commit has other settings, the whole log is replayed.
        """
        topic, fingerprint = self.plan.topics.bands, self.plan.config.matching_fingerprint
        # The bounds are read before the commit: a trim between the two is below the window of a later commit, and no
        # gap.
        first, _ = self.transport.bounds(topic)[partition]
        committed = self.consumer.committed(partition)
        kept = self.kept.pop(partition, None)
        if kept is not None and committed is not None and kept.settle(committed):
            self._run(partition, kept, committed.offset)
            return
        if committed is None:
            end = start_offset(lambda: self.transport.bounds(topic), partition, self.plan.start)
            committed = Committed(end, encode_window(Window(end, None, fingerprint)))
            transact(self.producer, [], topic, {partition: committed}, membership, self.observer)
        window, end = decode_window(committed.metadata), committed.offset
        if window.fingerprint != fingerprint:
            window = window._replace(start=min(first, end), stream_time=None, fingerprint=fingerprint)
        if window.start < first:
            self._check_gap(partition, window.start, first)
            window = window._replace(start=first, row=window.row if first <= end else 0)
            end = max(first, end)
        table = PartitionTable(self.plan.config, Partition(partition, self.plan.partitions), window)
        stretches = self.transport.read(topic, partition, window.start, end + (window.row > 0))
        self.restoring[partition] = _Restore(table, stretches, window.start, end, window.row)

    def _check_gap(self, partition: int, start: int, first: int) -> None:
        if self.plan.allow_gap:
            return
        raise OffsetGoneError(
            f"the window of partition {partition} begins at offset {start}, "
            f"the log of {self.plan.topics.bands} at {first}: pairs with the documents between would be missed; "
            "restore the log, or accept that with --allow-gap"
        )

    def _restore(self, partition: int) -> None:
        """Apply one stretch of the log, which may be empty; after the last stretch, begin to poll records."""
        restore = self.restoring[partition]
        try:
            stretch = next(restore.stretches, None)
        except UnreachableError:
            # A failed reader returns no more records, so the restore would end early. A new reader continues at its
            # position.
            offset, _ = restore.table.next
            end = restore.end + (restore.row > 0)
            again = self.transport.read(self.plan.topics.bands, partition, offset, end)
            self.restoring[partition] = restore._replace(stretches=again)
            return
        except OffsetGoneError:
            # The log was trimmed during the restore. If another member trimmed it while this member was suspended, the
            # next poll revokes the partition. If not, the committed offset is read again, and a gap is reported.
            del self.restoring[partition]
            self.waiting.add(partition)
            return
        for applied in restore.table.replay(stretch or (), restore.end, restore.row):
            self.observer.count("restored_documents", applied.documents)
        restore.table.commit()
        if stretch is not None and restore.table.next < (restore.end, restore.row):
            done = (restore.table.next[0] - restore.start) / max(1, restore.end - restore.start)
            self.observer.set("restore_progress_ratio", done, str(partition))
        else:  # the last record has arrived, or only gaps remain up to the end
            del self.restoring[partition]
            restore.table.seek(restore.end, restore.row)
            restore.table.increments()  # drop the counts of the replay
            self._run(partition, restore.table, restore.end)

    def _run(self, partition: int, table: PartitionTable, start: int) -> None:
        """Read the records of a partition from ``start`` on."""
        self.tables[partition] = table
        self.consumer.seek(partition, start)
        self.consumer.resume([partition])
        self.observer.set("restore_progress_ratio", 1.0, str(partition))

    def hand_over(self) -> dict[int, PartitionTable]:
        """Return the tables for the next worker; this worker must not be used again."""
        return {**self.kept, **self.tables}

    def inherit(self, kept: Mapping[int, PartitionTable]) -> None:
        """Accept the tables of the previous worker; call it before the first turn."""
        self.kept = dict(kept)

    def _step(self, records: Sequence[Record], membership: Membership) -> int:
        """Match as many rows of records as a step holds, and publish; returns the number of completed records.

        If the step is aborted, the result is 0 and the tables are unchanged.
        """
        messages: list[Message] = []
        touched: dict[int, PartitionTable] = {}
        done: list[tuple[int, Applied]] = []
        size = taken = candidates = 0
        with stage(self.observer, "match"):
            for partition, applied in self._applied(records):
                touched[partition] = self.tables[partition]
                done.append((partition, applied))
                led_to = list(self._messages(partition, applied))
                messages += led_to
                size += sum(map(record_bytes, records[taken : taken + applied.messages]))
                size += sum(len(message.value or b"") for message in led_to)
                candidates += applied.candidates
                taken += applied.messages
                if size >= self.plan.step_bytes_max or len(messages) >= self.pairs_max:
                    break
                if candidates >= _STEP_CANDIDATES_MAX:
                    break
        offsets = {partition: table.position() for partition, table in touched.items()}
        links = list(link_messages(done, self.plan.config, self.plan.topics.links)) if self.plan.verdicts else []
        try:
            transact(self.producer, messages + links, self.plan.topics.bands, offsets, membership, self.observer)
        except AbortedError:
            for table in touched.values():
                table.undo()
            self.aborted_in_row += 1
            self.pairs_max = max(_STEP_PAIRS_MIN, min(self.pairs_max, len(messages)) // 2)
            return 0
        self.aborted_in_row = 0
        self.pairs_max = min(self.plan.step_pairs_max, self.pairs_max * 5 // 4)
        for table in touched.values():
            table.commit()
        pairs = sum(len(applied.matches.older) for _, applied in done)
        self.observer.count("pairs", pairs)
        self.observer.count("removals", len(messages) - pairs)
        self._report(records[:taken], touched, done)
        return taken

    def _applied(self, records: Sequence[Record]) -> Iterator[tuple[int, Applied]]:
        """Add records to the tables of their partitions, slice by slice on demand; yields the result of each slice."""
        bytes_max = self.plan.step_bytes_max
        # A pair holds two ids, one of them also as its key. This bound keeps a slice of pairs within the bytes of a
        # step.
        fitting = bytes_max // (4 * self.plan.config.id_bytes_max)
        candidates_max = max(1, min(SLICE_CANDIDATES, self.pairs_max, fitting))
        for partition, run in groupby(records, lambda record: record.partition):
            table = self.tables[partition]
            for applied in table.apply_all(run, publish=True, together_bytes=bytes_max, candidates_max=candidates_max):
                yield partition, applied

    def _report(self, records: Sequence[Record], touched: Iterable[int], done: Sequence[tuple[int, Applied]]) -> None:
        """Report a committed step."""
        now = self.clock()
        self.observer.count("bytes", sum(len(record.value or b"") for record in records))
        for _, applied in done:
            self.observer.count("documents", applied.documents)
            self.observer.count("unplaced", unplaced(applied.links))
            if applied.matches.older:
                self.observer.count("paired_documents", len(set(applied.matches.newer)))
                self.observer.sample("similarity_ratio", applied.matches.similarity)
                self.observer.sample("end_to_end_seconds", now - applied.matches.newer_times / _MICROSECONDS)
        for partition in touched:
            for name, amount in self.tables[partition].increments().items():
                self.observer.count(name, amount)

    def observe(self) -> None:
        """Report for each table its contents, its lag and the buckets of its newest documents."""
        for partition, held in self.tables.items():
            table, label = held.matcher.table, str(partition)
            self.observer.set("table_documents", table.documents, label)
            self.observer.set("table_bytes", held.memory_bytes(), label)
            self.observer.sample("bucket_length", again.bucket_lengths(table, _SAMPLED_DOCUMENTS))
            if held.stream_time is not None:
                self.observer.set("event_time_lag_seconds", self.clock() - held.stream_time / _MICROSECONDS, label)

    def _messages(self, partition: int, applied: Applied) -> Iterator[Message]:
        """Make the output messages of a slice: its pairs, and the removals that this partition announces."""
        plan = self.plan
        out = encode_candidates(applied.matches, plan.envelope)
        # Every partition receives a removal; one partition publishes it.
        out += [
            encode_removal(id_, plan.envelope)
            for id_ in applied.removed
            if partition_of_key(id_, plan.partitions) == partition
        ]
        for key, value in out:
            yield Message(plan.topics.candidates, partition_of_key(key, plan.candidate_partitions), value, key)

    def trim(self) -> None:
        """Drop the log below the beginning of every running window that has moved.

        The broker allows any client to delete records. A member that lost its partitions while it was suspended must
        not trim: its successor may have a longer window. So the windows are committed first, and this commit fails for
        such a member. The trim follows at once, or waits for the next call. Raises the errors of a step.
        """
        positions = {partition: table.position() for partition, table in self.tables.items()}
        starts = {partition: decode_window(committed.metadata).start for partition, committed in positions.items()}
        before = {partition: start for partition, start in starts.items() if start > self._trimmed.get(partition, 0)}
        if not before:
            return
        topic, began = self.plan.topics.bands, self.clock()
        offsets = {partition: positions[partition] for partition in before}
        try:
            transact(self.producer, [], topic, offsets, self.membership, self.observer)
        except AbortedError:
            return
        if 0 <= self.clock() - began <= _TRIM_SECONDS_MAX:
            self.transport.trim(topic, before)
            self._trimmed = {**self._trimmed, **before}
