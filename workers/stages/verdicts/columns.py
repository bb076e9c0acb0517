"""Columns of the decided documents that ``neardup.stream.verdicts.decisions`` does not hold: rows by place, ids and
ranks.

Rows are numbered in order of arrival, as in ``neardup.stream.verdicts.decisions``. Both structures append at the new
end, release the old end with the window, and truncate the new end when a step is undone.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from neardup.stream.verdicts.representatives import NO_RANK
from neardup.workers.topics.places import offsets_of, partitions_of

# Ids are kept in chunks of at least this many rows: a smaller chunk would cost more than its ids.
_CHUNK_ROWS = 4_096
_Longs = npt.NDArray[np.int64]


class _Lane:
    """The rows of one partition of ``documents``: offsets and numbers, both ascending."""

    def __init__(self) -> None:
        self.offsets: _Longs = np.empty(64, np.int64)
        self.numbers: _Longs = np.empty(64, np.int64)
        self.start = self.end = 0

    def add(self, offsets: _Longs, numbers: _Longs) -> None:
        count, live = len(offsets), self.end - self.start
        if self.end + count > len(self.offsets):
            size = max(64, 2 * (live + count))
            for name in ("offsets", "numbers"):
                grown = np.empty(size, np.int64)
                grown[:live] = getattr(self, name)[self.start : self.end]
                setattr(self, name, grown)
            self.start, self.end = 0, live
        self.offsets[self.end : self.end + count] = offsets
        self.numbers[self.end : self.end + count] = numbers
        self.end += count

    def find(self, offsets: _Longs) -> _Longs:
        live = self.offsets[self.start : self.end]
        at = np.searchsorted(live, offsets)
        found = at < len(live)
        found[found] = live[at[found]] == offsets[found]
        out = np.full(len(offsets), -1)
        out[found] = self.numbers[self.start + at[found]]
        return out


class RowsByPlace:
    """Place -> number of the row, 16 bytes a document."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}

    def add(self, places: _Longs, numbers: _Longs) -> None:
        """Add rows in order; within a partition, offsets ascend."""
        partitions = partitions_of(places)
        for partition in np.unique(partitions).tolist():
            rows = partitions == partition
            self._lanes.setdefault(partition, _Lane()).add(offsets_of(places[rows]), numbers[rows])

    def find(self, places: _Longs) -> _Longs:
        """Return the number of each place, -1 for a place without a row in the window."""
        out, partitions = np.full(len(places), -1), partitions_of(places)
        for partition in np.unique(partitions).tolist():
            rows = partitions == partition
            if partition in self._lanes:
                out[rows] = self._lanes[partition].find(offsets_of(places[rows]))
        return out

    def cut(self, end: int) -> None:
        """Remove the rows from number ``end`` on."""
        for lane in self._lanes.values():
            lane.end = lane.start + int(np.searchsorted(lane.numbers[lane.start : lane.end], end))

    def release(self, first: int) -> None:
        """Release the rows below number ``first``."""
        for lane in self._lanes.values():
            lane.start += int(np.searchsorted(lane.numbers[lane.start : lane.end], first))


class _Chunk:
    """Ids of consecutive rows, and their ranks if one of the rows has a rank."""

    def __init__(
        self, first: int, ids: npt.NDArray[np.uint8], starts: _Longs, ranks: npt.NDArray[np.float64] | None
    ) -> None:
        self.first, self.ids, self.starts, self.ranks = first, ids, starts, ranks

    @property
    def end(self) -> int:
        return self.first + len(self.starts) - 1


class NamesByRow:
    """Number of the row -> id and rank; the memory is the bytes of the id, eight more for each document, and eight for
    each rank."""

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []

    def add(self, first: int, ids: npt.NDArray[np.uint8], starts: _Longs, ranks: npt.NDArray[np.float64]) -> None:
        """Add the ids and ranks of rows from number ``first`` on."""
        known = None if np.isnan(ranks).all() else ranks
        if self._chunks and len(self._chunks[-1].starts) < _CHUNK_ROWS:
            last = self._chunks[-1]
            assert last.end == first, "rows are added in order"
            if last.ranks is not None or known is not None:
                before = np.full(last.end - last.first, NO_RANK) if last.ranks is None else last.ranks
                last.ranks = np.concatenate([before, ranks])
            last.ids, last.starts = (
                np.concatenate([last.ids, ids]),
                np.concatenate([last.starts, last.starts[-1] + starts[1:]]),
            )
        else:
            self._chunks.append(_Chunk(first, ids, starts, known))

    def get(self, numbers: list[int]) -> tuple[list[bytes | None], npt.NDArray[np.float64]]:
        """Return the ids and the ranks of rows in the window: ``None`` and ``NO_RANK`` for a number below 0."""
        firsts = [chunk.first for chunk in self._chunks]
        ids: list[bytes | None] = []
        ranks = np.full(len(numbers), NO_RANK)
        for n, number in enumerate(numbers):
            if number < 0:
                ids.append(None)
                continue
            chunk = self._chunks[bisect_right(firsts, number) - 1]
            at = number - chunk.first
            ids.append(chunk.ids[chunk.starts[at] : chunk.starts[at + 1]].tobytes())
            if chunk.ranks is not None:
                ranks[n] = chunk.ranks[at]
        return ids, ranks

    def cut(self, end: int) -> None:
        """Remove the rows from number ``end`` on."""
        while self._chunks and self._chunks[-1].first >= end:
            self._chunks.pop()
        if self._chunks and self._chunks[-1].end > end:
            last = self._chunks[-1]
            last.starts = last.starts[: end - last.first + 1]
            last.ids = last.ids[: last.starts[-1]]
            last.ranks = None if last.ranks is None else last.ranks[: end - last.first]

    def release(self, first: int) -> None:
        """Release the rows below number ``first``."""
        gone = 0
        while gone < len(self._chunks) and self._chunks[gone].end <= first:
            gone += 1
        del self._chunks[:gone]
