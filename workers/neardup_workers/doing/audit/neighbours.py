"""The earlier neighbours of a sample among all documents, and which of them a run has named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.features.said.comparing_sets import numbers_of, said_parts
from neardup.features.texts.reading import read_texts
from neardup.features.tokens import verify
from neardup.features.tokens.bags import sorted_sets
from neardup.pairs.batches import rows_of
from neardup.pairs.comparing import says_nothing_new
from neardup.pairs.estimates.sample_index import SampleIndex
from neardup.schemes.interface import Said
from neardup.schemes.kinds import sets
from neardup.schemes.kinds.prefix import PrefixPlan
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.word_evidence import sets_of
from neardup_workers.doing.audit.sample import Drawn, Facts, Flags, Longs, WindowRule
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings, check_unweighted


class NearestNeighbour(NamedTuple):
    """The most similar neighbour that should have led to a document of the sample."""

    similarity: float
    document: Document


def plan_of(settings: Settings) -> SetPlan:
    """Return how documents become sets. Raises ``Failure`` for a scheme that compares no sets, ``ConfigError`` for
    similarity by counts of a stream."""
    check_unweighted(settings, "audit, which takes a sample")
    plan = settings.plan
    plan = plan.reading if isinstance(plan, PrefixPlan) else plan
    if not isinstance(plan, SetPlan):
        raise Failure(
            Exit.USAGE, f"audit compares sets of shingles or tokens, and {settings.scheme} compares none: use evaluate"
        )
    return plan


def elements(documents: Sequence[Document], plan: SetPlan) -> tuple[npt.NDArray[np.uint64], Longs]:
    """Return the elements of documents that were accepted, with repetitions; one that is compared for equality only
    has none."""
    values, starts = sets.features(documents, plan).features
    if plan.characters_min:
        lengths = read_texts(documents, plan.normal_form, plan.text_characters_max).codes.lengths
        sizes = np.where(lengths < plan.characters_min, 0, np.diff(starts))
        values = values[np.repeat(lengths >= plan.characters_min, np.diff(starts))]
        starts = np.concatenate([[0], np.cumsum(sizes)])
    return values, starts


class SaidBefore:
    """Which documents of the sample say nothing that another one has not said."""

    def __init__(self, documents: Sequence[Document], settings: Settings, plan: SetPlan) -> None:
        self._plan, self._settings = plan, settings
        self._sets = self._sets_of(documents)

    def by(self, others: Sequence[Document], sampled: Longs) -> Flags:
        """Return whether each document of the sample (``int64[m]``) says nothing new to another one, ``bool[m]``."""
        units, starts = self._sets
        sets = units, np.append(starts[sampled], 0)
        said = Said(*said_parts(sets, self._sets_of(others)), numbers_of(sets))
        return says_nothing_new(self._settings, said)

    def _sets_of(self, documents: Sequence[Document]) -> tuple[npt.NDArray[np.uint32], Longs]:
        codes, _, held = read_texts(documents, self._plan.normal_form, self._plan.text_characters_max)
        return sets_of(held, codes, self._plan)


class Neighbours:
    """The earlier neighbours of each content of the sample, as arrays over the sample.

    ``has_earlier`` says whether its first document has one in its window: a kept one, if there are verdicts.
    ``confirmed`` says whether one of them is named for it. ``nearest`` is the most similar one. ``near`` says whether
    one would count that has not said what the document says: with ``novel`` others do not count
    (``neardup.pairs.comparing``). ``has_keys``: only documents that share a key can be similar.
    """

    def __init__(
        self,
        sample: Sequence[tuple[Drawn, set[int]]],
        settings: Settings,
        facts: Facts,
        *,
        has_keys: bool,
        novel: bool = False,
    ) -> None:
        self._said = SaidBefore([drawn.document for drawn, _ in sample], settings, plan_of(settings)) if novel else None
        self._plan, self._threshold, self._facts = plan_of(settings), settings.threshold, facts
        self._measure, self._window, self._has_keys = (
            verify.SET_MEASURES[self._plan.measure],
            WindowRule(settings),
            has_keys,
        )
        self._named = [named for _, named in sample]
        self._places = np.array([drawn.place for drawn, _ in sample], np.int64)
        self._index = SampleIndex(
            *sorted_sets(*elements([drawn.document for drawn, _ in sample], self._plan)),
            self._measure.share_min(settings.threshold),
            facts.keys[self._places].astype(np.uint64) if has_keys else None,
        )
        self._documents = self._at = 0
        self._contents = int(facts.contents.max(initial=0)) + 1
        # Pairs of a content of the sample and another content, as one number: those that are true, and those that are
        # named.
        self._true, self._joined = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        self.has_earlier, self.confirmed, self.near = (np.zeros(len(sample), np.bool_) for _ in range(3))
        self.nearest: dict[int, NearestNeighbour] = {}

    @property
    def pairs(self) -> Longs:
        """Return how many contents are earlier neighbours of each content."""
        return self._counted(self._true)

    @property
    def found(self) -> Longs:
        """Return how many of them are named for it."""
        return self._counted(self._joined)

    def _counted(self, pairs: list[Longs]) -> Longs:
        return np.bincount(np.unique(np.concatenate(pairs)) // self._contents, minlength=len(self._places))

    def add(self, documents: Sequence[Document]) -> None:
        """Compare the next documents, refused ones included, with the sample."""
        rows = [n for n in range(len(documents)) if self._documents + n not in self._facts.refused]
        self._documents += len(documents)
        first, self._at = self._at, self._at + len(rows)
        if first > self._places.max(initial=-1):
            return
        every = None if self._has_keys else elements(rows_of(documents, rows), self._plan)
        if every is None:
            keys = self._facts.keys[first : self._at]
            every_key = keys.astype(np.uint64).reshape(-1), np.arange(len(rows) + 1) * keys.shape[1]
            met, sampled = self._index.candidates(*every_key, self._threshold)
        else:
            met, sampled = self._index.candidates(*every, self._threshold)
        if not len(met):
            return
        # Which of them, by their places, can be the earlier neighbour of a content of the sample.
        places = first + met
        facts, own = self._facts, self._places[sampled]
        can_be: Flags = (
            (places < own) & facts.usable[places] & (facts.contents[places] != facts.contents[own])
            & (facts.collections[places] == facts.collections[own])
            & self._window.holds(places, facts.times[places], own, facts.times[own])
        )  # fmt: skip
        met, sampled = met[can_be], sampled[can_be]
        read, at = np.unique(met, return_inverse=True)
        if every is None:
            values, starts = elements(rows_of(documents, [rows[n] for n in read.tolist()]), self._plan)
        else:
            is_read = np.zeros(len(rows), np.bool_)
            is_read[read] = True
            lengths = np.diff(every[1])
            values, starts = every[0][np.repeat(is_read, lengths)], np.append(0, np.cumsum(lengths[is_read]))
        common, sizes = self._index.common(at, sampled, values, starts)
        similarity = self._measure.of_counts(common, sizes, self._index.sizes[sampled])
        reach = (similarity >= self._threshold) & (common > 0)
        self.near[sampled[reach]] = True
        if self._said is not None:
            reach[reach] = self._said.by(rows_of(documents, [rows[n] for n in met[reach].tolist()]), sampled[reach])
        self._meet(documents, rows, first, met[reach], sampled[reach], similarity[reach])

    def _meet(
        self, documents: Sequence[Document], rows: Sequence[int], first: int, met: Longs, sampled: Longs,
        similarity: npt.NDArray[np.float64],
    ) -> None:  # fmt: skip
        """Note pairs that reach the threshold. The copies of a content count once."""
        self.has_earlier[sampled] = True
        pairs = sampled * self._contents + self._facts.contents[first + met]
        is_named = np.array(
            [place in self._named[n] for n, place in zip(sampled.tolist(), (first + met).tolist(), strict=True)],
            np.bool_,
        )
        self.confirmed[sampled[is_named]] = True
        self._true.append(np.unique(pairs))
        self._joined.append(np.unique(pairs[is_named]))
        order = np.lexsort((-similarity, sampled))
        best = order[np.unique(sampled[order], return_index=True)[1]]
        for n, at, value in zip(sampled[best].tolist(), met[best].tolist(), similarity[best].tolist(), strict=True):
            if n not in self.nearest or value > self.nearest[n].similarity:
                self.nearest[n] = NearestNeighbour(value, documents[rows[at]])
