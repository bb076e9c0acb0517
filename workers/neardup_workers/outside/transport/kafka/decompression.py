"""Unpacking of compressed batches, each within a limit.

A batch of 60 kB can unpack to gigabytes. A user who may write to a topic could thus end every process that reads it,
again after each restart. So no codec unpacks more than a limit. Streaming codecs stop at the limit, and a block of
Snappy states its length before unpacking.

The codecs are those of Kafka's record format. Snappy comes as one block (librdkafka), or as blocks with their lengths
behind a header (the Java client; "xerial").
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam
import zstandard
from lz4.frame import LZ4FrameDecompressor

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
    """Return the content of ``data``, at most ``bytes_max`` bytes.

    Args:
        codec: The number of the codec in the attributes of a batch, 1 to 4.
        data: The complete output of the codec.
        bytes_max: The limit of the content. Memory holds at most twice as much.

    Returns:
        The unpacked bytes.

    Raises:
        TooLargeToUnpackError: The content is longer.
        UnknownCodecError: The number is not a codec.
        DamagedError: The data is truncated or invalid.
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
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError, struct.error, cramjam.DecompressionError) as error:
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
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while chunk := reader.read(_CHUNK_BYTES):
            yield chunk


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
