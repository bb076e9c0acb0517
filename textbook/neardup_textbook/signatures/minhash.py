"""Classic MinHash: each row has a hash function h(x) = (a x + b) mod p and stores the least value of the set.

Guarantee: if the functions are min-wise, a row of two sets agrees with probability J. Then the fraction of agreeing
rows has mean J and variance J (1 - J) / k. Linear functions over hashed shingles are nearly min-wise. Cost: O(n k).

Source: Broder, "On the resemblance and containment of documents", 1997; Mining of Massive Datasets, 3.3.5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.hashing import seed_of
from neardup.schemes.signatures import INFINITY

# A Mersenne prime, so that the remainder needs no division. Shingles are reduced modulo it first.
PRIME = np.uint64((1 << 61) - 1)
_S61, _S32, _S29 = np.uint64(61), np.uint64(32), np.uint64(29)
_LOW32 = np.uint64((1 << 32) - 1)
_LOW29 = np.uint64((1 << 29) - 1)
_THREE = np.uint64(3)


def sign(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], rows: int, seed: int) -> npt.NDArray[np.uint64]:
    """Return signatures ``uint64[n, rows]``, each value below 2**61 - 1, of n sets of shingles.

    Set i is ``values[starts[i]:starts[i + 1]]``; repeated shingles and their order make no difference. An empty set has
    no signature: its row is all ones, and callers refuse it earlier. ``rows`` is 1 to 4096.

    >>> import numpy as np
    >>> sign(np.array([5, 6], np.uint64), np.array([0, 2]), rows=3, seed=1).shape
    (1, 3)
    """
    signatures = np.empty((len(starts) - 1, rows), np.uint64)
    a, b = functions(rows, seed)
    _sign(values, starts, a, b, signatures)
    return signatures


def sign_linear(
    values: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    a: npt.NDArray[np.uint64],
    b: npt.NDArray[np.uint64],
    modulus: int,
) -> npt.NDArray[np.uint64]:
    """Return signatures ``uint64[n, rows]`` by the given functions (a x + b) mod ``modulus``, ``uint64[rows]`` each.

    For small universes: elements, a and b are below ``modulus``, which is 1 to 2**32 and need not be a prime. If a and
    ``modulus`` have a common factor, the function is no permutation. An empty set has infinity in every row.

    >>> import numpy as np
    >>> h = np.array([1, 3], np.uint64), np.array([1, 1], np.uint64)  # x + 1 and 3 x + 1
    >>> sign_linear(np.array([0, 3], np.uint64), np.array([0, 2]), *h, modulus=5).tolist()
    [[1, 0]]
    """
    signatures = np.empty((len(starts) - 1, len(a)), np.uint64)
    _sign_linear(values, starts, a, b, np.uint64(modulus), signatures)
    return signatures


def functions(rows: int, seed: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the multipliers (1 to p - 1) and offsets (0 to p - 1) of the rows' hash functions, ``uint64[rows]``
    each."""
    numbers = [int(seed_of(np.uint64(seed), np.uint64(i))) for i in range(2 * rows)]
    a = [number % (int(PRIME) - 1) + 1 for number in numbers[:rows]]
    b = [number % int(PRIME) for number in numbers[rows:]]
    return np.array(a, np.uint64), np.array(b, np.uint64)


@inner
def _reduce(x):
    x = (x & PRIME) + (x >> _S61)
    return x - PRIME if x >= PRIME else x


@inner
def _multiply(a, x):
    """``a x mod p`` for a and x below p, from 32-bit halves: 2**64 is 8 and 2**61 is 1 modulo p."""
    a_high, a_low = a >> _S32, a & _LOW32
    x_high, x_low = x >> _S32, x & _LOW32
    middle = a_high * x_low + a_low * x_high
    low = a_low * x_low
    total = ((a_high * x_high) << _THREE) + (middle >> _S29) + ((middle & _LOW29) << _S32)
    return _reduce(_reduce(total) + _reduce(low))


@kernel("u64[], i64[], u64[], u64[], u64[,]")
def _sign(values, starts, a, b, signatures):
    for i in range(len(signatures)):
        for r in range(signatures.shape[1]):
            least = INFINITY
            for j in range(starts[i], starts[i + 1]):
                h = _reduce(_multiply(a[r], _reduce(values[j])) + b[r])
                least = min(least, h)
            signatures[i, r] = least


@kernel("u64[], i64[], u64[], u64[], u64, u64[,]")
def _sign_linear(values, starts, a, b, modulus, signatures):
    for i in range(len(signatures)):
        for r in range(signatures.shape[1]):
            least = INFINITY
            for j in range(starts[i], starts[i + 1]):
                least = min(least, (a[r] * values[j] + b[r]) % modulus)
            signatures[i, r] = least
