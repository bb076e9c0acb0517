"""The records of a fetch, in our own type: those of a batch are found by one compiled pass over its bytes.

The client reads a record in some forty steps of Python and copies it into two tuples of its own, at three times the
price of parsing the JSON that it holds; and it takes 4 kB at a time from a connection, giving the interpreter lock away
each time and waiting for it again. Only that is replaced, client by client: checksums, compression, and which batches a
transaction hides stay with the client. Headers are passed over.

A record is a run of zigzag varints and bytes: length, attributes, difference of time, difference of offset, length and
bytes of key, the same of value, number of headers, headers (Kafka's message format 2). Logs may hold messages of the
formats before it; the client reads those that are not compressed, the others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from kafka import KafkaConsumer
from kafka import errors as client_errors
from kafka.consumer.fetcher import Fetcher
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from stream.kernels.compile import kernel
from workers.transport.kafka.decompression import DamagedError, TooLargeToUnpackError, UnknownCodecError, unpack
from workers.transport.protocol import UNBOUNDED, Record, RefusedBatch, UnreadableError

_COMPILED_FORMAT = 2
# Columns of what is known of a record: its differences of time and offset, begin and end of its key and of its value.
_COLUMNS = 6
_RECEIVED_BYTES = 256 << 10
_AS_RECORD: Callable[[Any], Record] = partial(tuple.__new__, Record)


@dataclass
class Limits:
    """How much the polls of a client may give; ``left_bytes`` are those of the next poll, which counts them down."""

    batch_bytes_max: int = UNBOUNDED
    left_bytes: int = UNBOUNDED


def consumer(limits: Limits, **options: Any) -> KafkaConsumer:
    """A client whose polls give our records within limits. Connections that it has made by now read as before."""
    client = KafkaConsumer(**options)
    fetcher = client._fetcher
    fetcher.PartitionRecords = partial(_PartitionRecords, limits)
    append = fetcher._append

    def appended(drained: Any, part: Any, records_max: int, update_offsets: bool) -> int:
        taken: int = append(drained, part, records_max, update_offsets)
        return taken if limits.left_bytes > 0 else records_max  # which ends the poll

    fetcher._append = appended
    connect = client._manager._build_transport

    async def connected(*arguments: Any, **options: Any) -> Any:
        connection = await connect(*arguments, **options)
        if type(connection) is KafkaTCPTransport:  # one with TLS hands out what it has decrypted
            connection._sock_recv = partial(receive, connection)
        return connection

    client._manager._build_transport = connected
    return client


def receive(connection: Any) -> tuple[bytes, Exception | None]:
    """What a connection has for us, up to ``_RECEIVED_BYTES``; what is wrong with it, the client finds if there is
    nothing."""
    with suppress(OSError):
        data: bytes = connection._sock.recv(_RECEIVED_BYTES)
        if data:
            return data, None
    found: tuple[bytes, Exception | None] = KafkaTCPTransport._sock_recv(connection)
    return found


class _PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # the client has no types
    """What the client holds of one partition of a fetch; it calls the methods here for the records."""

    def __init__(self, limits: Limits, *arguments: Any, **options: Any) -> None:
        self._limits = limits
        super().__init__(*arguments, **options)

    def take(self, n: int) -> list[Record]:
        """The next records, up to the one that uses up the bytes that are left; as the client's own otherwise."""
        self._maybe_raise_next_inline_exception()
        records: list[Record] = []
        left = self._limits.left_bytes
        try:
            for record in self.record_iterator:
                records.append(record)
                left -= len(record.value or b"") + len(record.key or b"")
                if left <= 0 or len(records) == n:
                    break
        except Exception as error:
            if not records:
                raise
            self._next_inline_exception = error  # for the next call
        self._limits.left_bytes = left
        return records

    def _unpack_records(self, place: Any, records: Any, *_: Any) -> Iterator[Record]:
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise client_errors.CorruptRecordError(f"{place} at offset {batch.base_offset}: a wrong checksum")
            is_compiled = batch.magic == _COMPILED_FORMAT
            if not is_compiled or self._is_visible(batch):
                self.bytes_read += batch.size_in_bytes
                for record in self._read(place, batch) if is_compiled else _read_old(place, batch):
                    self.records_read += 1
                    self.next_fetch_offset = record.offset + 1
                    yield record
            if is_compiled:  # the log may have lost the last records of a batch, never their offsets
                self.next_fetch_offset = batch.next_offset
        self.drain()

    def _read(self, place: Any, batch: DefaultRecordBatch) -> list[Record]:
        """The records of a batch, or the one that stands for it."""
        try:
            return read_batch(place.partition, batch, self._limits.batch_bytes_max)
        except TooLargeToUnpackError:
            refused = RefusedBatch(max(batch.base_offset, self.fetch_offset), batch.size_in_bytes)
            return [Record(place.partition, batch.last_offset, batch.max_timestamp, None, None, refused)]
        except UnknownCodecError as error:
            raise UnreadableError(
                f"the batch at offset {batch.base_offset} of {place.topic}-{place.partition} is packed by {error}, "
                "which is none of gzip, snappy, lz4 and zstd: let its producer use one of these, and start beyond it"
            ) from error

    def _is_visible(self, batch: DefaultRecordBatch) -> bool:
        """Whether a batch is data that this reader may see, as the client tells it."""
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return False
        return not batch.is_control_batch


