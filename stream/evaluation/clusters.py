"""Evaluation of clusters against labels, or against pairs that are known: pairwise precision and recall, B-cubed, the
adjusted Rand index, with intervals.

All of them follow from three numbers for each document: the size of its cluster, the number of documents that truly
belong with it, and the number of documents that are both; each includes the document. So the truth need not be a
partition: with known pairs, a document belongs with its partners. With labels, these are the usual definitions.

Intervals are jackknife intervals (95 %, Student's t) over groups of documents that no cluster and no label joins to
other groups. Unlike Wilson's intervals, they do not assume that the pairs of one cluster are independent.

Sources: Bagga and Baldwin, "Algorithms for scoring coreference chains", LREC 1998 (B-cubed); Hubert and Arabie,
"Comparing partitions", Journal of Classification 2, 1985 (adjusted Rand index); Tukey, "Bias and confidence in
not-quite large samples", Annals of Mathematical Statistics 29, 1958 (jackknife).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.evaluation.judging import Proportion

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# Groups of the jackknife, and the quantile of Student's t with one degree of freedom less.
_GROUPS = 20
_STUDENT = 2.093


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
    """

    precision: Proportion
    recall: Proportion
    f1: Proportion
    b3_precision: Proportion
    b3_recall: Proportion
    b3_f1: Proportion
    adjusted_rand: Proportion


def counts_of_labels(clusters: Ints, labels: Ints) -> Counts:
    """Count against a partition.

    Args:
        clusters: the cluster of each document, ``int64[n]``.
        labels: its true class, ``int64[n]``.
    """
    clusters, labels = _numbered(clusters), _numbered(labels)
    first, end = int(clusters.max(initial=-1)) + 1, int(labels.max(initial=-1)) + 1
    cells, cell_of, both = np.unique(clusters * end + labels, return_inverse=True, return_counts=True)
    roots = components(first + end, cells // max(end, 1), first + cells % max(end, 1))
    true, shared = np.bincount(labels)[labels], both[cell_of]
    return Counts(np.bincount(clusters)[clusters], true, shared, true, shared, roots[clusters])


def counts_of_pairs(clusters: Ints, a: Ints, b: Ints) -> Counts:
    """Count against known pairs. The classes are what the pairs join, directly or in several steps.

    Args:
        clusters: the cluster of each document, ``int64[n]``.
        a: one document of each pair, ``int64[m]``.
        b: the other document; every pair occurs once.
    """
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
    total = sums.sum(axis=1)
    units, unit_of = np.unique(counts.units, return_inverse=True)
    groups = min(_GROUPS, len(units))
    of_group = np.stack([np.bincount(unit_of % max(groups, 1), row, max(groups, 1)) for row in sums])
    value = _measures(total)
    if groups < 2:
        return Quality._make(Proportion(x, math.nan, math.nan) for x in value.tolist())
    without = np.stack([_measures(total - of_group[:, g]) for g in range(groups)])
    deviations = np.sqrt((groups - 1) / groups * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    low, high = value - _STUDENT * deviations, np.minimum(1.0, value + _STUDENT * deviations)
    low[:-1] = np.maximum(0.0, low[:-1])
    return Quality._make(map(Proportion, value.tolist(), low.tolist(), high.tolist()))


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


def _measures(sums: Floats) -> Floats:
    """Return the measures from sums over documents: documents, clustered, true, both, the two sums of B-cubed, classed
    and shared."""
    documents, clustered, true, both, b3_precision, b3_recall, classed, shared = sums.tolist()
    precision, recall = _ratio(both, clustered), _ratio(both, true)
    b3 = _ratio(b3_precision, documents), _ratio(b3_recall, documents)
    by_chance = _ratio(clustered * classed, documents * (documents - 1))
    rand = _ratio(shared - by_chance, (clustered + classed) / 2 - by_chance)
    f1 = _ratio(2 * both, clustered + true)
    return np.array([precision, recall, f1, *b3, _ratio(2 * b3[0] * b3[1], sum(b3)), rand])


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


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
