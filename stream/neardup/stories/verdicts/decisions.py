"""The state of the decisions of a stream: what was decided in the window, in columns, with steps.

Theory of operation. Rows are decided documents in order of arrival (see ``row_columns``), stories what they belong to
(see ``stories``). Every call of ``decide`` belongs to a step: ``begin``, any number of ``decide``, then ``commit`` or
``undo``.

- ``decide`` adds rows. Of earlier rows it changes the mark of removal, and the story of one that was alone in it.
- ``commit`` drops the rows that have left the window, returns their pages, and collects the stories that have ended.
- ``undo`` drops the rows of the step, restores the earlier rows and stories that they changed, and fills the maps
  again. It reads every row of the window; steps are seldom undone.

A row counts until stream time (the greatest event time decided) exceeds its own time by window and lateness, or newer
ones push it out: with it they are more than ``rows``, or take more than ``bytes``. Rows leave in order of arrival, when
a step ends. So the decisions do not depend on when rows leave, nor on how arrivals are divided into calls and steps.

A row takes 73 bytes, and 4 in each of two maps; a story with two members or more 352, and about 30 in heap and map.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from neardup.machine.memory import Kept
from neardup.pairs.at_once import CANDIDATES_MAX
from neardup.stories.verdicts import deciding, records, row_columns, rule, stories
from neardup.stories.verdicts.deciding import Compare, Deciding
from neardup.stories.verdicts.fields import Verdicts, new_verdicts
from neardup.stories.verdicts.kept import KeptStories, stories_of
from neardup.stories.verdicts.leads import new_comparing
from neardup.stories.verdicts.row_columns import (
    CONTENT_ENTRIES,
    COUNTED,
    COUNTED_BYTES,
    END,
    ENDED,
    FIRST,
    FIRST_TIME,
    FREE,
    ID_ENTRIES,
    IGNORED,
    JOURNAL,
    MARK_ENTRIES,
    NONE,
    NOTHING_FOUND,
    RECORDS,
    STEP,
    STREAM_TIME,
    Found,
    Pairs,
    VerdictLimits,
)
from neardup.stories.verdicts.rule import Arrivals, Arriving
from neardup.stories.verdicts.saved import Held, Saved, SavedRows
from neardup.window.pages import Pages, grow

# Ended stories are collected when there are more, and more than half of all.
_COLLECTED_MIN = 1 << 10
# Arrivals that are looked at ahead of the one that is decided: what near copies of each other need becomes known only
# while they are decided, and each look asks for all that is known.
AHEAD_MAX = 1 << 11
# Room is made for at least so many rows, so that calls of one document seldom do it.
_ROWS_MIN = 256
_new_pairs = functools.partial(tuple.__new__, Pairs)  # a call of ``Pairs`` takes three times as long


class Decisions:
    """The decisions of one stream; see the module for the steps. One thread at a time may use it.

    Attributes:
        first: the number of the oldest stored row.
        end: the number that the next decided document will have.
        more: counts verdicts that say more than that a document is an original.
        changed: counts the records of stories that the open step has changed.
    """

    def __init__(self, limits: VerdictLimits) -> None:
        self._rules = limits
        self._pages = Pages(row_columns.ROW_PAGE_BITS)
        self._columns = row_columns.empty(self._pages.map, records.empty())
        # No pairs and no results of as many arrivals as came last.
        self._no_pairs, self._comparing = Pairs(np.zeros(1, np.int64), *NOTHING_FOUND[1:]), new_comparing()
        numbers, similarities = np.empty(CANDIDATES_MAX, np.int64), np.empty(CANDIDATES_MAX, np.float32)
        self._pairs_found = self._no_pairs._replace(numbers=numbers, similarities=similarities)
        self._kept, self._every = Kept[Deciding](deciding.keep), np.ones(0, np.bool_)
        self._is_open, self._before = False, self._columns.state.copy()
        self._room = self.changed = 0  # for so many rows there is room for certain; records that the step has changed
        self.first = self.end = self.more = 0

    @property
    def ignored(self) -> int:
        """How many pairs were ignored because the earlier document was not decided or has left the window."""
        return int(self._columns.state[IGNORED])

    @property
    def counts(self) -> dict[str, int]:
        """What has happened: late documents, documents that were not compared with every content that their pairs lead
        to, stories that the limit of bytes ended; and the stories that are held."""
        state = self._columns.state
        held = int(state[RECORDS] - state[FREE] - state[ENDED])
        late, cut, evicted = state[[row_columns.LATE, row_columns.CUT, row_columns.EVICTED]].tolist()
        return {"late": late, "cut": cut, "evicted": evicted, "stories": held}

    def begin(self) -> None:
        """Open a step."""
        assert not self._is_open, "a step is open"
        self.changed = 0
        self._before[END] = NONE  # until a kernel changes something: a signal may raise as soon as that returns
        self._is_open = True

    def decide(
        self, arrivals: Arrivals, found: Found | Pairs, compare: Compare | None = None,
        verdicts: Verdicts | None = None, first: int = 0, end: int | None = None, arriving: Arriving = rule.ARRIVED,
    ) -> Verdicts:  # fmt: skip
        """Decide the next arrivals of the stream in their order, from ``first`` to ``end``; returns the verdict of
        each, in ``verdicts`` if that is given.

        The pairs that were found are with documents that are decided, or stand before them in ``arrivals``. ``compare``
        compares arrivals with decided documents directly; without it only pairs count. ``arriving`` is what fills in
        ``arrivals`` before.
        """
        n = len(arrivals.places)
        end, verdicts = n if end is None else end, new_verdicts(n) if verdicts is None else verdicts
        self.ready(arrivals, verdicts, end - first, usable=compare is not None)
        pairs = self._no_pairs
        if isinstance(found, Pairs):
            pairs = found
        elif len(found.rows):
            pairs = _new_pairs((rule.starts_of(found.rows, n), found.numbers, found.similarities))
        self._decide(first, end, pairs, compare, arriving)
        return verdicts

    def ready(self, arrivals: Arrivals, verdicts: Verdicts, count: int, *, usable: bool) -> int:
        """Make room for rows, and return where the kernels find these arrivals, which may be compared directly if
        ``usable``, and verdicts."""
        assert self._is_open, "no step is open"
        if count > self._room:
            self._make_room(count, count)
        self._room -= count
        kept = self._kept
        if (was := kept.value) is None or was[2] is not arrivals or was[3] is not verdicts or was[6][0] != usable:
            self._renew(arrivals, verdicts, usable)
        return kept.address

    def finish(self, at: int, compare: Compare) -> None:
        """Decide the arrivals of that call from ``at`` on, the first of which waits for comparisons."""
        self._decide(at, len(self._every), self._pairs_found, compare, rule.ARRIVED)

    def _renew(self, arrivals: Arrivals, verdicts: Verdicts, usable: bool) -> None:
        if (n := len(arrivals.places)) != len(self._every) or self._comparing.usable != usable:
            self._every, starts = np.ones(n, np.bool_), np.zeros(n + 1, np.int64)
            self._no_pairs = self._no_pairs._replace(starts=starts)
            self._pairs_found = self._pairs_found._replace(starts=starts.copy())
            self._comparing = self._comparing._replace(usable=usable, starts=starts, against=np.empty(n, np.int64))
        state = self._columns, self._rules, arrivals, verdicts, self._before, self._pairs_found, self._comparing
        self._kept.renew(Deciding(*state, self._every))

    def _decide(self, at: int, end: int, pairs: Pairs, compare: Compare | None, arriving: Arriving) -> None:
        """Decide arrivals, and make the comparisons that the kernel asks for."""
        block_end, comparing = at, self._comparing
        while at < end:
            if at == block_end:
                comparing, block_end = self._comparing, min(end, at + AHEAD_MAX)
            where = self._kept.address, *arriving
            ended = deciding.decide_arrivals(*where, pairs, comparing, at, block_end)
            at, self.end, more, self.changed = ended
            self.more += more
            arriving = rule.ARRIVED
            if at < block_end:
                assert compare is not None, "a document waits for comparisons that cannot be made"
                asked = int(comparing.asked[0])
                items, numbers = comparing.asked_items[:asked].copy(), comparing.asked_rows[:asked].copy()
                comparing = deciding.with_results(comparing, items, numbers, compare(items, numbers), at, block_end)

    @property
    def against(self) -> npt.NDArray[np.int64]:
        """Of each arrival of the last call, the row that ``said`` of its verdict compares with, or ``NO_ROW``."""
        return self._comparing.against

    def restore(
        self, arrivals: Arrivals, decided: Verdicts, stream_time: int, kept: KeptStories
    ) -> npt.NDArray[np.int64]:
        """Add rows that were decided before, in a step of its own: consecutive arrivals, the first of them at or before
        the oldest row that may still speak. ``stream_time`` is the greatest event time of them in microseconds,
        ``NO_TIME`` for none; the stories have rows for places.

        Returns the number of each row, ``int64[n]``, -1 for what is no document.
        """
        self.begin()
        row_columns.begin(self._columns.state, self._before)
        numbers = np.empty(len(arrivals.places), np.int64)
        self._make_room(len(numbers), len(kept.records))
        records.resume(self._columns, kept.records)
        self._order(records.held(self._columns))
        stories = stories_of(decided.clusters, decided.statuses == rule.ORIGINAL, kept)
        rule.replay(self._columns, self._rules, arrivals, decided, stories, numbers)
        self._columns.state[STREAM_TIME] = max(int(self._columns.state[STREAM_TIME]), stream_time)
        self.end, self.changed = self._columns.state[[END, JOURNAL]].tolist()
        self.commit()
        return numbers

    def places(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the places of kept rows, ``int64[m]``."""
        return self._columns.places[self._pages.at(numbers)]

    def times(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the event times of kept rows in microseconds, ``int64[m]``."""
        return self._columns.times[self._pages.at(numbers)]

    def story_times(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the time of the newest member of the story of kept rows that have joined one, ``int64[m]``."""
        newest = self._columns.story.records[:, records.NEWEST]
        return newest[self._columns.stories[self._pages.at(numbers)]]

    def newest(self, contents: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the number of the newest row of each content, ``int64[m]``, -1 where none is kept."""
        numbers = np.empty(len(contents), np.int64)
        deciding.newest_rows(self._columns, contents, numbers)
        return numbers

    def counted_for(self, numbers: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of ``others`` counted when these rows of the open step, in order, were decided, ``bool[m]``."""
        counts = np.empty(len(numbers), np.bool_)
        before = self._columns._replace(state=self._before.copy())
        deciding.counted_for(before, self._rules, numbers, others, counts)
        return counts

    def judgement(self, ids: npt.NDArray[np.uint64], content: np.uint64, *, same: bool) -> int:
        """Return how it comes to hold that two ids (hashes, ``uint64[2]``) tell the same story, or not, when the first
        one arrives again with this content: see ``stories.judgement``."""
        return int(stories.judgement(self._columns, self._rules, ids[0], ids[1], content, int(same)))

    def sizes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the bytes of the ids and the evidence of kept rows, ``int64[m]``."""
        return self._columns.sizes[self._pages.at(numbers)].astype(np.int64)

    def named_places(self) -> npt.NDArray[np.int64]:
        """Return the places that kept rows and stories name: of originals, and of contents that were compared."""
        at = self._pages.at(np.arange(self.first, self.end))
        return np.concatenate(
            [self._columns.clusters[at], self._columns.matched[at], stories.places_of_contents(self._columns)]
        )  # fmt: skip

    def contents_of(self, id_: np.uint64) -> npt.NDArray[np.uint64]:
        """Return the contents of an id in the living stories with two members or more, ``uint64[n]``."""
        return records.contents_of(self._columns, id_)

    @property
    def stream_time(self) -> int:
        """The greatest event time decided, in microseconds, or ``NO_TIME``."""
        return int(self._columns.state[STREAM_TIME])

    def pending(self, *, with_records: bool = True) -> records.Changes:
        """Return what the open step has changed of stories so far, or the last one that was committed; if asked for
        with the records."""
        return records.changes(self._columns, with_records=with_records) if self.changed else records.NO_CHANGES

    def contents_between(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """Return the rows from ``first`` to ``end`` whose contents stories have, and the place of the story of which
        each is the first one, else ``NONE``, ``int64[2, m]``. They may have left with the last step."""
        out = np.empty((2, end - first), np.int64)
        return out[:, : records.with_contents(self._columns, first, end, out)]

    def commit(self) -> None:
        """Close the step, drop the rows that have left the window, and collect the stories that have ended; a call
        goes on where an exception interrupted one."""
        if self._is_open:
            self._is_open = False
        state = self._columns.state
        if (counted := state.item(COUNTED)) > self.first:
            self._release(counted)
        if not self.changed:  # as in most steps of one document
            return
        ended = state.item(ENDED)
        if ended > _COLLECTED_MIN and ended > int(state[RECORDS] - state[FREE]) // 2:
            self._order(records.collect(self._columns))
            state[ENDED] = 0

    def undo(self) -> None:
        """Close the step as if it had never been opened; a call goes on where an exception interrupted one."""
        before = self._before
        if self._is_open and before[END] != NONE:
            deciding.unmark(self._columns, before[END], before[STEP])
            records.undo(self._columns, before[END])
            self._columns.state[:] = before
            self.first, self.end = before[[FIRST, END]].tolist()
            self._fill_maps(len(self._columns.content_map))
            self._order(records.held(self._columns))
        self._is_open = False

    def forget(self, before: int) -> None:
        """Count no row below ``before``, because the caller no longer has their documents; between steps."""
        assert not self._is_open, "a step is open"
        if before > self.first:
            deciding.uncount_below(self._columns, before := min(before, self.end))
            self._release(before)

    def _release(self, before: int) -> None:
        self._columns.state[FIRST] = self.first = before
        self._pages.release(before)

    def saved(self, places: int, held: Held) -> Saved:
        """The rows of the window, the stories and the state, to continue from. So many places were given; ``held`` is
        what the caller holds for the stories."""
        columns, state = self._columns, self._columns.state
        at = self._pages.at(np.arange(self.first, self.end))
        rows = SavedRows._make(getattr(columns, name)[at] for name in SavedRows._fields)
        rows = rows._replace(removed=(rows.removed > 0).astype(np.uint32))
        stories, numbers = records.saved(columns, self.first)
        rows = rows._replace(stories=numbers[rows.stories].astype(np.int32))
        return Saved(rows, stories, held, places, int(state[STREAM_TIME]), int(state[FIRST_TIME]), int(state[IGNORED]))

    def resume(self, saved: Saved) -> None:
        """Continue from saved decisions; before the first step."""
        assert not self._columns.state[STEP], "decisions resume before the first step"
        count = len(saved.rows.times)
        self._make_room(count, len(saved.records))
        columns, state = self._columns, self._columns.state
        at = self._pages.at(np.arange(count))
        for name, column in saved.rows._asdict().items():
            getattr(columns, name)[at] = column
        self.end = count
        state[[END, STREAM_TIME, FIRST_TIME, IGNORED]] = count, saved.stream_time, saved.first_time, saved.ignored
        state[COUNTED_BYTES] = columns.sizes[at].sum()
        state[STEP] = 1  # the step that removed what is marked as removed
        deciding.rebuild(columns, count)
        records.resume(columns, saved.records)
        self._order(records.held(columns))

    def memory_bytes(self) -> tuple[int, int]:
        """Bytes in use by the rows of the window and by stories, and bytes allocated."""
        columns, state = self._columns, self._columns.state
        arrays = [getattr(columns, name) for name in row_columns.ROW_COLUMNS]
        per_row = sum(array.itemsize for array in arrays) + columns.content_map.itemsize + columns.id_map.itemsize
        story = columns.story  # a record has an entry in the heap, and one in the map
        per_story = story.records.itemsize * (records.RECORD_FIELDS + 2) + story.id_map.itemsize
        in_use = int(state[END] - state[FIRST]) * per_row + int(state[RECORDS] - state[FREE]) * per_story
        return in_use, sum(array.nbytes for array in [*arrays, columns.content_map, columns.id_map, *story])

    def _make_room(self, rows: int, story_room: int) -> None:
        """Make pages for more rows, maps of which at most three quarters will be used, and room for so many stories."""
        self._grow(max(rows, _ROWS_MIN), max(story_room, _ROWS_MIN))
        columns, state = self._columns, self._columns.state
        story, stored = columns.story, int(state[RECORDS])
        maps = (
            (columns.content_map, max(int(state[CONTENT_ENTRIES]), int(state[ID_ENTRIES]))),
            (story.id_map, stored - int(state[FREE])),
            (story.mark_map, int(state[MARK_ENTRIES])),
        )
        of_maps = (3 * len(entries) // 4 - used for entries, used in maps)
        self._room = min(self._pages.end - self.end, len(story.records) - stored, *of_maps)

    def _grow(self, rows: int, story_room: int) -> None:
        columns, self._kept.value = self._columns, None
        end = int(columns.state[END])
        self._pages.extend(end + rows)
        size = self._pages.physical_pages << row_columns.ROW_PAGE_BITS
        if size > len(columns.times):
            for name in reversed(row_columns.ROW_COLUMNS):  # ``times`` last: after an exception all grow again
                grow(getattr(columns, name), size)
        story = records.with_room(columns, story_room)
        if story is not columns.story or self._pages.map is not columns.page_map:
            self._columns = columns._replace(page_map=self._pages.map, story=story)
        if 4 * (int(columns.state[MARK_ENTRIES]) + rows) > 3 * len(self._columns.story.mark_map):
            self._columns = stories.with_marks(self._columns, rows)
        used = max(int(columns.state[CONTENT_ENTRIES]), int(columns.state[ID_ENTRIES])) + rows
        if 4 * used > 3 * len(columns.content_map):
            live = end - int(columns.state[FIRST]) + rows
            self._fill_maps(max(row_columns.ENTRIES_MIN, 1 << (2 * live - 1).bit_length()))

    def _fill_maps(self, entries: int) -> None:
        self._kept.value = None
        content_map, id_map = np.zeros(entries, np.uint32), np.zeros(entries, np.uint32)
        columns = self._columns._replace(content_map=content_map, id_map=id_map)
        deciding.rebuild(columns, columns.state[END])
        self._columns = columns

    def _order(self, numbers: npt.NDArray[np.int64]) -> None:
        self._room, self._kept.value = 0, None
        self._columns.story.id_map[:] = 0
        records.order(self._columns, numbers)
        self._columns = stories.with_marks(self._columns, 0)
