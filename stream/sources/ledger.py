"""The ledger of sources: who had it first, where else it is, and which source repeats itself.

Theory of operation. Each verdict counts in the account of its source, in all and in its hour. A duplicate counts, too,
for the pair of its source and that of its original. A story is remembered with its first source by arrival and its
first by date; they count once another source tells the story as well. A late document decides nothing, so it counts
only with its status. The ledger knows no clock: times come with the documents.

Bounds. Of more than ``sources_max`` sources the one with the fewest documents is forgotten, and the new one begins with
its number (Space-Saving: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
streams", ICDT 2005). Pairs, stories and hours are bounded, too. ``exceeded`` counts what was forgotten; while it is
zero, the ledger is exact.

What changes is noted by key (``take_changes``), so that a store can follow it; ``resume`` continues from there.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.sources.accounts import (
    DOCUMENTS,
    FIRST_BY_ARRIVAL,
    FIRST_BY_DATE,
    LATE,
    NO_HOUR,
    OWN,
    STATUS_COUNTS,
    UNCERTAIN,
    Account,
)
from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.rule import DUPLICATE, ORIGINAL, UPDATE

SOURCES_MAX = 10_000
_MICROSECONDS = 1_000_000
_HOUR = 3600 * _MICROSECONDS
HOURS_MAX = 200
# A source: at most so many pairs and accounts of hours of it, on average.
_PAIRS_A_SOURCE, _ACCOUNTS_A_SOURCE = 16, 32
_STORIES_MAX = 1_000_000
PARTNERS_MAX = 16
# The brake: so many documents of a source in an hour, of which so many repeat the source itself.
REPEATED_DOCUMENTS, REPEATED_FRACTION, _WEEK_HOURS = 200, 0.95, 168
_NO_TIME = int(NO_TIME)
# A status, of a late document or not.
_KINDS = 2 * len(STATUS_COUNTS)
ALL_HOURS = NO_HOUR - 1  # the hour of an account of all


class Reports(NamedTuple):
    """n verdicts for the ledger: sources (empty for none), statuses, clusters as in ``Verdicts``, whether late; times
    of arrival and dates in microseconds, ``NO_TIME`` where one is not known."""

    sources: Sequence[str]
    statuses: npt.NDArray[np.uint8]
    clusters: npt.NDArray[np.int64]
    late: npt.NDArray[np.bool_]
    arrivals: npt.NDArray[np.int64]
    dates: npt.NDArray[np.int64]


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


class Kept(NamedTuple):
    """A part of the ledger as a store keeps it: ``value`` is ``None`` for one that is forgotten."""

    kind: str
    key: str
    value: Any


class Ledger:
    """The accounts of at most ``sources_max`` sources."""

    def __init__(self, sources_max: int = SOURCES_MAX, *, stories_max: int = _STORIES_MAX) -> None:
        self._sources_max, self._stories_max = sources_max, stories_max
        self.exceeded: Counter[str] = Counter()
        self._accounts: dict[int, dict[str, Account]] = {ALL_HOURS: {}}  # by hour, then by source
        self._pairs: dict[tuple[str, str], int] = {}
        self._stories: dict[int, _Story] = {}
        self._smallest: list[tuple[int, str]] = []  # a heap; a number in it may be older than the account
        self._changed: dict[tuple[str, Any], None] | None = None  # noted from the first call of ``take_changes`` on

    def add(self, reports: Reports) -> None:
        """Count verdicts, in order of arrival."""
        hours = _hours(reports)
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
        cells = (sources * len(known) + hour_of) * _KINDS + kinds
        names, at_hours = list(numbers), known.tolist()
        last = -1
        for cell, number in zip(*(column.tolist() for column in np.unique(cells, return_counts=True)), strict=True):
            at, kind = divmod(cell, _KINDS)
            if at != last:
                source, hour = names[at // len(at_hours)], at_hours[at % len(at_hours)]
                self._admit(source)
                accounts = self._account(source, ALL_HOURS).counts, self._account(source, hour).counts
                last = at
            is_late, status = divmod(kind, len(STATUS_COUNTS))
            for counts in accounts:
                counts[DOCUMENTS] += number
                counts[STATUS_COUNTS[status]] += number
                if is_late:
                    counts[LATE] += number

    def _admit(self, source: str) -> None:
        """Give a source an account; of too many, the one with the fewest documents is forgotten."""
        accounts = self._accounts[ALL_HOURS]
        if source in accounts:
            return
        fewest = 0
        if len(accounts) >= self._sources_max:
            fewest = self._forget_smallest()
            self.exceeded["sources"] += 1
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
            self._note("account", (hour, source))
            del self._accounts[hour][source]
            if not self._accounts[hour] and hour != ALL_HOURS:
                del self._accounts[hour]
        return number

    def _account(self, source: str, hour: int) -> Account:
        """Return the account of a source in an hour, a new one if it has none."""
        if self._changed is not None:
            self._changed["account", (hour, source)] = None
        accounts = self._accounts.get(hour)
        if accounts is None:
            accounts = self._accounts[hour] = {}
        found = accounts.get(source)
        if found is None:
            found = accounts[source] = Account()
        return found

    def _existing(self, source: str, hour: int) -> Iterable[Account]:
        """Yield the accounts of a source, in all and in an hour, as far as it has them."""
        for one in (ALL_HOURS, hour):
            account = self._accounts.get(one, {}).get(source)
            if account is not None:
                self._note("account", (one, source))
                yield account

    # Stories

    def _begin(self, reports: Reports, hours: npt.NDArray[np.int64], begins: npt.NDArray[np.bool_]) -> None:
        sources = list(compress(reports.sources, begins.tolist()))
        places, arrivals, dates, at = (
            column[begins].tolist() for column in (reports.clusters, reports.arrivals, reports.dates, hours)
        )
        rows = zip(sources, at, arrivals, dates, sources, at, dates, strict=True)
        self._stories.update(zip(places, (_Story(*row) for row in rows), strict=True))
        for place in places if self._changed is not None else ():
            self._note("story", place)

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
        self._stories[place] = joined
        self._note("story", place)

    def _pair(self, source: str, story: _Story, hour: int, arrival: int, date: int) -> None:
        """Count a duplicate for the sources of it and of its original."""
        if source == story.source:
            self._add(source, hour, OWN, 1)
            return
        pair = source, story.source
        self._pairs[pair] = self._pairs.get(pair, 0) + 1
        self._note("pair", pair)
        for kind, (time, original) in enumerate(((arrival, story.arrival), (date, story.date))):
            if time != _NO_TIME and original != _NO_TIME:
                for account in self._existing(source, hour):
                    account.add_lag(kind, (time - original) / _MICROSECONDS)

    def _add(self, source: str, hour: int, count: int, number: int) -> None:
        for account in self._existing(source, hour):
            account.counts[count] += number

    # Bounds

    def _bound(self) -> None:
        """Forget the oldest stories and hours, and the smaller half of the pairs, beyond their bounds."""
        for place in list(islice(self._stories, max(0, len(self._stories) - self._stories_max))):
            del self._stories[place]
            self._note("story", place)
            self.exceeded["stories"] += 1
        if len(self._pairs) > _PAIRS_A_SOURCE * self._sources_max:
            order = sorted(self._pairs, key=self._pairs.__getitem__)
            for pair in order[: len(order) // 2]:
                del self._pairs[pair]
                self._note("pair", pair)
                self.exceeded["pairs"] += 1
        hours = len(self._accounts) - 1
        size = sum(map(len, self._accounts.values())) - len(self._accounts[ALL_HOURS])
        while hours > HOURS_MAX or (hours > 1 and size > _ACCOUNTS_A_SOURCE * self._sources_max):
            oldest = min(hour for hour in self._accounts if hour != ALL_HOURS)
            for source in self._accounts[oldest]:
                self._note("account", (oldest, source))
            size -= len(self._accounts.pop(oldest))
            hours -= 1
            self.exceeded["hours"] += 1

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

    def every(self) -> list[dict[str, Any]]:
        """Return all sources with their hours, the one with the most documents first."""
        hours: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
        for hour in sorted(self._accounts)[1:]:  # the first are all hours
            for name, account in self._accounts[hour].items():
                hours[name or None].append(account.of_hour(hour))
        return [found | {"hours": hours[found["source"]]} for found in self.largest(len(self._accounts[ALL_HOURS]))]

    def repeating(self) -> list[dict[str, Any]]:
        """Return the hours in which a source repeated itself, unlike in the week before: a block page, a template or an
        extractor that fails."""
        found = []
        for hour, accounts in sorted(self._accounts.items()):
            for name, account in accounts.items() if hour != ALL_HOURS else ():
                documents, own = account.counts[DOCUMENTS], account.counts[OWN]
                if not name or documents < REPEATED_DOCUMENTS or own < REPEATED_FRACTION * documents:
                    continue
                week = [
                    self._accounts[one][name].counts
                    for one in range(hour - _WEEK_HOURS, hour)
                    if one != ALL_HOURS and one in self._accounts and name in self._accounts[one]
                ]
                before, own_before = (sum(counts[at] for counts in week) for at in (DOCUMENTS, OWN))
                if 2 * own_before * documents < own * before or not before:
                    at = None if hour == NO_HOUR else hour * 3600
                    found.append({"source": name, "hour": at, "documents": documents, "repeated": own})
        return found

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
            | {"earlier_in": _partners(earlier[name]), "later_in": _partners(later[name])}
            for name, values in named.items()
        ]

    # Keeping

    def _note(self, kind: str, key: Any) -> None:
        if self._changed is not None:
            self._changed[kind, key] = None

    def take_changes(self) -> list[Kept]:
        """Return what has changed since the last call; the first call begins to note changes."""
        changed, self._changed = self._changed or {}, {}
        values: dict[str, Callable[[Any], Any]] = {
            "account": lambda key: _stored(self._accounts.get(key[0], {}).get(key[1])),
            "pair": self._pairs.get,
            "story": self._stories.get,
        }
        kept = [Kept(kind, json.dumps(key), values[kind](key)) for kind, key in changed]
        return kept + [Kept("exceeded", json.dumps(name), number) for name, number in self.exceeded.items()]

    def resume(self, kept: Iterable[Kept]) -> None:
        """Continue an empty ledger from what was kept, stories in order of their places."""
        for kind, text, value in kept:
            key = json.loads(text)
            if kind == "account":
                self._accounts.setdefault(key[0], {})[key[1]] = Account.from_stored(value)
            elif kind == "pair":
                self._pairs[key[0], key[1]] = value
            elif kind == "story":
                self._stories[key] = _Story(*value)
            else:
                self.exceeded[key] = value
        accounts = self._accounts[ALL_HOURS]
        self._smallest = [(account.counts[DOCUMENTS], name) for name, account in accounts.items()]
        heapq.heapify(self._smallest)
        self._stories = dict(sorted(self._stories.items()))
        self.take_changes()


def _stored(account: Account | None) -> list[Any] | None:
    return None if account is None else account.stored()


def _hours(reports: Reports) -> npt.NDArray[np.int64]:
    """Return the hours of documents since the epoch: of their arrival, else of their date."""
    times = np.where(reports.arrivals != _NO_TIME, reports.arrivals, reports.dates)
    return np.where(times != _NO_TIME, times // _HOUR, NO_HOUR)


def _partners(found: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"source": name or None, "documents": -number} for number, name in heapq.nsmallest(PARTNERS_MAX, found)]
