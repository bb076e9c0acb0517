"""Numbers drawn from a seed: normal, plus or minus one, uniform; the same on every machine and in every batch.

Each row draws from its own mixed counter, so it does not depend on other rows. These numbers decide bucket keys, and
mathematical libraries of two systems may differ in a last digit. So the code uses only additions, products, quotients
and square roots, which IEEE 754 rounds alike everywhere, and computes the logarithm as a series.

Source: Marsaglia, Bray, "A convenient method for generating normal variables", SIAM Review 1964 (the polar method).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import GOLDEN, derive_seed, mix64

_S11, _S63 = np.uint64(11), np.uint64(63)
_ONE = np.uint64(1)
_LOG_2 = 0.6931471805599453
# Terms of the series of the logarithm: the next term is below .18^26 / 27, a fraction of the last digit.
_LOG_TERMS = 13


def normals(rows: int, columns: int, seed: int) -> npt.NDArray[np.float32]:
    """Standard normal numbers, ``float32[rows, columns]``.

    >>> bool((normals(2, 3, seed=1) == normals(5, 3, seed=1)[:2]).all())
    True
    """
    out = np.empty((rows, columns), np.float32)
    _normals(np.uint64(seed), out)
    return out


def signs(rows: int, columns: int, seed: int) -> npt.NDArray[np.float32]:
    """Plus or minus one with even chances, ``float32[rows, columns]``.

    >>> sorted(set(signs(4, 9, seed=1).ravel().tolist()))
    [-1.0, 1.0]
    """
    out = np.empty((rows, columns), np.float32)
    _signs(np.uint64(seed), out)
    return out


def uniforms(count: int, seed: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), ``float64[count]``."""
    out = np.empty(count)
    _uniforms(np.uint64(seed), out)
    return out


@inlined
def _uniform(state, index):
    """The number in [0, 1) at an index of a counter: a multiple of 2^-53."""
    return np.float64(mix64(state + np.uint64(index) * GOLDEN) >> _S11) * 2.0**-53


@inlined
def _log(x):
    """The natural logarithm of a positive number: twice the inverse hyperbolic tangent of (m - 1) / (m + 1)."""
    fraction, exponent = math.frexp(x)
    if fraction < 0.7071067811865476:
        fraction *= 2.0
        exponent -= 1
    t = (fraction - 1.0) / (fraction + 1.0)
    square = t * t
    total = 0.0
    for term in range(_LOG_TERMS - 1, -1, -1):
        total = total * square + 1.0 / (2 * term + 1)
    return exponent * _LOG_2 + 2.0 * t * total


@kernel("u64, f32[,]")
def _normals(seed, out):
    for r in range(out.shape[0]):
        state = derive_seed(seed, np.uint64(r))
        index, j = 0, 0
        while j < out.shape[1]:
            u = 2.0 * _uniform(state, index) - 1.0
            v = 2.0 * _uniform(state, index + 1) - 1.0
            index += 2
            square = u * u + v * v
            if square >= 1.0 or square == 0.0:
                continue
            factor = math.sqrt(-2.0 * _log(square) / square)
            out[r, j] = u * factor
            if j + 1 < out.shape[1]:
                out[r, j + 1] = v * factor
            j += 2


@kernel("u64, f32[,]")
def _signs(seed, out):
    for r in range(out.shape[0]):
        state = derive_seed(seed, np.uint64(r))
        for j in range(out.shape[1]):
            bit = mix64(state + np.uint64(j) * GOLDEN) >> _S63
            out[r, j] = 1.0 if bit == _ONE else -1.0


@kernel("u64, f64[]")
def _uniforms(seed, out):
    for i in range(len(out)):
        out[i] = _uniform(seed, i + 1)
