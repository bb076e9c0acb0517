"""The exact neighbours of a sample among all documents, and which of them a run has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.documents.ids import collections_of
from neardup.features.texts.reading import read_texts
from neardup.features.tokens import verify
from neardup.features.tokens.bags import sorted_sets
from neardup.pairs.estimates.sample_index import SampleIndex
from neardup.schemes.kinds import sets
from neardup.schemes.kinds.prefix import PrefixPlan
from neardup_workers.doing.audit.claims import DROPPED, KEPT_STATUSES, UPDATED, ClaimedPairs, ClaimedVerdicts
from neardup_workers.doing.audit.sample import Drawn, Longs, Read, WindowRule
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings

Flags = npt.NDArray[np.bool_]


class NearestNeighbour(NamedTuple):
    """The most similar neighbour that should have led to a document of the sample."""

    similarity: float
    document: Document


def plan_of(settings: Settings) -> sets.SetPlan:
    """Return how documents become sets. Raises ``Failure`` for a scheme that compares no sets."""
    plan = settings.plan
    plan = plan.reading if isinstance(plan, PrefixPlan) else plan
    if not isinstance(plan, sets.SetPlan):
        raise Failure(
            Exit.USAGE,
            f"audit compares sets of shingles or tokens, and {settings.scheme} compares none: use evaluate",
        )
    return plan


def elements(documents: Sequence[Document], plan: sets.SetPlan) -> tuple[npt.NDArray[np.uint64], Longs]:
    """Return the elements of documents that were accepted, with repetitions; one that is compared for equality only
    has none."""
    values, starts = sets.features(documents, plan).features
    if plan.characters_min:
        lengths = read_texts(documents, plan.normal_form, plan.text_characters_max)[0].lengths
        sizes = np.where(lengths < plan.characters_min, 0, np.diff(starts))
        values = values[np.repeat(lengths >= plan.characters_min, np.diff(starts))]
        starts = np.concatenate([[0], np.cumsum(sizes)])
    return values, starts


class Neighbours:
    """Counts for each content of the sample, as arrays over the sample.

    ``pairs`` are its neighbours in the window, as contents, ``found`` those that a pair joins it with. ``has_earlier``
    says whether its first document has an earlier neighbour: a kept one, if there are verdicts; ``is_found`` whether an
    earlier document is its partner, or it was dropped. ``is_duplicate`` says whether it was dropped for an original,
    ``confirmed`` whether a document of that id reaches the threshold. ``late`` contents came outside of what is
    promised, and are not counted.

    Args:
        sample: in order of arrival.
        settings: reading, measure and window.
        pairs, verdicts: what was said, one of them.
    """

    def __init__(
        self, sample: Sequence[Drawn], settings: Settings, pairs: ClaimedPairs | None, verdicts: ClaimedVerdicts | None
    ) -> None:
        count = len(sample)
        self._sample, self._plan, self._threshold = sample, plan_of(settings), settings.threshold
        self._window, self._pairs, self._verdicts = WindowRule(settings), pairs, verdicts
        measure = verify.SET_MEASURES[self._plan.measure]
        self._index = SampleIndex(
            *sorted_sets(*elements([drawn.document for drawn in sample], self._plan)),
            measure.share_min(settings.threshold),
        )
        self._places, self._times, self._streams = (
            np.array([getattr(drawn, name) for drawn in sample], np.int64) for name in ("place", "time", "stream")
        )
        self._collections: dict[str | None, int] | None = {} if settings.separate else None
        if self._collections is not None:
            names = collections_of(drawn.ids[0] for drawn in sample)
            self._collection = np.array(
                [self._collections.setdefault(name, len(self._collections)) for name in names], np.int64
            )
        self._contents = np.array([drawn.content for drawn in sample], np.uint64)
        self._by_place = {drawn.place: n for n, drawn in enumerate(sample)}
        self._before: dict[int, tuple[int, int]] = {}  # content: place and time of its newest document
        self._joined: set[tuple[int, int]] = set()  # of the sample, with the content of a partner that reaches it
        self._reached: set[tuple[int, str]] = set()  # of the sample, with the id of an original that reaches it
        self.promised = self._window.promises(self._times, self._streams)
        self.late = int(np.count_nonzero(~self.promised))
        self.pairs = np.zeros(count, np.int64)
        self.has_earlier, self.is_found, self.is_duplicate, self.confirmed = (
            np.zeros(count, np.bool_) for _ in range(4)
        )
        self.nearest: dict[int, NearestNeighbour] = {}

    @property
    def found(self) -> Longs:
        """Return how many neighbours of each content are found."""
        return np.bincount([n for n, _ in self._joined], minlength=len(self._sample))

    def add(self, read: Read) -> None:
        """Compare the next documents with the sample."""
        values, starts = elements(read.documents, self._plan)
        hits = self._index.hits(values, starts, self._threshold)
        sizes = hits.sizes, self._index.sizes[hits.sampled]
        similarity = verify.SET_MEASURES[self._plan.measure].of_counts(hits.common, *sizes)
        reach = similarity >= self._threshold
        if self._collections is not None:
            own = np.array([self._collections.get(name, -1) for name in collections_of(read.ids)], np.int64)
            reach &= own[hits.documents] == self._collection[hits.sampled]
        sampled, similarity = hits.sampled[reach], similarity[reach]
        bounds = np.searchsorted(hits.documents[reach], np.arange(len(read.ids) + 1)).tolist()
        in_time = self._window.promises(read.times, read.streams)
        if self._pairs is not None:
            self._pairs.see(read.ids)
        for n, content in enumerate(read.contents.tolist()):
            place, time = int(read.places[n]), int(read.times[n])
            near = slice(bounds[n], bounds[n + 1])
            others = sampled[near]
            is_kept = self._said(read.ids[n], place, others)
            is_other = self._contents[others] != read.contents[n]
            if in_time[n] and is_other.any():
                self._meet(read, n, others[is_other], similarity[near][is_other], is_kept=is_kept)
            self._before[content] = place, time

    def _said(self, id_: str, place: int, others: Longs) -> bool:
        """Note what was said of a document; return whether it is kept, as all are without verdicts."""
        if self._pairs is not None:
            for partner in self._pairs.with_id(id_):
                self.is_found[partner] |= place < self._places[partner]
        if self._verdicts is None:
            return True
        self._reached.update((other, id_) for other in others.tolist() if id_ in self._verdicts.originals)
        status, original = self._verdicts.next(id_)
        own = self._by_place.get(place)
        if own is not None:
            self.is_found[own] = status in DROPPED
            self.is_duplicate[own] = original is not None
            self.confirmed[own] = original is not None and (own, original) in self._reached
            self.promised[own] &= status != UPDATED
        return status in KEPT_STATUSES

    def _meet(self, read: Read, n: int, others: Longs, similarity: npt.NDArray[np.float64], *, is_kept: bool) -> None:
        """Count a document as neighbour of contents of the sample that it reaches. The copies of a content count once:
        at the first one that lies in one window with the other side."""
        place, time, content = int(read.places[n]), int(read.times[n]), int(read.contents[n])
        is_near = self._near(others, place, time)
        before = self._before.get(content)
        counted = np.zeros(len(others), np.bool_) if before is None else self._near(others, *before)
        is_new = is_near & ~counted & self.promised[others]
        self.pairs[others[is_new]] += 1
        if self._pairs is not None:
            named = self._pairs.with_id(read.ids[n])
            self._joined.update((other, content) for other in others[is_near].tolist() if other in named)
        if not is_kept:
            return
        earlier = np.flatnonzero(is_near & (place < self._places[others]) & self.promised[others])
        self.has_earlier[others[earlier]] = True
        for other, value in zip(others[earlier].tolist(), similarity[earlier].tolist(), strict=True):
            best = self.nearest.get(other)
            if best is None or value > best.similarity:
                self.nearest[other] = NearestNeighbour(value, read.documents[n])

    def _near(self, others: Longs, place: int, time: int) -> Flags:
        """Return which contents of the sample have their first document in one window with a document."""
        return self._window.holds(self._places[others], self._times[others], place, time)
