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

The decisions name a document by the number of its row plus ``_ZERO``: that is the order of arrival, whatever partition
of ``documents`` it came from, as in one process. Contents of stories whose rows had left before a restart have negative
numbers. What leaves this module names documents by place.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import held_sizes, id_columns, id_hashes
from neardup.pairs.comparing import SIMILARITY
from neardup.schemes.interface import select_ragged
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.deciding import Compare
from neardup.stories.verdicts.decisions import Decisions
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.kept import KeptStories, changed
from neardup.stories.verdicts.row_columns import GONE, NONE, Found, VerdictLimits
from neardup.stories.verdicts.rule import DOCUMENT, DUPLICATE, JUDGED, Arrivals, is_document
from neardup.stories.verdicts.stories import HOLDS
from neardup.window import NO_TIME
from neardup_workers.doing.stages.verdicts.columns import NamesByRow, RowsByPlace
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.originals import Sent, changed_stories, kept_stories, left_places
from neardup_workers.doing.stages.verdicts.watermarks import Hole
from neardup_workers.outside.topics.arrivals import ArrivalRows, arrived_at, join_arrivals
from neardup_workers.outside.topics.links import NO_LINKS, SIMILARITY_STEPS, Links, join_links
from neardup_workers.outside.topics.places import offsets_of, partitions_of
from neardup_workers.outside.topics.signed import TOGETHER, SignedRows, offset_and_row, position_of
from neardup_workers.outside.topics.verdicts import DecidedRows

_Longs = npt.NDArray[np.int64]
# The place of row 0 in the decisions: no place is negative.
_ZERO = 1 << 40
# The columns of verdicts that name documents of any number.
_NAMING = ("clusters", "related", "previous", "matched", "against")


class _Waiting(NamedTuple):
    """A record of ``signed`` with undecided rows."""

    offset: int
    rows: ArrivalRows
    timestamp_ms: int


