"""Evaluation of clusters against labels, or against pairs that are known: pairwise precision and recall, B-cubed, the
adjusted Rand index, with intervals.

All of them follow from three numbers for each document: the size of its cluster, the number of documents that truly
belong with it, and the number of documents that are both; each includes the document. So the truth need not be a
partition: with known pairs, a document belongs with its partners. With labels, these are the usual definitions.

Intervals (95 %) are those of a bootstrap over groups of documents that no cluster and no label joins to other groups
(``resampling``). Unlike Wilson's intervals, they do not assume that the pairs of one cluster are independent.

Sources: Bagga and Baldwin, "Algorithms for scoring coreference chains", LREC 1998 (B-cubed); Hubert and Arabie,
"Comparing partitions", Journal of Classification 2, 1985 (adjusted Rand index).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.evaluation.judging import Proportion
from neardup.pairs.evaluation.resampling import interval, resampled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Counts(NamedTuple):
    """Five numbers of each of n documents, ``int64[n]``, itself included, and its unit.

    ``clustered``: documents of its cluster; ``true``: documents that belong with it; ``both``: those that are both.
    The adjusted Rand index compares two partitions, so it needs classes. ``classed``: documents of its class, which is
    its label or what known pairs join; ``shared``: those of its class and its cluster. No cluster and no class joins
    documents of different units (``int64[n]``).
    """

    clustered: Ints
    true: Ints
    both: Ints
    classed: Ints
    shared: Ints
    units: Ints


class Quality(NamedTuple):
    """Measures of clusters, each in [0, 1] but for the adjusted Rand index, which is at most 1.

    ``precision``, ``recall`` and ``f1`` count pairs of documents; the B-cubed measures are means over documents.
    ``adjusted_rand`` compares with the classes, which close known pairs; ``adjusted_rand_known`` with the pairs as they
    are. With labels both are the same.
    """

    precision: Proportion
    recall: Proportion
    f1: Proportion
    b3_precision: Proportion
    b3_recall: Proportion
    b3_f1: Proportion
    adjusted_rand: Proportion
    adjusted_rand_known: Proportion


class Purity(NamedTuple):
    """Clusters of ``size_min`` to ``size_max`` documents: how many they are, how many documents they have, and the
    fraction of these that is of the commonest class of its cluster."""

    size_min: int
    size_max: int
    clusters: int
    documents: int
    purity: Proportion


def counts_of_labels(clusters: Ints, labels: Ints) -> Counts:
    """Count the clusters of n documents against a partition into labels."""
    clusters, labels = _numbered(clusters), _numbered(labels)
    first, end = int(clusters.max(initial=-1)) + 1, int(labels.max(initial=-1)) + 1
    cells, cell_of, both = np.unique(clusters * end + labels, return_inverse=True, return_counts=True)
    roots = components(first + end, cells // max(end, 1), first + cells % max(end, 1))
    true, shared = np.bincount(labels)[labels], both[cell_of]
    return Counts(np.bincount(clusters)[clusters], true, shared, true, shared, roots[clusters])


def counts_of_pairs(clusters: Ints, a: Ints, b: Ints) -> Counts:
    """Count the clusters of n documents against known pairs, each once. The classes are what the pairs join, directly
    or in several steps."""
    n = len(clusters)
    together = clusters[a] == clusters[b]
    true = 1 + np.bincount(a, minlength=n) + np.bincount(b, minlength=n)
    both = 1 + np.bincount(a[together], minlength=n) + np.bincount(b[together], minlength=n)
    closed = counts_of_labels(clusters, components(n, a, b))
    return closed._replace(true=true, both=both)


def quality(counts: Counts) -> Quality:
    """Return the measures with their intervals; NaN for a quotient of zeros, or with a single unit.

    >>> found = quality(counts_of_labels(np.array([0, 0, 1, 1, 1]), np.array([7, 7, 7, 8, 8])))
    >>> [round(measure.value, 3) for measure in found[:3]], round(found.adjusted_rand.value, 3)
    ([0.5, 0.5, 0.5], 0.167)
    """
    sums = np.stack([
        np.ones(len(counts.both)), counts.clustered - 1.0, counts.true - 1.0, counts.both - 1.0,
        counts.both / counts.clustered, counts.both / counts.true, counts.classed - 1.0, counts.shared - 1.0,
    ])  # fmt: skip
    return Quality._make(_with_intervals(sums, counts.units, _measures))


def purity_by_size(clusters: Ints, classes: Ints) -> list[Purity]:
    """How much of the clusters of each size is of their commonest class; sizes from 2, each row up to twice as large.

    >>> [row[:4] for row in purity_by_size(np.array([0, 0, 1, 1, 1, 2]), np.array([7, 7, 7, 8, 8, 8]))]
    [(2, 2, 1, 2), (3, 4, 1, 3)]
    """
    clusters, classes = _numbered(clusters), _numbered(classes)
    end = int(classes.max(initial=-1)) + 1
    cells, held = np.unique(clusters * end + classes, return_counts=True)
    sizes = np.bincount(clusters)
    commonest = np.zeros(len(sizes), np.int64)
    np.maximum.at(commonest, cells // max(end, 1), held)
    purities = []
    low, high = 2, 2
    while low <= sizes.max(initial=0):
        inside = (sizes >= low) & (sizes <= high)
        if inside.any():
            sums = np.stack([commonest[inside], sizes[inside]]).astype(np.float64)
            (share,) = _with_intervals(sums, np.arange(len(sums[0])), lambda rows: _ratio(rows[:1], rows[1]))
            purities.append(Purity(low, high, int(inside.sum()), int(sizes[inside].sum()), share))
        low, high = high + 1, 2 * high
    return purities


def lowest_similarities(clusters: Ints, a: Ints, b: Ints, similarity: Floats) -> Floats:
    """The least similarity of two documents of each cluster, ``float64[max(clusters) + 1]``.

    ``clusters`` are small numbers (``int64[n]``). A pair that is not listed is less similar than every listed
    pair, so a cluster with such a pair gets NaN. A cluster of one document gets 1.
    """
    count = int(clusters.max(initial=-1)) + 1
    inside = clusters[a] == clusters[b]
    of = clusters[a[inside]]
    lowest = np.ones(count)
    np.minimum.at(lowest, of, similarity[inside])
    sizes = np.bincount(clusters, minlength=count)
    lowest[np.bincount(of, minlength=count) < sizes * (sizes - 1) // 2] = np.nan
    return lowest


def _with_intervals(sums: Floats, units: Ints, measures: Callable[[Floats], Floats]) -> list[Proportion]:
    """The measures of the sums (``float64[k, n]``), each with the interval of its values over resampled units."""
    value = measures(sums.sum(axis=1)).tolist()
    drawn = resampled(sums, units)
    if drawn is None:
        return [Proportion(x, math.nan, math.nan) for x in value]
    low, high = interval(measures(drawn))
    return [Proportion(*row) for row in zip(value, low, high, strict=True)]


def _measures(sums: Floats) -> Floats:
    """Return the measures from sums over documents: documents, clustered, true, both, the two sums of B-cubed, classed
    and shared; one column for each resample."""
    documents, clustered, true, both, b3_precision, b3_recall, classed, shared = sums
    precision, recall = _ratio(both, clustered), _ratio(both, true)
    b3 = _ratio(b3_precision, documents), _ratio(b3_recall, documents)
    pairs = documents * (documents - 1)
    closed = _above_chance(shared, clustered, classed, pairs)
    known = _above_chance(both, clustered, true, pairs)
    f1 = _ratio(2 * both, clustered + true)
    return np.stack([precision, recall, f1, *b3, _ratio(2 * b3[0] * b3[1], b3[0] + b3[1]), closed, known])


def _above_chance(shared: Floats, clustered: Floats, true: Floats, pairs: Floats) -> Floats:
    by_chance = _ratio(clustered * true, pairs)
    return _ratio(shared - by_chance, (clustered + true) / 2 - by_chance)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """The quotient; NaN for one of zeros."""
    quotient = np.full(np.broadcast(part, whole).shape, np.nan)
    np.divide(part, whole, out=quotient, where=whole != 0)
    return quotient


def _numbered(values: Ints) -> Ints:
    return np.asarray(np.unique(values, return_inverse=True)[1], np.int64)


def components(n: int, a: Ints, b: Ints) -> Ints:
    """The connected component of each of n documents that pairs (``int64[m]``) join: its first document, ``int64[n]``.

    By a disjoint-set forest with paths halved.
    """
    parents = list(range(n))

    def root(x: int) -> int:
        while parents[x] != x:
            parents[x] = parents[parents[x]]
            x = parents[x]
        return x

    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        first, second = root(x), root(y)
        parents[max(first, second)] = min(first, second)
    return np.array([root(x) for x in range(n)], np.int64)
