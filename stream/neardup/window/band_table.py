"""``BandTable``: items in a window, found by common bucket keys.

Theory of operation. Items stand in slots in order of arrival; their postings form the chains of the buckets (see
``chains``), whose newest ends are in ``heads``; ``pages`` lets all of it grow and shrink with the window.

Every change belongs to a **step**: ``begin``, any number of ``probe_add`` and ``remove``, then ``commit`` or ``undo``.

- open: a step may add, expire, supersede, remove. What was stored at ``begin`` is overwritten only with a note in
  the journal, and no page is given back.
- ``commit``: pages below the oldest live slot are given back. The next step empties the journal.
- ``undo``: the journal is read backwards and the counters are set back: the table answers as it did at ``begin``.
- An exception inside a step leaves it open: the caller must ``undo``. An ``AssertionError`` means the table is broken.

A slot expires when stream time (the greatest event time so far) exceeds the slot's time by window and lateness. It is
evicted when ``Limits.items`` newer slots need its room. Slots leave in order of arrival: a slot does not leave before
all slots that arrived earlier. The difference of the times of two items decides whether they may pair.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.ids import strings_at
from neardup.errors import CapacityError
from neardup.features.tokens.rarity import Rarity
from neardup.machine.memory import Kept
from neardup.window import step, views
from neardup.window.chains import (
    BARE,
    BYTE_PAGE_BITS,
    CANDIDATES_FULL,
    GROUP_BITS,
    HEADS_FULL,
    JOURNAL_FULL,
    KEYS,
    LINK_PAGE_BITS,
    NO_LIMIT,
    NO_ROOM,
    NO_TIME,
    POSTING_PAGE_BITS,
    REMOVAL,
    SLOT_PAGE_BITS,
    Items,
    Store,
    Work,
    grown_journal,
    new_buffer,
    new_journal,
    new_scratch,
)
from neardup.window.counters import (
    COUNTERS,
    FIRST_TIME,
    LINK_END,
    OLDEST,
    POSTING_END,
    REMOVALS,
    SLOT_END,
    STATE_FIELDS,
    STREAM_TIME,
    Limits,
    count_missed,
)
from neardup.window.heads import NEEDS_PAGES, NONE, SEGMENTS, add_pages, empty_heads, grown, rebuild
from neardup.window.pages import Pages, empty_arrays, grow

# Posting numbers are stored modulo 2**32 and links as 32-bit distances; at most 2**31 postings live at a time.
POSTINGS_MAX = 1 << 31
# A segment of the heads is rebuilt at least this often, so that expired heads are dropped before numbers repeat.
_SWEEP_POSTINGS = 1 << 30
_CANDIDATES_START = 1 << 14
_LACKS_ROOM = NO_ROOM, HEADS_FULL, JOURNAL_FULL


class Candidates(NamedTuple):
    """The m candidates of a batch: position in the batch (``int32[m]``), slot (``int64[m]``), same content
    (``bool[m]``); ``uncompared`` (``int32[m]``), with the first candidate of an item, how many documents a limit left
    out, else 0; and ``end``, the position of the first item that was not read."""

    items: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int64]
    identical: npt.NDArray[np.bool_]
    uncompared: npt.NDArray[np.int32]
    end: int


Run = Callable[..., tuple[int, int, int, int, int, int, int]]  # ``step.run``, or a kernel that does more
_new_candidates = functools.partial(tuple.__new__, Candidates)  # a call of ``Candidates`` takes three times as long


@functools.lru_cache(maxsize=16)
def _no_candidates(end: int) -> Candidates:
    return Candidates(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.int32), end)


class BandTable:
    """A windowed table of buckets, which kernels read in ``store``; see the module for the steps.

    ``width`` is the bytes of the fixed part of an item's evidence. Room for ragged parts and for payloads is allocated
    when the first of them arrives. The table of a shard takes foreign items (``chains``), too. ``rarity`` joins in.
    """

    def __init__(self, width: int, limits: Limits, *, is_shard: bool = False, rarity: Rarity | None = None) -> None:
        counts = limits.items, limits.bytes, limits.bucket_candidates, limits.probe_candidates, limits.copies
        assert min(limits.window, limits.lateness) >= 0 < min(counts), limits
        self.limits = limits
        self._width, self._is_shard, self._rarity = width, is_shard, rarity
        bits = SLOT_PAGE_BITS, POSTING_PAGE_BITS, BYTE_PAGE_BITS, LINK_PAGE_BITS
        self._slots, self._postings, self._bytes, self._links = map(Pages, bits)
        state = np.zeros(len(STATE_FIELDS), np.int64)
        state[[STREAM_TIME, FIRST_TIME]] = NO_TIME
        self.store = Store(heads=empty_heads(), **empty_arrays(Store))._replace(
            slot_map=self._slots.map, posting_map=self._postings.map, byte_map=self._bytes.map,
            link_map=self._links.map, before=np.empty((0, 2), np.int64), groups=np.empty((0, 3), np.uint32),
            state=state,
        )  # fmt: skip
        self.room = np.empty(width, np.uint8)  # for the fixed part of an item that lies on two pages
        self._work = Work(new_journal(0), new_buffer(_CANDIDATES_START), new_scratch(0))
        self._kept, self._items = Kept[views.Table](views.keep_table), Kept[Items](views.keep_items)
        self._turn, self._base = np.array([0, 0, 0, 0, 0, 1]), 0  # ``views.EPOCH`` is 1, and what is ``views.BASE``
        self.is_open, self._before = False, state.copy()
        self._released = 0  # the oldest slot whose predecessors' pages were given back; its first posting is ``BASE``
        self._must_grow = True  # whether arrays or maps are shorter than their pages
        self._swept = np.zeros(SEGMENTS, np.int64)
        self._sweep_next, self._sweep_after = 0, _SWEEP_POSTINGS  # which segment is rebuilt next, and from when on
        # The oldest slot in the window, and the numbers of the next slot and posting, which count those ever added:
        # both are numbered in order of arrival, from 0. Each item has a posting of its content and one of its id.
        self.oldest = self.slot_end = self.posting_end = 0

    def begin(self) -> None:
        """Open a step."""
        assert not self.is_open, "a step is open"
        self._before[SLOT_END] = NONE  # until a kernel changes something: a signal may raise as soon as that returns
        if self.posting_end > self._sweep_after:
            self._sweep(self.posting_end)
        if self._rarity is not None:
            self._rarity.begin()
        self.is_open = True

    def commit(self) -> None:
        """Close the step and give back the pages of what has left the window."""
        if self._rarity is not None:
            self._rarity.commit()
        self.is_open = False
        oldest = self.oldest
        if oldest == self._released:
            return
        posting, byte, link = views.firsts(self.store, self._base)
        self._released, self._base, self._turn[views.BASE] = oldest, posting, posting
        self._postings.release(posting)
        self._bytes.release(byte)
        self._links.release(link)
        self._slots.release(oldest)

    def undo(self) -> None:
        """Close the step, if it is open, and restore the table as it was at ``begin``."""
        if self.is_open and self._before[SLOT_END] != NONE:
            step.undo(self.store, self._work.journal, self._base)
            self._work.found.length[0] = 0  # an exception may have left candidates
            self.store.state[:] = self._before
            self.oldest, self.slot_end, self.posting_end = self._before[[OLDEST, SLOT_END, POSTING_END]].tolist()
        if self.is_open and self._rarity is not None:
            self._rarity.undo()
        self.is_open = False

    def probe_add(
        self, items: Items, probe: bool = True, add: bool = True, first: int = 0, candidates_max: int = NO_LIMIT,
        settled: int = 0, run: Run | None = None, ended: tuple[int, ...] | None = None, limits: Limits | None = None,
    ) -> Candidates:  # fmt: skip
        """Probe the buckets of each item, then add it, item by item; each candidate once, in order of the items.

        A removal takes no slot; a foreign item takes one if it leaves a mark, which is no candidate.
        The call begins at item ``first`` and stops after the item that brings the candidates to ``candidates_max``;
        ``end`` says where to continue. ``settled``: see ``StepOptions``. ``run`` may use up the candidates; ``ended``
        is what its first call has returned. ``limits`` replace the table's limits, but for the bounds of memory.

        With ``add=False`` (many-one) only the counts change, and no item is evicted: the oldest item is a candidate
        even if the window is full. With ``probe=False`` (a replay) nothing is looked up. Raises ``CapacityError`` if
        more postings would live at a time than can be numbered.
        """
        assert self.is_open or not add, "no step is open"
        assert candidates_max >= 1, candidates_max
        assert not add or items.fixed.shape[1] == self._width, items.fixed.shape
        run, at = run or step.run, self.items_at(items)
        done: list[Candidates] = []
        while True:
            if ended is None:
                ended = run(self.at(limits), at, first, probe, add, candidates_max, settled)
            ended = self.run_on(ended, items, run, probe, add, candidates_max, settled, limits)
            first, why, _, found, self.oldest, self.slot_end, self.posting_end = ended
            if why != CANDIDATES_FULL:
                break
            run, ended = step.run, None
            done.append(self._drain(first, views.demand(items, first, self.oldest < settled)[0], found))
            candidates_max -= len(done[-1].items)
        if not done:
            return self._drain(first, 0, found) if found else _no_candidates(first)
        done.append(self._drain(first, 0, found))
        return Candidates._make([*map(np.concatenate, list(zip(*done, strict=True))[:-1]), first])

    def run_on(
        self, ended: tuple[int, ...], items: Items, run: Callable[..., tuple[int, ...]], probe: bool, add: bool,
        candidates_max: int, settled: int = 0, limits: Limits | None = None,
    ) -> tuple[int, ...]:  # fmt: skip
        """Call a kernel again with more room, as long as that is why it ``ended``; return what it returned last."""
        asked = -1
        while (why := ended[1]) in _LACKS_ROOM:
            first, _, segment, _, self.oldest, self.slot_end, self.posting_end = ended[:7]
            longest = views.demand(items, first, self.oldest < settled)[0]
            if why == NO_ROOM:
                assert asked < first, "there is no room after it was made"
                self._reserve(items, asked := first, hides=self.oldest < settled, add=add)
            elif why == HEADS_FULL:
                self._add_pages(segment, longest)
            else:
                self._work = self._work._replace(journal=grown_journal(self._work.journal, longest))
            ended = run(self.at(limits), self.items_at(items), first, probe, add, candidates_max, settled)
        return ended

    def at(self, limits: Limits | None = None) -> int:
        """The address of the table (``views.Table``), for a kernel that is called now; with other limits, if given."""
        kept, table, limits = self._kept, self._kept.value, limits or self.limits
        if table is None or table[1] is not limits or table[2] is not self._work:
            kept.renew(views.Table(self.store, limits, self._work, self._before, self._turn, self._is_shard))
        return kept.address

    def items_at(self, items: Items) -> int:
        """The address of items, for kernels that are called before those of others are asked for."""
        if self._items.value is not items:
            self._items.renew(items)
        return self._items.address

    def remove(self, items: Items) -> int:
        """Remove every live version of the ids in ``items`` (their keys: content, id); returns how many."""
        removals = int(self.store.state[REMOVALS])
        self.probe_add(items._replace(kinds=np.full(len(items.times), REMOVAL)))
        return int(self.store.state[REMOVALS]) - removals

    def ids(self, slots: Sequence[int] | npt.NDArray[np.int64], offset: int = 0) -> list[str]:
        """The ids of slots of the window; those of rows whose slots are ``offset`` more, except for rows below 0."""
        bounds: npt.NDArray[np.int64] = np.empty((2, len(slots)), np.int64)
        count = views.id_bounds(self.at(), np.ascontiguousarray(slots, np.int64), offset, bounds)
        first, end = bounds.tolist()
        return strings_at(self.store.bytes.data, first[:count], end[:count])

    def fixed(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """The fixed part of the evidence of slots of the window, ``uint8[m, width]``, 0 where it is not stored."""
        bare = self.is_bare(slots)
        if not bare.any():
            return self._read(slots, 0, np.arange(len(slots) + 1) * self._width).reshape(len(slots), self._width)
        out = np.zeros((len(slots), self._width), np.uint8)
        if not bare.all():
            out[~bare] = self.fixed(slots[~bare])
        return out

    def is_bare(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which slots have no fixed evidence, ``bool[m]``: it follows from the ragged part."""
        return np.asarray((self.store.flags[self._slots.at(slots)] & BARE) != 0)

    def ragged_lengths(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Bytes of the ragged part of the evidence of slots of the window, ``int64[m]``."""
        lengths = self.store.ragged_lengths
        return lengths[self._slots.at(slots)].astype(np.int64) if len(lengths) else np.zeros(len(slots), np.int64)

    def ragged(self, slots: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The ragged part: bytes, and the starts in them, ``int64[m + 1]``."""
        starts = np.zeros(len(slots) + 1, np.int64)
        if not len(self.store.ragged_lengths):
            return np.empty(0, np.uint8), starts
        self.ragged_lengths(slots).cumsum(out=starts[1:])
        return self._read(slots, self._width, starts), starts

    def arrivals(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The numbers of slots of the window in the stream: how many items came before each, ``int64[m]``."""
        return self.store.before[self._slots.at(slots), 0] if self._is_shard else slots

    def times(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The event times of slots of the window in microseconds, ``NO_TIME`` for items without one."""
        times = np.empty(len(slots), np.int64)
        views.times_of(self.store, np.ascontiguousarray(slots, np.int64), times)
        return times

    @property
    def documents(self) -> int:
        """How many items are in the window, copies, removed ones and marks included."""
        return self.slot_end - self.oldest

    @property
    def stream_time(self) -> int:
        """The greatest event time seen, in microseconds, or ``NO_TIME``."""
        return int(self.store.state[STREAM_TIME])

    def set_stream_time(self, time: int) -> None:
        """Let an empty table begin at a time in microseconds, as if an item of that time had expired."""
        assert self.slot_end == 0, "only an empty table can start at a time"
        self.store.state[[STREAM_TIME, FIRST_TIME]] = time

    def counts(self) -> dict[str, int]:
        """The counters since the table was made, by name: items, candidates, copies, late, expired, ..."""
        return dict(zip(COUNTERS, self.store.state[-len(COUNTERS) :].tolist(), strict=True))  # they are its end

    def count_missed(self, missed: npt.NDArray[np.float64], lone: int) -> None:
        """Count pairs that limits are expected to cost, and the documents that may lack all of theirs."""
        count_missed(self.store.state, missed, lone)

    def memory_bytes(self) -> tuple[int, int]:
        """Bytes in use by the window, and bytes allocated, over all arrays."""
        arrays = (*self.store, *self.store.heads, *self._work.journal, *self._work.found)
        allocated = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
        held = int(self._bytes.physical_pages - self._bytes.free_pages) << BYTE_PAGE_BITS
        return views.used_bytes(self.store, self._base) + held, allocated

    def _reserve(self, items: Items, first: int, *, hides: bool, add: bool) -> None:
        """Allocate room for the items from ``first`` on (with ``hides``, marks may have all postings)."""
        longest, shortest, id_longest, foreign, slots, postings, size = views.demand(items, first, hides)
        if longest > len(self._work.scratch.heads):
            self._work = self._work._replace(scratch=new_scratch(longest))
        if not add:
            return
        assert id_longest <= views.ID_BYTES_MAX, "the length of an id stands in 16 bits"
        assert shortest >= KEYS, "a content key and an id key come first, and what is added is among the keys"
        assert self._is_shard or not foreign, "only a shard takes foreign items"
        slot_end, posting_end, byte_end, link_end = self.store.state[SLOT_END : LINK_END + 1].tolist()
        link_end, postings = link_end + postings, posting_end + postings
        if postings - self._base > POSTINGS_MAX:
            raise CapacityError(
                f"{postings - self._base:,} postings in the window; a table numbers at most {POSTINGS_MAX:,}: "
                "shorten the window or divide the stream into more shards"
            )
        grows, self._must_grow = self._must_grow, True  # until all have room, also after an exception
        grows |= self._slots.extend(slot_end + slots) | self._postings.extend(postings)
        grows |= self._bytes.extend(byte_end + size) | self._links.extend(link_end)
        has_first = len(items.payloads) and not len(self.store.payloads)
        if grows or has_first or (len(items.ragged) and not len(self.store.ragged_lengths)):
            self._grow(items)
        self._must_grow = False
        postings_end = min(self._postings.end, self._base + POSTINGS_MAX)
        self._turn[: views.BASE] = self._slots.end, postings_end, self._bytes.end, self._links.end

    def _add_pages(self, segment: int, keys: int) -> None:
        """Widen a segment of the heads for an item with so many keys."""
        self._kept.value = None
        self.store = self.store._replace(heads=add_pages(self.store.heads, segment, keys))

    def _grow(self, items: Items) -> None:
        self._kept.value = None
        slots, postings = self._slots.physical_pages << SLOT_PAGE_BITS, self._postings.physical_pages
        for array in views.slot_arrays(self.store):
            grow(array, slots)
        if self._is_shard:
            grow(self.store.before, slots)
        grow(self.store.links, self._links.physical_pages << LINK_PAGE_BITS)
        if len(items.payloads) or len(self.store.payloads):
            grow(self.store.payloads, postings << POSTING_PAGE_BITS)
            grow(self.store.links, postings << POSTING_PAGE_BITS)
            grow(self.store.noted, slots)
        if len(items.ragged) or len(self.store.ragged_lengths):
            grow(self.store.ragged_lengths, slots)
        grow(self.store.groups, postings << (POSTING_PAGE_BITS - GROUP_BITS))
        grow(self.store.bytes, self._bytes.physical_pages << BYTE_PAGE_BITS)
        self.store = self.store._replace(
            slot_map=self._slots.map, posting_map=self._postings.map, byte_map=self._bytes.map,
            link_map=self._links.map,
        )  # fmt: skip

    def _drain(self, end: int, longest: int, count: int) -> Candidates:
        found = self._work.found
        items, slots = found.items[:count].copy(), found.slots[:count].copy()
        identical, left = found.identical[:count].copy(), found.left[:count].copy()
        found.length[0] = 0
        if longest:
            most = min(longest * self.limits.bucket_candidates, self.documents) + 1
            if most > len(found.slots):
                self._work = self._work._replace(found=new_buffer(2 * most))
        return _new_candidates((items, slots, identical, left, end))

    def expect(self, items: int) -> None:
        """Make room for the heads of so many items in all, between two steps, if each has as many as those that are
        there: so a replay moves heads seldom."""
        self._kept.value, end = None, self.posting_end
        self.store = self.store._replace(heads=grown(self.store.heads, items / self.documents, self._base, end))

    def _sweep(self, end: int) -> None:
        """Rebuild the segment whose last rebuild is long ago; see ``heads``."""
        segment = self._sweep_next
        while rebuild(self.store.heads, segment, 0, self._base, end) == NEEDS_PAGES:
            self._add_pages(segment, 0)
        self._swept[segment], self._sweep_next = end, (segment + 1) % SEGMENTS
        self._sweep_after = self._swept.item(self._sweep_next) + _SWEEP_POSTINGS

    def _read(self, slots: npt.NDArray[np.int64], skipped: int, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        out = np.empty(int(starts[-1]), np.uint8)
        views.gather_bytes(self.store, self._slots.at(slots), skipped, starts, out)
        return out
