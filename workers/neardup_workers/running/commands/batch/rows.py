"""Signed documents of a corpus in files of a folder, one for each column: appended in order, read by row number.

The batch reads columns by row, a few thousand rows at a time. The files are mapped into memory, so the process holds no
copy of the corpus: the system can reclaim their pages at any time.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from neardup.documents.ids import bare_ids, collections_of
from neardup.pairs.batches import Batch, make_batch
from neardup.schemes.interface import Evidence

# Column -> its dtype; columns whose names end in "ends" hold the ends of the bytes of rows.
_COLUMNS: dict[str, str] = {
    "times": "<i8", "contents": "<u8", "fixed": "u1", "ragged": "u1", "ragged_ends": "<i8", "ids": "u1",
    "id_ends": "<i8",
}  # fmt: skip
Rows = npt.NDArray[np.int64]


class RowFiles:
    """The columns of n documents; ``append`` until ``seal``, then read. ``width`` is the width of the fixed evidence;
    ``separate``: the ids of batches are full ids (``neardup.documents.ids``)."""

    def __init__(self, folder: Path, width: int, *, separate: bool) -> None:
        self._folder, self._width, self._separate = folder, width, separate
        self._files: dict[str, IO[bytes]] = {name: (folder / name).open("wb") for name in _COLUMNS}  # closed by seal
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._ends = {"ids": 0, "ragged": 0}
        self.count = 0

    def append(self, batch: Batch) -> None:
        """Add the documents of a batch, in their order."""
        columns = {
            "times": batch.times, "contents": batch.contents, "fixed": batch.fixed, "ragged": batch.ragged,
            "ragged_ends": self._ends["ragged"] + batch.ragged_starts[1:], "ids": batch.ids,
            "id_ends": self._ends["ids"] + batch.id_starts[1:],
        }  # fmt: skip
        for name, column in columns.items():
            self._files[name].write(np.ascontiguousarray(column, _COLUMNS[name]).tobytes())
        self._ends["ids"] += len(batch.ids)
        self._ends["ragged"] += len(batch.ragged)
        self.count += batch.size

    def seal(self) -> None:
        """End the writing; the rows can then be read."""
        for file in self._files.values():
            file.close()
        for name, dtype in _COLUMNS.items():
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

    def times(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Event times in microseconds, ``NO_TIME`` for none, ``int64[m]``."""
        return np.asarray(self._columns["times"][rows])

    def contents(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """The hashes of contents, ``uint64[m, 2]``."""
        return np.asarray(self._columns["contents"].reshape(self.count, 2)[rows])

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

    def batch(self, rows: Rows) -> Batch:
        """Rows as a batch, in their order."""
        ids, id_starts = self._ragged("ids", "id_ends", rows)
        return make_batch(ids, id_starts, self.times(rows), self.contents(rows), self.evidence(rows))

    def _bounds(self, ends: str, rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        column = self._columns[ends]
        if not len(rows):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.where(rows > 0, column[rows - 1], 0), column[rows]

    def _ragged(self, data: str, ends: str, rows: Rows) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        column = self._columns[data]
        first, last = self._bounds(ends, rows)
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(last - first, out=starts[1:])
        parts = [column[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)] if starts[-1] else []
        return np.concatenate([np.empty(0, np.uint8), *parts]), starts
