"""How the records of a fetch are made from its bytes, and when the next fetch begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as client_errors
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

# The record format whose batches our own reader takes; the client reads the older ones.
_READER_FORMAT = 2


def read_batches_with(client: KafkaConsumer, read: Callable[[int, DefaultRecordBatch], Iterable[Any]]) -> None:
    """Let one consumer return the records that ``read(partition, batch)`` makes; checks and transactions stay its own.

    Needs ``Fetcher.PartitionRecords``, which the fetcher looks up on itself for every fetch.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1465
    """
    client._fetcher.PartitionRecords = partition_records(read)


def partition_records(read: Callable[[int, DefaultRecordBatch], Iterable[Any]]) -> Callable[..., Any]:
    """Return the class of one partition's part of a fetch with ``read`` in it."""
    return partial(_PartitionRecords, read)


class _PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """One partition's part of a fetch; the client calls ``_unpack_records`` once for its records.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1661
    """

    def __init__(self, read: Callable[[int, DefaultRecordBatch], Iterable[Any]], *given: Any, **named: Any) -> None:
        self._read = read
        super().__init__(*given, **named)

    def _unpack_records(self, tp: Any, records: Any, *_: Any) -> Iterator[Any]:
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise client_errors.CorruptRecordError(f"{tp} at offset {batch.base_offset}: a wrong checksum")
            is_read_here = batch.magic == _READER_FORMAT
            if not is_read_here or self._is_visible(batch):
                self.bytes_read += batch.size_in_bytes
                for record in self._read(tp.partition, batch):
                    self.records_read += 1
                    self.next_fetch_offset = record.offset + 1
                    yield record
            if is_read_here:  # the log may have lost the last records of a batch, never their offsets
                self.next_fetch_offset = batch.next_offset
        self.drain()

    def _is_visible(self, batch: DefaultRecordBatch) -> bool:
        """Whether a batch is data that this reader may see, by the client's own record of aborted transactions."""
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return False
        return not batch.is_control_batch


def is_old_format(batch: Any) -> bool:
    """Whether a batch has the format of brokers before 0.11, in which a log may still hold some."""
    return bool(batch.magic != _READER_FORMAT)


def uncompressed(batch: DefaultRecordBatch) -> tuple[bytearray, int]:
    """Uncompress a batch; returns its bytes and where its first record begins.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/record/default_records.py#L234
    """
    batch._maybe_uncompress()
    return batch._buffer, batch._pos


def smallest_batch() -> DefaultRecordBatch:
    """Return a batch of one empty record, to warm up what reads batches."""
    builder = DefaultRecordBatchBuilder(_READER_FORMAT, 0, 0, -1, -1, -1, 1 << 10)
    builder.append(0, 0, None, b"", [])
    return DefaultRecordBatch(bytes(builder.build()))


def fetch_ahead(client: KafkaConsumer) -> None:
    """Ask for more records of every partition of which none are left, without waiting for them.

    The client asks again only when the records of all partitions were taken.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L269
    """
    client._fetcher.send_fetches()
