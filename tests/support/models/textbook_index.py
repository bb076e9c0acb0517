"""The exact index of the textbook, with position and suffix length in the key, in plain Python and fractions.

The library stores position and suffix length next to the key. Both must make the same candidates. Positions i and j
count from 1, and suffix lengths p and q count the symbols after a symbol, as in Mining of Massive Datasets, 3.9.4 to
3.9.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import count, takewhile


def prefix_length(length: int, ratio: Fraction) -> int:
    """3.9.4."""
    return math.floor((1 - ratio) * length) + 1


def position_marks(length: int, ratio: Fraction) -> set[tuple[int, int]]:
    """The (i, j) for which the i-th symbol is sought at place j (3.9.5)."""
    marks = set()
    for i in range(1, prefix_length(length, ratio) + 1):
        last = math.floor((length * (1 - ratio) - i + 1 + ratio) / ratio)
        marks |= {(i, j) for j in range(1, last + 1)}
    return marks


def suffix_marks(length: int, ratio: Fraction) -> set[tuple[int, int, int]]:
    """The (i, j, q) for which the i-th symbol is sought at place j before a suffix of q (3.9.6, both cases)."""
    marks = set()
    for i in range(1, prefix_length(length, ratio) + 1):
        p = length - i
        for q in range(p + 1):
            fitting = takewhile(lambda j, q=q: Fraction(q + 1, length + j - 1) >= ratio, count(1))
            marks |= {(i, j, q) for j in fitting}
        for q in takewhile(lambda q, i=i: Fraction(length - i + 1, i + q) >= ratio, count(p + 1)):
            fitting = takewhile(lambda j, i=i, q=q: Fraction(length - i + 1, i + j - 1 + q) >= ratio, count(1))
            marks |= {(i, j, q) for j in fitting}
    return marks


def candidates(strings: Sequence[Sequence[int]], ratio: Fraction) -> set[tuple[int, int]]:
    """Candidate pairs (older, newer) if each string is looked up and then added, in the given order."""
    index: dict[tuple[int, int, int], list[int]] = {}
    met = set()
    for newer, string in enumerate(strings):
        for i, j, q in suffix_marks(len(string), ratio):
            met |= {(older, newer) for older in index.get((string[i - 1], j, q), ())}
        for i in range(1, prefix_length(len(string), ratio) + 1):
            index.setdefault((string[i - 1], i, len(string) - i), []).append(newer)
    return met
