"""The state of a linker: waiting arrivals and pairs, and the decisions about the documents of the window.

Theory of operation. Arrivals wait in the order of their log. ``take`` returns the longest prefix that every shard has
passed. ``decide`` decides it inside a step. ``commit`` or ``undo`` ends the step after its transaction. The verdicts
are a deterministic function of the logs of ``signed`` and ``links``; the division into steps does not matter:

- A pair counts for the document that arrived later, and waits until that is decided. Its shard has published it before
  it has passed the document.
- A document that has a link to a copy has no other pairs: a table walks no bucket for a copy, and what other shards,
  which know no copy of it, found with it are pairs of its content that were found before.
- If the later document was decided before, the pair was used before a restart. It is dropped.
- A row whose document was decided before was signed again (``neardup topics replay``). It gets no second verdict.
- An earlier document without a row has left the window. Its pair is ignored and counted.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.batches import id_hashes
from neardup.stream.scheme_interface import select_ragged
from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.decisions import Arrivals, Decisions, Found, VerdictLimits
from neardup.stream.verdicts.restoring import PastVerdicts, members_before
from neardup.stream.verdicts.rule import DOCUMENT
from neardup.workers.stages.verdicts.columns import NamesByRow, RowsByPlace
from neardup.workers.stages.verdicts.watermarks import Hole
from neardup.workers.topics.arrivals import ArrivalRows, join_arrivals
from neardup.workers.topics.links import NO_LINKS, SIMILARITY_STEPS, Links, join_links
from neardup.workers.topics.places import offsets_of, partitions_of
from neardup.workers.topics.signed import offset_and_row, position_of
from neardup.workers.topics.verdicts import DecidedRows, Decision

_Longs = npt.NDArray[np.int64]


class _Waiting(NamedTuple):
    """A record of ``signed`` with undecided rows."""

    offset: int
    rows: ArrivalRows
    timestamp_ms: int


class Taken(NamedTuple):
    """Arrivals that can be decided with their positions: the number of records that they complete, the number of rows
    of the next record, and for each record its time in milliseconds and its number of rows."""

    rows: ArrivalRows
    positions: _Longs
    ended: int
    row: int
    arrived: list[tuple[int, int]]


class _Step(NamedTuple):
    """What ``undo`` restores, and what ``commit`` applies."""

    decided: _Longs
    pairs: Links
    ended: int  # records of signed
    row: int
    arrivals: int
    read: int  # arrivals, and rows that were decided before


class LinkState:
    """The state of one linker; see the module for the steps."""

    def __init__(self, limits: VerdictLimits, arrivals: int = 0, row: int = 0) -> None:
        self.decisions = Decisions(limits)
        self.arrivals = arrivals  # number of decided arrivals
        self.row = row  # decided rows of the first waiting record
        # By partition of ``documents``: the end of the decided offsets, -1 if there are none.
        self.decided: _Longs = np.empty(0, np.int64)
        self.waiting: deque[_Waiting] = deque()
        self.undecided = 0
        self._pairs = NO_LINKS
        self._new_pairs: list[Links] = []
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
            PastVerdicts(
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

    def decided_offsets(self) -> dict[int, int]:
        """Return the end of the decided offsets of each partition of ``documents`` that has a verdict."""
        return {s: int(self.decided[s]) for s in np.flatnonzero(self.decided >= 0).tolist()}

    def add_pairs(self, links: Links) -> None:
        """Add the pairs of a record of ``links``."""
        if len(links.later):
            self._new_pairs.append(links)

    def take(self, watermark: int, rows_max: int) -> Taken | None:
        """Return the arrivals before the watermark, ``rows_max`` at most."""
        parts: list[ArrivalRows] = []
        positions: list[_Longs] = []
        arrived: list[tuple[int, int]] = []
        first, left, ended, row = self.row, rows_max, 0, 0
        reached, rows_reached = offset_and_row(watermark)
        for waiting in self.waiting:
            size = len(waiting.rows.places)
            end = size if waiting.offset < reached else rows_reached if waiting.offset == reached else 0
            count = min(max(0, end - first), left)
            if count:
                parts.append(waiting.rows.select(np.arange(first, first + count)))
                positions.append(position_of(waiting.offset) + np.arange(first, first + count))
                arrived.append((waiting.timestamp_ms, count))
            left -= count
            if first + count < size:
                row = first + count
                break
            ended, first = ended + 1, 0
        return Taken(join_arrivals(parts), np.concatenate(positions), ended, row, arrived) if parts else None

    def decide(self, taken: Taken, holes: list[Hole]) -> Decision:
        """Decide what ``take`` returned, in a step that stays open. ``holes`` are accepted."""
        assert self._step is None, "a step is open"
        rows, positions, ended, row, _ = taken
        read = len(rows.places)
        self.decisions.begin()
        self._pairs, self._new_pairs = join_links([self._pairs, *self._new_pairs]), []
        decided, self.decided = self.decided, self.decided.copy()
        self._know(int(partitions_of(rows.places).max()) + 1)
        is_open = self._is_open(rows.places)
        if not is_open.all():
            rows, positions = rows.select(np.flatnonzero(is_open)), positions[is_open]
        self._step = _Step(decided, self._pairs, ended, row, len(rows.places), read)
        np.maximum.at(self.decided, partitions_of(rows.places), offsets_of(rows.places) + 1)
        is_document = rows.kinds == DOCUMENT
        end = self.decisions.end
        numbers = np.where(is_document, end - 1 + np.cumsum(is_document), -1)
        self._add_rows(rows, numbers)
        verdicts = self.decisions.decide(_arrivals(rows), self._found(numbers, end))
        kept = verdicts.originals >= 0
        originals, times = np.full(len(kept), -1), np.full(len(kept), NO_TIME)
        originals[kept] = self.decisions.places(verdicts.originals[kept])
        times[kept] = self.decisions.times(verdicts.originals[kept])
        ids, ranks = self._names.get(verdicts.originals.tolist())
        gaps = _inside(positions, holes)
        return Decision(self.arrivals, rows, verdicts, originals, ids, times, ranks, gaps)

    def commit(self) -> None:
        """Close the step and remove the decided arrivals from the queue."""
        assert self._step is not None, "no step is open"
        for _ in range(self._step.ended):
            self.waiting.popleft()
        self.row = self._step.row
        self.arrivals += self._step.arrivals
        self.undecided -= self._step.read
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
        self.decided, self._pairs = self._step.decided, self._step.pairs
        self._step = None

    def committed_position(self, position: int) -> tuple[int, int, int]:
        """Return the offset at which a restart reads ``signed``, the decided rows of the record there, and all
        decided rows.

        An open step counts as decided. ``position`` is the offset after the added records.
        """
        ended, row, arrivals = (0, self.row, 0) if self._step is None else self._step[2:5]
        offset = self.waiting[ended].offset if ended < len(self.waiting) else position
        return offset, row, self.arrivals + arrivals

    def decided_position(self, position: int) -> int:
        """Return the position in ``signed`` up to which all rows are decided; ``position`` as above."""
        offset, row, _ = self.committed_position(position)
        return position_of(offset, row)

    def _found(self, numbers: _Longs, end: int) -> Found:
        """Remove from the pairs those that this step decides; rows below ``end`` were decided before this step."""
        links = self._pairs
        known = self._is_decided(links.later)
        self._pairs, used = links.at(~known), links.at(known)
        later = self._rows.find(used.later)
        used, later = used.at(later >= end), later[later >= end]
        if self._by_content:
            is_copy = used.later_contents == used.earlier_contents
            kept = is_copy | ~np.isin(later, later[is_copy])
            used, later = used.at(kept), later[kept]
        rows, earlier = np.flatnonzero(numbers >= 0)[later - end], self._rows.find(used.earlier)
        order = np.lexsort((earlier, rows))  # not that in which the shards are read
        similarities = (used.similarities[order] / SIMILARITY_STEPS).astype(np.float32)
        return Found(rows[order], earlier[order], similarities)

    def _is_decided(self, places: _Longs) -> npt.NDArray[np.bool_]:
        partitions = partitions_of(places)
        known = partitions < len(self.decided)
        known[known] = offsets_of(places[known]) < self.decided[partitions[known]]
        return known

    def _is_open(self, places: _Longs) -> npt.NDArray[np.bool_]:
        """Which rows have no verdict yet: within a partition a row is later than all that were decided."""
        partitions, offsets = partitions_of(places), offsets_of(places)
        is_open = np.ones(len(places), np.bool_)
        for partition in np.unique(partitions).tolist():
            rows = np.flatnonzero(partitions == partition)
            before = np.concatenate([[self.decided[partition] - 1], offsets[rows]])
            is_open[rows] = offsets[rows] > np.maximum.accumulate(before)[:-1]
        return is_open

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


def _arrivals(rows: ArrivalRows) -> Arrivals:
    return Arrivals(
        rows.places,
        rows.kinds,
        id_hashes(rows.ids, rows.id_starts),
        rows.times,
        rows.contents,
        np.zeros(len(rows.places), np.int64),
    )


def _inside(positions: _Longs, holes: list[Hole]) -> npt.NDArray[np.bool_]:
    """Which rows lie in one of the holes, by their positions."""
    out = np.zeros(len(positions), np.bool_)
    for hole in holes:
        out |= (positions >= hole.first) & (positions < hole.end)
    return out
