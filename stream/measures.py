"""Measures of similarity between sets and bags of shingles; each is 0 for nothing in common and 1 for equality.

Sets and bags are one-dimensional integer arrays, in any order. An empty set is similar to nothing, itself included:
two empty texts are not duplicates of each other.

Source: Mining of Massive Datasets, 3.1.1 (sets), 3.1.3 (bags).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.integer]


def jaccard(a: Numbers, b: Numbers) -> float:
    """Jaccard similarity of two sets, |a and b| / |a or b|; repeated elements count once.

    >>> jaccard(np.array([1, 2, 3]), np.array([2, 3, 4]))
    0.5
    """
    a, b = np.unique(a), np.unique(b)
    union = len(np.union1d(a, b))
    return len(np.intersect1d(a, b, assume_unique=True)) / union if union else 0.0


def jaccard_bag(a: Numbers, b: Numbers) -> float:
    """Jaccard similarity of two bags: the sum of least multiplicities over the sum of greatest.

    >>> jaccard_bag(np.array([1, 1, 1, 2]), np.array([1, 1, 2, 2, 3]))
    0.5
    """
    least, greatest = _multiplicities(a, b)
    return least / greatest if greatest else 0.0


def jaccard_bag_sum(a: Numbers, b: Numbers) -> float:
    """Jaccard similarity of two bags whose union has the sum of the multiplicities: at most one half.

    >>> round(jaccard_bag_sum(np.array([1, 1, 1, 2]), np.array([1, 1, 2, 2, 3])), 3)
    0.333
    """
    least, _ = _multiplicities(a, b)
    total = len(a) + len(b)
    return least / total if total else 0.0


def containment(a: Numbers, b: Numbers) -> float:
    """The share of a's elements that are in b, as sets.

    >>> containment(np.array([1, 2]), np.array([2, 3, 4]))
    0.5
    """
    a, b = np.unique(a), np.unique(b)
    return len(np.intersect1d(a, b, assume_unique=True)) / len(a) if len(a) else 0.0


MEASURES: dict[str, Callable[[Numbers, Numbers], float]] = {
    "jaccard": jaccard,
    "jaccard_bag": jaccard_bag,
    "jaccard_bag_sum": jaccard_bag_sum,
    "containment": containment,
}


def _multiplicities(a: Numbers, b: Numbers) -> tuple[int, int]:
    (elements_a, counts_a), (elements_b, counts_b) = (np.unique(bag, return_counts=True) for bag in (a, b))
    _, at_a, at_b = np.intersect1d(elements_a, elements_b, assume_unique=True, return_indices=True)
    least = int(np.minimum(counts_a[at_a], counts_b[at_b]).sum())
    return least, len(a) + len(b) - least
