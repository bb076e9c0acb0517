"""Columns of the decided documents that ``neardup.stories.verdicts.decisions`` does not hold: rows by place, their
messages in ``signed``, ids and ranks.

Rows are numbered in order of arrival, as in ``neardup.stories.verdicts.decisions``. Both structures append at the new
end, release the old end with the window, and truncate the new end when a step is undone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from neardup.stories.sources.representatives import NO_RANK
from neardup_workers.outside.topics.places import offsets_of, partitions_of, places_of
from neardup_workers.outside.topics.signed import ROW_BITS

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
        at = _found(self.offsets[self.start : self.end], offsets)
        out = np.full(len(offsets), -1)
        out[at >= 0] = self.numbers[self.start + at[at >= 0]]
        return out

    def before(self, number: int) -> int:
        """Return how many rows have a lower number."""
        return int(np.searchsorted(self.numbers[self.start : self.end], number))

    def cut(self, end: int) -> None:
        """Remove the rows from number ``end`` on."""
        self.end = self.start + self.before(end)

    def select(self, kept: npt.NDArray[np.bool_]) -> None:
        self.offsets, self.numbers = (
            array[self.start : self.end][kept] for array in (self.offsets, self.numbers)
        )  # fmt: skip
        self.start, self.end = 0, len(self.offsets)


def _found(live: _Longs, sought: _Longs) -> _Longs:
    """Return the positions of numbers among ascending ones, -1 for those that are not there."""
    at = np.searchsorted(live, sought)
    is_live = at < len(live)
    is_live[is_live] = live[at[is_live]] == sought[is_live]
    return np.where(is_live, at, -1)


class RowsByPlace:
    """Place -> number of the row, and back, 16 bytes a document. A place that the window still names stays when its
    row has left."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._left = 0  # rows that stayed when the last ones were released

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

    def places(self, numbers: _Longs) -> _Longs:
        """Return the places of rows, -1 for those that are not kept."""
        out, left = np.full(len(numbers), -1), np.arange(len(numbers))
        for partition, lane in self._lanes.items():
            at = _found(lane.numbers[lane.start : lane.end], numbers[left])
            offsets = lane.offsets[lane.start + at[at >= 0]]
            out[left[at >= 0]] = places_of(np.full(len(offsets), partition), offsets)
            left = left[at < 0]
        return out

    def cut(self, end: int) -> None:
        """Remove the rows from number ``end`` on."""
        for lane in self._lanes.values():
            lane.cut(end)

    def release(self, first: int, named: Callable[[], _Longs]) -> None:
        """Release the rows below number ``first`` that are not among ``named()``, when they are many."""
        live = sum(lane.end - lane.start for lane in self._lanes.values())
        if sum(lane.before(first) for lane in self._lanes.values()) - self._left <= max(_CHUNK_ROWS, live // 4):
            return
        kept = named()
        for lane in self._lanes.values():
            numbers = lane.numbers[lane.start : lane.end]
            lane.select((numbers >= first) | np.isin(numbers, kept))
        self._left = sum(lane.before(first) for lane in self._lanes.values())


class MessagesByRow:
    """Number of the row -> where its evidence stands: the position of its message in ``signed``, plus its index among
    the documents there. 16 bytes a message: a run of rows of one message is one entry."""

    def __init__(self) -> None:
        self._lane = _Lane()

    @property
    def last(self) -> int:
        """The number of the first row of the last run, -1 for none."""
        lane = self._lane
        return int(lane.numbers[lane.end - 1]) if lane.end > lane.start else -1

    @property
    def oldest(self) -> int:
        """The offset of the message of the first run, 0 for none."""
        lane = self._lane
        return int(lane.offsets[lane.start]) >> ROW_BITS if lane.end > lane.start else 0

    def add(self, numbers: _Longs, positions: _Longs) -> None:
        """Add rows and where their evidence stands; both ascend."""
        begins = np.ones(len(numbers), np.bool_)
        begins[1:] = (np.diff(numbers) != 1) | (np.diff(positions) != 1)
        self._lane.add(positions[begins], numbers[begins])

    def find(self, numbers: _Longs) -> _Longs:
        """Return where the evidence of rows stands, -1 for rows before all that are known."""
        lane = self._lane
        firsts = lane.numbers[lane.start : lane.end]
        at = np.searchsorted(firsts, numbers, "right") - 1
        known = at >= 0
        out = np.full(len(numbers), -1)
        out[known] = lane.offsets[lane.start + at[known]] + numbers[known] - firsts[at[known]]
        return out

    def cut(self, end: int) -> None:
        """Remove the rows from number ``end`` on."""
        self._lane.cut(end)

    def release(self, first: int) -> None:
        """Release the runs before that of the row ``first``."""
        lane = self._lane
        at = int(np.searchsorted(lane.numbers[lane.start : lane.end], first, "right")) - 1
        lane.start += max(0, at)


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

    def get(self, numbers: _Longs) -> tuple[list[bytes | None], npt.NDArray[np.float64]]:
        """Return the ids and the ranks of rows in the window: ``None`` and ``NO_RANK`` for a number below 0."""
        ids: list[bytes | None] = [None] * len(numbers)
        ranks = np.full(len(numbers), NO_RANK)
        rows = np.flatnonzero(numbers >= 0)
        chunks = np.searchsorted([chunk.first for chunk in self._chunks], numbers[rows], "right") - 1
        for k in np.unique(chunks).tolist():
            chunk, of_chunk = self._chunks[k], rows[chunks == k]
            at = numbers[of_chunk] - chunk.first
            bounds = zip(chunk.starts[at].tolist(), chunk.starts[at + 1].tolist(), strict=True)
            data = chunk.ids.data
            for n, (first, end) in zip(of_chunk.tolist(), bounds, strict=True):
                ids[n] = bytes(data[first:end])
            if chunk.ranks is not None:
                ranks[of_chunk] = chunk.ranks[at]
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
