"""The message of the ``bands`` topic: a columnar batch as bytes. Decoding makes no Python object for a row.

A message holds documents as columns, then the ids of removed documents. The reader applies the documents first. The
message begins with the signing fingerprint, so data of another generation is refused and never misread.

Layout, little-endian, each column packed: magic ``NDUP``, version u8, three bytes of zero, fingerprint 16 bytes,
documents u32, width of evidence u32, bytes of ragged evidence u32, bytes of ids u32, removed ids u32, bytes of removed
ids u32; then times i64, contents 2 x u64, lengths of ids u16, lengths of removed ids u16, lengths of ragged evidence
u32 (only if there is any), fixed evidence, ragged evidence, ids, removed ids.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stream.batches import Batch, id_columns, make_batch
from stream.errors import NeardupError
from stream.scheme_interface import Evidence

_MAGIC, _VERSION = b"NDUP", 2
_WINDOW_MAGIC, _WINDOW_HEADER, _LENGTH = b"NDUPWIN1", struct.Struct("<8sq"), struct.Struct("<I")
_HEADER = struct.Struct("<4sB3x16sIIIIII")


class WireError(NeardupError, ValueError):
    """A message is not of this format, is of another generation, or is truncated."""


class BandMessage(NamedTuple):
    """The content of one message: a batch, then the ids that are removed after it."""

    batch: Batch
    removed: list[bytes]


def encode(message: BandMessage, fingerprint: str) -> bytes:
    """A message as bytes; ``fingerprint`` is 32 hexadecimal digits."""
    batch, removed = message
    lengths = np.diff(batch.id_starts).astype("<u2")
    ragged_lengths = np.diff(batch.ragged_starts).astype("<u4")
    removed_bytes, removed_starts = id_columns(removed)
    header = _HEADER.pack(
        _MAGIC, _VERSION, bytes.fromhex(fingerprint), batch.size, batch.fixed.shape[1], len(batch.ragged),
        len(batch.ids), len(removed), len(removed_bytes),
    )  # fmt: skip
    columns = (
        batch.times.astype("<i8", copy=False), batch.contents.astype("<u8", copy=False), lengths,
        np.diff(removed_starts).astype("<u2"), ragged_lengths if len(batch.ragged) else ragged_lengths[:0],
        batch.fixed, batch.ragged, batch.ids, removed_bytes,
    )  # fmt: skip
    return b"".join((header, *(np.ascontiguousarray(column).tobytes() for column in columns)))


def decode(data: bytes, fingerprint: str) -> BandMessage:
    """The content of a message; its arrays are views of ``data`` where that is possible.

    Raises ``WireError`` with what was found and what was expected.
    """
    if len(data) < _HEADER.size:
        raise WireError(f"a message of {len(data)} bytes is shorter than its header of {_HEADER.size}")
    magic, version, generation, n, width, ragged, id_bytes, removals, removed_bytes = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise WireError(f"a message that begins {data[:5].hex()} is not of format {_MAGIC.decode()} version {_VERSION}")
    if generation.hex() != fingerprint:
        raise WireError(
            f"a message signed under {generation.hex()} cannot be matched under {fingerprint}: "
            "run the matcher with the configuration of the signer, or on the topic of its own generation"
        )
    expected = _HEADER.size + n * (8 + 16 + 2 + width + 4 * (ragged > 0))
    expected += ragged + id_bytes + 2 * removals + removed_bytes
    if len(data) != expected:
        raise WireError(
            f"a message of {len(data)} bytes should have {expected}: it is truncated, or two messages are joined"
        )
    columns = _Columns(data)
    times = columns.read("<i8", n)
    contents = columns.read("<u8", 2 * n).reshape(n, 2)
    id_starts = _starts(columns.read("<u2", n), id_bytes)
    removed_starts = _starts(columns.read("<u2", removals), removed_bytes)
    ragged_starts = _starts(columns.read("<u4", n if ragged else 0), ragged) if ragged else np.zeros(n + 1, np.int64)
    fixed = columns.read("u1", n * width).reshape(n, width)
    evidence = Evidence(fixed, columns.read("u1", ragged), ragged_starts)
    ids = columns.read("u1", id_bytes)
    gone = columns.read("u1", removed_bytes).tobytes()
    removed = [gone[a:b] for a, b in zip(removed_starts[:-1].tolist(), removed_starts[1:].tolist(), strict=True)]
    return BandMessage(make_batch(ids, id_starts, times, contents, evidence), removed)


def encode_window(messages: Iterable[BandMessage], stream_time: int, fingerprint: str) -> Iterator[bytes]:
    """A window as parts of bytes: the signed documents that a stream still holds, to begin another one with.

    A magic number and the stream time just before the first document (i64, microseconds, ``NO_TIME`` for none), then
    messages in order of arrival, each after its length (u32).
    """
    yield _WINDOW_HEADER.pack(_WINDOW_MAGIC, stream_time)
    for message in messages:
        data = encode(message, fingerprint)
        yield _LENGTH.pack(len(data)) + data


def decode_window(read: Callable[[int], bytes], fingerprint: str) -> Iterator[BandMessage | int]:
    """What ``encode_window`` wrote: the stream time, then every message.

    ``read`` returns the next bytes, as many as asked for except at the end. Raises ``WireError`` for what is no window,
    is truncated or was signed otherwise.
    """
    header = read(_WINDOW_HEADER.size)
    if len(header) < _WINDOW_HEADER.size or not header.startswith(_WINDOW_MAGIC):
        raise WireError("it holds no window")
    yield int(_WINDOW_HEADER.unpack(header)[1])
    while length := read(_LENGTH.size):
        size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else -1
        message = read(size) if size >= 0 else b""
        if len(message) != size:
            raise WireError("it is truncated")
        yield decode(message, fingerprint)


class _Columns:
    """Reads one column after the other; copies unaligned ones, because kernels need aligned arrays."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = _HEADER.size

    def read(self, dtype: str, count: int) -> npt.NDArray[Any]:
        column: npt.NDArray[Any] = np.frombuffer(self._data, dtype, count, self._at)
        self._at += column.nbytes
        return column if column.flags.aligned else column.copy()


def _starts(lengths: npt.NDArray[np.unsignedinteger], total: int) -> npt.NDArray[np.int64]:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    if starts[-1] != total:
        raise WireError(f"a column of a message adds up to {starts[-1]} bytes, its header says {total}")
    return starts
