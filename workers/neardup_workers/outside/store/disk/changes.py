"""The file of changes (WAL) that a killed process has left, checked before SQLite reads it.

Theory of operation. SQLite goes on from the changes that it finds, up to the first one with a wrong checksum: that one
it takes for the last, half written. So a flipped bit would lose every later commit without a word. What was committed
says the index next to the file (``-shm``), a part of the memory of the processes: it is right as long as the machine
has not started again. *After a loss of power SQLite is right*: a change that has not reached the disk may stand before
one that has.

The checksum of a change goes on from that of the change before, as s = s + t + x, t = t + s + y for each two numbers x
and y. That is linear, so a product of matrices computes those of many changes, each from the stored one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

WAL_HEADER, FRAME_HEADER = 32, 24
# Changes that are read together.
CHUNK = 256
# The header of the index, which is there twice: the offsets of its numbers.
_INDEX, _INDEX_BYTES, _CHANGES, _SALTS = 3_007_000, 48, slice(16, 20), slice(32, 40)
# First bytes of pages of trees that name other pages.
INTERIOR = (b"\x02", b"\x05")

_Numbers = npt.NDArray[np.uint32]


class Changes:
    """The changes of a database with pages of so many bytes. ``knows_boot``: the machine has not started again since a
    process wrote them. ``damaged`` is what is wrong: numbers of changes from 1 on, 0 for the head of the file."""

    def __init__(self, path: Path, page_bytes: int, *, knows_boot: bool) -> None:
        self._wal, self._size = path.with_name(f"{path.name}-wal"), FRAME_HEADER + page_bytes
        head, count = _bytes_of(self._wal, WAL_HEADER), 0
        with suppress(OSError):
            count = max(self._wal.stat().st_size - WAL_HEADER, 0) // self._size
        self._pages, self._is_sound = np.zeros(count, np.int64), np.zeros(0, np.bool_)
        self.damaged: list[int] = []
        if not count:
            return
        committed, begun = _committed(path) if knows_boot else (0, b"")
        order = ">u4" if head[3] & 1 else "<u4"
        is_head_sound = bool((_sums(head[None, :24], order, np.zeros((1, 2), np.uint32)) == _stored(head[24:])).all())
        own = head[16:24].tobytes()
        if not committed or (is_head_sound and begun != own):  # no index, or one of other changes
            committed, begun = 0, own
        is_sound, is_end, names = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.frombuffer(begun, np.uint8)
        before = _stored(head[24:])
        for at, frames in self._parts():
            stored = _stored(frames[:, 16:24])
            content = np.concatenate([frames[:, :8], frames[:, FRAME_HEADER:]], axis=1)
            found = _sums(content, order, np.concatenate([before, stored[:-1]]))
            there = slice(at, at + len(frames))
            is_sound[there] = (found == stored).all(axis=1) & (frames[:, 8:16] == names).all(axis=1)
            is_end[there] = frames[:, 4:8].any(axis=1)
            self._pages[there] = frames[:, :4].copy().view(">u4").ravel().astype(np.int64) - 1
            before = stored[-1:]
        if not committed and is_head_sound:
            ends = np.flatnonzero(np.logical_and.accumulate(is_sound) & is_end)
            committed = int(ends[-1]) + 1 if len(ends) else 0
        self._is_sound = is_sound[:committed]
        wrong = (np.flatnonzero(~self._is_sound) + 1).tolist()
        self.damaged = [0] * (bool(committed) and not is_head_sound) + wrong + [committed] * (committed > count)

    @property
    def pages(self) -> npt.NDArray[np.int64]:
        """The pages, counted from 0, that were committed: one of each change."""
        return self._pages[: len(self._is_sound)]

    def _parts(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Yield changes, some at a time: the number of the first one, and the bytes of each."""
        for at in range(0, len(self._pages), CHUNK):
            data = _bytes_of(self._wal, CHUNK * self._size, WAL_HEADER + at * self._size)
            yield at, data[: len(data) // self._size * self._size].reshape(-1, self._size)

    def apply(self, file: IO[bytes]) -> None:
        """Write what was committed to a copy of the database; zeros for a damaged page that leads to no others."""
        size, pages = self._size - FRAME_HEADER, self.pages
        end = file.seek(0, 2) // size + len(pages)
        for at, frames in self._parts():
            for page, frame, is_sound in zip(
                pages[at : at + CHUNK].tolist(), frames, self._is_sound[at : at + CHUNK].tolist(), strict=False
            ):
                if 0 <= page < end:
                    file.seek(page * size)
                    keeps = is_sound or frame[FRAME_HEADER : FRAME_HEADER + 1].tobytes() in INTERIOR
                    file.write(frame[FRAME_HEADER:].tobytes() if keeps else bytes(size))


def _bytes_of(path: Path, count: int, first: int = 0) -> npt.NDArray[np.uint8]:
    """Return some bytes of a file, fewer at its end; none if it cannot be read."""
    with suppress(OSError):
        return np.fromfile(path, np.uint8, count, offset=first)
    return np.empty(0, np.uint8)


def _committed(path: Path) -> tuple[int, bytes]:
    """Return how many changes were committed, and the numbers that name their file; 0 if that is not known."""
    data = _bytes_of(path.with_name(f"{path.name}-shm"), 2 * _INDEX_BYTES).tobytes()
    first, second = data[:_INDEX_BYTES], data[_INDEX_BYTES:]
    if first != second or int(np.frombuffer(first[:4].ljust(4), "=u4")[0]) != _INDEX:
        return 0, b""
    return int(np.frombuffer(first[_CHANGES], "=u4")[0]), first[_SALTS]


def _stored(data: npt.NDArray[np.uint8]) -> _Numbers:
    """Return stored checksums, of two numbers each."""
    return data.copy().view(">u4").astype(np.uint32).reshape(-1, 2)


def _sums(content: npt.NDArray[np.uint8], order: str, before: _Numbers) -> _Numbers:
    """Return the checksums of rows of bytes, each of which goes on from another one."""
    numbers = np.ascontiguousarray(content).view(order).astype(np.uint32)
    step, power = np.array([[1, 1], [1, 2]], np.uint32), np.eye(2, dtype=np.uint32)
    weights = np.empty((numbers.shape[1], 2), np.uint32)
    for at in range(numbers.shape[1] - 2, -1, -2):
        weights[at], weights[at + 1] = power @ np.array([1, 1], np.uint32), power[:, 1]
        power = power @ step
    return before @ power.T + numbers @ weights
