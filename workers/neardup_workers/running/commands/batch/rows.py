"""Columns of a corpus in files of a folder: appended in order, then read by row number.

The batch reads columns by row, a few thousand rows at a time. The files are mapped into memory, so the process holds no
copy of the corpus: the system can reclaim their pages at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from neardup.documents.ids import bare_ids, collections_of
from neardup.pairs.batches import Batch, make_batch
from neardup.schemes.interface import Evidence
from neardup_workers.outside.process.exits import Exit, Failure

# Column -> its dtype; columns whose names end in "ends" hold the ends of the bytes of rows.
_COLUMNS: dict[str, str] = {
    "times": "<i8", "contents": "<u8", "fixed": "u1", "ragged": "u1", "ragged_ends": "<i8", "ids": "u1",
    "id_ends": "<i8",
}  # fmt: skip
Rows = npt.NDArray[np.int64]
# Rows read at a time.
ROWS = 4096


def spans(count: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive parts of ``count`` rows: the first row, and the row after the last."""
    return pairwise([*range(0, count, ROWS), count])


def no_room(error: OSError) -> Failure:
    """Return the failure for a temporary folder that takes no more."""
    return Failure(Exit.OUTPUT, f"cannot write to the temporary folder: {error.strerror}")


class ColumnFiles:
    """Columns of numbers, a file each: ``append`` until ``seal``, then read by name. ``dtypes`` has them by name.

    Raises ``Failure`` if the folder takes no more.
    """

    def __init__(self, folder: Path, dtypes: Mapping[str, str]) -> None:
        self._folder, self._dtypes = folder, dtypes
        self._columns: dict[str, npt.NDArray[Any]] = {}
        try:
            folder.mkdir(exist_ok=True)
            self._files: dict[str, IO[bytes]] = {name: (folder / name).open("wb") for name in dtypes}  # closed by seal
        except OSError as error:
            raise no_room(error) from None

    def append(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add the next rows of all columns."""
        try:
            for name, column in columns.items():
                self._files[name].write(np.ascontiguousarray(column, self._dtypes[name]).tobytes())
        except OSError as error:
            raise no_room(error) from None

    def seal(self) -> None:
        """End the writing; the columns can then be read."""
        try:
            for file in self._files.values():
                file.close()
        except OSError as error:
            raise no_room(error) from None
        for name, dtype in self._dtypes.items():
            path = self._folder / name
            empty = path.stat().st_size == 0  # an empty file cannot be mapped
            column = np.empty(0, dtype) if empty else np.asarray(np.memmap(path, dtype, "r"))
            column.flags.writeable = False
            self._columns[name] = column

    def close(self) -> None:
        """Close files and release the maps, so that the folder can be removed."""
        for file in self._files.values():
            file.close()
        self._columns.clear()

    def read(self, name: str, first: int, end: int) -> npt.NDArray[Any]:
        """Return numbers of a column as a copy, so that a reading from end to end fills no memory with the file."""
        dtype = np.dtype(self._dtypes[name])
        return np.fromfile(self._folder / name, dtype, end - first, offset=first * dtype.itemsize)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._columns[name]


class RowFiles:
    """The columns of n signed documents; ``append`` until ``seal``, then read. ``width`` is the width of the fixed
    evidence; ``separate``: the ids of batches are full ids (``neardup.documents.ids``)."""

    def __init__(self, folder: Path, width: int, *, separate: bool) -> None:
        self._width, self._separate = width, separate
        self._columns = ColumnFiles(folder, _COLUMNS)
        self._ends = {"ids": 0, "ragged": 0}
        self.count = 0

    def append(self, batch: Batch) -> None:
        """Add the documents of a batch, in their order."""
        self._columns.append({
            "times": batch.times, "contents": batch.contents, "fixed": batch.fixed, "ragged": batch.ragged,
            "ragged_ends": self._ends["ragged"] + batch.ragged_starts[1:], "ids": batch.ids,
            "id_ends": self._ends["ids"] + batch.id_starts[1:],
        })  # fmt: skip
        self._ends["ids"] += len(batch.ids)
        self._ends["ragged"] += len(batch.ragged)
        self.count += batch.size

    def seal(self) -> None:
        """End the writing; the rows can then be read."""
        self._columns.seal()

    def close(self) -> None:
        """Close files and release the maps, so that the folder can be removed."""
        self._columns.close()

    def times(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Event times in microseconds, ``NO_TIME`` for none, ``int64[m]``."""
        return np.asarray(self._columns["times"][rows])

    def contents(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """The hashes of contents, ``uint64[m, 2]``."""
        return np.asarray(self._columns["contents"].reshape(self.count, 2)[rows])

    def equal(self, rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
        """Return which pairs of rows have equal contents, ``bool[m]``."""
        return np.asarray((self.contents(rows) == self.contents(others)).all(axis=1))

    def id_bytes(self, rows: Rows) -> list[bytes]:
        """The ids of rows in UTF-8, full ids if there are collections."""
        data, starts = self._ragged("ids", "id_ends", rows)
        text = data.tobytes()
        return [text[a:b] for a, b in pairwise(starts.tolist())]

    def ids(self, rows: Rows) -> list[str]:
        """The ids of rows, without their collections."""
        ids = [id_.decode() for id_ in self.id_bytes(rows)]
        return bare_ids(ids) if self._separate else ids

    def collections(self, rows: Rows) -> list[str | None] | None:
        """The collections of rows, if there are any."""
        return collections_of(id_.decode() for id_ in self.id_bytes(rows)) if self._separate else None

    def evidence(self, rows: Rows) -> Evidence:
        """The evidence of rows, in their order."""
        fixed = self._columns["fixed"].reshape(self.count, self._width)[rows]
        return Evidence(fixed, *self._ragged("ragged", "ragged_ends", rows))

    def evidence_bytes(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the number of bytes of the evidence of each row, ``int64[m]``."""
        starts, ends = self._bounds("ragged_ends", rows)
        return np.asarray(self._width + ends - starts)

    def between(self, first: int, end: int) -> Batch:
        """Rows from ``first`` up to ``end`` as a batch."""
        fixed, contents = (
            self._columns.read(name, first * width, end * width).reshape(end - first, width)
            for name, width in (("fixed", self._width), ("contents", 2))
        )
        evidence = Evidence(fixed, *self._span("ragged", "ragged_ends", first, end))
        times = self._columns.read("times", first, end)
        return make_batch(*self._span("ids", "id_ends", first, end), times, contents, evidence)

    def _bounds(self, ends: str, rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        column = self._columns[ends]
        if not len(rows):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.where(rows > 0, column[rows - 1], 0), column[rows]

    def _span(self, data: str, ends: str, first: int, end: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        bounds = self._columns[ends][max(first - 1, 0) : end].astype(np.int64)
        starts = bounds if first else np.concatenate([[0], bounds])
        return self._columns.read(data, int(starts[0]), int(starts[-1])), starts - starts[0]

    def _ragged(self, data: str, ends: str, rows: Rows) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        column = self._columns[data]
        first, last = self._bounds(ends, rows)
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(last - first, out=starts[1:])
        parts = [column[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)] if starts[-1] else []
        return np.concatenate([np.empty(0, np.uint8), *parts]), starts
