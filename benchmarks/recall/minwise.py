"""How far a family of permutations is from min-wise: how often each element of a set comes first.

A family is min-wise independent if every element x of every set X comes first in a fraction 1 / |X| of its
permutations. It is approximately min-wise, with an epsilon, if the fraction differs by at most epsilon / |X|. An exact
family of n elements needs e^(n - o(n)) permutations, so practical families are approximate. With the functions
x -> (a x + b) mod p, each of k elements comes first in a fraction of at least 1 / (2 (k - 1)). These functions can be
far from min-wise on small regular sets, and are close to it on hashed elements.

Source: Broder, Charikar, Frieze, Mitzenmacher, "Min-wise independent permutations", 2000; Bohman, Cooper, Frieze,
"Min-wise independent linear permutations", 2000.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


def first_fractions(elements: Numbers, sign: Callable[[Numbers, npt.NDArray[np.int64]], Numbers]) -> Floats:
    """The fraction of a signature's rows in which each of k different elements comes first: ``float64[k]``.

    ``sign`` makes signatures ``uint64[n, rows]`` of ragged sets: a ``sign`` of ``neardup.schemes.signatures`` with rows
    and seed filled in.
    """
    whole = sign(elements, np.array([0, len(elements)], np.int64))
    single = sign(elements, np.arange(len(elements) + 1, dtype=np.int64))
    return np.asarray((single == whole).mean(axis=1))


def bias(fractions: Floats) -> float:
    """The least epsilon such that the fractions of k elements are within epsilon / k of 1 / k.

    >>> bias(np.array([0.25, 0.75]))
    0.5
    """
    return float(np.abs(len(fractions) * fractions - 1).max())


def linear_family(prime: int) -> tuple[Numbers, Numbers]:
    """Every multiplier and offset of (a x + b) mod ``prime``: a from 1, b from 0, ``uint64[prime * (prime - 1)]`` each.

    >>> len(linear_family(5)[0])
    20
    """
    a, b = np.divmod(np.arange(prime * (prime - 1), dtype=np.uint64), np.uint64(prime))
    return a + np.uint64(1), b
