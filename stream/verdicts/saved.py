"""Decisions as bytes: the rows of a window with what was decided, next to the signed documents of the window.

Every part is a magic number, the numbers of ``_HEADER`` and the columns of its rows, little-endian. The first five
numbers are the same in each part: the places that were given, the stream time, the first event time (microseconds,
``NO_TIME`` for none) and the pairs that were ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.bands_message import DECISIONS_MAGIC, WireError

_HEADER = struct.Struct("<8sqqqqq")
# Rows of a part: about 3 MB.
_ROWS = 1 << 16


class SavedRows(NamedTuple):
    """n rows in order of arrival; the columns are those of ``row_columns.Columns``, and ``removed`` is 1 or 0."""

    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint64]
    places: npt.NDArray[np.int64]
    clusters: npt.NDArray[np.int64]
    heads: npt.NDArray[np.int32]
    versions: npt.NDArray[np.uint32]
    similarities: npt.NDArray[np.float32]
    removed: npt.NDArray[np.uint32]


# The types of the columns, in their order.
_DTYPES = ("<i8", "<u8", "<u8", "<i8", "<i8", "<i4", "<u4", "<f4", "<u4")
_ROW_BYTES = sum(np.dtype(name).itemsize for name in _DTYPES)


class Saved(NamedTuple):
    """What continues decisions: ``places`` is how many places were given, the others are those of the state."""

    rows: SavedRows
    places: int
    stream_time: int
    first_time: int
    ignored: int


def encode(saved: Saved) -> Iterator[bytes]:
    """Decisions as parts, at least one."""
    count = len(saved.rows.times)
    for first in range(0, max(count, 1), _ROWS):
        rows: list[npt.NDArray[Any]] = [column[first : first + _ROWS] for column in saved.rows]
        columns = [column.astype(name, copy=False).tobytes() for column, name in zip(rows, _DTYPES, strict=True)]
        yield _HEADER.pack(DECISIONS_MAGIC, *saved[1:], len(rows[0])) + b"".join(columns)


def decode(parts: Sequence[bytes]) -> Saved:
    """The decisions that parts hold, at least one. Raises ``WireError`` if one is truncated."""
    decoded = [_rows(part) for part in parts]
    _, places, stream_time, first_time, ignored, _ = _HEADER.unpack_from(parts[-1])
    rows = SavedRows._make(map(np.concatenate, zip(*decoded, strict=True)))
    return Saved(rows, places, stream_time, first_time, ignored)


def _rows(part: bytes) -> list[npt.NDArray[Any]]:
    count = _HEADER.unpack_from(part)[-1] if len(part) >= _HEADER.size else -1
    if len(part) != _HEADER.size + count * _ROW_BYTES:
        raise WireError("the decisions of a window are truncated")
    at, columns = _HEADER.size, list[npt.NDArray[Any]]()
    for name in _DTYPES:
        columns.append(np.frombuffer(part, name, count, at))
        at += columns[-1].nbytes
    return columns
