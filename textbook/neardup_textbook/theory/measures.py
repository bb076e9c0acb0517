"""``MEASURES``: similarities and distances of two items; each row is a plain function of two items.

A *similarity* is 0 for items with nothing in common and 1 for equal items. A *distance* is 0 or more, 0 from an item to
itself, symmetric, and obeys the triangle inequality. Different items have a distance above 0; for the angle, all
positive multiples of a vector are equal.

Sets and bags are one-dimensional integer arrays, in any order. An empty set has similarity 0 to every set, also to
itself: two empty texts are not duplicates of each other. (The distance of two empty sets is 0.) Vectors are
one-dimensional arrays of numbers of equal length; ``pairwise`` has the same measures over rows of arrays. Strings are
``str`` or ``bytes``; bits are packed in ``uint8`` arrays of equal length.

Source: Mining of Massive Datasets, 3.1.1 (sets), 3.1.3 (bags), 3.5 (distances).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import DamerauLevenshtein, Hamming, Indel

from neardup.errors import ConfigError
from neardup_textbook.vectors import pairwise

Numbers = npt.NDArray[np.integer]
Vector = npt.NDArray[Any]  # numbers of any type; computed in float64
Bits = npt.NDArray[np.uint8]


class Measure(NamedTuple):
    """A row of ``MEASURES``: the kind of items, the function of two items, and whether it is a distance."""

    kind: str  # "sets", "bags", "vectors", "strings" or "bits"
    function: Callable[[Any, Any], float]
    distance: bool


def jaccard(a: Numbers, b: Numbers) -> float:
    """Jaccard similarity of two sets, |a and b| / |a or b|; repeated elements count once.

    >>> jaccard(np.array([1, 2, 3]), np.array([2, 3, 4]))
    0.5
    """
    a, b = np.unique(a), np.unique(b)
    union = len(np.union1d(a, b))
    return len(np.intersect1d(a, b, assume_unique=True)) / union if union else 0.0


def jaccard_distance(a: Numbers, b: Numbers) -> float:
    """The fraction of the union of two sets that is not in both; 0 for two empty sets.

    >>> jaccard_distance(np.array([1, 2, 3]), np.array([2, 3, 4]))
    0.5
    """
    return 1 - jaccard(a, b) if len(a) or len(b) else 0.0


def jaccard_bag(a: Numbers, b: Numbers) -> float:
    """Jaccard similarity of two bags: the sum of the lesser multiplicities divided by the sum of the greater ones.

    >>> jaccard_bag(np.array([1, 1, 1, 2]), np.array([1, 1, 2, 2, 3]))
    0.5
    """
    least, greatest = _multiplicities(a, b)
    return least / greatest if greatest else 0.0


def jaccard_bag_sum(a: Numbers, b: Numbers) -> float:
    """Jaccard similarity of two bags, if the union adds the multiplicities: at most one half.

    >>> round(jaccard_bag_sum(np.array([1, 1, 1, 2]), np.array([1, 1, 2, 2, 3])), 3)
    0.333
    """
    least, _ = _multiplicities(a, b)
    total = len(a) + len(b)
    return least / total if total else 0.0


def containment(a: Numbers, b: Numbers) -> float:
    """The fraction of a's elements that are in b, as sets.

    >>> containment(np.array([1, 2]), np.array([2, 3, 4]))
    0.5
    """
    a, b = np.unique(a), np.unique(b)
    return len(np.intersect1d(a, b, assume_unique=True)) / len(a) if len(a) else 0.0


def lr(a: Vector, b: Vector, r: float) -> float:
    """The L_r distance, (sum |a_i - b_i|^r)^(1/r), for r from 1 to infinity. Raises ``ConfigError`` for another r.

    >>> lr(np.array([2, 7]), np.array([6, 4]), 3) == 91 ** (1 / 3)
    True
    """
    if not r >= 1:
        raise ConfigError(f"r is {r}, but an L_r distance needs an r of 1 or more: below, a detour may be shorter")
    x, y = _rows(a, b)
    apart = np.abs(x - y)
    most = float(apart.max(initial=0.0))
    if r == math.inf or most == 0.0:
        return most
    return most * float(((apart / most) ** r).sum() ** (1 / r))  # divided by the greatest, so that no power overflows


def l1(a: Vector, b: Vector) -> float:
    """Manhattan distance, the sum of the differences.

    >>> l1(np.array([2, 7]), np.array([6, 4]))
    7.0
    """
    return float(pairwise.manhattan(*_rows(a, b))[0])


def l2(a: Vector, b: Vector) -> float:
    """Euclidean distance, the length of the difference.

    >>> l2(np.array([2, 7]), np.array([6, 4]))
    5.0
    """
    return float(pairwise.euclidean(*_rows(a, b))[0])


def linf(a: Vector, b: Vector) -> float:
    """The greatest of the differences.

    >>> linf(np.array([2, 7]), np.array([6, 4]))
    4.0
    """
    return lr(a, b, math.inf)


def cosine(a: Vector, b: Vector) -> float:
    """The cosine of the angle between two vectors, -1 to 1; 0 with a vector of zeros.

    >>> cosine(np.array([1, 2, -1]), np.array([2, 1, 1]))
    0.5
    """
    return float(pairwise.cosine(*_rows(a, b))[0])


def angle(a: Vector, b: Vector) -> float:
    """The angle between two vectors in degrees, 0 to 180; 90 with a vector of zeros.

    >>> round(angle(np.array([1, 2, -1]), np.array([2, 1, 1])), 9)
    60.0
    """
    return float(pairwise.angle(*_rows(a, b))[0])


def edit(a: str | bytes, b: str | bytes) -> float:
    """The fewest insertions and deletions of single characters that turn one string into the other.

    It is the sum of both lengths minus twice the length of the longest common subsequence.

    >>> edit("abcde", "acfdeg")
    3.0
    """
    return float(Indel.distance(a, b))


def edit_swaps(a: str | bytes, b: str | bytes) -> float:
    """As ``edit``, but replacing a character or swapping two neighbours is one edit, too.

    Swapped characters may be edited again: the triangle inequality needs it.

    >>> edit("abcd", "acbe"), edit_swaps("abcd", "acbe")
    (4.0, 2.0)
    """
    return float(DamerauLevenshtein.distance(a, b))


def hamming(a: str | bytes, b: str | bytes) -> float:
    """The number of positions in which two strings of equal length differ; ``ConfigError`` for different lengths.

    >>> hamming("10101", "11110")
    3.0
    """
    if len(a) != len(b):
        raise ConfigError(f"strings of {len(a)} and {len(b)} characters have no Hamming distance: take edit instead")
    return float(Hamming.distance(a, b))


def hamming_bits(a: Bits, b: Bits) -> float:
    """The number of different bits of two arrays ``uint8[w]`` of packed bits.

    >>> hamming_bits(np.array([0b10101], np.uint8), np.array([0b11110], np.uint8))
    3.0
    """
    return float(pairwise.hamming(a[None, :], b[None, :])[0])


MEASURES: dict[str, Measure] = {
    "jaccard": Measure("sets", jaccard, distance=False),
    "jaccard_distance": Measure("sets", jaccard_distance, distance=True),
    "containment": Measure("sets", containment, distance=False),
    "jaccard_bag": Measure("bags", jaccard_bag, distance=False),
    "jaccard_bag_sum": Measure("bags", jaccard_bag_sum, distance=False),
    "l1": Measure("vectors", l1, distance=True),
    "l2": Measure("vectors", l2, distance=True),
    "linf": Measure("vectors", linf, distance=True),
    "cosine": Measure("vectors", cosine, distance=False),
    "angle": Measure("vectors", angle, distance=True),
    "edit": Measure("strings", edit, distance=True),
    "edit_swaps": Measure("strings", edit_swaps, distance=True),
    "hamming": Measure("strings", hamming, distance=True),
    "hamming_bits": Measure("bits", hamming_bits, distance=True),
}


def _multiplicities(a: Numbers, b: Numbers) -> tuple[int, int]:
    (elements_a, counts_a), (elements_b, counts_b) = (np.unique(bag, return_counts=True) for bag in (a, b))
    _, at_a, at_b = np.intersect1d(elements_a, elements_b, assume_unique=True, return_indices=True)
    least = int(np.minimum(counts_a[at_a], counts_b[at_b]).sum())
    return least, len(a) + len(b) - least


def _rows(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Two vectors as arrays of one float64 row each; ``ConfigError`` if their numbers of dimensions differ."""
    if np.shape(a) != np.shape(b):
        raise ConfigError(f"vectors of shapes {np.shape(a)} and {np.shape(b)} cannot be compared: give equal ones")
    return np.asarray(a, np.float64)[None, :], np.asarray(b, np.float64)[None, :]
