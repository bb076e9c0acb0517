"""The records of a fetch, in our own type: one compiled pass over the bytes of a batch finds its records.

The client reads a record in some forty steps of Python and copies it into two tuples of its own, at three times the
price of parsing the JSON that it holds. The client also works without a limit: it unpacks a compressed batch whole and
counts only the records of a poll. Here a batch that unpacks to more than ``batch_bytes_max`` is refused, and one record
with ``refused`` stands for it; a poll ends with the record that uses up its bytes. Checksums, and which batches a
transaction hides, stay with the client. Headers are passed over, except where ``ClientLimits.with_headers`` asks for
them.

A record is a run of zigzag varints and bytes: length, attributes, difference of time, difference of offset, length and
bytes of key, the same of value, number of headers, headers (Kafka's message format 2). Logs may hold messages of the
formats before it; the client reads those that are not compressed, and compressed ones are refused.

A compressed batch of 60 kB can unpack to gigabytes, and would end every process that reads it, again after each
restart. So no codec unpacks more than a limit: streaming codecs stop at it, and a block of Snappy states its length
before unpacking. Snappy comes as one block (librdkafka), or as blocks with their lengths behind a header (the Java
client; "xerial").
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt
from kafka import KafkaConsumer
from kafka import errors as client_errors
from lz4.frame import LZ4FrameDecompressor

from neardup.machine.compile import kernel
from neardup_workers.outside.process.interpreter import unzstd, zstd
from neardup_workers.outside.transport.kafka.client_internals import fetches
from neardup_workers.outside.transport.protocol import UNBOUNDED, Headers, Record, RefusedBatch, UnreadableError

# Bytes that streaming codecs unpack at a time: fewer cost calls, more waste memory.
_CHUNK_BYTES = 1 << 20
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# Magic, and two versions in either byte order, which no reader checks.
_XERIAL_HEADER_BYTES = 16
_GZIP_FORMAT = 31  # of zlib's window bits: 15, and a gzip header


class TooLargeToUnpackError(Exception):
    """The content is longer than the limit."""


class UnknownCodecError(Exception):
    """No codec of Kafka has this number."""


class DamagedError(Exception):
    """The bytes are not valid data of their codec."""


def unpack(codec: int, data: bytes, bytes_max: int) -> bytes:
    """Return the complete output of a codec, 1 to 4 as in the attributes of a batch, unpacked to at most ``bytes_max``
    bytes. Memory holds at most twice as much.

    Raises ``TooLargeToUnpackError``, ``UnknownCodecError``, and ``DamagedError`` for what is truncated or invalid.
    """
    if codec not in _CODECS:
        raise UnknownCodecError(f"codec {codec}")
    chunks, size = [], 0
    try:
        for chunk in _CODECS[codec](data, bytes_max):
            size += len(chunk)
            if size > bytes_max:
                raise TooLargeToUnpackError
            chunks.append(chunk)
    except (zlib.error, zstd.ZstdError, RuntimeError, EOFError, struct.error, cramjam.DecompressionError) as error:
        raise DamagedError(str(error)) from error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _gzip(data: bytes, bytes_max: int) -> Iterator[bytes]:
    while data:  # a member; there may be several
        member = zlib.decompressobj(_GZIP_FORMAT)
        while not member.eof:
            chunk = member.decompress(data, _CHUNK_BYTES)
            if not chunk and not member.eof:
                raise EOFError("the data breaks off")
            yield chunk
            data = member.unconsumed_tail
        data = member.unused_data


def _lz4(data: bytes, bytes_max: int) -> Iterator[bytes]:
    frame = LZ4FrameDecompressor()
    while not frame.eof:
        chunk = frame.decompress(data, max_length=_CHUNK_BYTES)
        if not chunk and not frame.eof:
            raise EOFError("the data breaks off")
        yield chunk
        data = b""  # the decompressor keeps the remaining input


def _zstd(data: bytes, bytes_max: int) -> Iterator[bytes]:
    while data:  # a frame; there may be several
        frame = zstd.ZstdDecompressor()
        yield from unzstd(frame, data, _CHUNK_BYTES)
        data = frame.unused_data


def _snappy(data: bytes, bytes_max: int) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield _snappy_block(data, bytes_max)
        return
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 <= length <= len(data) - at:
            raise EOFError("the data breaks off")
        yield _snappy_block(data[at : at + length], bytes_max)
        at += length


def _snappy_block(data: bytes, bytes_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > bytes_max:
        raise TooLargeToUnpackError
    return bytes(cramjam.snappy.decompress_raw(data))


_CODECS: dict[int, Callable[[bytes, int], Iterator[bytes]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}


# Columns of a record: its differences of time and offset, begin and end of its key and of its value, begin of its
# headers, -1 where it has none.
_COLUMNS = 7
_AS_RECORD: Callable[[Any], Record] = partial(tuple.__new__, Record)


@dataclass
class ClientLimits(fetches.Budget):
    """Limits of a client: the bytes of the next poll, and the unpacked bytes of a compressed batch."""

    left_bytes: int = UNBOUNDED
    batch_bytes_max: int = UNBOUNDED
    with_headers: bool = False


def consumer(limits: ClientLimits, **options: Any) -> KafkaConsumer:
    """Make a client for ``poll`` that uses our reader of batches. Raises the client's errors."""
    client = KafkaConsumer(**options)
    fetches.read_batches_with(client, partial(_read_or_refuse, limits), limits)
    return client


# A producer that writes zero, or seconds for milliseconds, gives times of the first hundred days of 1970. No clock is
# so far behind: such a record has no time, and the date of its document counts.
_TIMES_MIN_MS = 100 * 86_400_000


