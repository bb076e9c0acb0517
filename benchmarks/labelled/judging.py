"""Halves of a labelled set, and precision, recall, F1 and accuracy of the pairs that settings find in one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from benchmarks.labelled.records import Labelled, Score
from benchmarks.labelled.sets import ACCURACY, RAND, Settings
from neardup import Config, Deduplicator, Document
from neardup.pairs.evaluation.clusters import components, counts_of_labels, quality


def value_of(score: Score, measure: str) -> float:
    """The value that a set is judged by."""
    return {ACCURACY: score.accuracy, RAND: score.rand}.get(measure, score.f1)


def halves(labelled: Labelled) -> tuple[Labelled, Labelled]:
    """Two parts that share no document and cut no labelled pair: the first to choose settings on, the second to score.

    Documents that labelled pairs join, in one step or in several, stay together; a hash of the least id of such a group
    decides.
    """
    documents = [*labelled.added, *labelled.probed]
    group = _joined(documents, labelled.truth | labelled.asked).tolist()
    least: dict[int, str] = {}
    for document, root in zip(documents, group, strict=True):
        least[root] = min(document.id, least.get(root, document.id))
    second = {
        document.id
        for document, root in zip(documents, group, strict=True)
        if hashlib.blake2b(least[root].encode()).digest()[0] % 2
    }
    return _part(labelled, {document.id for document in documents} - second), _part(labelled, second)


def _joined(documents: list[Document], pairs: set[frozenset[str]]) -> npt.NDArray[np.int64]:
    """The group of each document: pairs join, in one step or in several."""
    number = {document.id: n for n, document in enumerate(documents)}
    sides = [sorted(map(number.__getitem__, pair)) for pair in pairs]
    a, b = np.array(sides, np.int64).reshape(-1, 2).T
    return components(len(documents), a, b)


def _part(labelled: Labelled, ids: set[str]) -> Labelled:
    added, probed = ([one for one in rows if one.id in ids] for rows in (labelled.added, labelled.probed))
    truth, asked = ({pair for pair in pairs if pair <= ids} for pairs in (labelled.truth, labelled.asked))
    return labelled._replace(added=added, probed=probed, truth=truth, asked=asked)


def judge(labelled: Labelled, settings: Settings) -> Score:
    """Find the pairs of a set, and compare them with its labels. A quotient of zeros is 0."""
    dedup = Deduplicator(Config(**settings))
    if labelled.in_stories:
        stories = np.array([verdict.cluster for verdict in dedup.decide(labelled.added)])
        found = quality(counts_of_labels(stories, _joined(labelled.added, labelled.truth)))
        return Score(found.precision.value, found.recall.value, found.f1.value, rand=found.adjusted_rand.value)
    pairs = dedup.process(labelled.added)
    if labelled.probed:
        pairs = dedup.probe(labelled.probed)
    named = {frozenset((pair.older, pair.newer)) for pair in pairs}
    if labelled.asked:
        named &= labelled.asked
    true = len(named & labelled.truth)
    wrong = len(named ^ labelled.truth)
    return Score(
        true / max(1, len(named)),
        true / max(1, len(labelled.truth)),
        2 * true / max(1, len(named) + len(labelled.truth)),
        1 - wrong / len(labelled.asked) if labelled.asked else 0.0,
    )


def choose(labelled: Labelled, choices: Iterable[Settings], measure: str) -> Settings:
    """The settings with the highest measure; of equal ones the first."""
    return max(choices, key=lambda settings: value_of(judge(labelled, settings), measure))
