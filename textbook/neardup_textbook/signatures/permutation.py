"""MinHash by permutations: a row is the least position of the set's elements in an order of the whole universe.

The universe of ``sign`` is all 64-bit integers. The permutation of a row is x -> mix64((x xor s) m); each row has its
own number s and odd multiplier m. Each of the three steps is a bijection, so no two elements have the same position.
``sign_ranked`` takes a small universe and given permutations. There the theorem can be checked by counting: over all
permutations two sets agree with frequency J. Fewer permutations suffice for that: those of ``halving_orders``.

Guarantee: a row of two sets agrees with probability J, their Jaccard similarity, if mixing makes each element of a set
equally likely to come first. Cost: O(n k) for n elements and k rows.

Source: Broder, Charikar, Frieze, Mitzenmacher, "Min-wise independent permutations", 2000; Mining of Massive Datasets,
3.3.2 to 3.3.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import derive_seed, mix64, seed_of
from neardup.schemes.signatures import INFINITY

_ONE = np.uint64(1)


def sign(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], rows: int, seed: int) -> npt.NDArray[np.uint64]:
    """Return signatures ``uint64[n, rows]`` of n sets of shingles.

    Set i is ``values[starts[i]:starts[i + 1]]``; repeated shingles and their order make no difference. An empty set has
    no signature: its row is all ones, and callers refuse it earlier. ``rows`` is 1 to 4096.

    >>> import numpy as np
    >>> a = sign(np.array([1, 2, 3], np.uint64), np.array([0, 3]), rows=4, seed=1)
    >>> b = sign(np.array([3, 1, 2, 2], np.uint64), np.array([0, 4]), rows=4, seed=1)
    >>> bool((a == b).all())
    True
    """
    signatures = np.empty((len(starts) - 1, rows), np.uint64)
    _sign(values, starts, np.uint64(seed), signatures)
    return signatures


def sign_ranked(
    values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Return signatures ``uint64[n, rows]`` of sets of elements 0 to u - 1, from ``ranks``, ``int64[rows, u]``.

    ``ranks[r, x]`` is the position of element x in order r, 0 or more. An empty set has infinity in every row.

    >>> import numpy as np
    >>> order = np.array([[2, 0, 4, 3, 1]])  # b e a d c
    >>> sign_ranked(np.array([0, 3], np.uint64), np.array([0, 2]), order).tolist()  # {a, d}: a comes first
    [[2]]
    """
    signatures = np.empty((len(starts) - 1, len(ranks)), np.uint64)
    _sign_ranked(values, starts, np.ascontiguousarray(ranks), signatures)
    return signatures


def orders(universe: int, rows: int, seed: int) -> npt.NDArray[np.int64]:
    """Random permutations of 0 to ``universe`` - 1: ``int64[rows, universe]``, as ``sign_ranked`` takes them.

    Shuffled by Fisher and Yates, so each order is as likely as any other. ``universe`` is 1 or more.
    """
    out = np.empty((rows, universe), np.int64)
    _shuffle(np.uint64(seed), out)
    return out


def halving_orders(universe: int, rows: int, seed: int) -> npt.NDArray[np.int64]:
    """Permutations of a small family that is exactly min-wise: ``int64[rows, universe]``, as ``sign_ranked`` takes
    them.

    A string with as many zeros as ones divides the universe into a first and a second half; a string of half the length
    divides each half, and so on. Each element of a set comes first equally often over the family, as over all
    permutations, but the family has at most 4^universe members and one takes 2 universe random bits at most. Source:
    Broder, Charikar, Frieze, Mitzenmacher, "Min-wise independent permutations", 2000.

    Args:
        universe: the number of elements, a power of two.
        rows: the number of permutations, drawn independently.
        seed: of the draws.

    Raises:
        ConfigError: ``universe`` is no power of two.

    >>> halving_orders(4, rows=2, seed=1).tolist()
    [[0, 2, 3, 1], [2, 0, 1, 3]]
    """
    if universe < 1 or universe & (universe - 1):
        raise ConfigError(f"universe is {universe}, but halves of halves need a power of two: take the next one")
    strings, size = [], universe
    while size > 1:  # of all orders, half of the elements come in the first half: each string is as likely as any other
        strings.append(orders(size, rows, int(seed_of(np.uint64(seed), np.uint64(size)))) >= size // 2)
        size //= 2
    return halved(strings, universe) if strings else np.zeros((rows, 1), np.int64)


def halved(strings: Sequence[npt.NDArray[np.bool_]], universe: int) -> npt.NDArray[np.int64]:
    """The permutations that strings of zeros and ones describe, at least one, the longest first.

    Args:
        strings: ``bool[rows, universe / 2^i]`` each, with as many zeros as ones in a row; a one is in the second half.
        universe: the number of elements.

    Returns:
        Positions of the elements, ``int64[rows, universe]``.

    >>> halved([np.array([[True, False, False, True]]), np.array([[True, False]])], 4).tolist()
    [[3, 1, 0, 2]]
    """
    ranks = np.zeros((len(strings[0]), universe), np.int64)
    indices = np.tile(np.arange(universe), (len(ranks), 1))  # of an element among those that no string divides yet
    for second in strings:
        within = np.where(second, second.cumsum(1), (~second).cumsum(1)) - 1
        ranks = 2 * ranks + np.take_along_axis(second, indices, 1)
        indices = np.take_along_axis(within, indices, 1)
    return ranks


@kernel("u64[], i64[], u64, u64[,]")
def _sign(values, starts, seed, signatures):
    for i in range(len(signatures)):
        shingles = values[starts[i] : starts[i + 1]]
        for r in range(signatures.shape[1]):
            number = derive_seed(seed, np.uint64(2 * r))
            multiplier = derive_seed(seed, np.uint64(2 * r + 1)) | _ONE
            least = INFINITY
            for j in range(len(shingles)):
                least = min(least, mix64((shingles[j] ^ number) * multiplier))
            signatures[i, r] = least


@kernel("u64[], i64[], i64[,], u64[,]")
def _sign_ranked(values, starts, ranks, signatures):
    for i in range(len(signatures)):
        for r in range(signatures.shape[1]):
            least = INFINITY
            for j in range(starts[i], starts[i + 1]):
                least = min(least, np.uint64(ranks[r, values[j]]))
            signatures[i, r] = least


@kernel("u64, i64[,]")
def _shuffle(seed, ranks):
    universe = ranks.shape[1]
    for r in range(len(ranks)):
        row = ranks[r]
        for x in range(universe):
            row[x] = x
        state = derive_seed(seed, np.uint64(r))
        for x in range(universe - 1, 0, -1):
            state = derive_seed(state, np.uint64(x))
            y = np.int64(state % np.uint64(x + 1))
            row[x], row[y] = row[y], row[x]
