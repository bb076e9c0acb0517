"""The rule of verdicts over lists, slow and plain: the kernel must give the same verdicts."""

from __future__ import annotations

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


@dataclass
class VerdictModel:
    """All documents of the stream; each decision reads all of them."""

    window: int
    lateness: int
    by_content: bool = True
    rows: list[_Row] = field(default_factory=list)
    ignored: int = 0

    def decide(self, place: int, event: Event) -> Decision:
        if event.time is None:
            for row in self.rows:
                row.removed |= row.id == event.id
            return Decision("removed", place)
        row = _Row(place, event.id, event.content, event.time, place)
        before, self.rows = self._live(event.time), [*self.rows, row]
        version = self._latest(before, "id", row.id)
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
        latest = self._latest(before, "content", row.content) if self.by_content else None
        if latest is not None:
            original = self._standing(latest)
            if original is not None and self._near(original, row):
                return self._drop(row, original, latest.similarity, previous)
        originals, others = [], []
        if latest is not None and not latest.removed:
            others.append((1.0, -latest.place, latest))
        for other, similarity in event.pairs:
            met = next((one for one in before if one.place == other), None)
            if met is None:
                self.ignored += 1
            elif not met.removed:
                newest = self._latest(before, "content", met.content) if self.by_content else None
                if newest is not None and not newest.removed:
                    met = newest
                original = self._standing(met)
                if original is not None and original.content == met.content and self._near(original, row):
                    originals.append((similarity, -original.place, original))
                else:
                    others.append((similarity, -met.place, met))
        if originals:
            similarity, _, original = max(originals, key=lambda one: one[:2])
            return self._drop(row, original, similarity, previous)
        related = max(others, key=lambda one: one[:2])[2].cluster if others else None
        return Decision("original", place, related=related, previous=previous)

    def _drop(self, row: _Row, original: _Row, similarity: float, previous: int | None) -> Decision:
        row.head, row.cluster, row.similarity = original, original.cluster, similarity
        return Decision("duplicate", row.cluster, original.place, similarity, previous=previous)

    def _live(self, time: int | None = None) -> list[_Row]:
        stream = max([row.time for row in self.rows] + ([] if time is None else [time]), default=0)
        return [row for row in self.rows if row.time >= stream - self.window - self.lateness]

    def _latest(self, rows: list[_Row], name: str, value: int) -> _Row | None:
        found = [row for row in self.rows[:-1] if getattr(row, name) == value]
        return found[-1] if found and any(found[-1] is row for row in rows) else None

    def _near(self, one: _Row, other: _Row) -> bool:
        return abs(one.time - other.time) <= self.window

    def _standing(self, row: _Row) -> _Row | None:
        live = self._live()
        while any(row is one for one in live):
            if row.head is None:
                return None if row.removed else row
            row = row.head
        return None
