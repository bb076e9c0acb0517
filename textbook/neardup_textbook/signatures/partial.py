"""MinHash with a part of the universe for each row: faster, but some rows have no element.

A row is infinite if its part of the universe has no element of the set. For a row of two signatures: if both are
infinite, the row says nothing and is left out; if one is infinite, the rows are unequal; otherwise they are compared.
``neardup_textbook.signatures.partial_banding`` does this on sketches.

``sign`` divides the universe into ``groups``. One hash of an element gives its group and its value there, so one hash
function and one pass over the set give ``groups`` rows; k rows take k / groups functions. With as many groups as rows
this is one-permutation hashing, O(n + k). With one group it is MinHash, O(n k), and no row is infinite.

Guarantee: a row that is not infinite in both of two sets agrees with probability equal to their Jaccard similarity,
and a row of a set of n is infinite with probability (1 - 1 / groups)^n.

Source: Mining of Massive Datasets, 3.3.6, 3.3.7; Li, Owen, Zhang, "One permutation hashing", NIPS 2012.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.hashing import derive_seed, mix64
from neardup.schemes.signatures import INFINITY

_HALF = np.uint64(32)


def sign(
    values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], rows: int, groups: int, seed: int
) -> npt.NDArray[np.uint64]:
    """Return signatures ``uint64[n, rows]`` of n sets of shingles; ``INFINITY`` where a row has no element.

    Set i is ``values[starts[i]:starts[i + 1]]``; repeated shingles and their order make no difference. ``rows`` is 1 to
    4096, ``groups`` 1 to ``rows``. Where ``groups`` does not divide ``rows``, some groups of the last function are not
    used.

    >>> import numpy as np
    >>> a = sign(np.array([1, 2, 3], np.uint64), np.array([0, 3]), rows=8, groups=8, seed=1)
    >>> int((a == INFINITY).sum())
    5
    """
    signatures = np.empty((len(starts) - 1, rows), np.uint64)
    longest = int(np.diff(starts).max(initial=0))
    scratch = np.empty(longest, np.uint64), np.empty(groups, np.uint64)
    _sign(values, starts, np.uint64(seed), *scratch, signatures)
    return signatures


def sign_ranked(
    values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64], group_elements: int
) -> npt.NDArray[np.uint64]:
    """As ``sign``, over the elements 0 to u - 1; ``group_elements`` (a divisor of u) consecutive elements are a group.

    ``ranks`` is ``int64[functions, u]``, the value of each element under each function. Returns
    ``uint64[n, functions * groups]``, the groups of a function side by side.
    """
    groups = ranks.shape[1] // group_elements
    assert groups * group_elements == ranks.shape[1], "a group is cut short"
    signatures = np.full((len(starts) - 1, len(ranks) * groups), INFINITY, np.uint64)
    _sign_ranked(values, starts, np.ascontiguousarray(ranks), group_elements, signatures)
    return signatures


@kernel("u64[], i64[], u64, u64[], u64[], u64[,]")
def _sign(values, starts, seed, hashes, least, signatures):
    rows, groups = signatures.shape[1], len(least)
    for i in range(len(signatures)):
        shingles = values[starts[i] : starts[i + 1]]
        for first in range(0, rows, groups):
            _one_function(shingles, derive_seed(seed, np.uint64(first)), hashes, least)
            for group in range(min(groups, rows - first)):
                signatures[i, first + group] = least[group]


@inner
def _one_function(shingles, seed, hashes, least):
    """Write the least value in each group. The hashing is a separate loop, which compiles to vector code."""
    for j in range(len(shingles)):
        hashes[j] = mix64(shingles[j] ^ seed)
    groups = np.uint64(len(least))
    least[:] = INFINITY
    for j in range(len(shingles)):
        x = hashes[j]
        group = ((x >> _HALF) * groups) >> _HALF
        least[group] = min(least[group], x)  # no branch: a processor could not predict it


@kernel("u64[], i64[], i64[,], i64, u64[,]")
def _sign_ranked(values, starts, ranks, group_elements, signatures):
    groups = ranks.shape[1] // group_elements
    for i in range(len(signatures)):
        for j in range(starts[i], starts[i + 1]):
            x = np.int64(values[j])
            for function in range(len(ranks)):
                row = function * groups + x // group_elements
                signatures[i, row] = min(signatures[i, row], np.uint64(ranks[function, x]))
