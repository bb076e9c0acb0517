"""How the records of a fetch are made from its bytes, and when the next fetch begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as client_errors
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

# The record format whose batches our own reader takes; the client reads the older ones.
_READER_FORMAT = 2


# Partition, batch, and the offset where the fetch began, which may lie inside the batch -> the records of the batch.
Read = Callable[[int, DefaultRecordBatch, int], Iterable[Any]]


@dataclass
class Budget:
    """How many bytes of keys and values the next poll of a client may return; the poll counts them down.

    The record that uses them up is the last one.
    """

    left_bytes: int


def read_batches_with(client: KafkaConsumer, read: Read, budget: Budget) -> None:
    """Let one consumer return the records that ``read`` makes, within a budget; checks and transactions stay its own.

    Needs ``Fetcher.PartitionRecords``, which the fetcher looks up on itself for every fetch, and ``Fetcher._append``,
    whose result the fetcher takes off the records that a poll may still return.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1465
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L626
    """
    fetcher = client._fetcher
    fetcher.PartitionRecords = partition_records(read, budget)
    append = fetcher._append

    def appended(drained: Any, part: Any, max_records: int, update_offsets: bool) -> int:
        taken: int = append(drained, part, max_records, update_offsets)
        return taken if budget.left_bytes > 0 else max_records

    fetcher._append = appended


def partition_records(read: Read, budget: Budget) -> Callable[..., Any]:
    """Return the class of one partition's part of a fetch with ``read`` in it."""
    return partial(_PartitionRecords, read, budget)


class _PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """One partition's part of a fetch; the client calls ``_unpack_records`` once for its records, and then ``take``.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1648
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1661
    """

    def __init__(self, read: Read, budget: Budget, *given: Any, **named: Any) -> None:
        self._read, self._budget = read, budget
        super().__init__(*given, **named)

    def take(self, n: int) -> list[Any]:
        """The next ``n`` records at most, within the budget. An error behind some records waits for the next call."""
        self._maybe_raise_next_inline_exception()
        records: list[Any] = []
        left = self._budget.left_bytes
        try:
            for record in self.record_iterator:
                records.append(record)
                left -= len(record.value or b"") + len(record.key or b"")
                if left <= 0 or len(records) == n:
                    break
        except Exception as error:
            if not records:
                raise
            self._next_inline_exception = error
        self._budget.left_bytes = left
        return records

    def _unpack_records(self, tp: Any, records: Any, *_: Any) -> Iterator[Any]:
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise client_errors.CorruptRecordError(f"{tp} at offset {batch.base_offset}: a wrong checksum")
            is_read_here = batch.magic == _READER_FORMAT
            if not is_read_here or self._is_visible(batch):
                self.bytes_read += batch.size_in_bytes
                for record in self._read(tp.partition, batch, self.fetch_offset):
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


def note_ends(client: KafkaConsumer, ends: dict[int, int]) -> None:
    """Keep ``ends`` up to date, by partition: where a reader of committed records stops, as the last fetch said.

    The client knows the end of the log alone, which counts open transactions.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1420
    """
    fetcher = client._fetcher
    parse = fetcher._parse_fetched_data

    def parsed(completed_fetch: Any) -> Any:
        found = parse(completed_fetch)
        if found is not None:  # else the answer is an error, or not of the present position
            data = completed_fetch.partition_data
            stable = data.last_stable_offset
            end = data.high_watermark if stable is None or stable < 0 else stable
            ends[completed_fetch.topic_partition.partition] = end
        return found

    fetcher._parse_fetched_data = parsed


def free_slot(client: KafkaConsumer) -> None:
    """Let the client take back the records of a partition that was paused.

    It parks them, and takes them back only when it has no slot of records being read. After it has read others to their
    end the slot is there, empty, so it would wait for a next fetch, which may never come.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L589
    """
    if not client._fetcher._next_partition_records:
        client._fetcher._next_partition_records = None


def has_resumed(client: KafkaConsumer) -> bool:
    """Whether the client has records of partitions that are paused no more; a poll takes back those of one.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L589
    """
    return any(not client._subscription.is_paused(place) for place in client._fetcher._paused_partition_records)


def is_old_format(batch: Any) -> bool:
    """Whether a batch has the format of brokers before 0.11, in which a log may still hold some."""
    return bool(batch.magic != _READER_FORMAT)


def packed(batch: DefaultRecordBatch) -> tuple[bytearray, int]:
    """Return the bytes of a batch as they came, and where its records, or what they are packed into, begin.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/record/default_records.py#L234
    """
    return batch._buffer, batch._pos


def set_unpacked(batch: DefaultRecordBatch, content: bytes) -> None:
    """Give a compressed batch its content, which the client then reads in place of unpacking it.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/record/default_records.py#L234
    """
    batch._buffer, batch._pos, batch._decompressed = bytearray(content), 0, True


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
