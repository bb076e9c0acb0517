"""Whole batches of records for the buffer of a producer, and where the broker has stored their records.

The client appends record by record, and makes a future with its own lock for each: 19 microseconds a record. Here a
batch comes as bytes, and one future stands for all its records. The client still numbers, compresses, sends, repeats
and splits it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka import KafkaProducer, TopicPartition
from kafka import errors as client_errors
from kafka.producer.future import FutureProduceResult
from kafka.producer.producer_batch import ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

# Bytes before the first record of a batch, which the client fills when it sends the batch.
HEAD_BYTES = DefaultRecordBatchBuilder.HEADER_STRUCT.size
_FORMAT = 2


class Records(NamedTuple):
    """Encoded records: the bytes behind ``HEAD_BYTES`` empty ones, their number, the first and the greatest time."""

    content: bytearray
    number: int
    first_timestamp: int
    max_timestamp: int


class SentRecords:
    """The records of a batch on their way.

    The client divides a batch that is too large for its topic, and asks each record for its ``rebind``. So this stands
    in the batch for the list of futures of its records, which is otherwise not made.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/record_accumulator.py#L211
    """

    def __init__(self, future: FutureProduceResult, count: int) -> None:
        self._count = count
        self._whole = future
        self._moved: dict[int, tuple[FutureProduceResult, int]] = {}
        self._in: dict[FutureProduceResult, int] = {future: count}  # futures -> number of records of them

    def __len__(self) -> int:
        """Return the number of records."""
        return self._count

    def __getitem__(self, row: int) -> _Row:
        """Return the record of a row, for the client."""
        return _Row(self, row)

    def wait(self, deadline: float) -> None:
        """Wait until the broker has answered for all records.

        Raises the client's ``KafkaTimeoutError`` at ``deadline``, a time of ``time.monotonic``.
        """
        while waiting := [future for future in list(self._in) if not future.is_done]:
            if not waiting[0].wait(max(0.0, deadline - time.monotonic())):
                raise client_errors.KafkaTimeoutError("a record was not acknowledged in time")

    def offsets(self) -> Sequence[int]:
        """Return the offset of each record, -1 where the broker has not reported one, after ``wait``.

        Raises the error of a record: an answer of the broker before the errors that the client derives from it.
        """
        if not self._moved:
            base, _, error_of = self._whole.value
            if error_of is None:
                return range(base, base + self._count) if base >= 0 else [-1] * self._count
        offsets: list[int] = []
        errors: list[Exception] = []
        for row in range(self._count):
            future, at = self._moved.get(row, (self._whole, row))
            base, _, error_of = future.value
            if error_of is not None:
                errors.append(error_of(at))
            else:
                offsets.append(base + at if base >= 0 else -1)
        if errors:
            raise next((one for one in errors if isinstance(one, client_errors.BrokerResponseError)), errors[0])
        return offsets

    def move(self, row: int, future: FutureProduceResult, new_row: int) -> None:
        """Note that a record belongs to another batch now."""
        old, _ = self._moved.get(row, (self._whole, row))
        self._moved[row] = (future, new_row)
        self._in[future] = self._in.get(future, 0) + 1
        self._in[old] -= 1
        if not self._in[old]:
            del self._in[old]
            old._latch.set()  # the client never completes this future: wake a waiting thread


class _Row:
    """A record of ``SentRecords``, as the client takes it from one batch to another."""

    def __init__(self, sent: SentRecords, row: int) -> None:
        self._sent, self._row = sent, row

    def rebind(self, future: FutureProduceResult, row: int) -> None:
        """Take row ``row`` of the batch of ``future``."""
        self._sent.move(self._row, future, row)


def hand_over(client: KafkaProducer, log: TopicPartition, records: Records) -> SentRecords:
    """Put a batch into the buffer of a producer with an open transaction, as a full one, which it sends at once.

    The caller has made the client learn the topic. Raises the client's ``IllegalStateError`` if it was stopped.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/record_accumulator.py#L124
    """
    client._transaction_manager.maybe_add_partition_to_transaction(log)
    buffer = client._accumulator
    batch = ProducerBatch(log, _builder(buffer.config["compression_attrs"], records))
    sent = SentRecords(batch.produce_future, records.number)
    batch._record_futures = sent
    buffer._appends_in_progress.increment()
    try:
        with buffer._tp_lock(log):
            if buffer._closed:
                raise client_errors.IllegalStateError("the producer was stopped")
            buffer._batches[log].append(batch)
            buffer._incomplete.add(batch)
    finally:
        buffer._appends_in_progress.decrement()
    client._sender.wakeup()
    return sent


def wait(client: KafkaProducer, sent: Sequence[SentRecords], seconds: float) -> None:
    """Send what the buffer holds, and wait until the broker has answered for all of it.

    The client's own ``flush`` fails when a batch is divided meanwhile. Raises the client's ``KafkaTimeoutError`` after
    ``seconds``. https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/record_accumulator.py#L486
    """
    deadline = time.monotonic() + seconds
    client._accumulator.begin_flush()
    try:
        client._sender.wakeup()
        for one in sent:
            one.wait(deadline)
    finally:
        client._accumulator._flushes_in_progress.decrement()


def _builder(compression: int, records: Records) -> Any:
    """Return the client's object for the records of a batch, filled.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/record/default_records.py#L415
    """
    made = MemoryRecordsBuilder(_FORMAT, compression, len(records.content))
    inner = made._builder
    inner._buffer = records.content
    inner._first_timestamp, inner._max_timestamp = records.first_timestamp, records.max_timestamp
    inner._last_offset, inner._num_records = records.number - 1, records.number
    made._next_offset = records.number
    return made
