"""One-permutation hashing completed by fast similarity sketching.

A shingle is a hash already, so one multiplication makes its number in a round: x = (shingle xor a) b modulo 2^64, with
a and an odd b of the round. The number chooses a row by its high 32 bits and competes there: the least number wins. In
round 0 every row takes part. Rows that are still empty are filled by further rounds, in which only empty rows take
part; after as many rounds as there are rows, the rest is filled row by row. So there is no empty row at any set size of
1 or more, and an earlier round always beats a later one. Cost: O(n + k log k) for n shingles and k rows.

The high half of x depends on the low half of the shingle only by an offset: of shingles with any given low 32 bits, all
rows and numbers are equally likely. So the low half is free for other uses, such as a sample of the shingles.

Guarantee: for shingles that are random hashes, a row of two sets agrees with probability equal to their Jaccard
similarity J; the fraction of agreeing rows is an unbiased estimate of J with a variance at or below that of MinHash,
J (1 - J) / k.

Most shingles of a long text need no look at their row. Row times 2^32 plus *value* is the high half of x times the
number of rows, and the numbers of one row are ordered as their values. In a set of n shingles the least value of a row
is about k / n of all values, and one bound is above the least values of all rows almost always. So vector code compares
the values with the bound, and the few shingles below it compete. If a row stays empty, all compete, and the bound of
later sets is higher, because texts differ in how often they repeat a shingle. The bound decides no signature.

Source: Dahlgaard, Knudsen, Thorup, "Fast similarity sketching", FOCS 2017, algorithm 1; the first round is one
permutation hashing (Mining of Massive Datasets, 3.3.7; Li, Owen, Zhang, NIPS 2012); the hash of a round is multiply-
shift (Dietzfelbinger, Hagerup, Katajainen, Penttonen, "A reliable randomized algorithm for the closest-pair problem",
1997).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kernels.bits import MASK_BITS, bit_count, lowest_bit, mask_below
from stream.kernels.compile import inlined, kernel, raw_inner
from stream.kernels.hashing import derive_seed
from stream.signatures import INFINITY

# Shingles that are hashed before they compete: what a block needs stays in the first cache.
BLOCK = 1024
# Of n different shingles and k rows, k (ln k + c) / n of the values are below the bound of the first set. Then a row
# stays empty with probability e^-c.
_SURVIVORS = 5.0
# Factors of the bound after a set with an empty row, and after one without: so about one set in thirty has one.
_HIGHER, _LOWER = 1.1, 0.997
# Places that are noted by one run of code without a branch.
_RUN = np.uint64(8)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_NONE = np.uint32(0xFFFFFFFF)


class Round(NamedTuple):
    """The hash of a round: x = (shingle ^ flip) * factor. ``factor`` is odd, so no two shingles share a number."""

    flip: np.uint64
    factor: np.uint64


class RowScratch(NamedTuple):
    """What signing one set writes, for sets of any size and k rows.

    ``numbers`` and ``values`` (``uint64``, ``uint32``) are those of a block; ``places`` (``uint64``) of the shingles in
    it that are below the bound. ``filled`` (``uint64[k]``) are the numbers of a round, ``empty`` (``int64[k]``) the
    rows that take part in it. ``survivors`` (``float64[1]``) is how many shingles of a long text are to compete.
    """

    numbers: npt.NDArray[np.uint64]
    values: npt.NDArray[np.uint32]
    places: npt.NDArray[np.uint64]
    filled: npt.NDArray[np.uint64]
    empty: npt.NDArray[np.int64]
    survivors: npt.NDArray[np.float64]


def sign(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], rows: int, seed: int) -> npt.NDArray[np.uint64]:
    """Signatures ``uint64[n, rows]`` of n sets of shingles, which are hashes.

    Set i is ``values[starts[i]:starts[i + 1]]``; repeated shingles and their order make no difference. An empty set has
    no signature: its row is all ones, and callers refuse it before. ``rows`` is 1 to 4096.

    >>> import numpy as np
    >>> a = sign(np.array([1, 2, 3], np.uint64), np.array([0, 3]), rows=4, seed=1)
    >>> b = sign(np.array([3, 1, 2, 2], np.uint64), np.array([0, 4]), rows=4, seed=1)
    >>> bool((a == b).all())
    True
    """
    signatures = np.empty((len(starts) - 1, rows), np.uint64)
    _sign(values, starts, np.uint64(seed), row_scratch(rows), signatures)
    return signatures


def row_scratch(rows: int) -> RowScratch:
    """New scratch for one thread."""
    return RowScratch(
        numbers=np.empty(BLOCK, np.uint64),
        values=np.empty(BLOCK, np.uint32),
        places=np.empty(BLOCK + MASK_BITS, np.uint64),
        filled=np.empty(rows, np.uint64),
        empty=np.empty(rows, np.int64),
        survivors=np.array([rows * (math.log(rows) + _SURVIVORS)]),
    )


@inlined
def round_of(seed, number):
    """The hash of a round, from 0; ``uint64`` each."""
    flip = derive_seed(seed, number + number)
    return Round(flip, derive_seed(seed, number + number + _ONE) | _ONE)


@inlined
def number_of(shingle, one_round):
    """What a shingle competes with in a round."""
    return (shingle ^ one_round.flip) * one_round.factor


@inlined
def value_of(number, rows):
    """The value of a number in its row: a number of the same row is less if its value is, ``uint32``."""
    return np.uint32((number >> _HALF) * rows)


@inlined
def bound_for(count, scratch):
    """The bound of values for a set of so many shingles; 0 if all are to compete."""
    fraction = scratch.survivors[0] / count
    return np.uint32(0) if fraction >= 1.0 else np.uint32(fraction * 4294967296.0)


@inlined
def _compete(number, row):
    r = ((number >> _HALF) * np.uint64(len(row))) >> _HALF
    row[r] = min(row[r], number)  # no branch: about one shingle in ten sets a new least, too many to predict


@raw_inner
def compete_below(count, bound, scratch, row):
    """Let the ``count`` shingles of a block whose values are below ``bound`` compete."""
    numbers, values, places = scratch.numbers, scratch.values, scratch.places
    groups = (count + MASK_BITS - 1) // MASK_BITS
    for j in range(count, groups * MASK_BITS):
        values[j] = _NONE
    expected = MASK_BITS * (bound / 4294967296.0)
    noted = np.uint64(expected + 1.2 * math.sqrt(expected)) // _RUN * _RUN + _RUN
    found = np.uint64(0)
    for group in range(np.uint64(groups)):
        first = group * np.uint64(MASK_BITS)
        mask = mask_below(values, first, bound)
        total = bit_count(mask)
        for run in range(found, found + noted, _RUN):  # always as many, mostly enough: no branch to mispredict
            for i in range(_RUN):
                places[run + i] = first + lowest_bit(mask)
                mask &= mask - _ONE
        for i in range(noted, total):
            places[found + i] = first + lowest_bit(mask)
            mask &= mask - _ONE
        found += total
    for i in range(found):
        _compete(numbers[places[i]], row)


@raw_inner
def sign_set(shingles, seed, scratch, row):
    """Write the signature of one set to ``row``."""
    if len(shingles) == 0:
        row[:] = INFINITY
        return
    bound = bound_for(len(shingles), scratch)
    if bound:
        row[:] = INFINITY
        _first_round(shingles, round_of(seed, np.uint64(0)), bound, scratch, row)
        if all_filled(scratch, row):
            return
    sign_short(shingles, seed, scratch, row)


@raw_inner
def sign_short(shingles, seed, scratch, row):
    """Write the signature of one set to ``row``: every shingle competes in every round."""
    row[:] = INFINITY
    _first_round(shingles, round_of(seed, np.uint64(0)), np.uint32(0), scratch, row)
    _fill(shingles, seed, scratch, row)


@raw_inner
def all_filled(scratch, row):
    """Whether a bound left no row empty; the next bound depends on it."""
    filled = _find_empty(row, scratch.empty) == 0
    scratch.survivors[0] *= _LOWER if filled else _HIGHER
    return filled


@raw_inner
def _find_empty(row, empty):
    """Write the places of the empty rows to ``empty``; returns how many there are."""
    count = 0
    for r in range(len(row)):
        empty[count] = r
        count += row[r] == INFINITY
    return count


@kernel
def _sign(values, starts, seed, scratch, signatures):
    for i in range(len(signatures)):
        sign_set(values[starts[i] : starts[i + 1]], seed, scratch, signatures[i])


@raw_inner
def _first_round(shingles, first_round, bound, scratch, row):
    """Every row takes part. The hashing stands in a loop of its own, which the compiler turns into vector code."""
    numbers, values = scratch.numbers, scratch.values
    rows = np.uint64(len(row))
    for first in range(0, len(shingles), BLOCK):
        block = shingles[first : first + BLOCK]
        for i in range(len(block)):
            number = number_of(block[i], first_round)
            numbers[i] = number
            values[i] = value_of(number, rows)
        if bound:
            compete_below(len(block), bound, scratch, row)
        else:
            for i in range(len(block)):
                _compete(numbers[i], row)


@raw_inner
def _fill(shingles, seed, scratch, row):
    """Rounds 1 to 2k - 1: first k - 1 rounds over random rows, then one row after the other."""
    k = len(row)
    filled, empty = scratch.filled, scratch.empty
    left = _find_empty(row, empty)
    for round_ in range(1, k):
        if left == 0:
            return
        filled[:] = 0  # no number is less, so a row that has one keeps it
        for e in range(left):
            filled[empty[e]] = INFINITY
        one_round = round_of(seed, np.uint64(round_))
        for i in range(len(shingles)):
            _compete(number_of(shingles[i], one_round), filled)
        for e in range(left):
            row[empty[e]] = filled[empty[e]]
        left = _find_empty(row, empty)
    for e in range(left):
        r = empty[e]
        one_round = round_of(seed, np.uint64(k + r))
        least = INFINITY
        for i in range(len(shingles)):
            least = min(least, number_of(shingles[i], one_round))
        row[r] = least
