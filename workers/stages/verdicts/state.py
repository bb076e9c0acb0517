"""The state of a linker: waiting arrivals and pairs, and the decisions about the documents of the window.

Theory of operation. Arrivals wait in the order of their log. ``take`` returns the longest prefix that every partition
of ``bands`` has processed. ``decide`` decides it inside a step. ``commit`` or ``undo`` ends the step after its
transaction. The verdicts are a deterministic function of the logs of ``arrivals`` and ``links``; the division into
steps does not matter:

- A pair counts for the document that arrived later, and waits until both documents are decided. So a document is never
  a duplicate of a later arrival, in any order of the matcher's log.
- A pair is a pair of contents. While it waits, it also counts for the copies of its documents (``copies``): a matcher
  pairs only the newest copy.
- If both documents were decided before, the pair was used before a restart. It is dropped.
- A decided document without a row has left the window, or was signed before ``arrivals`` existed. Its pair is ignored
  and counted.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.batches import id_hashes
from neardup.stream.scheme_interface import select_ragged
from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.decisions import Arrivals, Decisions, Found, VerdictLimits, Verdicts
from neardup.stream.verdicts.restoring import Decided, members_before
from neardup.stream.verdicts.rule import DOCUMENT
from neardup.workers.stages.verdicts.columns import NamesByRow, RowsByPlace
from neardup.workers.stages.verdicts.copies import Pool, firsts, found_by_copies, join_found, join_pools, missed
from neardup.workers.stages.verdicts.watermarks import Hole, Watermarks
from neardup.workers.topics.arrivals import ArrivalRows, join_arrivals
from neardup.workers.topics.links import NO_LINKS, SIMILARITY_STEPS, Links
from neardup.workers.topics.places import offsets_of, partitions_of
from neardup.workers.topics.verdicts import DecidedRows, Decision

_Longs = npt.NDArray[np.int64]


class _Waiting(NamedTuple):
    """A record of ``arrivals`` with undecided rows."""

    offset: int
    rows: ArrivalRows
    timestamp_ms: int


class Taken(NamedTuple):
    """Arrivals that can be decided: the number of records that they complete, the number of rows of the next record,
    and for each record its time in milliseconds and its number of rows."""

    rows: ArrivalRows
    ended: int
    row: int
    arrived: list[tuple[int, int]]


class _Step(NamedTuple):
    """What ``undo`` restores, and what ``commit`` applies."""

    decided: _Longs
    pool: Pool
    ended: int  # records of arrivals
    row: int
    arrivals: int


class LinkState:
    """The state of one linker; see the module for the steps."""

    def __init__(self, limits: VerdictLimits, arrivals: int = 0, row: int = 0) -> None:
        self.decisions = Decisions(limits)
        self.arrivals = arrivals  # number of decided arrivals
        self.row = row  # decided rows of the first waiting record
        # By partition of ``documents``: the end of the decided offsets, -1 if unknown; and where they began here.
        self.decided: _Longs = np.empty(0, np.int64)
        self._began: _Longs = np.empty(0, np.int64)
        self.waiting: deque[_Waiting] = deque()
        self.undecided = 0
        self._pool = Pool(NO_LINKS, np.empty(0, np.int64), np.empty(0, np.int64))
        self._new_pairs: list[Pool] = []
        self._by_content = limits.by_content
        self._rows, self._names = RowsByPlace(), NamesByRow()
        self._step: _Step | None = None

    def restore(self, found: DecidedRows, stream_time: int, decided: dict[int, int]) -> None:
        """Start from earlier decisions: consecutive verdicts in order of arrival, and the decided end of each
        partition."""
        rows = found.rows
        counts = (rows.kinds == DOCUMENT) & ~found.late
        numbers = self.decisions.restore(
            _arrivals(rows),
            Decided(
                found.statuses, found.clusters, found.similarities, found.matched, found.equal, found.late,
                members_before(found.clusters, counts),
            ),
            stream_time,
        )  # fmt: skip
        self._add_rows(rows, numbers)
        self._know(max(decided, default=-1) + 1)
        for partition, offset in decided.items():
            self.decided[partition] = offset

    def add_arrivals(self, offset: int, rows: ArrivalRows, timestamp_ms: int) -> None:
        """Add the arrivals of a record. The first ``row`` rows of the first record are already decided."""
        skipped = 0 if self.waiting else self.row
        self.waiting.append(_Waiting(offset, rows, timestamp_ms))
        self.undecided += len(rows.places) - skipped
        partitions, firsts = np.unique(partitions_of(rows.places), return_index=True)
        self._know(int(partitions.max(initial=-1)) + 1)
        for partition, first in zip(partitions.tolist(), firsts.tolist(), strict=True):
            if self.decided[partition] < 0 and first >= skipped:
                self._began[partition] = self.decided[partition] = offsets_of(rows.places[first : first + 1])[0]

    def decided_offsets(self) -> dict[int, int]:
        """Return the end of the decided offsets of each partition of ``documents`` that has a verdict."""
        return {s: int(self.decided[s]) for s in np.flatnonzero(self.decided > self._began).tolist()}

    def add_pairs(self, bands: int, offset: int, links: Links) -> None:
        """Add the pairs of a record of ``links``."""
        count = len(links.ones)
        if count:
            self._new_pairs.append(Pool(links, np.full(count, bands), np.full(count, offset)))

    def next_place(self) -> tuple[int, int] | None:
        """Return partition and offset of the first arrival that waits."""
        if not self.waiting:
            return None
        place = self.waiting[0].rows.places[self.row : self.row + 1]
        return int(partitions_of(place)[0]), int(offsets_of(place)[0])

    def is_signed(self, hole: Hole) -> bool | None:
        """Whether arrivals lie in a hole; ``None`` until its arrivals, or later ones, have been read."""
        for waiting in self.waiting:
            places = waiting.rows.places
            later = (partitions_of(places) == hole.partition) & (offsets_of(places) >= hole.first)
            if later.any():
                return int(offsets_of(places)[later][0]) < hole.end
        return None

    def take(self, watermark: _Longs, rows_max: int) -> Taken | None:
        """Return the arrivals that can be decided, ``rows_max`` at most."""
        parts: list[ArrivalRows] = []
        arrived: list[tuple[int, int]] = []
        first, left, ended, row = self.row, rows_max, 0, 0
        for waiting in self.waiting:
            places = waiting.rows.places[first : first + left]
            ready = offsets_of(places) < watermark[partitions_of(places)]
            count = len(places) if ready.all() else int(ready.argmin())
            if count:
                parts.append(waiting.rows.select(np.arange(first, first + count)))
                arrived.append((waiting.timestamp_ms, count))
            left -= count
            if first + count < len(waiting.rows.places):
                row = first + count
                break
            ended, first = ended + 1, 0
        return Taken(join_arrivals(parts), ended, row, arrived) if parts else None

    def decide(self, taken: Taken, watermarks: Watermarks) -> Decision:
        """Decide what ``take`` returned, in a step that stays open."""
        assert self._step is None, "a step is open"
        rows, ended, row, _ = taken
        self.decisions.begin()
        self._pool, self._new_pairs = join_pools([self._pool, *self._new_pairs]), []
        self._step = _Step(self.decided, self._pool, ended, row, len(rows.places))
        self.decided = self.decided.copy()
        np.maximum.at(self.decided, partitions_of(rows.places), offsets_of(rows.places) + 1)
        is_document = rows.kinds == DOCUMENT
        end = self.decisions.end
        numbers = np.where(is_document, end - 1 + np.cumsum(is_document), -1)
        self._add_rows(rows, numbers)
        pool = self._pool
        found = self._found(numbers, end)
        if self._by_content:
            verdicts = self._decide(rows, numbers, found, pool, watermarks)
        else:
            verdicts = self.decisions.decide(_arrivals(rows), found)
        kept = verdicts.originals >= 0
        originals, times = np.full(len(kept), -1), np.full(len(kept), NO_TIME)
        originals[kept] = self.decisions.places(verdicts.originals[kept])
        times[kept] = self.decisions.times(verdicts.originals[kept])
        ids, ranks = self._names.get(verdicts.originals.tolist())
        gaps = _inside(rows.places, watermarks.gaps)
        return Decision(self.arrivals, rows, verdicts, originals, ids, times, ranks, gaps)

    def commit(self) -> None:
        """Close the step and remove the decided arrivals from the queue."""
        assert self._step is not None, "no step is open"
        for _ in range(self._step.ended):
            self.waiting.popleft()
        self.row = self._step.row
        self.arrivals += self._step.arrivals
        self.undecided -= self._step.arrivals
        self._step = None
        self.decisions.commit()
        self._rows.release(self.decisions.first)
        self._names.release(self.decisions.first)

    def undo(self) -> None:
        """Close the step as if it had never been opened."""
        if self._step is None:
            return
        self.decisions.undo()
        self._rows.cut(self.decisions.end)
        self._names.cut(self.decisions.end)
        self.decided, self._pool = self._step.decided, self._step.pool
        self._step = None

    def committed_place(self, position: int) -> tuple[int, int, int]:
        """Return the offset at which a restart reads ``arrivals``, the decided rows of the record there, and all
        decided rows.

        An open step counts as decided. ``position`` is the offset after the added records.
        """
        ended, row, arrivals = (0, self.row, 0) if self._step is None else self._step[2:]
        offset = self.waiting[ended].offset if ended < len(self.waiting) else position
        return offset, row, self.arrivals + arrivals

    def _decide(self, rows: ArrivalRows, numbers: _Longs, found: Found, pool: Pool, watermarks: Watermarks) -> Verdicts:
        """Decide with the pairs of copies; again, if a document needs pairs of copies that it did not get."""
        need = firsts(rows, numbers)
        while True:
            copies = found_by_copies(pool, rows, numbers, self._rows, self.decisions, watermarks, need)
            verdicts = self.decisions.decide(_arrivals(rows), join_found(found, copies))
            more = missed(rows, numbers, verdicts) & ~need
            if not more.any():
                return verdicts
            need |= more
            self.decisions.undo()
            self.decisions.begin()

    def _found(self, numbers: _Longs, end: int) -> Found:
        """Remove from the pool the pairs that this step decides; rows below ``end`` were decided before this step."""
        links = self._pool.links
        known = self._is_decided(links.ones) & self._is_decided(links.others)
        self._pool, used = self._pool.at(~known), links.at(known)
        ones, others = self._rows.find(used.ones), self._rows.find(used.others)
        later, earlier = np.maximum(ones, others), np.minimum(ones, others)
        now = np.flatnonzero(later >= end)
        rows = np.flatnonzero(numbers >= 0)[later[now] - end]
        order = np.argsort(rows, kind="stable")
        similarities = (used.similarities[now[order]] / SIMILARITY_STEPS).astype(np.float32)
        return Found(rows[order], earlier[now[order]], similarities)

    def _is_decided(self, places: _Longs) -> npt.NDArray[np.bool_]:
        partitions = partitions_of(places)
        known = partitions < len(self.decided)
        known[known] = offsets_of(places[known]) < self.decided[partitions[known]]
        return known

    def _add_rows(self, rows: ArrivalRows, numbers: _Longs) -> None:
        documents = np.flatnonzero(numbers >= 0)
        if len(documents):
            self._rows.add(rows.places[documents], numbers[documents])
            ids, starts = select_ragged(rows.ids, rows.id_starts, documents)
            self._names.add(int(numbers[documents[0]]), ids, starts, rows.ranks[documents])

    def _know(self, partitions: int) -> None:
        missing = partitions - len(self.decided)
        if missing > 0:
            self.decided = np.concatenate([self.decided, np.full(missing, -1)])
            self._began = np.concatenate([self._began, np.full(missing, -1)])


def _arrivals(rows: ArrivalRows) -> Arrivals:
    return Arrivals(
        rows.places,
        rows.kinds,
        id_hashes(rows.ids, rows.id_starts),
        rows.times,
        rows.contents,
        np.zeros(len(rows.places), np.int64),
    )


def _inside(places: _Longs, gaps: list[Hole]) -> npt.NDArray[np.bool_]:
    """Which places lie in one of the holes."""
    out = np.zeros(len(places), np.bool_)
    for gap in gaps:
        offsets = offsets_of(places)
        out |= (partitions_of(places) == gap.partition) & (offsets >= gap.first) & (offsets < gap.end)
    return out
