"""The matcher: columnar batches in, pairs out, one table for each of its partitions, one transaction a step.

A partition goes through these states; only this loop changes them:

- *assigned*: paused, without position. Its committed offset is read, and with it where its window begins.
- *restoring*: the log from there to the committed offset is applied without publishing, one stretch at a time between
  polls, so that the member keeps its place in the group and the other partitions go on.
- *running*: its records are matched, and every step commits its pairs with its offsets.
- *revoked*: its table is dropped, in whatever state; the next owner restores it from the log.

A step, and what a crash after each part leaves behind:

1. ``poll``; 2. tables take the messages, each in an open step with a journal; 3. ``transact`` publishes pairs and
   offsets. A crash in 1 to 3 leaves nothing: the next owner restores up to the offset committed before.
4. The tables commit. A crash between 3 and 4 loses only memory: the next owner restores up to the new offset.

If the transaction is known to have failed, the tables undo the step and the records are polled again. If nobody knows,
or this member was put out, all tables are dropped and the worker starts anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from stream.config import Config
from stream.partitions import Partition
from workers.observe import Observer
from workers.partition_table import PartitionTable, Window, decode_window
from workers.signer import told_offset
from workers.step import Message, transact
from workers.topics import Envelope, Topics, encode_candidates, encode_removal, partition_of_key
from workers.transport import AbortedError, Consumer, OffsetGoneError, Polled, Producer, Record, Transport


class MatchPlan(NamedTuple):
    """What a matcher needs to know beside the records."""

    config: Config
    topics: Topics
    partitions: int  # of bands
    candidate_partitions: int
    envelope: Envelope
    start: str | None  # "earliest" or "latest" for partitions without a committed offset; None refuses them
    allow_gap: bool  # go on when the beginning of a window is no longer in the log


class _Restore(NamedTuple):
    table: PartitionTable
    stretches: Iterator[list[Record]]
    start: int
    end: int


class MatchWorker:
    """The loop of one matcher; ``turn`` is one pass through it. See the module for the states."""

    def __init__(
        self, transport: Transport, consumer: Consumer, producer: Producer, plan: MatchPlan, observer: Observer
    ) -> None:
        self.transport, self.consumer, self.producer = transport, consumer, producer
        self.plan, self.observer = plan, observer
        self.tables: dict[int, PartitionTable] = {}
        self.restoring: dict[int, _Restore] = {}

    @property
    def ready(self) -> bool:
        """Whether every assigned partition is running."""
        return not self.restoring

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, restore a stretch of each partition that needs it, match what came; returns the records taken.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (start anew), ``WireError``, ``ConfigError``,
        ``OffsetGoneError`` (stop: nothing a restart could mend).
        """
        polled = self.consumer.poll(0.0 if self.restoring else timeout_seconds, records_max)
        for partition in polled.revoked:
            self.tables.pop(partition, None)
            self.restoring.pop(partition, None)
        for partition in polled.assigned:
            self._assign(partition)
        for partition in list(self.restoring):
            self._restore(partition)
        if polled.records:
            self._step(polled)
        return len(polled.records)

    def _assign(self, partition: int) -> None:
        """Read what is committed, and begin to restore the window that it names."""
        committed = self.consumer.committed(partition)
        if committed is None:
            end = told_offset(lambda: self.transport.bounds(self.plan.topics.bands), partition, self.plan.start)
            window = Window(end, None, "")
        else:
            window, end = decode_window(committed.metadata), committed.offset
        table = PartitionTable(self.plan.config, Partition(partition, self.plan.partitions), window)
        start = self._available(partition, window.start, end)
        stretches = self.transport.read(self.plan.topics.bands, partition, start, end)
        self.restoring[partition] = _Restore(table, stretches, start, end)

    def _available(self, partition: int, start: int, end: int) -> int:
        first, _ = self.transport.bounds(self.plan.topics.bands)[partition]
        if start >= min(first, end):
            return start
        if self.plan.allow_gap:
            return first
        raise OffsetGoneError(
            f"the window of partition {partition} begins at offset {start}, "
            f"the log of {self.plan.topics.bands} at {first}: pairs with the documents between would be missed; "
            "restore the log, or accept that with --allow-gap"
        )

    def _restore(self, partition: int) -> None:
        """Apply one stretch of the log; after the last one, take records."""
        restore = self.restoring[partition]
        stretch = next(restore.stretches, None)
        for record in stretch or ():
            applied = restore.table.apply(record, publish=False)
            self.observer.count("restored_documents", applied.documents)
        restore.table.commit()
        if stretch:
            done = (stretch[-1].offset + 1 - restore.start) / max(1, restore.end - restore.start)
            self.observer.set("restore_progress", done, str(partition))
        else:
            del self.restoring[partition]
            restore.table.seek(restore.end)
            self.tables[partition] = restore.table
            self.consumer.seek(partition, restore.end)
            self.consumer.resume([partition])
            self.observer.set("restore_progress", 1.0, str(partition))

    def _step(self, polled: Polled) -> None:
        messages: list[Message] = []
        touched: dict[int, int] = {}
        for partition, records in groupby(polled.records, lambda record: record.partition):
            table = self.tables[partition]
            for record in records:
                touched.setdefault(partition, record.offset)
                messages += self._match(table, partition, record)
        offsets = {partition: self.tables[partition].position() for partition in touched}
        try:
            transact(self.producer, messages, self.plan.topics.bands, offsets, polled.membership)
        except AbortedError:
            for partition, first in touched.items():
                self.tables[partition].undo()
                self.consumer.seek(partition, first)
            self.observer.count("transactions", 1, "aborted")
            return
        for partition in touched:
            self.tables[partition].commit()
        self.observer.count("transactions", 1, "committed")

    def _match(self, table: PartitionTable, partition: int, record: Record) -> Iterator[Message]:
        """The messages that one message of ``bands`` leads to: its pairs, and the removals this partition announces."""
        applied = table.apply(record, publish=True)
        self.observer.count("documents", applied.documents)
        self.observer.count("pairs", len(applied.matches.older))
        self.observer.sample("similarity", applied.matches.similarity.tolist())
        plan = self.plan
        out = encode_candidates(applied.matches, plan.envelope)
        # Every partition hears of a removal; one of them tells the readers.
        out += [
            encode_removal(id_, plan.envelope)
            for id_ in applied.removed
            if partition_of_key(id_, plan.partitions) == partition
        ]
        for key, value in out:
            yield Message(plan.topics.candidates, partition_of_key(key, plan.candidate_partitions), value, key)

    def trim(self) -> None:
        """Drop the log below the committed beginning of every running window."""
        before = {}
        for partition in self.tables:
            committed = self.consumer.committed(partition)
            if committed is not None:
                before[partition] = decode_window(committed.metadata).start
        if before:
            self.transport.trim(self.plan.topics.bands, before)