def _read_or_refuse(limits: ClientLimits, number: int, batch: Any, start: int) -> list[Record]:
    """Return the records of a batch, or the record of its refusal; ``start`` is the offset where the fetch began."""
    try:
        return read_batch(number, batch, limits.batch_bytes_max, limits.with_headers)
    except TooLargeToUnpackError:
        refused = RefusedBatch(max(batch.base_offset, start), batch.size_in_bytes)
        return [Record(number, batch.last_offset, batch.max_timestamp, None, None, refused)]


def read_batch(number: int, batch: Any, bytes_max: int = UNBOUNDED, with_headers: bool = False) -> list[Record]:
    """Read a batch of partition ``number`` that unpacks to at most ``bytes_max`` bytes.

    Raises the client's ``CorruptRecordError`` if it does not consist of records, ``UnreadableError`` for an unknown
    compression, ``TooLargeToUnpackError``.
    """
    if fetches.is_old_format(batch):
        if batch.compression_type:
            raise UnreadableError(
                f"the messages at offset {batch.base_offset} of partition {number} are compressed in format "
                f"{batch.magic}, that of Kafka before 0.11, which is not read: copy the topic with a newer producer, "
                "or start beyond them"
            )
        times = [one.timestamp if one.timestamp_type or one.timestamp >= _TIMES_MIN_MS else -1 for one in batch]
        rows = zip(batch, times, strict=True)
        return [Record(number, one.offset, time, one.key, one.value, None, ()) for one, time in rows]
    content: bytes | bytearray
    if batch.compression_type == batch.CODEC_NONE:
        content, begin = fetches.packed(batch)
    else:
        content, begin = _unpacked(number, batch, bytes_max), 0
    buffer, count = np.frombuffer(content, np.uint8), batch.records_count
    spans = np.empty((count if 0 <= count <= len(buffer) else 0, _COLUMNS), np.int64)
    if len(spans) != count or _find(buffer, begin, spans) != len(buffer):
        raise client_errors.CorruptRecordError(f"the batch at offset {batch.base_offset} is not made of records")
    if batch.timestamp_type == batch.LOG_APPEND_TIME:
        spans[:, 0] = batch.max_timestamp
    else:
        spans[:, 0] += batch.first_timestamp
        spans[spans[:, 0] < _TIMES_MIN_MS, 0] = -1
    spans[:, 1] += batch.base_offset
    data = memoryview(content)
    return [
        _AS_RECORD((
            number, offset, time,
            data[key:key_end].tobytes() if key >= 0 else None,
            data[value:value_end].tobytes() if value >= 0 else None,
            None,
            _headers(buffer, headers) if with_headers and headers >= 0 else (),
        ))
        for time, offset, key, key_end, value, value_end, headers in spans.tolist()
    ]  # fmt: skip


def warm() -> None:
    """Compile the reader of batches, or load it from disk."""
    read_batch(0, fetches.smallest_batch())


def _headers(buffer: npt.NDArray[np.uint8], pos: int) -> Headers:
    """Return the headers at ``pos``, where their number begins; raises the client's ``CorruptRecordError``."""
    count, pos = _varint(buffer, pos)
    out = []
    for _ in range(count):
        parts: list[bytes] = []
        for _ in range(2):
            length, pos = _varint(buffer, pos)
            if pos < 0 or length > len(buffer) - pos:
                raise client_errors.CorruptRecordError("the headers of a record are longer than its batch")
            parts.append(buffer[pos : pos + max(length, 0)].tobytes())
            pos += max(length, 0)
        name, value = parts
        out.append((name.decode(errors="surrogateescape"), value))
    return tuple(out)


def _unpacked(number: int, batch: Any, bytes_max: int) -> bytes:
    content, begin = fetches.packed(batch)
    try:
        return unpack(batch.compression_type, bytes(memoryview(content)[begin:]), bytes_max)
    except DamagedError as error:
        raise client_errors.CorruptRecordError(f"the batch at offset {batch.base_offset}: {error}") from error
    except UnknownCodecError as error:
        raise UnreadableError(
            f"the batch at offset {batch.base_offset} of partition {number} is packed by {error}, which is none of "
            "gzip, snappy, lz4 and zstd: let its producer use one of these, and start beyond it"
        ) from error


@kernel("const u8[], i64, i64[,]")
def _find(buffer, pos, spans):
    """Fill ``spans`` with one row for each record from ``pos`` on; returns the end of the last, -1 if it is beyond the
    buffer.

    ``buffer`` is ``uint8[n]``, ``spans`` ``int64[records, 7]``; what is absent begins at -1.
    """
    size = len(buffer)
    for row in range(len(spans)):
        length, pos = _varint(buffer, pos)
        if pos < 0 or length < 1 or length > size - pos:
            return -1
        end = pos + length
        pos += 1  # attributes, which the format does not use
        spans[row, 0], pos = _varint(buffer, pos)
        spans[row, 1], pos = _varint(buffer, pos)
        for column in (2, 4):
            length, pos = _varint(buffer, pos)
            if pos < 0 or length > end - pos:
                return -1
            spans[row, column] = pos if length >= 0 else -1
            pos += max(length, 0)
            spans[row, column + 1] = pos
        begin = pos
        headers, pos = _varint(buffer, pos)
        spans[row, 6] = begin if headers > 0 else -1
        if pos < 0 or pos > end or headers < 0 or (headers == 0 and pos != end):
            return -1
        pos = end
    return pos


@kernel("const u8[], i64")
def _varint(buffer, pos):
    """Return the zigzag varint at ``pos`` and the position after it, -1 beyond the buffer. A negative ``pos`` returns
    -1."""
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
