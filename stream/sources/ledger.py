"""The ledger of sources: who had it first, where else it is, and which source repeats itself.

Theory of operation. Each verdict counts in the account of its source, in all and in its hour. A duplicate counts, too,
for the pair of its source and that of its original. A story is remembered with its first source by arrival and its
first by date; they count once another source tells the story as well. A late document decides nothing, so it counts
only with its status. The ledger knows no clock: times come with the documents.

Bounds. Of more than ``sources_max`` sources the one with the fewest documents is forgotten, and the new one begins with
its number (Space-Saving: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
streams", ICDT 2005). Pairs, stories and hours are bounded, too. ``exceeded`` counts what was forgotten; while it is
zero, the ledger is exact.

A ledger that is stored notes what a step changes, with the values before. So a store can follow it (``pending``), and a
step can be undone; ``resume`` continues from the store.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import compress, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.batches import MICROSECONDS
from neardup.stream.sources.accounts import (
    ALL_HOURS,
    DOCUMENTS,
    FIRST_BY_ARRIVAL,
    FIRST_BY_DATE,
    LATE,
    OWN,
    STATUS_COUNTS,
    UNCERTAIN,
    Account,
    bin_of,
    partners,
)
from neardup.stream.sources.brake import REPEATED_DOCUMENTS, WEEK_HOURS, is_repeated, repeated
from neardup.stream.sources.reports import Kept, Reports, hours_of
from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.rule import DUPLICATE, ORIGINAL, UPDATE

SOURCES_MAX = 10_000
HOURS_MAX = 200
# A source: at most so many pairs and accounts of hours of it, on average.
_PAIRS_A_SOURCE, _ACCOUNTS_A_SOURCE = 16, 32
_STORIES_MAX = 1_000_000
_NO_TIME = int(NO_TIME)
# A status, of a late document or not.
_KINDS = 2 * len(STATUS_COUNTS)
_NO_ACCOUNTS: dict[str, Account] = {}


class _Story(NamedTuple):
    """The first of a story by arrival, and the time of its first by date so far."""

    source: str
    hour: int
    arrival: int
    date: int
    by_date: str
    by_date_hour: int
    by_date_date: int
    is_shared: bool = False


class Ledger:
    """The accounts of at most ``sources_max`` sources; with ``is_stored``, a store follows it."""

    def __init__(
        self, sources_max: int = SOURCES_MAX, *, stories_max: int = _STORIES_MAX, is_stored: bool = False
    ) -> None:
        self.sources_max, self._stories_max = sources_max, stories_max
        self.exceeded: Counter[str] = Counter()
        self._accounts: dict[int, dict[str, Account]] = {ALL_HOURS: {}}  # by hour, then by source
        self._pairs: dict[tuple[str, str], int] = {}
        self._stories: dict[int, _Story] = {}
        self._smallest: list[tuple[int, str]] = []  # a heap; a number in it may be older than the account
        # Kind and key of what the open step has changed -> the value before.
        self._before: dict[tuple[str, Any], Any] | None = {} if is_stored else None

    def add(self, reports: Reports) -> None:
        """Count verdicts, in order of arrival."""
        if not reports.sources:
            return
        hours = hours_of(reports)
        self._count(reports, hours)
        begins = (reports.statuses == ORIGINAL) & ~reports.late
        self._begin(reports, hours, begins)
        joins = np.flatnonzero(((reports.statuses == DUPLICATE) | (reports.statuses == UPDATE)) & ~reports.late)
        columns = (reports.statuses, reports.clusters, reports.arrivals, reports.dates, hours)
        for n, status, cluster, arrival, date, hour in zip(
            joins.tolist(), *(column[joins].tolist() for column in columns), strict=True
        ):
            story = self._stories.get(cluster)
            if story is not None:
                self._join(cluster, story, reports.sources[n], status == DUPLICATE, (hour, arrival, date))
        self._bound()

    # Counting

    def _count(self, reports: Reports, hours: npt.NDArray[np.int64]) -> None:
        """Count documents and statuses, source by source in order of appearance."""
        numbers: dict[str, int] = {}
        sources = np.array([numbers.setdefault(name, len(numbers)) for name in reports.sources], np.int64)
        known, hour_of = np.unique(hours, return_inverse=True)
        kinds = reports.statuses + len(STATUS_COUNTS) * reports.late.astype(np.int64)
        cells, numbers_of = np.unique((sources * len(known) + hour_of) * _KINDS + kinds, return_counts=True)
        at, kind_of = np.divmod(cells, _KINDS)
        columns = *np.divmod(at, len(known)), kind_of, numbers_of
        names, at_hours = list(numbers), known.tolist()
        last_source = last_hour = -1
        for source, hour, kind, number in zip(*(column.tolist() for column in columns), strict=True):
            if source != last_source:
                self._admit(names[source])
                total, last_source, last_hour = self._account(names[source], ALL_HOURS).counts, source, -1
            if hour != last_hour:
                of_hour, last_hour = self._account(names[source], at_hours[hour]).counts, hour
            status = STATUS_COUNTS[kind % len(STATUS_COUNTS)]
            for counts in (total, of_hour):
                counts[DOCUMENTS] += number
                counts[status] += number
                if kind >= len(STATUS_COUNTS):
                    counts[LATE] += number

    def _admit(self, source: str) -> None:
        """Give a source an account; of too many, the one with the fewest documents is forgotten."""
        accounts = self._accounts[ALL_HOURS]
        if source in accounts:
            return
        fewest = 0
        if len(accounts) >= self.sources_max:
            fewest = self._forget_smallest()
            self._exceed("sources", 1)
        account = self._account(source, ALL_HOURS)
        account.counts[DOCUMENTS] = account.counts[UNCERTAIN] = fewest
        heapq.heappush(self._smallest, (fewest, source))

    def _forget_smallest(self) -> int:
        """Forget the source with the fewest documents; return their number."""
        accounts = self._accounts[ALL_HOURS]
        while True:
            number, source = self._smallest[0]
            now = accounts[source].counts[DOCUMENTS]
            if now == number:
                break
            heapq.heapreplace(self._smallest, (now, source))
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
        found = accounts.get(source)
        if found is None:
            found = accounts[source] = Account()
        return found

    def _existing(self, source: str, hour: int) -> list[Account]:
        """Return the accounts of a source, in all and in an hour, as far as it has them."""
        found = []
        for one in (ALL_HOURS, hour):
            account = self._accounts.get(one, _NO_ACCOUNTS).get(source)
            if account is not None:
                self._note("account", (source, one))
                found.append(account)
        return found

    # Stories

    def _begin(self, reports: Reports, hours: npt.NDArray[np.int64], begins: npt.NDArray[np.bool_]) -> None:
        sources = list(compress(reports.sources, begins.tolist()))
        places, arrivals, dates, at = (
            column[begins].tolist() for column in (reports.clusters, reports.arrivals, reports.dates, hours)
        )
        for place in places if self._before is not None else ():
            self._note("story", (place,))
        rows = zip(sources, at, arrivals, dates, sources, at, dates, strict=True)
        self._stories.update(zip(places, (_Story(*row) for row in rows), strict=True))

    def _join(self, place: int, story: _Story, source: str, is_duplicate: bool, when: tuple[int, int, int]) -> None:
        """Count a document that joins a story; ``when``: its hour, arrival and date."""
        hour, _, date = when
        if is_duplicate:
            self._pair(source, story, *when)
        joined = story
        if date != _NO_TIME and (story.by_date_date == _NO_TIME or date < story.by_date_date):
            joined = joined._replace(by_date=source, by_date_hour=hour, by_date_date=date)
        if source != story.source and not story.is_shared:
            joined = joined._replace(is_shared=True)
            self._add(story.source, story.hour, FIRST_BY_ARRIVAL, 1)
        if joined is story:
            return
        if story.is_shared and story.by_date_date != _NO_TIME:
            self._add(story.by_date, story.by_date_hour, FIRST_BY_DATE, -1)
        if joined.is_shared and joined.by_date_date != _NO_TIME:
            self._add(joined.by_date, joined.by_date_hour, FIRST_BY_DATE, 1)
        self._note("story", (place,))
        self._stories[place] = joined

    def _pair(self, source: str, story: _Story, hour: int, arrival: int, date: int) -> None:
        """Count a duplicate for the sources of it and of its original."""
        accounts = self._existing(source, hour)
        if source == story.source:
            for account in accounts:
                account.counts[OWN] += 1
            return
        pair = source, story.source
        self._note("pair", pair)
        self._pairs[pair] = self._pairs.get(pair, 0) + 1
        for kind, (time, original) in enumerate(((arrival, story.arrival), (date, story.date))):
            if time != _NO_TIME and original != _NO_TIME:
                lag = bin_of((time - original) / MICROSECONDS)
                for account in accounts:
                    account.add_lag(kind, lag)

    def _add(self, source: str, hour: int, count: int, number: int) -> None:
        for account in self._existing(source, hour):
            account.counts[count] += number

    def end(self, places: Iterable[int]) -> None:
        """Forget stories that have ended: no document joins them any more."""
        for place in places:
            if place in self._stories:
                self._note("story", (place,))
                del self._stories[place]

    # Bounds

    def _exceed(self, bound: str, number: int) -> None:
        self._note("exceeded", (bound,))
        self.exceeded[bound] += number

    def _bound(self) -> None:
        """Forget the oldest stories and hours, and the smaller half of the pairs, beyond their bounds."""
        oldest_stories = list(islice(self._stories, max(0, len(self._stories) - self._stories_max)))
        if oldest_stories:
            self.end(oldest_stories)
            self._exceed("stories", len(oldest_stories))
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

    # Reading

    def largest(self, limit: int) -> list[dict[str, Any]]:
        """Return the sources with the most documents, without their hours."""
        accounts = self._accounts[ALL_HOURS]
        names = heapq.nsmallest(limit, accounts, key=lambda name: (-accounts[name].counts[DOCUMENTS], name))
        return self._with_partners({name: accounts[name].values() for name in names})

    def source(self, name: str) -> dict[str, Any] | None:
        """Return one source with its hours; ``None`` if it has no account."""
        account = self._accounts[ALL_HOURS].get(name)
        if account is None:
            return None
        [found] = self._with_partners({name: account.values()})
        hours = sorted(hour for hour, others in self._accounts.items() if hour != ALL_HOURS and name in others)
        return found | {"hours": [self._accounts[hour][name].of_hour(hour) for hour in hours]}

    def every(self) -> Iterator[dict[str, Any]]:
        """Yield all sources with their hours, the one with the most documents first."""
        hours: dict[str | None, list[int]] = defaultdict(list)
        for hour in sorted(self._accounts)[1:]:  # the first are all hours
            for name in self._accounts[hour]:
                hours[name or None].append(hour)
        for found in self.largest(len(self._accounts[ALL_HOURS])):
            name = found["source"]
            yield found | {"hours": [self._accounts[hour][name or ""].of_hour(hour) for hour in hours[name]]}

    def repeating(self) -> list[dict[str, Any]]:
        """Return the hours in which a source repeated itself, unlike in the week before: a block page, a template or an
        extractor that fails."""
        every = ((hour, *item) for hour in sorted(self._accounts)[1:] for item in self._accounts[hour].items())
        large = ((hour, name) for hour, name, one in every if one.counts[DOCUMENTS] >= REPEATED_DOCUMENTS)
        return [found for hour, name in large if (found := self._repeated(hour, name)) is not None]

    def began_repeating(self) -> list[dict[str, Any]]:
        """Return the hours, as ``repeating`` does, that the open step has made such hours."""
        found = []
        for (kind, key), before in (self._before or {}).items():
            if kind == "account" and key[1] != ALL_HOURS and not (before and is_repeated(before)):
                found.append(self._repeated(key[1], key[0]))
        return [one for one in found if one is not None]

    def _repeated(self, hour: int, name: str) -> dict[str, Any] | None:
        account = self._accounts.get(hour, {}).get(name)
        if not name or account is None or not is_repeated(account.counts):
            return None
        week = [
            self._accounts[one][name].counts
            for one in range(hour - WEEK_HOURS, hour)
            if one != ALL_HOURS and one in self._accounts and name in self._accounts[one]
        ]
        return repeated(name, hour, account.counts, [sum(counts[at] for counts in week) for at in (DOCUMENTS, OWN)])

    def _with_partners(self, named: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Return accounts with the other sources that have the same stories: where they were earlier, and later."""
        earlier: dict[str, list[tuple[int, str]]] = {name: [] for name in named}
        later: dict[str, list[tuple[int, str]]] = {name: [] for name in named}
        for (source, original), number in self._pairs.items():
            if source in earlier:
                earlier[source].append((-number, original))
            if original in later:
                later[original].append((-number, source))
        return [
            {"source": name or None}
            | values
            | {"earlier_in": partners(earlier[name]), "later_in": partners(later[name])}
            for name, values in named.items()
        ]

    # Keeping

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step of a ledger that is stored; an exception undoes it."""
        assert self._before is not None, "the ledger is not stored"
        try:
            yield
        except BaseException:
            self._put(Kept(kind, key, value) for (kind, key), value in self._before.items())
            raise
        finally:
            self._before.clear()

    def pending(self) -> list[Kept]:
        """Return what the open step has changed."""
        return [Kept(kind, key, self._value(kind, key)) for kind, key in self._before or ()]

    def resume(self, kept: Iterable[Kept]) -> None:
        """Continue an empty ledger from what was kept. Of more than ``sources_max`` sources, those with the fewest
        documents are forgotten; the next step stores that."""
        self._put(kept)
        while len(self._accounts[ALL_HOURS]) > self.sources_max:
            self._forget_smallest()
            self._exceed("sources", 1)

    def _note(self, kind: str, key: tuple[Any, ...]) -> None:
        if self._before is not None and (kind, key) not in self._before:
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
        """Take over parts as they were kept."""
        for kind, key, value in kept:
            if kind == "account":
                source, hour = key
                self._accounts.setdefault(hour, {})
                _set(self._accounts[hour], source, None if value is None else Account.from_stored(value))
                if hour != ALL_HOURS and not self._accounts[hour]:
                    del self._accounts[hour]
            elif kind == "story":
                _set(self._stories, key[0], None if value is None else _Story(*value))
            else:
                numbers: dict[Any, int] = self._pairs if kind == "pair" else self.exceeded
                _set(numbers, key if kind == "pair" else key[0], None if value is None else value[0])
        self._stories = dict(sorted(self._stories.items()))
        accounts = self._accounts[ALL_HOURS]
        self._smallest = [(account.counts[DOCUMENTS], name) for name, account in accounts.items()]
        heapq.heapify(self._smallest)


def _set(values: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
