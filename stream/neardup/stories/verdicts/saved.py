"""Decisions as bytes: the rows of a window with what was decided, and the stories, next to the signed documents.

Every part begins with a magic number and the numbers of ``_HEADER``: the places that were given, the stream time, the
first event time (microseconds, ``NO_TIME`` for none) and the pairs that were ignored, the same in each part. A part of
rows has their number and their columns. The last part has the records of the stories, and what they hold beyond the
window: arrays, each behind its length in bytes. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.window_message import DECISIONS_MAGIC, WireError
from neardup.stories.verdicts.kept import Holdings, joined_bytes, joined_parts
from neardup.stories.verdicts.records import RECORD_FIELDS

_ROWS, _STORIES = (DECISIONS_MAGIC + digit for digit in (b"2", b"3"))
_HEADER = struct.Struct("<8sqqqqq")
_LENGTH = struct.Struct("<q")
# Rows of a part: about 5 MB.
_ROWS_MAX = 1 << 16


class SavedRows(NamedTuple):
    """n rows in order of arrival; the columns are those of ``row_columns.Columns``, and ``removed`` is 1 or 0."""

    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint64]
    places: npt.NDArray[np.int64]
    clusters: npt.NDArray[np.int64]
    matched: npt.NDArray[np.int64]
    stories: npt.NDArray[np.int32]
    versions: npt.NDArray[np.uint32]
    begun: npt.NDArray[np.uint32]
    sizes: npt.NDArray[np.uint32]
    similarities: npt.NDArray[np.float32]
    removed: npt.NDArray[np.uint32]
    kept: npt.NDArray[np.uint8]


# The types of the columns, in their order.
_DTYPES = ("<i8", "<u8", "<u8", "<i8", "<i8", "<i8", "<i4", "<u4", "<u4", "<u4", "<f4", "<u4", "u1")


class Held(NamedTuple):
    """Holdings as arrays: the rows of n contents, counted from the first row of the window, with their evidence
    (``fixed`` is flat); the places of m originals with their ids (UTF-8)."""

    rows: npt.NDArray[np.int64]
    fixed: npt.NDArray[np.uint8]
    ragged: npt.NDArray[np.uint8]
    ragged_starts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]

    def evidence(self, width: int) -> dict[int, bytes]:
        """The evidence by row; its fixed part has ``width`` bytes."""
        fixed, ragged = self.fixed.tobytes(), self.ragged.tobytes()
        bounds = zip(self.rows.tolist(), pairwise(self.ragged_starts.tolist()), strict=True)
        return {row: fixed[n * width : (n + 1) * width] + ragged[a:b] for n, (row, (a, b)) in enumerate(bounds)}

    def names(self) -> dict[int, str]:
        """The ids by place."""
        ids = self.ids.tobytes()
        bounds = zip(self.places.tolist(), pairwise(self.id_starts.tolist()), strict=True)
        return {place: ids[a:b].decode() for place, (a, b) in bounds}


_HELD_DTYPES = ("<i8", "u1", "u1", "<i8", "<i8", "u1", "<i8")


def held_of(holdings: Holdings, first: int, width: int) -> Held:
    """Return holdings as arrays, with rows counted from ``first``; the fixed part of evidence has ``width`` bytes."""
    joined = joined_parts(list(holdings.evidence.values()), width)
    rows, places = (np.array(list(keys), np.int64) for keys in (holdings.evidence, holdings.names))
    ids = joined_bytes([name.encode() for name in holdings.names.values()])
    return Held(rows - first, joined.fixed.reshape(-1), joined.ragged, joined.starts, places, *ids)


class Saved(NamedTuple):
    """What continues decisions: ``places`` is how many places were given, ``records`` (``int64[n, RECORD_FIELDS]``) are
    those of the stories, ``held`` what they hold; the others are those of the state."""

    rows: SavedRows
    records: npt.NDArray[np.int64]
    held: Held
    places: int
    stream_time: int
    first_time: int
    ignored: int


def encode(saved: Saved) -> Iterator[bytes]:
    """Decisions as parts, at least two."""
    count, numbers = len(saved.rows.times), saved[3:]
    for first in range(0, max(count, 1), _ROWS_MAX):
        rows: list[npt.NDArray[Any]] = [column[first : first + _ROWS_MAX] for column in saved.rows]
        columns = [column.astype(name, copy=False).tobytes() for column, name in zip(rows, _DTYPES, strict=True)]
        yield _HEADER.pack(_ROWS, *numbers, len(rows[0])) + b"".join(columns)
    arrays = [saved.records.astype("<i8").tobytes(), *(np.ascontiguousarray(array).tobytes() for array in saved.held)]
    lengths = [_LENGTH.pack(len(array)) for array in arrays]
    parts = [part for both in zip(lengths, arrays, strict=True) for part in both]
    yield _HEADER.pack(_STORIES, *numbers, len(saved.records)) + b"".join(parts)


def decode(parts: Sequence[bytes]) -> Saved:
    """The decisions that parts hold, at least one. Raises ``WireError`` if one is truncated."""
    if min(map(len, parts)) < _HEADER.size:
        raise _truncated()
    stories = [part for part in parts if part.startswith(_STORIES)]
    decoded = [_rows(part) for part in parts if part.startswith(_ROWS)]
    if len(stories) != 1 or len(decoded) != len(parts) - 1:
        raise _truncated()
    numbers = _HEADER.unpack_from(parts[-1])[1:5]
    rows = SavedRows._make(map(np.concatenate, zip(*decoded, strict=True)))
    records, *held = _arrays(stories[0])
    arrays = Held._make(np.frombuffer(data, dtype) for data, dtype in zip(held, _HELD_DTYPES, strict=True))
    return Saved(rows, np.frombuffer(records, "<i8").reshape(-1, RECORD_FIELDS), arrays, *numbers)


def _rows(part: bytes) -> list[npt.NDArray[Any]]:
    count = _HEADER.unpack_from(part)[-1]
    if len(part) != _HEADER.size + count * sum(np.dtype(name).itemsize for name in _DTYPES):
        raise _truncated()
    at, columns = _HEADER.size, list[npt.NDArray[Any]]()
    for name in _DTYPES:
        columns.append(np.frombuffer(part, name, count, at))
        at += columns[-1].nbytes
    return columns


def _arrays(part: bytes) -> list[bytes]:
    at, out = _HEADER.size, list[bytes]()
    while at + _LENGTH.size <= len(part):
        (length,) = _LENGTH.unpack_from(part, at)
        at += _LENGTH.size + length
        out.append(part[at - length : at])
    if at != len(part) or len(out) != 1 + len(Held._fields):
        raise _truncated()
    return out


def _truncated() -> WireError:
    return WireError("the decisions of a window are truncated")
