"""What the ledger of sources says: its accounts and pairs as values of JSON."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from neardup.stories.sources.accounts import ALL_HOURS, DOCUMENTS, NO_HOUR, OWN, Account, partners
from neardup.stories.sources.brake import REPEATED_DOCUMENTS, WEEK_HOURS, is_repeated, repeated


class Readings:
    """The accounts of sources, and how often a source has what another one had earlier."""

    def __init__(self) -> None:
        self._accounts: dict[int, dict[str, Account]] = {ALL_HOURS: {}}  # by hour, then by source
        self._pairs: dict[tuple[str, str], int] = {}

    def largest(self, limit: int) -> list[dict[str, Any]]:
        """Return the sources with the most documents, without their hours."""
        accounts = self._accounts[ALL_HOURS]
        return self._with_partners({name: accounts[name].values() for name in self._largest(limit)})

    def source(self, name: str) -> dict[str, Any] | None:
        """Return one source with its hours; ``None`` if it has no account."""
        account = self._accounts[ALL_HOURS].get(name)
        if account is None:
            return None
        [reading] = self._with_partners({name: account.values()})
        hours = sorted(hour for hour, others in self._accounts.items() if hour != ALL_HOURS and name in others)
        return reading | {"hours": [self._accounts[hour][name].of_hour(hour) for hour in hours]}

    def every(self) -> Iterator[dict[str, Any]]:
        """Yield all sources with their hours, the one with the most documents first."""
        hours: dict[str | None, list[int]] = defaultdict(list)
        for hour in sorted(self._accounts)[1:]:  # the first are all hours
            for name in self._accounts[hour]:
                hours[name or None].append(hour)
        for reading in self.largest(len(self._accounts[ALL_HOURS])):
            name = reading["source"]
            yield reading | {"hours": [self._accounts[hour][name or ""].of_hour(hour) for hour in hours[name]]}

    def totals(self, limit: int) -> list[tuple[str | None, int, int]]:
        """Return name, documents, and duplicates of other ids of the same source, of the largest sources; and those of
        all together, with the name ``None``."""
        accounts = self._accounts[ALL_HOURS]
        documents, own = (sum(one.counts[at] for one in accounts.values()) for at in (DOCUMENTS, OWN))
        largest = ((name, accounts[name].counts) for name in self._largest(limit))
        return [*((name, counts[DOCUMENTS], counts[OWN]) for name, counts in largest), (None, documents, own)]

    def repeating(self, since_hour: int = NO_HOUR) -> list[dict[str, Any]]:
        """Return the hours from one on in which a source repeated itself, unlike in the week before: a block page, a
        template or an extractor that fails."""
        hours = sorted(hour for hour in self._accounts if hour >= since_hour)  # that of all is less
        every = ((hour, *item) for hour in hours for item in self._accounts[hour].items())
        large = ((hour, name) for hour, name, one in every if one.counts[DOCUMENTS] >= REPEATED_DOCUMENTS)
        return [reading for hour, name in large if (reading := self._repeated(hour, name)) is not None]

    def _largest(self, limit: int) -> list[str]:
        accounts = self._accounts[ALL_HOURS]
        return heapq.nsmallest(limit, accounts, key=lambda name: (-accounts[name].counts[DOCUMENTS], name))

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
