"""The ledger of sources: who had it first, where else it is, and which source repeats itself.

Theory of operation. Each verdict counts in the account of its source, in all and in its hour. A duplicate counts, too,
for the pair of its source and that of its original. A story is remembered with its first source by arrival and its
first by date; they count once another source tells the story as well. A late document decides nothing, so it counts
only with its status. The ledger knows no clock: times come with the documents.

Bounds. Of more than ``sources_max`` sources the one with the fewest documents is forgotten, and the new one begins
with its number (Space-Saving: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in
data streams", ICDT 2005). Sources without originals are forgotten first, and a new one without takes the room of none
with originals: names are cheap to invent. Pairs, stories and hours are bounded, too. ``exceeded`` counts what was
forgotten; while it is zero, the ledger is exact.

A ledger that is stored notes what a step changes, with the values before. So a store can follow it (``pending``), and a
step can be undone; ``resume`` continues from the store, which may derive the stories of one member (``begin``).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import MICROSECONDS
from neardup.stories.sources.accounts import (
    ALL_HOURS,
    DOCUMENTS,
    FIRST_BY_ARRIVAL,
    FIRST_BY_DATE,
    LATE,
    OWN,
    STATUS_COUNTS,
    UNCERTAIN,
    Account,
    bins_of,
)
from neardup.stories.sources.brake import is_repeated
from neardup.stories.sources.ledger_stories import KnownStories, Story
from neardup.stories.sources.readings import Readings
from neardup.stories.sources.reports import LATE_KINDS, Kept, Read, Reports, read
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL
from neardup.window import NO_TIME

SOURCES_MAX = 10_000
HOURS_MAX = 200
# The parts of a ledger that a store keeps: the kinds of ``Kept``.
PARTS = ("account", "pair", "story", "exceeded")
# A source: at most so many pairs and accounts of hours of it, on average.
_PAIRS_A_SOURCE, _ACCOUNTS_A_SOURCE = 16, 32
STORIES_MAX = 1_000_000
_NO_TIME = int(NO_TIME)
_ORIGINALS = STATUS_COUNTS[ORIGINAL]
_NO_ACCOUNTS: dict[str, Account] = {}


class Ledger(Readings):
    """The accounts of at most ``sources_max`` sources; a store follows the parts that are ``stored``, some of
    ``PARTS``."""

    def __init__(
        self, sources_max: int = SOURCES_MAX, *, stories_max: int = STORIES_MAX, stored: Collection[str] = ()
    ) -> None:
        super().__init__()
        self.sources_max, self._stories_max, self._stored = sources_max, stories_max, stored
        self.exceeded: Counter[str] = Counter()
        self._stories = KnownStories()
        self._is_in_order = True  # whether the stories stand in order of arrival
        # A heap of sources: whether they have originals, and their documents, which may be older than the account.
        self._smallest: list[tuple[bool, int, str]] = []
        # Kind and key of the stored parts that the open step has changed -> the value before.
        self._before: dict[tuple[str, Any], Any] = {}

    def add(self, reports: Reports) -> None:
        """Count verdicts, in order of arrival."""
        if not reports.sources:
            return
        said = read(reports)
        self._count(reports, said)
        begun = said.begins.nonzero()[0]
        for place in reports.clusters[begun].tolist() if "story" in self._stored else ():
            self._note("story", (place,))
        self._stories.begin(reports, begun)
        self._join(reports, said)
        self._bound()

    # Counting

    def _count(self, reports: Reports, said: Read) -> None:
        """Count documents and statuses, source by source in order of appearance."""
        by_source: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
        columns = zip(reports.sources, said.hours.tolist(), said.kinds.tolist(), strict=True)
        for (source, hour, kind), number in Counter(columns).items():
            by_source[source][hour, kind] = number
        for source, cells in by_source.items():
            if not self._admit(source, begins=any(kind % LATE_KINDS == ORIGINAL for _, kind in cells)):
                continue
            total = self._account(source, ALL_HOURS).counts
            for (hour, kind), number in sorted(cells.items()):
                status = STATUS_COUNTS[kind % LATE_KINDS]
                for counts in (total, self._account(source, hour).counts):
                    counts[DOCUMENTS] += number
                    counts[status] += number
                    if kind >= LATE_KINDS:
                        counts[LATE] += number

    def _admit(self, source: str, *, begins: bool) -> bool:
        """Give a source an account; of too many, the one that comes first is forgotten. Returns whether it has one: it
        ``begins`` no story, and all others have originals, if not."""
        accounts = self._accounts[ALL_HOURS]
        if source in accounts:
            return True
        fewest = 0
        if len(accounts) >= self.sources_max:
            self._exceed("sources", 1)
            if self._first()[0] and not begins:
                return False
            fewest = self._forget_smallest()
        account = self._account(source, ALL_HOURS)
        account.counts[DOCUMENTS] = account.counts[UNCERTAIN] = fewest
        heapq.heappush(self._smallest, _rank(account, source))
        return True

    def _first(self) -> tuple[bool, int, str]:
        """Return the source that is forgotten first, with its rank."""
        accounts = self._accounts[ALL_HOURS]
        while (now := _rank(accounts[source := self._smallest[0][2]], source)) != self._smallest[0]:
            heapq.heapreplace(self._smallest, now)
        return now

    def _forget_smallest(self) -> int:
        """Forget the source without originals, else with them, that has the fewest documents; return their number."""
        _, number, source = self._first()
        heapq.heappop(self._smallest)
        for hour in [hour for hour, others in self._accounts.items() if source in others]:
            self._note("account", (source, hour))
            del self._accounts[hour][source]
            if not self._accounts[hour] and hour != ALL_HOURS:
                del self._accounts[hour]
        return number

    def _account(self, source: str, hour: int) -> Account:
        """Return the account of a source in an hour, a new one if it has none."""
        self._note("account", (source, hour))
        accounts = self._accounts.setdefault(hour, {})
        account = accounts.get(source)
        if account is None:
            account = accounts[source] = Account()
        return account

    def _existing(self, source: str, hour: int) -> list[Account]:
        """Return the accounts of a source, in all and in an hour, as far as it has them."""
        accounts = []
        for one in (ALL_HOURS, hour):
            account = self._accounts.get(one, _NO_ACCOUNTS).get(source)
            if account is not None:
                self._note("account", (source, one))
                accounts.append(account)
        return accounts

    # Stories

    def begin(self, reports: Reports) -> None:
        """Know the stories that originals began that were counted before a restart, in order of arrival."""
        self._stories.begin(reports, read(reports).begins.nonzero()[0])

    def _join(self, reports: Reports, said: Read) -> None:
        """Count the documents that join stories, in order of arrival."""
        joins = said.joins.nonzero()[0]
        if not len(joins):
            return
        columns = (reports.statuses == DUPLICATE, reports.clusters, reports.dates, said.hours)
        firsts: dict[tuple[str, int, int], int] = defaultdict(int)  # source, hour, count -> how much it changes
        rows, known = [], []  # the duplicates, and their stories
        for row, is_duplicate, place, date, hour in zip(
            joins.tolist(), *(column[joins].tolist() for column in columns), strict=True
        ):
            story, source = self._stories.get(place), reports.sources[row]
            if story is None:
                continue
            if is_duplicate:
                rows.append(row)
                known.append(story)
            first, first_hour, first_arrival, first_date, by_date, by_hour, by_time, was_shared = story
            is_earlier = date != _NO_TIME and (by_time == _NO_TIME or date < by_time)
            is_shared = was_shared or source != first
            if not is_earlier and is_shared == was_shared:
                continue
            if is_shared and not was_shared:
                firsts[first, first_hour, FIRST_BY_ARRIVAL] += 1
            if was_shared and by_time != _NO_TIME:
                firsts[by_date, by_hour, FIRST_BY_DATE] -= 1
            if is_earlier:
                by_date, by_hour, by_time = source, hour, date
            if is_shared and by_time != _NO_TIME:
                firsts[by_date, by_hour, FIRST_BY_DATE] += 1
            self._note("story", (place,))
            self._stories.put(
                place, (first, first_hour, first_arrival, first_date, by_date, by_hour, by_time, is_shared)
            )
        for (source, hour, count), number in firsts.items():
            for account in self._existing(source, hour):
                account.counts[count] += number
        self._pair(reports, said.hours, np.array(rows, np.int64), known)

    def _pair(
        self, reports: Reports, hours: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], stories: list[Story]
    ) -> None:
        """Count duplicates for their sources, and those of the originals of their stories."""
        originals = [source for source, *_ in stories]
        lags: list[list[int]] = []
        for column, of in (
            (reports.arrivals, [story[2] for story in stories]),
            (reports.dates, [story[3] for story in stories]),
        ):
            times, before = column[rows], np.array(of, np.int64)
            bins = bins_of((times - before) / MICROSECONDS)
            lags.append(np.where((times != NO_TIME) & (before != NO_TIME), bins, _NO_TIME).tolist())
        existing: dict[tuple[str, int], list[Account]] = {}
        columns = rows.tolist(), hours[rows].tolist(), originals, zip(*lags, strict=True)
        for row, hour, original, bins_of_both in zip(*columns, strict=True):
            source = reports.sources[row]
            accounts = existing.get((source, hour))
            if accounts is None:
                accounts = existing[source, hour] = self._existing(source, hour)
            if source == original:
                for account in accounts:
                    account.counts[OWN] += 1
                continue
            pair = source, original
            self._note("pair", pair)
            self._pairs[pair] = self._pairs.get(pair, 0) + 1
            for account in accounts:
                account.add_lags(bins_of_both, _NO_TIME)

    def end(self, places: Iterable[int]) -> None:
        """Forget stories that have ended: no document joins them any more."""
        for place in places:
            if place in self._stories:
                self._note("story", (place,))
                self._stories.end(place)

    # Bounds

    def _surplus(self) -> list[int]:
        """Return the oldest stories, as many as are too many. Only this depends on the order of stories that were put
        back."""
        surplus = len(self._stories) - self._stories_max
        if surplus > 0 and not self._is_in_order:
            self._stories.sort()
            self._is_in_order = True
        return self._stories.oldest(max(0, surplus))

    def _exceed(self, bound: str, number: int) -> None:
        self._note("exceeded", (bound,))
        self.exceeded[bound] += number

    def _bound(self) -> None:
        """Forget the oldest stories and hours, and the smaller half of the pairs, beyond their bounds."""
        if surplus := self._surplus():
            self.end(surplus)
            self._exceed("stories", len(surplus))
        if len(self._pairs) > _PAIRS_A_SOURCE * self.sources_max:
            order = sorted(self._pairs, key=self._pairs.__getitem__)[: len(self._pairs) // 2]
            for pair in order:
                self._note("pair", pair)
                del self._pairs[pair]
            self._exceed("pairs", len(order))
        hours = len(self._accounts) - 1
        size = sum(map(len, self._accounts.values())) - len(self._accounts[ALL_HOURS])
        while hours > HOURS_MAX or (hours > 1 and size > _ACCOUNTS_A_SOURCE * self.sources_max):
            oldest = min(hour for hour in self._accounts if hour != ALL_HOURS)
            for source in self._accounts[oldest]:
                self._note("account", (source, oldest))
            size -= len(self._accounts.pop(oldest))
            hours -= 1
            self._exceed("hours", 1)

    # Keeping

    def began_repeating(self) -> list[dict[str, Any]]:
        """Return the hours, as ``repeating`` does, that the open step has made such hours."""
        readings = []
        for (kind, key), before in self._before.items():
            # An account of no source repeats nothing.
            if kind == "account" and key[0] and key[1] != ALL_HOURS and not (before and is_repeated(before)):
                readings.append(self._repeated(key[1], key[0]))
        return [one for one in readings if one is not None]

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step of a ledger that is stored; an exception undoes it."""
        assert self._stored, "the ledger is not stored"
        try:
            yield
        except BaseException:
            self._put(Kept(kind, key, value) for (kind, key), value in self._before.items())
            raise
        finally:
            self.settle()

    def pending(self) -> list[Kept]:
        """Return what the open step has changed."""
        return [self.kept(kind, key) for kind, key in self._before]

    @property
    def noted(self) -> int:
        """How many parts the open step has changed."""
        return len(self._before)

    def kept(self, kind: str, key: tuple[Any, ...]) -> Kept:
        """Return a part as a store keeps it."""
        return Kept(kind, key, self._value(kind, key))

    def story(self, place: int) -> tuple[Any, ...] | None:
        """Return the values of a story as a store keeps them."""
        return self._stories.get(place)

    def settle(self) -> None:
        """Close a step whose changes are stored; it was not opened with ``step``."""
        self._before.clear()

    def resume(self, kept: Iterable[Kept]) -> None:
        """Continue an empty ledger from what was kept, and from the stories that ``begin`` derived: of too many, the
        oldest are forgotten again. Of more than ``sources_max`` sources, those with the fewest documents are forgotten;
        the next step stores that."""
        self._put(kept)
        for place in self._surplus():
            self._stories.end(place)
        while len(self._accounts[ALL_HOURS]) > self.sources_max:
            self._forget_smallest()
            self._exceed("sources", 1)

    def _note(self, kind: str, key: tuple[Any, ...]) -> None:
        if kind in self._stored and (kind, key) not in self._before:
            self._before[kind, key] = self._value(kind, key)

    def _value(self, kind: str, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if kind == "account":
            account = self._accounts.get(key[1], {}).get(key[0])
            return None if account is None else account.stored()
        if kind == "story":
            return self._stories.get(key[0])
        number = self._pairs.get((key[0], key[1])) if kind == "pair" else self.exceeded[key[0]] or None
        return None if number is None else (number,)

    def _put(self, kept: Iterable[Kept]) -> None:
        """Take over parts as they were kept; stories share their names and hours, as those of one call do."""
        shared: dict[Any, Any] = {}
        for kind, key, value in kept:
            if kind == "account":
                source, hour = key
                self._accounts.setdefault(hour, {})
                _set(self._accounts[hour], source, None if value is None else Account.from_stored(value))
                if hour != ALL_HOURS and not self._accounts[hour]:
                    del self._accounts[hour]
            elif value is not None and kind in ("story", "stories"):
                for place, story in _stories([(*key, *value)] if kind == "story" else value, shared):
                    self._stories.put(place, story)
            elif kind == "story":
                self._stories.end(key[0])
            else:
                numbers: dict[Any, int] = self._pairs if kind == "pair" else self.exceeded
                _set(numbers, key if kind == "pair" else key[0], None if value is None else value[0])
        self._is_in_order = False
        accounts = self._accounts[ALL_HOURS]
        self._smallest = [_rank(account, name) for name, account in accounts.items()]
        heapq.heapify(self._smallest)


def _stories(rows: Sequence[tuple[Any, ...]], shared: dict[Any, Any]) -> Iterator[tuple[int, Story]]:
    """Return stories by place, as they were kept, with the values that others have, too, as one object."""
    columns = list(zip(*rows, strict=True))
    for n in (1, 2, 5, 6):
        columns[n] = tuple(map(shared.setdefault, columns[n], columns[n]))
    columns[7] = tuple(date if by == date else by for date, by in zip(columns[4], columns[7], strict=True))
    columns[8] = tuple(map(bool, columns[8]))
    return zip(columns[0], zip(*columns[1:], strict=True), strict=True)


def _rank(account: Account, source: str) -> tuple[bool, int, str]:
    """Return the order in which sources are forgotten."""
    return account.counts[_ORIGINALS] > 0, account.counts[DOCUMENTS], source


def _set(values: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
