"""Messages of columns: the form of ``arrivals`` and ``links``. Decoding makes no Python object for a row. And
columns as values in JSON: one call for all of a column, and compiled code that joins the columns to lines.

Layout, little-endian: magic 4 bytes, version u8, flags u8 (none is defined: 0), number of columns u16, signing
fingerprint 16 bytes, bytes of each column u64; then the columns, each padded to a multiple of eight bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.machine.compile import kernel
from neardup.machine.lanes import copy_range
from neardup.pairs.batches import id_columns
from neardup.pairs.window_message import WireError
from neardup_workers.outside.topics.places import offsets_of, partitions_of

_Longs = npt.NDArray[np.int64]
_HEADER = struct.Struct("<4sBBH16s")
_VERSION = 1
_ALIGNMENT = 8


def encode_columns(magic: bytes, columns: Sequence[npt.NDArray[Any]], fingerprint: str) -> bytes:
    """Return columns as a message; ``fingerprint`` is 32 hexadecimal digits."""
    parts = [np.ascontiguousarray(column).tobytes() for column in columns]
    sizes = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    header = _HEADER.pack(magic, _VERSION, 0, len(parts), bytes.fromhex(fingerprint))
    return b"".join((header, sizes, *(part + bytes(-len(part) % _ALIGNMENT) for part in parts)))


def decode_columns(data: bytes, magic: bytes, dtypes: Sequence[str], fingerprint: str) -> list[npt.NDArray[Any]]:
    """Return the columns of a message, with the given types, as views of ``data``; raises ``WireError``."""
    count = len(dtypes)
    begin = _HEADER.size + 8 * count
    if len(data) < begin:
        raise WireError(f"a message of {len(data)} bytes is shorter than its header of {begin}")
    mark, version, flags, columns, generation = _HEADER.unpack_from(data)
    if (mark, version, flags, columns) != (magic, _VERSION, 0, count):
        raise WireError(
            f"a message that begins {data[:8].hex()} is not of format {magic.decode()} version {_VERSION}, "
            f"which has {count} columns and no flags"
        )
    if generation.hex() != fingerprint:
        raise WireError(
            f"a message signed under {generation.hex()} cannot be read under {fingerprint}: "
            "run every worker with one configuration, or on the topics of its own generation"
        )
    sizes = struct.unpack_from(f"<{count}Q", data, _HEADER.size)
    if len(data) != begin + sum(size + -size % _ALIGNMENT for size in sizes):
        raise WireError(f"a message of {len(data)} bytes is truncated, or two messages are joined")
    out = []
    for dtype, size in zip(dtypes, sizes, strict=True):
        if size % np.dtype(dtype).itemsize:
            raise WireError(f"a column of {size} bytes does not consist of {dtype}")
        out.append(np.frombuffer(data, dtype, size // np.dtype(dtype).itemsize, begin))
        begin += size + -size % _ALIGNMENT
    return out


def texts_of(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> list[str]:
    """Return the texts of a column of UTF-8."""
    whole, bounds = data.tobytes(), pairwise(starts.tolist())
    if whole.isascii():
        text = whole.decode()
        return [text[first:end] for first, end in bounds]
    return [whole[first:end].decode() for first, end in bounds]


def escaped(texts: list[str]) -> list[str]:
    """Return texts as strings in JSON, without their quotes.

    >>> escaped(["a", 'b"', ""])
    ['a', 'b\\\\"', '']
    """
    data = orjson.dumps(texts).decode()
    if "\\" in data:  # else each quote is the begin or the end of a text
        return [orjson.dumps(text).decode()[1:-1] for text in texts]
    return data[2:-2].split('","') if texts else []


class Spans(NamedTuple):
    """n values as they are written: value i is ``data`` from ``begins[i]`` to ``ends[i]`` (``int64[n]``)."""

    data: npt.NDArray[np.uint8]
    begins: _Longs
    ends: _Longs


_NOTHING = np.empty(0, np.uint8)
# Bytes that a string in JSON has as an escape.
_IS_ESCAPED = np.isin(np.arange(256), [*range(32), *b'"\\'])


def spans_of(texts: Iterable[bytes]) -> Spans:
    """Return texts as they are."""
    data, starts = id_columns(list(texts))
    return Spans(data, starts[:-1], starts[1:])


def text_spans(texts: list[str]) -> Spans:
    """Return texts as strings in JSON, with their quotes."""
    written = orjson.dumps(texts)
    data = np.frombuffer(written, np.uint8)
    if b"\\" in written:  # else each quote is the begin or the end of a text
        return spans_of(map(orjson.dumps, texts))
    quotes = np.flatnonzero(data == ord('"'))
    return Spans(data, quotes[::2].copy(), quotes[1::2] + 1)


def escaped_spans(data: npt.NDArray[np.uint8], starts: _Longs) -> Spans:
    """Return the texts of a column of UTF-8 as ``escaped`` does."""
    if _IS_ESCAPED[data].any():
        return spans_of(map(str.encode, escaped(texts_of(data, starts))))
    return Spans(data, starts[:-1], starts[1:])


def number_spans(values: npt.NDArray[Any]) -> Spans:
    """Return numbers in JSON."""
    data = np.frombuffer(orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY), np.uint8)
    bounds = np.flatnonzero(data == ord(","))
    return Spans(data, np.append(1, bounds + 1)[: len(values)], np.append(bounds, len(data) - 1)[: len(values)])


class Lines:
    """``count`` lines, which grow by the values of a column at a time."""

    def __init__(self, count: int) -> None:
        self._sizes = np.zeros(count, np.int64)
        self._every = np.arange(count)
        self._pieces: list[tuple[bytes, int, Spans, _Longs]] = []

    def add(self, before: bytes, values: Spans, after: bytes = b"", rows: _Longs | None = None) -> None:
        """Add a value to each of some rows, by default of all, and the same text before and after each value."""
        rows = self._every if rows is None else rows
        self._sizes[rows] += values.ends - values.begins + (len(before) + len(after))
        self._pieces.append((before + after, len(before), values, rows))

    def add_text(self, text: bytes, rows: _Longs | None = None) -> None:
        """Add the same text to each of some rows, by default of all."""
        nothing = np.zeros(len(self._every if rows is None else rows), np.int64)
        self.add(text, Spans(_NOTHING, nothing, nothing), b"", rows)

    def add_places(self, before: bytes, places: _Longs, after: bytes = b"", rows: _Longs | None = None) -> None:
        """Add a place to each of some rows."""
        self.add(before, number_spans(partitions_of(places)), b"-", rows)
        self.add(b"", number_spans(offsets_of(places)), after, rows)

    def joined(self, order: _Longs) -> tuple[memoryview, _Longs]:
        """Return all lines in an order, and where each of them begins and the last one ends (``int64[count + 1]``)."""
        starts = np.append(0, np.cumsum(self._sizes[order]))
        out, at = np.empty(starts[-1], np.uint8), np.empty(len(order), np.int64)
        at[order] = starts[:-1]
        for around, split, values, rows in self._pieces:
            _append(np.frombuffer(around, np.uint8), split, *values, rows, out, at)
        return out.data, starts

    def texts(self) -> list[bytes]:
        """Return each line."""
        data, starts = self.joined(self._every)
        whole = bytes(data)
        return [whole[first:end] for first, end in pairwise(starts.tolist())]


@kernel("const u8[], i64, const u8[], const i64[], const i64[], const i64[], u8[], i64[]", direct=True)
def _append(around, split, data, begins, ends, rows, out, at):
    """Write a value for each row to where its line ends, with ``around`` before and after it."""
    for i in range(len(rows)):
        pos, size = at[rows[i]], ends[i] - begins[i]
        copy_range(around, 0, out, pos, split)
        copy_range(data, begins[i], out, pos + split, size)
        copy_range(around, split, out, pos + split + size, len(around) - split)
        at[rows[i]] = pos + size + len(around)
