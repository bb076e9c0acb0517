"""The progress of each partition of ``bands`` in each partition of ``documents``, and the links that are still needed.

Theory of operation. ``known[p, s]`` is the offset up to which partition p of ``bands`` has processed partition s of
``documents``; -1 before anything is known. The *watermark* of s is the minimum of column s: all pairs of earlier
documents are in ``links``.

- A matcher's progress is (s, first, end). It joins if ``first`` is at most ``known[p, s]``, and sets ``known[p, s]`` to
  ``end``. Decided offsets count as known for every p, also after a restart.
- Progress that does not join waits. If ``known[p, s]`` is not -1, the offsets between ``known[p, s]`` and ``first`` are
  a *hole*: no readable record reports that they were matched. Only with ``allow_gap`` does the linker continue beyond a
  hole.
- For each document and each p, the record of ``links`` by which p has passed the document is stored until the document
  is decided. Pairs after this record do not count for the document. So a verdict does not depend on how far ``links``
  is read.
- A record of ``links`` is *held* until all its progress and both documents of all its pairs are decided. A restart
  reads a partition from its oldest held record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.workers.topics.links import LinkMessage
from neardup.workers.topics.places import offsets_of, partitions_of

_END = itemgetter(0)
_Longs = npt.NDArray[np.int64]


class _Held(NamedTuple):
    """A record of ``links``, and the offsets up to which partitions of ``documents`` must be decided before it is
    released."""

    offset: int
    partitions: _Longs
    ends: _Longs


class Hole(NamedTuple):
    """Offsets of a partition of ``documents`` that a partition of ``bands`` did not report as processed."""

    bands: int
    partition: int
    first: int
    end: int


class Watermarks:
    """Progress of the partitions of ``bands``; see the module."""

    def __init__(self, partitions: int, *, allow_gap: bool) -> None:
        self._allow_gap = allow_gap
        self._known: _Longs = np.full((partitions, 0), -1)
        self._waiting: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._passed: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (end, offset of the record), ascending
        self._held: list[deque[_Held]] = [deque() for _ in range(partitions)]
        self.gaps: list[Hole] = []  # accepted holes

    def add(self, bands: int, offset: int, message: LinkMessage, decided: _Longs) -> None:
        """Add a record of ``links``; ``decided[s]`` is the end of the decided offsets of s, -1 if unknown."""
        links, progress = message
        for partition, first, end in progress.tolist():
            self._waiting.setdefault((bands, partition), []).append((first, end))
            self._passed.setdefault((bands, partition), []).append((end, offset))
        self._join(decided, [(bands, partition) for partition in progress[:, 0].tolist()])
        sides = np.concatenate([links.ones, links.others])
        partitions = np.concatenate([progress[:, 0], partitions_of(sides)])
        ends = np.concatenate([progress[:, 2], offsets_of(sides) + 1])
        distinct, at = np.unique(partitions, return_inverse=True)
        most = np.zeros(len(distinct), np.int64)
        np.maximum.at(most, at, ends)
        self._held[bands].append(_Held(offset, distinct, most))

    def settle(self, decided: _Longs) -> None:
        """Apply new decisions: progress may join, and held records may be released."""
        self._join(decided, list(self._waiting))
        for held in self._held:
            while held and _is_past(held[0], decided):
                held.popleft()
        for (_, partition), passed in self._passed.items():
            if partition < len(decided):
                del passed[: bisect_right(passed, int(decided[partition]), key=_END)]

    def passed_at(self, bands: int, partition: int, offset: int) -> int:
        """Return the offset of the record of ``links`` by which a partition of ``bands`` has passed a document, -1 if
        it has not passed it."""
        passed = self._passed.get((bands, partition), [])
        at = bisect_right(passed, offset, key=_END)
        return passed[at][1] if at < len(passed) else -1

    def starts(self, positions: dict[int, int], decided: _Longs) -> dict[int, int]:
        """Return where a restart reads each partition of ``links``; ``positions`` are the positions of the reader."""
        return {
            bands: next((held.offset for held in self._held[bands] if not _is_past(held, decided)), at)
            for bands, at in positions.items()
        }

    def watermark(self, decided: _Longs) -> _Longs:
        """Return for each s the offset up to which every partition of ``bands`` has processed it, -1 if unknown."""
        self._grow(len(decided))
        known = self._known[:, : len(decided)]
        return np.asarray(np.where(known < 0, decided, known).min(axis=0))

    def ahead(self, watermark: _Longs) -> _Longs:
        """Return how many documents each partition of ``bands`` is ahead of the watermark, ``int64[p]``."""
        known = self._known[:, : len(watermark)]
        return np.asarray(np.where(known < 0, 0, known - watermark).sum(axis=1))

    def has_passed(self, bands: int, place: tuple[int, int], decided: _Longs) -> bool:
        """Whether a partition of ``bands`` has processed this offset of this partition of ``documents``."""
        return self._reached(bands, place[0], decided) > place[1]

    def slowest(self, partition: int) -> int:
        """Return the partition of ``bands`` that has processed least of this partition of ``documents``."""
        return int(self._known[:, partition].argmin()) if partition < self._known.shape[1] else 0

    def holes(self, decided: _Longs) -> list[Hole]:
        """Return the holes that hold back verdicts."""
        found = []
        for (bands, partition), entries in self._waiting.items():
            known = self._reached(bands, partition, decided)
            if entries and known >= 0:
                found.append(Hole(bands, partition, known, min(entries)[0]))
        return found

    def _reached(self, bands: int, partition: int, decided: _Longs) -> int:
        self._grow(partition + 1)
        known = int(self._known[bands, partition])
        return max(known, int(decided[partition]) if partition < len(decided) else -1)

    def _join(self, decided: _Longs, places: list[tuple[int, int]]) -> None:
        for bands, partition in places:
            known = self._reached(bands, partition, decided)
            if known < 0:
                continue
            waiting = []
            for first, end in sorted(self._waiting.pop((bands, partition), [])):
                if first > known and self._allow_gap:
                    self.gaps.append(Hole(bands, partition, known, first))
                    known = first
                if first <= known:
                    known = max(known, end)
                else:
                    waiting.append((first, end))
            self._known[bands, partition] = known
            if waiting:
                self._waiting[bands, partition] = waiting

    def _grow(self, partitions: int) -> None:
        missing = partitions - self._known.shape[1]
        if missing > 0:
            self._known = np.concatenate([self._known, np.full((len(self._known), missing), -1)], axis=1)


def _is_past(held: _Held, decided: _Longs) -> bool:
    inside = held.partitions < len(decided)
    return bool(inside.all()) and bool((decided[held.partitions] >= held.ends).all())
