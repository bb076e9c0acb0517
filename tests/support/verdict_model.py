"""The rule of verdicts over lists, slow and plain: the kernel must give the same verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Event(NamedTuple):
    """An arrival: ``time`` is None for a removal. ``pairs`` are (place of a decided document, similarity)."""

    id: int
    content: int
    time: int | None
    pairs: tuple[tuple[int, float], ...] = ()


class Decision(NamedTuple):
    """A verdict: places, or None."""

    status: str
    cluster: int
    original: int | None = None
    similarity: float = 0.0
    related: int | None = None
    previous: int | None = None


@dataclass
class _Row:
    place: int
    id: int
    content: int
    time: int
    cluster: int
    head: _Row | None = None
    similarity: float = 1.0
    removed: bool = False


def _first(lead: tuple[float, _Row]) -> float:
    return lead[0]


# Originals that a document is compared with at most.
LEADS_MAX = 64


@dataclass
class VerdictModel:
    """Every document of the stream; ``latest`` holds the last one of each id and of each content."""

    window: int
    lateness: int
    by_content: bool = True
    # The similarity of two contents, below 0 if they are no pair; without it only pairs count.
    compare: Callable[[int, int], float] | None = None
    ignored: int = 0
    stream: int = 0
    rows: dict[int, _Row] = field(default_factory=dict)
    of_id: dict[int, list[_Row]] = field(default_factory=lambda: defaultdict(list))
    latest: dict[tuple[str, int], _Row] = field(default_factory=dict)

    def decide(self, place: int, event: Event) -> Decision:
        if event.time is None:
            for row in self.of_id[event.id]:
                row.removed = True
            return Decision("removed", place)
        row = _Row(place, event.id, event.content, event.time, place)
        self.stream = max(self.stream, row.time) if self.rows else row.time
        decision = self._decide(row, event)
        self.rows[place] = row
        self.of_id[row.id].append(row)
        self.latest["id", row.id] = self.latest["content", row.content] = row
        return decision

    def _decide(self, row: _Row, event: Event) -> Decision:
        version = self._latest("id", row.id)
        if version is not None and (version.removed or not self._near(version, row)):
            version = None
        previous = None if version is None else version.place
        if version is not None and version.content == row.content:
            row.cluster, row.similarity = version.cluster, version.similarity
            if version.head is None:
                version.head = row
                return Decision("unchanged", row.cluster, previous=previous)
            row.head = version.head
            original = self._standing(row.head)
            return Decision("unchanged", row.cluster, original and original.place, row.similarity, previous=previous)
        latest = self._latest("content", row.content) if self.by_content else None
        if latest is not None:
            original = self._standing(latest)
            if original is not None and self._near(original, row):
                return self._drop(row, original, latest.similarity, previous)
        originals, others, leads = [], [], dict[int, tuple[float, _Row]]()
        if latest is not None and not latest.removed:
            others.append((1.0, -latest.place, latest))
        for other, similarity in event.pairs:
            met = self.rows.get(other)
            if met is None or not self._is_live(met):
                self.ignored += 1
            elif not met.removed:
                newest = self._latest("content", met.content) if self.by_content else None
                if newest is not None and not newest.removed:
                    met = newest
                original = self._standing(met)
                reached = original is not None and self._near(original, row)
                if reached and original.content == met.content:
                    originals.append((similarity, -original.place, original))
                    continue
                if reached:
                    known = leads.get(original.place, (0.0, original))
                    leads[original.place] = max(known, (similarity, original), key=_first)
                others.append((similarity, -met.place, met))
        if self.compare is not None:
            for _, original in sorted(leads.values(), key=_first, reverse=True)[:LEADS_MAX]:
                if (similarity := self.compare(row.content, original.content)) >= 0:
                    originals.append((similarity, -original.place, original))
        if originals:
            similarity, _, original = max(originals, key=lambda one: one[:2])
            return self._drop(row, original, similarity, previous)
        related = max(others, key=lambda one: one[:2])[2].cluster if others else None
        return Decision("original", row.place, related=related, previous=previous)

    def _drop(self, row: _Row, original: _Row, similarity: float, previous: int | None) -> Decision:
        row.head, row.cluster, row.similarity = original, original.cluster, similarity
        return Decision("duplicate", row.cluster, original.place, similarity, previous=previous)

    def _is_live(self, row: _Row) -> bool:
        return row.time >= self.stream - self.window - self.lateness

    def _latest(self, name: str, value: int) -> _Row | None:
        found = self.latest.get((name, value))
        return found if found is not None and self._is_live(found) else None

    def _near(self, one: _Row, other: _Row) -> bool:
        return abs(one.time - other.time) <= self.window

    def _standing(self, row: _Row) -> _Row | None:
        while self._is_live(row):
            if row.head is None:
                return None if row.removed else row
            row = row.head
        return None