class Taken(NamedTuple):
    """Arrivals that can be decided with their positions: the number of records that they complete, the number of rows
    of the next record, for each record its time in milliseconds and its number of rows, and where the evidence of each
    document stands (``MessagesByRow``)."""

    rows: ArrivalRows
    positions: _Longs
    ended: int
    row: int
    arrived: list[tuple[int, int]]
    evidence: _Longs


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

    def __init__(self, limits: VerdictLimits, compared: Compared, arrivals: int = 0, row: int = 0) -> None:
        self.decisions, self.compared, self._limits = Decisions(limits), compared, limits
        self.arrivals = arrivals  # number of decided arrivals
        self.row = row  # decided rows of the first waiting record
        # By partition of ``documents``: the end of the decided offsets, -1 if there are none.
        self.decided: _Longs = np.empty(0, np.int64)
        self.waiting: deque[_Waiting] = deque()
        self.undecided = 0
        self._pairs = NO_LINKS
        self._new_pairs: list[Links] = []
        self._rows, self._names = RowsByPlace(), NamesByRow()
        self._step: _Step | None = None
        self._changed: KeptStories | None = None  # by the open step

    def name(self, found: DecidedRows, stories: KeptStories) -> None:
        """Number the documents of earlier decisions, and what they and the stories name; before ``restore``."""
        left = left_places(found, stories)
        self._rows.add(left, np.arange(-len(left), 0))
        self._add_rows(found.rows, _numbers(found.rows, 0))

    def add_message(self, offset: int, rows: SignedRows, size: int, sizes: _Longs) -> None:
        """Add a message of ``signed`` with decided rows, of so many bytes; ``sizes`` receives those of id and evidence
        of the documents that have rows."""
        numbers = self._rows.find(rows.places[is_document(rows.kinds)])
        last = np.maximum.accumulate(np.append(self.compared.rows.last, numbers))
        known = np.flatnonzero((numbers >= 0) & (numbers > last[:-1]))  # others were signed again
        if len(known):
            self.compared.rows.add(numbers[known], position_of(offset) + known)
            self.compared.keep(offset, rows.evidence, size)
            sizes[numbers[known]] = held_sizes(rows.documents())[known]

    def restore(
        self, found: DecidedRows, stream_time: int, decided: dict[int, int], stories: KeptStories, sizes: _Longs
    ) -> None:
        """Start from earlier decisions: consecutive verdicts in order of arrival, the decided end of each partition,
        the stories, and the bytes of id and evidence of each row."""
        rows, verdicts, numbers = found.rows, found.verdicts, _numbers(found.rows, 0)
        rows.sizes[numbers >= 0] = sizes
        clusters, matched = (self._rows.find(column) + _ZERO for column in (verdicts.clusters, verdicts.matched))
        past = verdicts._replace(clusters=clusters, matched=matched)
        kept = kept_stories(found, stories, self._rows.find, numbers, _ZERO)
        self.compared.held.names.update(kept.ids)
        self.compared.held.evidence.update(_by_row(kept))
        self.decisions.restore(_arrivals(rows, numbers), past, stream_time, kept)
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
        """Return the arrivals before the watermark, ``rows_max`` at most. A judged one is the first: it depends on the
        decisions before it."""
        parts: list[ArrivalRows] = []
        positions: list[_Longs] = []
        arrived: list[tuple[int, int]] = []
        evidence: list[_Longs] = []
        first, left, ended, row = self.row, rows_max, 0, 0
        reached, rows_reached = offset_and_row(watermark)
        for waiting in self.waiting:
            size = len(waiting.rows.places)
            end = size if waiting.offset < reached else rows_reached if waiting.offset == reached else 0
            count = min(max(0, end - first), left)
            judged = waiting.rows.kinds[first : first + count] == JUDGED
            judged[: not parts] = False
            if judged.any():
                count = left = int(judged.argmax())
            if count:
                parts.append(waiting.rows.select(np.arange(first, first + count)))
                index = np.cumsum(is_document(waiting.rows.kinds))[first : first + count] - 1
                evidence.append(position_of(waiting.offset) + index)
                positions.append(position_of(waiting.offset) + np.arange(first, first + count))
                arrived.append((waiting.timestamp_ms, count))
            left -= count
            if first + count < size:
                row = first + count
                break
            ended, first = ended + 1, 0
        if not parts:
            return None
        joined, stands = np.concatenate(positions), np.concatenate(evidence)
        return Taken(join_arrivals(parts), joined, ended, row, arrived, stands)

    def decide(self, taken: Taken, holes: list[Hole]) -> DecidedRows:
        """Decide what ``take`` returned, in a step that stays open, also after an error. ``holes`` are accepted."""
        assert self._step is None, "a step is open"
        rows, positions, ended, row, _, evidence = taken
        read = len(rows.places)
        self.decisions.begin()
        self.compared.begin()
        self._pairs, self._new_pairs = join_links([self._pairs, *self._new_pairs]), []
        decided, self.decided = self.decided, self.decided.copy()
        self._know(int(partitions_of(rows.places).max()) + 1)
        is_open = self._is_open(rows.places)
        if not is_open.all():
            rows, positions, evidence = rows.select(np.flatnonzero(is_open)), positions[is_open], evidence[is_open]
        self._step = _Step(decided, self._pairs, ended, row, len(rows.places), read)
        np.maximum.at(self.decided, partitions_of(rows.places), offsets_of(rows.places) + 1)
        end = self.decisions.end
        numbers = _numbers(rows, end)
        self._add_rows(rows, numbers)
        self.compared.rows.add(numbers[numbers >= 0], evidence[numbers >= 0])
        weighed = self.compared.weigh(taken.rows.kinds, taken.positions, taken.evidence)
        weighed = weighed and weighed._replace(epochs=weighed.epochs[is_open])
        compare = self.compared.comparing(numbers, self.decisions.sizes, weighed)
        found = self._found(numbers, end)
        if len(rows.kinds) and rows.kinds[0] == JUDGED:
            rows, found = self._judged(rows, found, compare)
        verdicts = self.decisions.decide(_arrivals(rows, numbers), found, compare)
        stamps, counts = np.array(taken.arrived).T
        arrived = np.repeat(arrived_at(stamps), counts)[is_open]
        return self._decided_rows(rows, numbers, verdicts, _inside(positions, holes), arrived)

    def _judged(self, rows: ArrivalRows, found: Found, compare: Compare | None) -> tuple[ArrivalRows, Found]:
        """Return the rows, of which the first is judged, and their pairs as the judgement wants them."""
        said = rows.judged[int(rows.places[0])]
        ids = id_hashes(*id_columns([rows.ids[: rows.id_starts[1]].tobytes(), said[1:]]))
        joined = self.decisions.judgement(ids, rows.contents[0], same=said[:1] == TOGETHER)
        if joined == HOLDS:
            return rows._replace(kinds=np.append(np.uint8(DOCUMENT), rows.kinds[1:])), found
        if joined == NONE:
            return rows, found
        first, other = np.zeros(1, np.int64), np.array([joined])
        similarity = np.zeros(1, np.float32) if compare is None else compare(first, other)[:, SIMILARITY]
        return rows, Found(
            np.append(first, found.rows), np.append(other, found.numbers),
            np.append(np.maximum(similarity, np.float32(0)), found.similarities),
        )  # fmt: skip

    def _decided_rows(
        self, rows: ArrivalRows, numbers: _Longs, verdicts: Verdicts, gaps: npt.NDArray[np.bool_], arrived: _Longs
    ) -> DecidedRows:
        """Return verdicts about rows with these numbers, by place."""
        ids, ranks = self._names.get(verdicts.originals)
        for i in np.flatnonzero(verdicts.originals == GONE).tolist():
            ids[i] = self.compared.held.names[int(verdicts.clusters[i])].encode()
        shown = np.flatnonzero(verdicts.originals >= 0)
        newest, times = verdicts.originals[shown], np.full(len(ids), NO_TIME)
        # A row leaves with a commit. What the verdict says must not depend on that.
        counts = self.decisions.counted_for(numbers[shown], newest)
        ranks[shown[~counts]] = NO_RANK
        shown, newest = shown[counts], newest[counts]
        originals = np.full(len(ids), -1)
        originals[shown], times[shown] = self._rows.places(newest), self.decisions.times(newest)
        until, joined = np.full(len(ids), NO_TIME), (verdicts.statuses == DUPLICATE) & ~verdicts.late
        until[joined] = self.decisions.story_times(numbers[joined])
        placed = verdicts._replace(originals=originals, **self._placed(verdicts, rows, numbers))
        return DecidedRows(self.arrivals + np.arange(len(ids)), rows, placed, ids, gaps, times, until, ranks, arrived)

    def _placed(self, verdicts: Verdicts, rows: ArrivalRows, numbers: _Longs) -> dict[str, Any]:
        """Return the places of what verdicts about rows with these numbers name, -1 for nothing, by column. Most name
        themselves, or nothing."""
        columns = np.stack([getattr(verdicts, name) for name in _NAMING])
        named = columns - _ZERO
        is_own = named == numbers
        out = np.where(is_own, rows.places, -1)
        others = np.nonzero(~is_own & (columns != NONE))
        out[others] = self._rows.places(named[others])
        return dict(zip(_NAMING, out, strict=True))

    def stories(self, fingerprint: str) -> list[Sent]:
        """Return what the open step changed of the stories, as records of ``originals``."""
        self._changed = self._pending()
        return list(
            changed_stories(self._changed, self.compared, lambda places: self._rows.places(places - _ZERO), fingerprint)
        )

    def ended_stories(self) -> list[int]:
        """Return the places of the stories that the open step has ended; after ``stories``."""
        assert self._changed is not None, "the stories of the step are not known"
        return self._rows.places(np.array(self._changed.ended, np.int64) - _ZERO).tolist()  # type: ignore[no-any-return]

    def commit(self) -> None:
        """Close the step and remove the decided arrivals from the queue."""
        assert self._step is not None, "no step is open"
        for _ in range(self._step.ended):
            self.waiting.popleft()
        self.row = self._step.row
        self.arrivals += self._step.arrivals
        self.undecided -= self._step.read
        self._step = None
        kept = self._changed or self._pending()
        self.compared.held.follow(self.decisions.pending(), _by_row(kept), kept.ids)
        self._changed = None
        self.decisions.commit()
        first = self.decisions.first
        self._rows.release(first, lambda: self.decisions.named_places() - _ZERO)
        self._names.release(first)
        self.compared.release(first)

    def undo(self) -> None:
        """Close the step as if it had never been opened."""
        if self._step is None:
            return
        self.decisions.undo()
        self._rows.cut(self.decisions.end)
        self._names.cut(self.decisions.end)
        self.compared.undo(self.decisions.end)
        self.decided, self._pairs = self._step.decided, self._step.pairs
        self._step = self._changed = None

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
        if self._limits.by_content:
            is_copy = used.later_contents == used.earlier_contents
            kept = is_copy | ~np.isin(later, later[is_copy])
            used, later = used.at(kept), later[kept]
        rows, earlier = np.flatnonzero(numbers >= 0)[later - end], self._rows.find(used.earlier)
        order = np.lexsort((earlier, rows))  # not that in which the shards are read
        similarities = (used.similarities[order] / SIMILARITY_STEPS).astype(np.float32)
        return Found(rows[order], earlier[order], similarities)

    def _pending(self) -> KeptStories:
        return changed(self.decisions.pending(), self.compared.parts, self._ids)

    def _ids(self, numbers: _Longs) -> list[str]:
        return [(id_ or b"").decode() for id_ in self._names.get(numbers)[0]]

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


def _numbers(rows: ArrivalRows, end: int) -> _Longs:
    """Return the numbers of the rows from ``end`` on, -1 for what is no document."""
    documents = is_document(rows.kinds)
    return np.where(documents, end - 1 + np.cumsum(documents), -1)


def _arrivals(rows: ArrivalRows, numbers: _Longs) -> Arrivals:
    ids = id_hashes(rows.ids, rows.id_starts)
    return Arrivals(numbers + _ZERO, rows.kinds, ids, rows.times, rows.contents, rows.sizes)


def _inside(positions: _Longs, holes: list[Hole]) -> npt.NDArray[np.bool_]:
    """Which rows lie in one of the holes, by their positions."""
    out = np.zeros(len(positions), np.bool_)
    for hole in holes:
        out |= (positions >= hole.first) & (positions < hole.end)
    return out


def _by_row(kept: KeptStories) -> dict[int, bytes]:
    """Return the evidence of contents by the numbers of their rows."""
    return {place - _ZERO: part for place, part in kept.evidence.items()}
