"""One-permutation hashing completed by fast similarity sketching.

One 64-bit hash of a shingle chooses its row (by its high bits) and competes there by its value: the least wins. Rows
that are still empty are filled by further rounds, each with a hash function of its own, in which only empty rows take
part; after as many rounds as there are rows, the rest is filled row by row. So there is no empty row at any set size of
1 or more, and an earlier round always beats a later one. Cost: O(n + k log k) for n shingles and k rows.

Guarantee: a row of two sets agrees with probability equal to their Jaccard similarity J; the share of agreeing rows is
an unbiased estimate of J with a variance at or below that of MinHash, J (1 - J) / k.

Source: Dahlgaard, Knudsen, Thorup, "Fast similarity sketching", FOCS 2017, algorithm 1; the first round is one
permutation hashing (Mining of Massive Datasets, 3.3.7; Li, Owen, Zhang, NIPS 2012).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream.kernels.compile import inner, kernel
from stream.kernels.hashing import derive_seed, mix64
from stream.signatures import INFINITY

_HALF = np.uint64(32)


def sign(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], rows: int, seed: int) -> npt.NDArray[np.uint64]:
    """Signatures ``uint64[n, rows]`` of n sets of shingles.

    Set i is ``values[starts[i]:starts[i + 1]]``; repeated shingles and their order make no difference. An empty set has
    no signature: its row is all ones, and callers refuse it before. ``rows`` is 1 to 4096.

    >>> import numpy as np
    >>> a = sign(np.array([1, 2, 3], np.uint64), np.array([0, 3]), rows=4, seed=1)
    >>> b = sign(np.array([3, 1, 2, 2], np.uint64), np.array([0, 4]), rows=4, seed=1)
    >>> bool((a == b).all())
    True
    """
    signatures = np.empty((len(starts) - 1, rows), np.uint64)
    longest = int(np.diff(starts).max(initial=0))
    _sign(values, starts, np.uint64(seed), signatures, np.empty(longest, np.uint64))
    return signatures


@kernel
def _sign(values, starts, seed, signatures, hashes):
    for i in range(len(signatures)):
        shingles = values[starts[i] : starts[i + 1]]
        row = signatures[i]
        row[:] = INFINITY
        if len(shingles) == 0:
            continue
        _first_round(shingles, derive_seed(seed, np.uint64(0)), row, hashes)
        empty = 0
        for r in range(len(row)):
            empty += row[r] == INFINITY
        if empty:
            _fill(shingles, seed, row)


@inner
def _first_round(shingles, seed, row, hashes):
    """Every row takes part. The hashing stands in a loop of its own, which the compiler turns into vector code."""
    for i in range(len(shingles)):
        hashes[i] = mix64(shingles[i] ^ seed)
    rows = np.uint64(len(row))
    for i in range(len(shingles)):
        x = hashes[i]
        r = ((x >> _HALF) * rows) >> _HALF
        row[r] = min(row[r], x)  # no branch: about one shingle in ten sets a new least, too many to predict


@inner
def _fill(shingles, seed, row):
    """Rounds 1 to 2k - 1: first k rounds over random rows, then one row after the other."""
    k = len(row)
    rows = np.uint64(k)
    frozen = row != INFINITY
    for round_ in range(1, k):
        round_seed = derive_seed(seed, np.uint64(round_))
        for i in range(len(shingles)):
            x = mix64(shingles[i] ^ round_seed)
            r = ((x >> _HALF) * rows) >> _HALF
            if not frozen[r] and x < row[r]:
                row[r] = x
        left = 0
        for r in range(k):
            frozen[r] = row[r] != INFINITY
            left += not frozen[r]
        if left == 0:
            return
    for r in range(k):
        if frozen[r]:
            continue
        round_seed = derive_seed(seed, np.uint64(k + r))
        for i in range(len(shingles)):
            x = mix64(shingles[i] ^ round_seed)
            if x < row[r]:
                row[r] = x
