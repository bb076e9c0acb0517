"""Hashes of k-grams: the kernels that every shingling of consecutive units shares.

A k-gram of units u (code points, or hashes of words) is the polynomial sum (u_j + 1) B^(k-1-j) modulo 2^64, mixed. The
polynomials of the first k - 1 units are computed for all places of a block at once by doubling: the grams of length 2m
are those of length m, times B^m, plus those of length m further on. So k = 5 takes three passes and k = 9 four, each of
which the compiler turns into vector code; a rolling hash needs one multiplication after another. The last unit and the
mixing are one more pass. The 1 added to each unit keeps a NUL from vanishing.

What a block needs stays in the first cache: on 5 kB texts that halves the time.

Source: Mining of Massive Datasets, 3.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kernels.compile import raw_inner
from stream.kernels.hashing import BASE, mix64

# Grams of a block.
BLOCK = 1024
_ONE = np.uint64(1)


class GramScratch(NamedTuple):
    """What the kernels write: two arrays of ``BLOCK`` + k grams, ``uint64``."""

    grams: npt.NDArray[np.uint64]
    other: npt.NDArray[np.uint64]


def gram_scratch(k: int) -> GramScratch:
    """New scratch for one thread."""
    return GramScratch(np.empty(BLOCK + k, np.uint64), np.empty(BLOCK + k, np.uint64))


@raw_inner
def _prefixes(units, length, scratch):
    """Write the polynomials of ``length`` consecutive units to ``scratch.grams``.

    They are those at every place of a block but the last ``length``; ``units`` holds at most ``BLOCK`` + ``length``. A
    pass reads one array and writes the other: in place, the compiler could not know that it may work in vectors.
    """
    n = len(units)
    grams, other = scratch
    if length < 2:
        for i in range(n - length):
            grams[i] = np.uint64(length) * (np.uint64(units[i]) + _ONE)
        return
    top = 1
    while length >> (top + 1):
        top += 1
    if (top - 1) & 1:  # of passes that exchange the arrays
        grams, other = other, grams
    further = units[1:]
    for i in range(n - 1):
        grams[i] = (np.uint64(units[i]) + _ONE) * BASE + (np.uint64(further[i]) + _ONE)
    made, power = 2, BASE * BASE
    for bit in range(top - 1, -1, -1):
        if bit < top - 1:
            _double(grams, grams[made : n - made + 1], power, other)
            grams, other = other, grams
            made, power = 2 * made, power * power
        if (length >> bit) & 1:
            _append(grams, units[made:])
            made, power = made + 1, power * BASE


@raw_inner
def kgrams(units, k, scratch, out):
    """Hashes of the k-grams of ``units`` into ``out``; returns how many: one if there are fewer than k units."""
    n = len(units)
    if n == 0:
        return 0
    k = min(k, n)
    for first in range(0, n - k + 1, BLOCK):
        block = units[first : min(first + BLOCK + k - 1, n)]
        _prefixes(block, k - 1, scratch)
        grams, last, into = scratch.grams, block[k - 1 :], out[first:]
        for i in range(len(last)):
            into[i] = mix64(grams[i] * BASE + (np.uint64(last[i]) + _ONE))
    return n - k + 1


@raw_inner
def _double(grams, further, power, out):
    """Grams of twice the length. A loop over slices that start at 0 is one that compiles to vector code."""
    for i in range(len(further)):
        out[i] = grams[i] * power + further[i]


@raw_inner
def _append(grams, units):
    """Grams longer by one unit, in place."""
    for i in range(len(units)):
        grams[i] = grams[i] * BASE + (np.uint64(units[i]) + _ONE)