def read_batch(number: int, batch: DefaultRecordBatch, bytes_max: int = UNBOUNDED) -> list[Record]:
    """The records of a batch of partition ``number``, which unpack to ``bytes_max`` at most.

    Raises the client's ``CorruptRecordError`` if they are none, and what ``unpack`` raises.
    """
    content, at = batch._buffer, batch._pos
    if batch.compression_type != batch.CODEC_NONE:
        try:
            content, at = unpack(batch.compression_type, bytes(memoryview(content)[at:]), bytes_max), 0
        except DamagedError as error:
            raise client_errors.CorruptRecordError(f"the batch at offset {batch.base_offset}: {error}") from error
    buffer, count = np.frombuffer(content, np.uint8), batch.records_count
    spans = np.empty((count if 0 <= count <= len(buffer) else 0, _COLUMNS), np.int64)
    if len(spans) != count or _find(buffer, at, spans) != len(buffer):
        raise client_errors.CorruptRecordError(f"the batch at offset {batch.base_offset} is not made of records")
    if batch.timestamp_type == batch.LOG_APPEND_TIME:
        spans[:, 0] = batch.max_timestamp
    else:
        spans[:, 0] += batch.first_timestamp
    spans[:, 1] += batch.base_offset
    data = memoryview(content)
    return [
        _AS_RECORD((
            number, offset, time,
            data[key:key_end].tobytes() if key >= 0 else None,
            data[value:value_end].tobytes() if value >= 0 else None,
            None,
        ))
        for time, offset, key, key_end, value, value_end in spans.tolist()
    ]  # fmt: skip


def warm() -> None:
    """Compile what reads a batch, or load it from disk."""
    builder = DefaultRecordBatchBuilder(_COMPILED_FORMAT, 0, 0, -1, -1, -1, 1 << 10)
    builder.append(0, 0, None, b"", [])
    read_batch(0, DefaultRecordBatch(bytes(builder.build())))


def _read_old(place: Any, batch: Any) -> Iterator[Record]:
    if batch.compression_type:
        raise UnreadableError(
            f"the messages at offset {batch.base_offset} of {place.topic}-{place.partition} are compressed in format "
            f"{batch.magic}, that of Kafka before 0.11, which is not read: copy the topic with a newer producer, or "
            "start beyond them"
        )
    for record in batch:
        yield Record(place.partition, record.offset, record.timestamp, record.key, record.value)


@kernel
def _find(buffer, pos, spans):  # type: ignore[no-untyped-def]
    """Fill ``spans``, a row a record from ``pos`` on; returns where the last one ends, -1 if that is beyond the buffer.

    ``buffer`` is ``uint8[n]``, ``spans`` ``int64[records, 6]``; the begin of a key or value that is absent is -1.
    """
    size = len(buffer)
    for row in range(len(spans)):
        length, pos = _varint(buffer, pos)
        if pos < 0 or length < 1 or length > size - pos:
            return -1
        end = pos + length
        pos += 1  # attributes, which say nothing yet
        spans[row, 0], pos = _varint(buffer, pos)
        spans[row, 1], pos = _varint(buffer, pos)
        for column in (2, 4):
            length, pos = _varint(buffer, pos)
            if pos < 0 or length > end - pos:
                return -1
            spans[row, column] = pos if length >= 0 else -1
            pos += max(length, 0)
            spans[row, column + 1] = pos
        headers, pos = _varint(buffer, pos)
        if pos < 0 or pos > end or headers < 0 or (headers == 0 and pos != end):
            return -1
        pos = end
    return pos


@kernel
def _varint(buffer, pos):  # type: ignore[no-untyped-def]
    """A zigzag varint at ``pos`` and the place after it, which is -1 if there is none: a place below 0 stays there."""
    value = np.uint64(0)
    for i in range(10):
        at = pos + i
        if pos < 0 or at >= len(buffer):
            return 0, -1
        byte = np.uint64(buffer[at])
        value |= (byte & np.uint64(0x7F)) << np.uint64(7 * i)
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at + 1
    return 0, -1
