"""Decoding of the bytes of a fetch to records, and the start of the next fetch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kafka import KafkaConsumer
from kafka import errors as client_errors
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

# The record format that our own reader reads; the client reads older formats.
_READER_FORMAT = 2


# Partition, batch, and the offset where the fetch began, which may lie inside the batch -> the records of the batch.
Read = Callable[[int, DefaultRecordBatch, int], Iterable[Any]]


@dataclass
class Budget:
    """How many bytes of keys and values the next poll of a client may return; the poll counts them down.

    The record that exhausts the budget is the last one.
    """

    left_bytes: int


def read_batches_with(client: KafkaConsumer, read: Read, budget: Budget) -> None:
    """Make one consumer return the records of ``read``, within a budget. The client still checks batches and
    transactions, and asks no node that is not among the brokers.

    Needs ``Fetcher.PartitionRecords``, which the fetcher looks up on itself for every fetch, and ``Fetcher._append``,
    whose result the fetcher subtracts from the number of records that a poll may still return.
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
    _ask_only_brokers(client)


def _ask_only_brokers(client: KafkaConsumer) -> None:
    """Let the client ask for new metadata where a leader is not among the brokers: it died, or has just returned.

    Else the client raises after its position has passed the records at hand, which are lost, and it waits without end
    for the answer to the fetch that it has not sent.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L225
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L282
    """
    fetcher, cluster = client._fetcher, client._manager.cluster
    select = fetcher._select_read_replica

    def selected(log: Any) -> Any:
        node = select(log)
        return None if node is None or cluster.broker_metadata(node) is None else node

    fetcher._select_read_replica = selected


def partition_records(read: Read, budget: Budget) -> Callable[..., Any]:
    """Return a class for one partition's part of a fetch that uses ``read``."""
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
        """Return at most ``n`` next records, within the budget. An error after some records waits for the next call."""
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
            if is_read_here:  # compaction may remove the last records of a batch, but not their offsets
                self.next_fetch_offset = batch.next_offset
        self.drain()

    def _is_visible(self, batch: DefaultRecordBatch) -> bool:
        """Whether a batch is data of a committed transaction, by the client's list of aborted transactions."""
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return False
        return not batch.is_control_batch


class End(NamedTuple):
    """Where the committed records of a partition end and where all do, and when the answer that says so was requested
    (monotonic seconds)."""

    committed: int
    written: int
    requested_at: float


def note_ends(client: KafkaConsumer, ends: dict[int, End]) -> None:
    """Update ``ends`` when the records of an answer are read: by partition, the end that the same answer gives.

    The client itself stores only the end of the log, which includes open transactions. An answer may wait for a while
    before its records are read; a partition has one such answer at most. A broker leaves partitions out of an answer
    of which it has nothing new: one that was asked for at its end still ends there.

    Only answers of the leader count: the log of a replica that ``client_rack`` chose may end before. The client asks
    the leader again after each answer of such a replica.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/subscription_state.py#L681
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1351
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L1420
    """
    fetcher, cluster = client._fetcher, client._manager.cluster
    handle, parse = fetcher._handle_fetch_response, fetcher._parse_fetched_data
    requested: dict[Any, float | None] = {}  # None: of another replica than the leader

    def handled(node_id: Any, fetch_offsets: Any, send_time: float, response: Any) -> Any:
        led = {log for log in fetch_offsets if cluster.leader_for_partition(log) == node_id}
        requested.update({log: send_time if log in led else None for log in fetch_offsets})
        if not response.error_code:
            given = {(topic.topic, one.partition_index) for topic in response.responses for one in topic.partitions}
            for log, offset in fetch_offsets.items():
                end = ends.get(log.partition)
                if end is not None and log in led and offset >= end.committed and log not in given:
                    ends[log.partition] = end._replace(requested_at=send_time)
        return handle(node_id, fetch_offsets, send_time, response)

    def parsed(completed_fetch: Any) -> Any:
        records = parse(completed_fetch)
        log = completed_fetch.topic_partition
        at = requested[log]
        if records is not None and at is not None:  # else the response is an error, or for an old position
            data = completed_fetch.partition_data
            stable = data.last_stable_offset
            committed = data.high_watermark if stable is None or stable < 0 else stable
            ends[log.partition] = End(committed, data.high_watermark, at)
        return records

    fetcher._handle_fetch_response, fetcher._parse_fetched_data = handled, parsed


def free_slot(client: KafkaConsumer) -> None:
    """Make the client return the parked records of a resumed partition.

    The client parks records of a paused partition, and returns to them only if no slot of records is in use. After
    other records were read to their end, an empty slot remains, so the client would wait for a next fetch, which may
    never come. https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L589
    """
    if not client._fetcher._next_partition_records:
        client._fetcher._next_partition_records = None


def has_resumed(client: KafkaConsumer) -> bool:
    """Whether the client has parked records of resumed partitions; a poll returns the records of one partition.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L589
    """
    return any(not client._subscription.is_paused(log) for log in client._fetcher._paused_partition_records)


def is_old_format(batch: Any) -> bool:
    """Whether a batch has the format of brokers before 0.11; an old log may contain such batches."""
    return bool(batch.magic != _READER_FORMAT)


def packed(batch: DefaultRecordBatch) -> tuple[bytearray, int]:
    """Return the bytes of a batch, and the position of its records, compressed or not.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/record/default_records.py#L234
    """
    return batch._buffer, batch._pos


def smallest_batch() -> DefaultRecordBatch:
    """Return a batch of one empty record, to warm up the reader of batches."""
    builder = DefaultRecordBatchBuilder(_READER_FORMAT, 0, 0, -1, -1, -1, 1 << 10)
    builder.append(0, 0, None, b"", [])
    return DefaultRecordBatch(bytes(builder.build()))


def fetch_ahead(client: KafkaConsumer) -> None:
    """Request more records of every partition without remaining records, without waiting for them.

    The client itself fetches only after the records of all partitions were returned.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/fetcher.py#L269
    """
    client._fetcher.send_fetches()
