"""The ledger of sources, written again in plain Python over all verdicts at once."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
from verdict_oracle import Arrival

from neardup.stories.sources.accounts import PARTNERS_MAX
from neardup.stories.sources.ledger import Ledger
from neardup.stories.sources.reports import Reports
from neardup.stories.verdicts.rule import REMOVAL, STATUSES
from neardup_workers.outside.topics.places import parse_place


class One(NamedTuple):
    """A verdict; times in seconds, ``None`` for an unknown one."""

    source: str
    status: str
    cluster: int = -1
    late: bool = False
    arrival: float | None = None
    date: float | None = None

    @property
    def hour(self) -> int | None:
        """The begin of its hour."""
        time = self.date if self.arrival is None else self.arrival
        return None if time is None else int(time // 3600) * 3600


def replay(verdicts: Sequence[One]) -> dict[str, dict[str, Any]]:
    """Return what ``Ledger.source`` returns, by source, with exact medians."""
    counts: dict[str, dict[int | str | None, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    lags: dict[str, dict[int | str | None, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: {"arrival": [], "date": []})
    )
    earlier: dict[str, Counter[str]] = defaultdict(Counter)
    later: dict[str, Counter[str]] = defaultdict(Counter)
    stories: dict[int, list[One]] = defaultdict(list)
    names = {"original": "originals", "duplicate": "duplicates", "update": "updates"}

    def count(one: One, what: str) -> None:
        counts[one.source]["all"][what] += 1
        counts[one.source][one.hour][what] += 1

    for one in verdicts:
        count(one, "documents")
        count(one, names.get(one.status, one.status))
        if one.late:
            count(one, "late")
        elif one.status in names:
            stories[one.cluster].append(one)
    for members in stories.values():
        first = members[0]
        for one in members[1:]:
            if one.status != "duplicate":
                continue
            if one.source == first.source:
                count(one, "own")
                continue
            earlier[one.source][first.source] += 1
            later[first.source][one.source] += 1
            for kind in ("arrival", "date"):
                then, now = getattr(first, kind), getattr(one, kind)
                if then is not None and now is not None:
                    for hour in ("all", one.hour):
                        lags[one.source][hour][kind].append(now - then)
        if len({one.source for one in members}) > 1:
            count(first, "first_by_arrival")
            dated = [one for one in members if one.date is not None]
            if dated:
                count(min(dated, key=lambda one: one.date or 0.0), "first_by_date")

    def partners(found: Counter[str]) -> list[dict[str, Any]]:
        order = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:PARTNERS_MAX]
        return [{"source": name or None, "documents": number} for name, number in order]

    return {
        name: {
            "source": name or None,
            "hours": {
                hour: dict(of_hour) | {kind: lags[name][hour][kind] for kind in ("arrival", "date")}
                for hour, of_hour in by_hour.items()
            },
            "earlier_in": partners(earlier[name]),
            "later_in": partners(later[name]),
        }
        for name, by_hour in counts.items()
    }


def ledger_of(arrivals: Sequence[Arrival], lines: Sequence[dict[str, Any]]) -> Ledger:
    """The ledger that counts all verdicts on topics at once: the lines about the rows of ``signed``, in order."""
    ledger = Ledger()
    rows = [(row, line) for row, line in zip(arrivals, lines, strict=True) if row.kind != REMOVAL]
    columns = [
        (STATUSES.index(line["status"]), parse_place(line.get("cluster", "0-0")), line.get("late", False),
         row.arrived_ms * 1000, row.time)
        for row, line in rows
    ]  # fmt: skip
    if rows:
        statuses, clusters, late, arrived, dates = map(np.array, zip(*columns, strict=True))
        names = [row.shown.get("source", "") for row, _ in rows]
        ledger.add(Reports(names, statuses.astype(np.uint8), clusters, late, arrived, dates))
    return ledger


def check(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare what the ledger says of a source with the replay: counts exactly, medians within their bin."""
    for name in ("source", "earlier_in", "later_in"):
        assert found[name] == expected[name], name
    hours = {one["hour"]: one for one in found["hours"]} | {"all": found}
    assert hours.keys() == expected["hours"].keys()
    for hour, values in expected["hours"].items():
        counted = {name: number for name, number in hours[hour].items() if type(number) is int and name != "hour"}
        exact = {name: number for name, number in values.items() if isinstance(number, int)}
        assert {name: number for name, number in counted.items() if number} == exact, hour
        for kind in ("arrival", "date"):
            shown = hours[hour].get(f"lag_seconds_by_{kind}")
            if not values[kind]:
                assert shown is None
                continue
            true = median_low(values[kind])
            assert abs(shown - true) <= 0.05 * abs(true) + 0.6, (hour, kind, shown, true)
            assert math.copysign(1, shown) == math.copysign(1, true) or abs(true) < 1
