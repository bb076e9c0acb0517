"""The progress of each shard in ``signed``, and the records of ``links`` that are still needed.

Theory of operation. ``known[s]`` is the position in ``signed`` up to which shard s has published; before anything is
known, the position up to which everything is decided. The *watermark* is the minimum: all pairs of earlier rows are in
``links``.

- The progress of a shard is (first, end). It joins if ``first`` is at most ``known[s]``, and sets ``known[s]`` to
  ``end``.
- Progress that does not join leaves a *hole*: no readable record reports that the rows between were matched. Only with
  ``allow_gap`` does the linker continue beyond a hole.
- A record of ``links`` is *held* until all rows up to the end of its step are decided: a pair counts for the row that
  arrived later, so no later row needs the record. A restart reads a partition from its oldest held record.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from neardup_workers.outside.topics.links import NO_PROGRESS

# The end of a step whose last record is not read yet.
_OPEN = 1 << 62


class _Held(NamedTuple):
    """A record of ``links``, its number of pairs, and the end of its step."""

    offset: int
    pairs: int
    end: int


class Hole(NamedTuple):
    """Positions in ``signed`` between which a shard did not report the rows as matched."""

    shard: int
    first: int
    end: int


class Watermarks:
    """Progress of the shards; see the module. ``decided`` is the position up to which all rows are decided."""

    def __init__(self, shards: int, decided: int, *, allow_gap: bool) -> None:
        self._allow_gap = allow_gap
        self._decided, self._known = decided, [decided] * shards
        self._held: list[deque[_Held]] = [deque() for _ in range(shards)]
        self._pairs = [0] * shards  # of the held records
        self.gaps: list[Hole] = []  # accepted holes
        self.holes: list[Hole] = []  # others

    def add(self, shard: int, offset: int, pairs: int, first: int, end: int) -> None:
        """Add a record of ``links``: its number of pairs and its progress."""
        held = self._held[shard]
        self._pairs[shard] += pairs
        held.append(_Held(offset, pairs, _OPEN))
        if end == NO_PROGRESS:
            return
        at = len(held) - 1
        while at >= 0 and held[at].end == _OPEN:
            held[at] = held[at]._replace(end=end)
            at -= 1
        known = self._known[shard]
        if first > known:
            (self.gaps if self._allow_gap else self.holes).append(Hole(shard, known, first))
        self._known[shard] = max(known, end)

    def grow(self, shards: int, position: int) -> None:
        """Wait for more shards, which publish from a position on: rows before it do not wait for them."""
        for _ in range(shards - len(self._known)):
            self._known.append(position)
            self._held.append(deque())
            self._pairs.append(0)

    def settle(self, decided: int) -> None:
        """Apply new decisions: held records may be released."""
        self._decided = decided
        for shard, held in enumerate(self._held):
            while held and held[0].end <= decided:
                self._pairs[shard] -= held.popleft().pairs
        self.gaps = [gap for gap in self.gaps if gap.end > decided]

    def starts(self, positions: dict[int, int], decided: int) -> dict[int, int]:
        """Return where a restart reads each partition of ``links``; ``positions`` are the positions of the reader."""
        return {
            shard: next((held.offset for held in self._held[shard] if held.end > decided), at)
            for shard, at in positions.items()
        }

    def watermark(self, pairs_max: int = _OPEN) -> int:
        """Return the position up to which every shard has published, or the end of the step of a matcher by which held
        records before it have more than ``pairs_max`` pairs."""
        reached = min(self._known)
        if sum(self._pairs) > pairs_max:
            read = ((one.end, one.pairs) for held in self._held for one in held)
            for end, pairs in sorted(one for one in read if self._decided < one[0] <= reached):
                pairs_max -= pairs
                if pairs_max < 0:
                    return end
        return reached

    def ahead(self, pairs_max: int, read: int) -> set[int]:
        """Return the shards that wait for others, and have passed all rows that are read (up to the position ``read``)
        or have more than so many pairs."""
        slowest = min(self._known)
        return {
            shard
            for shard, known in enumerate(self._known)
            if known > slowest and (known >= read or self._pairs[shard] > pairs_max)
        }

    def has_passed(self, shard: int, position: int) -> bool:
        """Whether a shard has published the row at a position."""
        return self._known[shard] > position
