"""The records of a fetch, in our own type: those of a batch are found by one compiled pass over its bytes.

The client reads a record in some forty steps of Python and copies it into two tuples of its own, at three times the
price of parsing the JSON that it holds. Only that is replaced, and only in a client made with ``is_fast``: checksums,
compression, and which batches a transaction hides stay with the client. Headers are passed over.

A record is a run of zigzag varints and bytes: length, attributes, difference of time, difference of offset, length and
bytes of key, the same of value, number of headers, headers (Kafka's message format 2). Logs may hold batches of the
formats before it; the client reads those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as client_errors

from stream.kernels.compile import kernel
from workers.transport.kafka.client_internals import fetches
from workers.transport.protocol import Record

# Columns of what is known of a record: its differences of time and offset, begin and end of its key and of its value.
_COLUMNS = 6
_AS_RECORD: Callable[[Any], Record] = partial(tuple.__new__, Record)


def consumer(is_fast: bool, **options: Any) -> KafkaConsumer:
    """Make a client for ``poll``; a fast one has our reader of batches in it. Raises what the client raises."""
    client = KafkaConsumer(**options)
    if is_fast:
        fetches.read_batches_with(client, read_batch)
    return client


def poll(client: KafkaConsumer, timeout_milliseconds: int, records_max: int) -> dict[TopicPartition, list[Record]]:
    """Poll a client made by ``consumer``, fast or not, and return our records. Raises what the client raises."""
    found = client.poll(timeout_ms=timeout_milliseconds, max_records=records_max)
    return {
        place: records if type(records[0]) is Record else _as_records(place.partition, records)
        for place, records in found.items()
    }


def read_batch(number: int, batch: Any) -> list[Record]:
    """Read a batch of partition ``number``; raises the client's ``CorruptRecordError`` if it is not made of records."""
    if fetches.is_old_format(batch):
        return _as_records(number, batch)
    content, begin = fetches.uncompressed(batch)
    buffer, count = np.frombuffer(content, np.uint8), batch.records_count
    spans = np.empty((count if 0 <= count <= len(buffer) else 0, _COLUMNS), np.int64)
    if len(spans) != count or _find(buffer, begin, spans) != len(buffer):
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
        ))
        for time, offset, key, key_end, value, value_end in spans.tolist()
    ]  # fmt: skip


def warm() -> None:
    """Compile what reads a batch, or load it from disk."""
    read_batch(0, fetches.smallest_batch())


def _as_records(number: int, records: Iterable[Any]) -> list[Record]:
    """The client's records as ours."""
    return [Record(number, one.offset, one.timestamp, one.key, one.value) for one in records]


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
