"""The state of the decisions of a stream: what was decided in the window, in columns, with steps.

Theory of operation. Rows are decided documents in order of arrival (see ``row_columns``). Every call of ``decide``
belongs to a step: ``begin``, any number of ``decide``, then ``commit`` or ``undo``.

- ``decide`` adds rows. It changes only two columns of earlier rows: the head, when a later version replaces the row,
  and the mark of removal.
- ``commit`` drops the rows that have left the window, and returns their pages.
- ``undo`` drops the rows of the step, restores the earlier rows that they changed, and fills the maps again.
  It reads every row of the window; steps are seldom undone.

A row leaves when stream time (the greatest event time decided) exceeds its own time by window and lateness, or when
``rows`` newer ones push it out. Rows leave in order of arrival, but a row counts for nothing as soon
as it has expired. So the decisions do not depend on when rows leave, nor on how arrivals are divided into calls and
steps.

A row takes 56 bytes, and 4 in each of two maps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.table import NO_TIME, Limits
from neardup.stream.table.pages import Pages, grow
from neardup.stream.verdicts import restoring, row_columns, rule
from neardup.stream.verdicts.leads import new_comparing, with_results
from neardup.stream.verdicts.restoring import Decided
from neardup.stream.verdicts.row_columns import (
    CONTENT_ENTRIES,
    END,
    FIRST,
    FIRST_TIME,
    ID_ENTRIES,
    IGNORED,
    STEP,
    STREAM_TIME,
)
from neardup.stream.verdicts.saved import Saved, SavedRows

# A map has at least so many entries, a power of two, and is filled again when three quarters of them are used.
_ENTRIES_MIN = 1 << 10


class Arrivals(NamedTuple):
    """n arrivals in order, as columns.

    ``places`` (``int64[n]``) are names that the caller chooses; ``kinds`` (``uint8[n]``) are ``DOCUMENT``, ``REMOVAL``
    or ``REFUSAL``; ``ids`` (``uint64[n]``) hashes of ids, ``times`` (``int64[n]``) event times in microseconds,
    ``NO_TIME`` for none, ``contents`` (``uint64[n]``) hashes of what is compared. A removal has an id, a refusal a
    place only.
    """

    places: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]
    ids: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]


class Found(NamedTuple):
    """m pairs of arrivals with documents that were decided before, in order of the arrivals.

    ``rows`` (``int64[m]``) are places in the arrivals and never decrease, ``numbers`` (``int64[m]``) the numbers of the
    decided documents (a negative one was never decided), ``similarities`` (``float32[m]``) are in [0, 1].
    """

    rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]


class _Pairs(NamedTuple):
    """``Found`` as the kernel reads it: the pairs of arrival i are ``[starts[i], starts[i + 1])``."""

    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]


# Compares m arrivals, by their places in the call, with m decided documents, by their numbers (both ``int64[m]``):
# similarities in [0, 1] as ``float32[m]``, ``NO_PAIR`` for two documents that are no pair.
Compare = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.float32]]


class Verdicts(NamedTuple):
    """The verdicts of n arrivals, as columns.

    ``statuses`` (``uint8[n]``) are constants of ``rule``; ``clusters``, ``related`` and ``previous`` (``int64[n]``) are
    places, -1 for none; ``originals`` (``int64[n]``) is the number of the row that stands for the original, -1 for
    an original itself and if the original has left the window; ``similarities`` (``float32[n]``) compare with the
    original, 0 without one.
    """

    statuses: npt.NDArray[np.uint8]
    clusters: npt.NDArray[np.int64]
    originals: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]
    related: npt.NDArray[np.int64]
    previous: npt.NDArray[np.int64]


class VerdictLimits(NamedTuple):
    """Window and lateness in microseconds, the most rows, and whether equal contents are duplicates of each other."""

    window: int
    lateness: int
    rows: int
    by_content: bool = True

    @classmethod
    def of(cls, limits: Limits) -> VerdictLimits:
        """The limits of verdicts about the documents of a table with these limits."""
        return cls(limits.window, limits.lateness, limits.items, limits.by_content)


class Decisions:
    """The decisions of one stream; see the module for the steps. One thread at a time may use it."""

    def __init__(self, limits: VerdictLimits) -> None:
        self._rules = limits
        self._pages = Pages(row_columns.ROW_PAGE_BITS)
        state = np.zeros(row_columns.STATE_FIELDS, np.int64)
        state[[STREAM_TIME, FIRST_TIME]] = NO_TIME
        self._columns = row_columns.Columns(
            page_map=self._pages.map,
            times=np.empty(0, np.int64),
            contents=np.empty(0, np.uint64),
            ids=np.empty(0, np.uint64),
            places=np.empty(0, np.int64),
            clusters=np.empty(0, np.int64),
            heads=np.empty(0, np.int32),
            versions=np.empty(0, np.uint32),
            similarities=np.empty(0, np.float32),
            removed=np.empty(0, np.uint32),
            content_map=np.zeros(_ENTRIES_MIN, np.uint32),
            id_map=np.zeros(_ENTRIES_MIN, np.uint32),
            state=state,
        )
        self._comparing = new_comparing()
        self._before: npt.NDArray[np.int64] | None = None

    @property
    def end(self) -> int:
        """The number that the next decided document will have."""
        return int(self._columns.state[END])

    @property
    def first(self) -> int:
        """The number of the oldest stored row."""
        return int(self._columns.state[FIRST])

    @property
    def ignored(self) -> int:
        """How many pairs were ignored because the earlier document was not decided or has left the window."""
        return int(self._columns.state[IGNORED])

    def begin(self) -> None:
        """Open a step."""
        assert self._before is None, "a step is open"
        self._columns.state[STEP] += 1
        self._before = self._columns.state.copy()

    def decide(self, arrivals: Arrivals, found: Found, compare: Compare | None = None) -> Verdicts:
        """Decide arrivals in their order.

        Args:
            arrivals: the next arrivals of the stream.
            found: their pairs with documents that are decided, or stand before them in ``arrivals``.
            compare: compares arrivals with decided documents directly; without it only pairs count.

        Returns:
            The verdict of each arrival.
        """
        assert self._before is not None, "no step is open"
        n = len(arrivals.places)
        self._make_room(n)
        verdicts = Verdicts(
            np.empty(n, np.uint8), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.float32),
            np.empty(n, np.int64), np.empty(n, np.int64),
        )  # fmt: skip
        pairs = _Pairs(np.searchsorted(found.rows, np.arange(n + 1)), found.numbers, found.similarities)
        comparing = self._comparing._replace(usable=compare is not None, starts=np.zeros(n + 1, np.int64))
        comparing.asked[0] = 0  # an exception may have left some
        at = rule.decide(self._columns, self._rules, arrivals, pairs, comparing, verdicts, 0)
        while at < n:
            assert compare is not None, "a document waits for comparisons that cannot be made"
            asked = int(comparing.asked[0])
            items, numbers = comparing.asked_items[:asked].copy(), comparing.asked_rows[:asked].copy()
            comparing = with_results(comparing, items, numbers, compare(items, numbers))
            at = rule.decide(self._columns, self._rules, arrivals, pairs, comparing, verdicts, at)
        return verdicts

    def restore(self, arrivals: Arrivals, decided: Decided, stream_time: int) -> npt.NDArray[np.int64]:
        """Add rows that were decided before, in a step of its own; see ``restoring``.

        Args:
            arrivals: consecutive arrivals, the first of them at or before the oldest row that may still speak.
            decided: what was decided of them.
            stream_time: the greatest event time decided so far, in microseconds, ``NO_TIME`` for none.

        Returns:
            The number of each row, ``int64[n]``, -1 for what is no document.
        """
        self.begin()
        numbers = np.empty(len(arrivals.places), np.int64)
        self._make_room(len(numbers))
        restoring.replay(self._columns, arrivals, decided, numbers)
        self._columns.state[STREAM_TIME] = max(int(self._columns.state[STREAM_TIME]), stream_time)
        self.commit()
        return numbers

    def places(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the places of kept rows, ``int64[m]``."""
        return self._columns.places[self._pages.at(numbers)]

    def times(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the event times of kept rows in microseconds, ``int64[m]``."""
        return self._columns.times[self._pages.at(numbers)]

    def newest(self, contents: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the number of the newest row of each content, ``int64[m]``, -1 where none is kept."""
        numbers = np.empty(len(contents), np.int64)
        row_columns.newest_rows(self._columns, contents, numbers)
        return numbers

    @property
    def stream_time(self) -> int:
        """The greatest event time decided, in microseconds, or ``NO_TIME``."""
        return int(self._columns.state[STREAM_TIME])

    def commit(self) -> None:
        """Close the step, and drop the rows that have left the window."""
        assert self._before is not None, "no step is open"
        self._before = None
        self._pages.release(int(row_columns.drop(self._columns, self._rules)))

    def undo(self) -> None:
        """Close the step as if it had never been opened."""
        assert self._before is not None, "no step is open"
        before, self._before = self._before, None
        row_columns.undo(self._columns, before[END], before[STEP])
        self._columns.state[:] = before
        self._fill_maps(len(self._columns.content_map))

    def forget(self, before: int) -> None:
        """Drop the rows below ``before``, because the caller no longer has their documents; between steps."""
        assert self._before is None, "a step is open"
        state = self._columns.state
        state[FIRST] = min(max(int(state[FIRST]), before), int(state[END]))
        self._pages.release(int(state[FIRST]))

    def saved(self, places: int) -> Saved:
        """The rows of the window and the state, to continue from; ``places`` is how many places were given."""
        columns, state = self._columns, self._columns.state
        at = self._pages.at(np.arange(self.first, self.end))
        rows = SavedRows._make(getattr(columns, name)[at] for name in SavedRows._fields)
        rows = rows._replace(removed=(rows.removed > 0).astype(np.uint32))
        return Saved(rows, places, int(state[STREAM_TIME]), int(state[FIRST_TIME]), int(state[IGNORED]))

    def resume(self, saved: Saved) -> None:
        """Continue from saved decisions; before the first step."""
        assert not self._columns.state[STEP], "decisions resume before the first step"
        count = len(saved.rows.times)
        self._make_room(count)
        columns, state = self._columns, self._columns.state
        at = self._pages.at(np.arange(count))
        for name, column in saved.rows._asdict().items():
            getattr(columns, name)[at] = column
        state[[END, STREAM_TIME, FIRST_TIME, IGNORED]] = count, saved.stream_time, saved.first_time, saved.ignored
        state[STEP] = 1  # the step that removed what is marked as removed
        row_columns.rebuild(columns, count)

    def memory_bytes(self) -> tuple[int, int]:
        """Bytes in use by the rows of the window, and bytes allocated."""
        arrays = [a for name, a in self._columns._asdict().items() if name not in ("page_map", "state")]
        per_row = sum(a.itemsize for a in arrays)  # those of the two maps as well: one entry a row
        return (self.end - self.first) * per_row, sum(a.nbytes for a in arrays)

    def _make_room(self, rows: int) -> None:
        """Make pages for more rows, and maps of which at most three quarters will be used."""
        columns = self._columns
        end = int(columns.state[END])
        self._pages.extend(end + rows)
        places = self._pages.physical_pages << row_columns.ROW_PAGE_BITS
        for name, array in columns._asdict().items():
            if name not in ("page_map", "content_map", "id_map", "state"):
                grow(array, places)
        self._columns = columns._replace(page_map=self._pages.map)
        used = max(int(columns.state[CONTENT_ENTRIES]), int(columns.state[ID_ENTRIES])) + rows
        if 4 * used > 3 * len(columns.content_map):
            live = end - int(columns.state[FIRST]) + rows
            self._fill_maps(max(_ENTRIES_MIN, 1 << (2 * live - 1).bit_length()))

    def _fill_maps(self, entries: int) -> None:
        self._columns = self._columns._replace(
            content_map=np.zeros(entries, np.uint32), id_map=np.zeros(entries, np.uint32)
        )
        row_columns.rebuild(self._columns, self._columns.state[END])
