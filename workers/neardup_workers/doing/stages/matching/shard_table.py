"""The table of one shard of a stream, and where in the log its window begins.

Theory of operation. A table is a deterministic function of the log of ``signed`` from ``start`` to a position, of the
stream time just before ``start``, of its shard, and of the number of shards. ``start`` is the offset of the message of
the oldest slot in the ring. ``start``, stream time, row, growth and the fingerprint of the matching settings are the
metadata of every committed offset, so they are consistent with the offset.

A control row belongs to the row before it: a table that has passed the last row before it has passed the control row.
The step of shard 0 that does so has the first offsets of the new shards (``born``).

- ``apply`` adds the rows of a stretch inside an open step, from the position of the table on. It works in slices of
  rows with a bounded number of candidates, and the caller may stop after any slice: one stretch can hold thousands of
  rows with a hundred candidates each. ``committed`` returns what to commit for the step.
- ``commit`` or ``undo`` ends the step after its transaction has ended. If the outcome of the transaction is unknown,
  ``settle`` ends the step later, by the committed position. Any process may have committed this position: a table at a
  position is a function of the log up to the position.
- A new owner makes an empty table with a ``Window``, and applies the log from ``start`` to the committed position
  without publishing: own documents are added, foreign ones pass. The table then equals the table
  of the old owner at its commit.
- Where rarity weighs elements, every shard counts every document. The counts follow from the last two blocks of
  documents (``Rarity``), so a window begins no later than the first of them.

A table keeps for each message in the window its offset, the slot after it, and the stream time before it. For each slot
it keeps the place of the document, which ``links`` uses as its name. Own documents have slots; after a growth, so do
marks of others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import CONTENT_HALF, Batch
from neardup.pairs.comparing import Leads, joined_leads
from neardup.pairs.pair_rule import Matches, deciding, named, nearest_pairs
from neardup.pairs.pipeline import SLICE_CANDIDATES, Matcher, Slice
from neardup.pairs.shards import Growth, Shard
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.stories.sources.losses import NamedLosses, named_losses
from neardup.window import COUNTERS, NO_TIME, again
from neardup_workers.doing.stages.matching.slot_places import SlotPlaces
from neardup_workers.doing.stages.matching.stretches import Stretch
from neardup_workers.doing.stages.matching.windows import KEPT_COUNTS, Window, decode_window, encode_window
from neardup_workers.outside.topics.links import Links, similarity_steps
from neardup_workers.outside.topics.places import partitions_of
from neardup_workers.outside.topics.signed import ROW_BITS, offset_and_row, position_of
from neardup_workers.outside.transport.protocol import Committed

# The counts of a table that are metrics.
COUNTED = (*(name for name, counter in COUNTERS.items() if counter.meaning), "documents", "postings")


class Applied(NamedTuple):
    """The result of a slice: the pairs to publish, with their rows; pairs and leads by place; the removed ids with
    their rows; the numbers of documents and of candidates; what limits cost."""

    matches: Matches
    items: npt.NDArray[np.int32]
    links: Links
    removed: list[tuple[int, bytes]]
    documents: int
    candidates: int
    losses: NamedLosses | None


class _Mark(NamedTuple):
    offset: int
    slot_end: int
    stream_time: int


class _Block(NamedTuple):
    """Where a block of the counts of rarity begins: behind a row of a message, and the stream time before that."""

    position: int
    stream_time: int


class _Reached(NamedTuple):
    """Where a table is: its position, the documents that it has passed, and the message that it has begun to read:
    offset, and stream time before it; how many shards there are, which one this is, and the two blocks that count."""

    position: int
    documents: int
    message: int
    time_before: int
    growth: Growth
    shard: Shard
    blocks: tuple[_Block, _Block]


class ShardTable:
    """A ``Matcher`` for one shard with positions in the log; see the module for the steps.

    Without ``window``, the table begins with the log, and ``shard`` says how many there are; else, the window does.
    """

    def __init__(self, config: Config, shard: Shard, window: Window | None = None) -> None:
        self.config = config
        self._places = SlotPlaces()
        self._marks: deque[_Mark] = deque()
        self._added = 0
        time = int(NO_TIME) if window is None or window.stream_time is None else window.stream_time
        start = 0 if window is None else window.start
        position = position_of(start)
        growth = Growth(shard.of) if window is None else window.growth.until(position)
        shard = Shard(shard.number, growth.shards)
        self.matcher = Matcher(config, shard=shard)
        block = _Block(position if window is None or window.counted is None else window.counted, time)
        self._reached = self._reached_before = _Reached(position, 0, start, time, growth, shard, (block, block))
        self.born: dict[int, Committed] = {}  # the first offsets of shards that the open step has added
        self._since: dict[int, int] = {}  # by partition of ``documents``, the first place after beginning or growth
        self._open = False
        self.published = 0 if window is None else window.published  # as in ``Window``
        self._counts_before = Window(0, None, "", Growth(1)).counts if window is None else window.counts
        self._reported = dict.fromkeys(COUNTED, 0)
        if time != NO_TIME:
            self.matcher.table.set_stream_time(time)

    @property
    def shard(self) -> Shard:
        """Which shard the table is, of how many."""
        return self._reached.shard

    @property
    def growth(self) -> Growth:
        """How many shards there are, as far as the table has read."""
        return self._reached.growth

    @property
    def position(self) -> int:
        """The position in the log up to which the table has read it."""
        return self._reached.position

    @property
    def time_before(self) -> int:
        """The stream time before the message of the position, in microseconds, or ``NO_TIME``."""
        return self._reached.time_before

    def apply(
        self, stretch: Stretch, *, publish: bool = True, candidates_max: int = SLICE_CANDIDATES,
        pairs_max: int | None = None,
    ) -> Iterator[Applied]:  # fmt: skip
        """Add the rows of a stretch from the position of the table on, inside an open step; yields the result of each
        slice, of some ``candidates_max``. The next one is applied when the caller asks for it.

        Without ``publish``, the rows are those of a restore, which looks for no pairs. ``pairs_max`` bounds the pairs
        of a document that are published; its links are all.
        """
        table = self.matcher.table
        if not self._open:
            table.begin()
            self._open, self._added, self._reached_before = True, 0, self._reached
        counted = self._reached.blocks[0].position
        if self.position < counted < stretch.end:
            yield from self.apply(
                stretch.until(counted), publish=publish, candidates_max=candidates_max, pairs_max=pairs_max
            )
        first = stretch.row_of(self.position)
        if first == len(stretch.positions):
            self.skip_to(stretch.end)
            self._grow(stretch)
            return
        slot, time = table.slot_end, table.stream_time
        for part in self.matcher.slices_of(
            stretch.rows, first=first, probe=publish, candidates_max=candidates_max, leads=publish, named=False
        ):
            self._advance(stretch, first, part.end, slot, time)
            if part.end == len(stretch.positions):
                self._grow(stretch)
            yield self._applied(stretch, first, part, pairs_max)
            first, slot, time = part.end, table.slot_end, table.stream_time

    def _advance(self, stretch: Stretch, first: int, end: int, slot: int, time: int) -> None:
        """Record that the rows ``first`` to ``end`` of a stretch are in the table; before them, ``slot`` was its next
        slot and ``time`` its stream time."""
        table, reached = self.matcher.table, self._reached

        def before(row: int) -> int:
            """Return the stream time before the message of a row."""
            is_begun = stretch.positions[row] >> ROW_BITS == reached.message
            return reached.time_before if is_begun else max(time, int(stretch.before[row]))

        documents = first + np.flatnonzero(~stretch.rows.removals[first:end])
        slots = np.arange(slot, table.slot_end)
        if len(slots):
            rows = documents[table.arrivals(slots) - reached.documents]
            self._places.put(slot, stretch.places[rows])
            offsets = stretch.positions[rows] >> ROW_BITS
            for last in np.flatnonzero(np.diff(offsets, append=-1)).tolist():
                self._marks.append(_Mark(int(offsets[last]), slot + last + 1, before(rows[last])))
                self._added += 1
        position = stretch.position(end)
        offset, _ = offset_and_row(position)
        is_begun = stretch.positions[end - 1] >> ROW_BITS == offset
        time_before = before(end - 1) if is_begun else table.stream_time
        block = _Block(int(stretch.positions[end - 1]) + 1, before(end - 1))
        self._reached = reached._replace(
            position=position, documents=reached.documents + len(documents), message=offset, time_before=time_before,
            blocks=self._counted(block),
        )  # fmt: skip
        if reached.growth.steps:
            places = stretch.places[first:end]
            partitions, firsts = np.unique(partitions_of(places), return_index=True)
            for partition, place in zip(partitions.tolist(), places[firsts].tolist(), strict=True):
                self._since.setdefault(partition, place)

    def _counted(self, behind: _Block) -> tuple[_Block, _Block]:
        """Return the blocks that count behind a slice, where the next one begins if one is complete there, or if the
        documents before it count no longer."""
        rarity, (earlier, current) = self.matcher.rarity, self._reached.blocks
        if rarity is not None and behind.position == earlier.position:
            rarity.next_block()
            return behind, behind
        is_next = rarity is not None and rarity.is_full and behind.position > current.position
        return (current, behind) if is_next else (earlier, current)

    def _begun(self, start: int, time: int) -> Window:
        """Return the window from a message on with this time before it, or from the first one that counts."""
        block = self._reached.blocks[0]
        first, counted = offset_and_row(block.position)[0], None if self.matcher.rarity is None else block.position
        if counted is not None and first < start:
            start, time = first, block.stream_time
        return Window(start, _known(time), self.config.matching_fingerprint, self.growth, counted=counted)

    def _grow(self, stretch: Stretch) -> None:
        """Apply the control row behind a stretch, if it has one that counts."""
        reached = self._reached
        if stretch.growth is None:
            return
        growth = reached.growth.grown(stretch.end, *stretch.growth)
        if growth == reached.growth:
            return
        self.matcher.grow(growth.shards)
        self._reached = reached._replace(growth=growth, shard=self.matcher.shard)
        self._since = {}
        if self.shard.number == 0:
            offset, _ = offset_and_row(stretch.end)
            first = Committed(offset, encode_window(self._begun(offset, self.matcher.table.stream_time)))
            self.born |= dict.fromkeys(range(reached.growth.shards, growth.shards), first)

    def came_since(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which documents are where they belong for certain (``bool[n]``): they came after the last growth."""
        if not self.growth.steps:
            return np.ones(len(places), np.bool_)
        none = np.iinfo(np.int64).max
        firsts = np.array([self._since.get(one, none) for one in partitions_of(places).tolist()], np.int64)
        return places >= firsts

    def _applied(self, stretch: Stretch, first: int, part: Slice, pairs_max: int | None) -> Applied:
        """Return the result of a slice, which begins at the row ``first``."""
        batch, removals = stretch.rows.batch, stretch.rows.removals
        found = part.matches.similarity
        decides = np.flatnonzero(deciding(SCHEMES[self.config.scheme], found))
        pairs = Leads(part.items, part.slots, found, part.matches.buckets)
        items, slots, similarity, _ = joined_leads(pairs.select(decides), part.leads)
        links = Links(
            stretch.places[items], self._places.of(slots), batch.contents[items, CONTENT_HALF],
            again.contents(self.matcher.table, slots), similarity_steps(similarity),
        )  # fmt: skip
        gone = first + np.flatnonzero(removals[first : part.end])
        starts = batch.id_starts
        removed = [(row, batch.ids[starts[row] : starts[row + 1]].tobytes()) for row in gone.tolist()]
        documents = part.end - first - len(gone)
        losses = None
        if len(part.losses.items):
            losses = named_losses(self.matcher, batch, part, None if stretch.shown is None else stretch.source_of)
        matches = self._named(batch, part, published := nearest_pairs(part.items, part.slots, found, pairs_max))
        return Applied(matches, part.items[published], links, removed, documents, len(part.probed), losses)

    def _named(self, batch: Batch, part: Slice, rows: npt.NDArray[np.int64]) -> Matches:
        """Return some pairs of a slice with ids and times."""
        matches = part.matches
        if matches.shared is not None:  # they have them
            return matches.select(rows)
        known = matches.similarity[rows], matches.buckets[rows], None, None, None
        slots, separate = part.slots[rows], self.config.separate
        return named(self.matcher.table, batch, part.items[rows], slots, known, separate=separate)

    def skip_to(self, position: int) -> None:
        """Move to a later position, before which the log has no more rows for the table."""
        reached, (offset, _) = self._reached, offset_and_row(position)
        if position > reached.position:
            before = reached.time_before if offset == reached.message else self.matcher.table.stream_time
            self._reached = reached._replace(position=position, message=offset, time_before=before)

    @property
    def stream_time(self) -> int | None:
        """The greatest event time seen, in microseconds; none before the first."""
        return _known(self.matcher.table.stream_time)

    def committed(self) -> Committed:
        """Return the offset to commit: that of the next message, with row and window as metadata."""
        oldest = self.matcher.table.oldest
        first = next((mark for mark in self._marks if mark.slot_end > oldest), None)
        reached = self._reached
        start, time = (first.offset, first.stream_time) if first else (reached.message, reached.time_before)
        offset, row = offset_and_row(reached.position)
        published = self.published if self.published > reached.position else 0
        window = self._begun(start, time)._replace(row=row, counts=self.kept_counts(), published=published)
        return Committed(offset, encode_window(window))

    def replay(self, stretches: Iterable[Stretch], end: int, read_to: int) -> int:
        """Apply the rows of stretches before the position ``end`` without a look for pairs, and commit; returns the
        number of documents. The log was read up to the offset ``read_to``: where no row is left, only gaps remain."""
        documents, (offset, row) = 0, offset_and_row(end)
        for stretch in stretches:
            part = stretch if stretch.end <= end else stretch.until(end)
            documents += sum(applied.documents for applied in self.apply(part, publish=False))
            if self.position >= end:
                break
        self.commit()
        if row == 0 and read_to >= offset:
            self.skip_to(end)
        return documents

    def commit(self) -> None:
        """End the step, and keep its changes."""
        if self._open:
            self.matcher.table.commit()
            self._open, self.born = False, {}
        oldest = self.matcher.table.oldest
        self._places.release(oldest)
        while self._marks and self._marks[0].slot_end <= oldest:
            self._marks.popleft()

    def undo(self) -> None:
        """End the step, and undo its changes."""
        if not self._open:
            return
        self.matcher.table.undo()
        self._open, self.born = False, {}
        self._reached = self._reached_before
        self.matcher.shard = self.shard
        for _ in range(self._added):
            self._marks.pop()

    def settle(self, committed: Committed) -> bool:
        """End an open step so that the table is at ``committed``, or before it; return false if it cannot be.

        A table behind the committed offset continues: what it lacks is replayed. False means that the table is ahead,
        that its window begins later, or that it has other settings. It is then useless.
        """
        if self._open and self.committed() == committed:
            self.commit()
        else:
            self.undo()
        window = decode_window(committed.metadata)
        is_same = window.fingerprint == self.config.matching_fingerprint
        is_same = is_same and window.growth.until(self.position) == self.growth
        start, end = position_of(window.start), position_of(committed.offset, window.row)
        if not is_same or not start <= self.position <= end:
            return False
        counts = self.matcher.table.counts()  # what the owner has counted that committed is counted from here on
        self._counts_before = tuple(n - counts[name] for name, n in zip(KEPT_COUNTS, window.counts, strict=True))
        return True

    def places(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the places of documents and marks of the window, between steps."""
        return self._places.of(slots)

    def memory_bytes(self) -> int:
        """Memory allocated by the table and by the column of places."""
        return self.matcher.table.memory_bytes()[1] + self._places.allocated_bytes

    def kept_counts(self) -> tuple[int, ...]:
        """Return the counts of ``KEPT_COUNTS`` since the shard began, those of its earlier owners included."""
        counts = self.matcher.table.counts()
        return tuple(n + counts[name] for name, n in zip(KEPT_COUNTS, self._counts_before, strict=True))

    def increments(self) -> dict[str, int]:
        """Return the increase of each count of ``COUNTED`` since the last call; call it between steps."""
        counts = self.matcher.table.counts()
        counts = {**counts, "documents": counts["items"], "postings": self.matcher.table.posting_end}
        now = {name: counts[name] for name in COUNTED}
        grown = {name: now[name] - self._reported[name] for name in COUNTED}
        self._reported = now
        return grown


def _known(time: int) -> int | None:
    return None if time == NO_TIME else int(time)
