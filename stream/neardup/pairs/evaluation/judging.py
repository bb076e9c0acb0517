"""Evaluation of a result against known pairs: the confusion matrix, its fractions with intervals, and the fraction of
pairs found at each similarity, next to the curve that promised it.

Intervals are Wilson's, which assume independent pairs. Pairs of one cluster are not independent, so on clustered data
the intervals are too narrow. F1 is 2 u / (1 + u), where u is the fraction of true pairs among all that are true or
emitted; the ends of its interval follow from those of u.

Source: confusion matrix, precision and recall as in any text on retrieval; Wilson, "Probable inference, the law of
succession, and statistical inference", 1927.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError

Pair = tuple[str, str]
Floats = npt.NDArray[np.float64]
# Standard deviations of an interval that holds the truth 95 times in 100.
DEVIATIONS = 1.959963984540054


class Proportion(NamedTuple):
    """A fraction and the ends of its interval, each in [0, 1]; NaN for a fraction of nothing."""

    value: float
    low: float
    high: float


class Confusion(NamedTuple):
    """Pairs by truth and result; ``true_negatives`` is ``None`` if the number of documents is unknown."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int | None

    def precision(self) -> Proportion:
        """Return the fraction of emitted pairs that are true."""
        return proportion(self.true_positives, self.true_positives + self.false_positives)

    def recall(self) -> Proportion:
        """Return the fraction of true pairs that are emitted."""
        return proportion(self.true_positives, self.true_positives + self.false_negatives)

    def f1(self) -> Proportion:
        """Return the harmonic mean of precision and recall."""
        union = self.true_positives + self.false_positives + self.false_negatives
        return Proportion(*(2 * u / (1 + u) for u in proportion(self.true_positives, union)))


class CurveBin(NamedTuple):
    """Pairs of a similarity in [low, high): their number, how many were found, that fraction, and the expected one."""

    low: float
    high: float
    pairs: int
    found: int
    share: Proportion
    expected: float


def proportion(part: int, whole: int) -> Proportion:
    """Return the fraction of ``part`` in ``whole`` with Wilson's interval.

    >>> [round(x, 3) for x in proportion(8, 10)]
    [0.8, 0.49, 0.943]
    """
    if whole == 0:
        return Proportion(math.nan, math.nan, math.nan)
    value, z2 = part / whole, DEVIATIONS**2
    middle = (value + z2 / (2 * whole)) / (1 + z2 / whole)
    half = DEVIATIONS / (1 + z2 / whole) * math.sqrt(value * (1 - value) / whole + z2 / (4 * whole**2))
    low = 0.0 if part == 0 else middle - half  # exactly 0, which rounding could miss
    return Proportion(value, low, 1.0 if part == whole else middle + half)


def confusion(
    emitted: Iterable[Pair], true: Iterable[Pair], documents: int | None = None, copies: int = 0
) -> Confusion:
    """Compare emitted and true pairs, each as two ids in any order.

    ``documents`` is the number of all documents, with ``copies`` that no pair names. Raises ``ConfigError`` for fewer
    documents than the pairs name.

    >>> confusion([("a", "b"), ("c", "a")], [("b", "a")], documents=3)
    Confusion(true_positives=1, false_positives=1, false_negatives=0, true_negatives=1)
    """
    said, is_true = ({frozenset(pair) for pair in pairs} for pairs in (emitted, true))
    hits, named = len(said & is_true), len(frozenset[str]().union(*said, *is_true))
    contents = None if documents is None else documents - copies
    if contents is not None and contents < named:
        raise ConfigError(
            f"documents is {documents}, but the pairs name {named + copies}: count every document that was given"
        )
    rest = None if contents is None else math.comb(contents, 2) - len(said | is_true)
    return Confusion(hits, len(said) - hits, len(is_true) - hits, rest)


class Contents:
    """Documents joined by links between copies: a content is a set of documents that stand for each other.

    A disjoint-set forest with paths halved; ``of`` names the content of a document by one of its documents.
    """

    def __init__(self, links: Iterable[Pair]) -> None:
        self._parents: dict[str, str] = {}
        for a, b in links:
            self._parents[self.of(a)] = self.of(b)

    def of(self, name: str) -> str:
        """Return the content of a document; a document without a link is its own content."""
        parents = self._parents
        while (parent := parents.get(name, name)) != name:
            parents[name] = parents.get(parent, parent)
            name = parents[name]
        return name

    def pairs(self, pairs: Iterable[Pair]) -> dict[Pair, Pair]:
        """Return the pairs of different contents, each with the last pair of documents between them."""
        between = {tuple(sorted((self.of(a), self.of(b)))): (a, b) for a, b in pairs}
        return {(a, b): pair for (a, b), pair in between.items() if a != b}

    @property
    def copies(self) -> int:
        """Return the number of documents that do not name their content."""
        return sum(self.of(name) != name for name in self._parents)


def bins(
    similarity: Floats, found: npt.NDArray[np.bool_], edges: Sequence[float], expected: Callable[[Floats], Floats]
) -> list[CurveBin]:
    """Return the fraction of pairs found by true similarity (``float64[m]``, ``bool[m]``), without empty bins.

    ``edges`` ascend; the last bin includes its upper edge. The expected fraction of a bin is the mean of ``expected``
    over the pairs of the bin, so a steep curve causes no error."""
    out = []
    for i, (low, high) in enumerate(pairwise(edges)):
        last = i == len(edges) - 2
        inside = (similarity >= low) & ((similarity <= high) if last else (similarity < high))
        if inside.any():
            count, hits = int(inside.sum()), int(found[inside].sum())
            out.append(
                CurveBin(low, high, count, hits, proportion(hits, count), float(expected(similarity[inside]).mean()))
            )
    return out
