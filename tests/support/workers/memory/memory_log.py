"""A partition in memory: the log, open transactions, and what a read-committed reader sees.

Theory of operation. A log has records in the order of offsets, each with the transaction that wrote it. ``end`` is the
offset of the next record. A transaction is *open* in a log from its first record until it ends. Its end takes one
offset for a **control record**, which no reader gets, so offsets have gaps. Records of an aborted transaction stay in
the log, and readers skip them. Readers stop at the **stable end**: the first record of the oldest open transaction, or
``end`` if none is open. So a committed record may wait for an older open transaction, and the visibility of a record
never changes after a reader has passed it.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import Enum

from neardup_workers.outside.transport.protocol import (
    UNBOUNDED,
    Committed,
    Headers,
    OffsetGoneError,
    Record,
    RefusedBatch,
    record_bytes,
)


class TransactionState(Enum):
    """The state of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction:
    """A transaction of a producer: the logs that it wrote to, and the offsets that it commits."""

    def __init__(self, transactional_id: str, started_seconds: float) -> None:
        self.transactional_id = transactional_id
        self.started_seconds = started_seconds
        self.outcome = TransactionState.OPEN
        self.logs: dict[PartitionLog, None] = {}  # a set in order of insertion, so that runs repeat
        self.offsets: dict[tuple[str, str, int], Committed] = {}  # (group, topic, partition) -> position


class PartitionLog:
    """The log of one partition. Only ``trim`` changes ``first``."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.first = 0
        self.end = 0
        self._records: list[Record] = []
        self._writers: list[Transaction | None] = []  # of each record; None: outside of transactions
        self._open: dict[Transaction, int] = {}  # -> offset of its first record here

    @property
    def stable_end(self) -> int:
        """Where a read-committed reader stops."""
        return max(self.first, min(self._open.values(), default=self.end))

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int,
        writer: Transaction | None,
        headers: Headers = (),
    ) -> int:
        """Append one record and return its offset."""
        offset = self.end
        self._records.append(Record(self.partition, offset, timestamp_ms, key, value, None, headers))
        self._writers.append(writer)
        self.end += 1
        if writer is not None:
            self._open.setdefault(writer, offset)
            writer.logs[self] = None
        return offset

    def append_refused(self, records: int, packed_bytes: int, timestamp_ms: int) -> int:
        """Append a batch that readers see as one record with ``refused``; returns its last offset."""
        refused = RefusedBatch(self.end, packed_bytes)
        self.end += records
        self._records.append(Record(self.partition, self.end - 1, timestamp_ms, None, None, refused))
        self._writers.append(None)
        return self.end - 1

    def append_control(self, writer: Transaction) -> None:
        """End the transaction in this log: its control record takes an offset."""
        del self._open[writer]
        self.end += 1

    def check(self, offset: int) -> None:
        """Raise ``OffsetGoneError`` for an offset outside of the log."""
        if not self.first <= offset <= self.end:
            raise OffsetGoneError(
                f"offset {offset} of {self.topic}-{self.partition} is outside its log, which holds"
                f" {self.first} to {self.end}; start at its beginning, if the trimmed records may be missed"
            )

    def read(
        self, start: int, records_max: int, end: int | None = None, bytes_max: int = UNBOUNDED
    ) -> tuple[list[Record], int]:
        """Return committed records from ``start`` up to ``end`` or the stable end, and the position after them; the
        record that reaches ``bytes_max`` is the last.

        Raises ``OffsetGoneError`` if ``start`` is outside the log.
        """
        self.check(start)
        stop = self.stable_end if end is None else min(end, self.stable_end)
        records: list[Record] = []
        for at in range(bisect_left(self._records, start, key=_offset), len(self._records)):
            record, writer = self._records[at], self._writers[at]
            if record.offset >= stop:
                break
            if writer is not None and writer.outcome is not TransactionState.COMMITTED:
                continue
            if len(records) == records_max or bytes_max <= 0:
                return records, record.offset
            records.append(record)
            bytes_max -= record_bytes(record)
        return records, max(start, stop)

    def offset_at(self, timestamp_ms: int) -> int:
        """Return the offset of the first record with this time or a later one; the end if there is none."""
        return next((one.offset for one in self._records if one.timestamp_ms >= timestamp_ms), self.stable_end)

    def trim(self, before: int) -> None:
        """Drop records below ``before``; raises ``OffsetGoneError`` if it is beyond the end."""
        if before > self.end:
            raise OffsetGoneError(
                f"cannot trim {self.topic}-{self.partition} to {before}: its log ends at {self.end};"
                " trim to an offset that was read"
            )
        self.first = max(self.first, before)
        dropped = bisect_left(self._records, self.first, key=_offset)
        del self._records[:dropped], self._writers[:dropped]


def _offset(record: Record) -> int:
    return record.offset
