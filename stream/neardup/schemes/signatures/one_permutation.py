"""One-permutation hashing completed by fast similarity sketching.

A shingle is already a hash, so one multiplication makes its number in a round: x = (shingle xor a) b modulo 2^64. Each
round has its own a and odd b. The high 32 bits of the number choose a row, and the row stores its least number. In
round 0 every row takes part. Further rounds fill the rows that are still empty, and only empty rows take part in them.
After as many rounds as there are rows, each remaining empty row is filled by a round of its own. So a set of 1 or more
shingles leaves no empty row, and a number of an earlier round is never replaced. Cost: O(n + k log k) for n shingles
and k rows.

The low half of the shingle only adds an offset to the high half of x: for any given low 32 bits of the shingles, all
rows and numbers are equally likely. So the low half is free for other uses, such as a sample of the shingles.

Guarantee: for shingles that are random hashes, a row of two sets agrees with probability equal to their Jaccard
similarity J. The fraction of agreeing rows is an unbiased estimate of J. Its variance is at most J (1 - J) / k, the
variance of MinHash.

Most shingles of a long text cannot win a row, and a bound finds them without reading the row. The high half of x times
the number of rows is row times 2^32 plus *value*. Numbers of one row have the order of their values. In a set of n
shingles the least value of a row is about k / n of all values, so one bound is almost always above the least values of
all rows. Vector code compares the values with the bound, and the few numbers below it are moved together and compete.
If a row stays empty, all shingles compete, and the bound of later sets is higher, because texts differ in how often
they repeat a shingle. The bound has no influence on a signature.

Source: Dahlgaard, Knudsen, Thorup, "Fast similarity sketching", FOCS 2017, algorithm 1; the first round is one
permutation hashing (Mining of Massive Datasets, 3.3.7; Li, Owen, Zhang, NIPS 2012); the hash of a round is multiply-
shift (Dietzfelbinger, Hagerup, Katajainen, Penttonen, "A reliable randomized algorithm for the closest-pair problem",
1997).
"""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.bits import MASK_BITS, bit_count, lowest_bit, mask_below
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import derive_seed
from neardup.machine.lanes import KEEP_LANES, has_compress, keep_below
from neardup.schemes.signatures import INFINITY

# Shingles of a block: the data of a block stay in the first cache.
BLOCK = 512
# For n different shingles and k rows, the bound of the first set is above k (ln k + c) / n of the values. Then some row
# stays empty with probability e^-c.
_SURVIVORS = 5.0
# Factors of the bound after a set with an empty row, and after a set without: about one set in thirty has empty rows.
# The bound rises to at most so many times its first value, because sets of few different shingles always have some.
_HIGHER, _LOWER, _HIGHEST = 1.1, 0.997, 2.5
# Numbers that one stretch of code without branches keeps.
_RUN = np.uint64(8)
_HALF = np.uint64(32)
_ONE = np.uint64(1)


class Round(NamedTuple):
    """The hash of a round: x = (shingle ^ flip) * factor. ``factor`` is odd, so no two shingles share a number."""

    flip: np.uint64
    factor: np.uint64


class RowScratch(NamedTuple):
    """The arrays that signing one set writes, for sets of any size and k rows.

    ``numbers`` (``uint64``) and ``values`` (``uint32``) belong to a block of shingles; ``kept`` (``uint64``) are the
    numbers of the block with values below the bound. ``filled`` (``uint64[k]``) are the numbers of a round,
    ``empty`` (``int64[k]``) its rows. ``survivors`` (``float64[2]``): how many shingles of a long text compete, and how
    many did so at first.
    """

    numbers: npt.NDArray[np.uint64]
    values: npt.NDArray[np.uint32]
    kept: npt.NDArray[np.uint64]
    filled: npt.NDArray[np.uint64]
    empty: npt.NDArray[np.int64]
    survivors: npt.NDArray[np.float64]


def sign(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64], rows: int, seed: int) -> npt.NDArray[np.uint64]:
    """Signatures ``uint64[n, rows]`` of n sets of shingles, which are hashes.

    Set i is ``values[starts[i]:starts[i + 1]]``; repeated shingles and their order make no difference. An empty set has
    no signature: its row is all ones, and callers refuse it earlier. ``rows`` is 1 to 4096.

    >>> import numpy as np
    >>> a = sign(np.array([1, 2, 3], np.uint64), np.array([0, 3]), rows=4, seed=1)
    >>> b = sign(np.array([3, 1, 2, 2], np.uint64), np.array([0, 4]), rows=4, seed=1)
    >>> bool((a == b).all())
    True
    """
    signatures = np.empty((len(starts) - 1, rows), np.uint64)
    if rows not in _kept.scratch:
        _kept.scratch[rows] = row_scratch(rows)
    _sign(values, starts, np.uint64(seed), _kept.scratch[rows], signatures)
    return signatures


class _Kept(threading.local):
    """The scratch of a thread, by the number of rows."""

    def __init__(self) -> None:
        self.scratch: dict[int, RowScratch] = {}


_kept = _Kept()


def first_survivors(rows: int) -> npt.NDArray[np.float64]:
    """``RowScratch.survivors`` before the first set.

    Threads may share the array: it has no influence on a signature.
    """
    return np.full(2, rows * (math.log(rows) + _SURVIVORS))


def row_scratch(rows: int, survivors: npt.NDArray[np.float64] | None = None) -> RowScratch:
    """New scratch for one thread; with ``survivors``, it goes on from the sets before."""
    return RowScratch(
        numbers=np.empty(BLOCK + MASK_BITS, np.uint64),
        values=np.empty(BLOCK, np.uint32),
        kept=np.empty(BLOCK + 2 * MASK_BITS, np.uint64),
        filled=np.empty(rows, np.uint64),
        empty=np.empty(rows, np.int64),
        survivors=first_survivors(rows) if survivors is None else survivors,
    )


@inlined
def round_of(seed, number):
    """The hash of a round, from 0; ``uint64`` each."""
    flip = derive_seed(seed, number + number)
    return Round(flip, derive_seed(seed, number + number + _ONE) | _ONE)


@inlined
def number_of(shingle, one_round):
    """The number of a shingle in a round."""
    return (shingle ^ one_round.flip) * one_round.factor


@inlined
def value_of(number, rows):
    """The value of a number, ``uint32``; numbers of one row have the order of their values."""
    return np.uint32((number >> _HALF) * rows)


@inlined
def bound_for(count, scratch):
    """The bound of values for a set of ``count`` shingles; 0 if all must compete."""
    survivors, at_first = scratch.survivors[0], scratch.survivors[1]
    if survivors < count:
        return np.uint32(survivors / count * 4294967296.0)
    if survivors > at_first:
        scratch.survivors[0] = survivors * _LOWER  # so that longer sets have a bound again
    return np.uint32(0)


@inlined
def _compete(number, row):
    r = ((number >> _HALF) * np.uint64(len(row))) >> _HALF
    row[r] = min(row[r], number)  # no branch: about one shingle in ten sets a new minimum, too many to predict


@inner
def compete_below(count, bound, scratch, row):
    """Let those of the ``count`` numbers of a block compete whose values are below ``bound``."""
    numbers, kept = scratch.numbers, scratch.kept
    end = np.uint64((count + MASK_BITS - 1) // MASK_BITS * MASK_BITS)
    for i in range(np.uint64(count), end):
        numbers[i] = INFINITY  # wins no row, if it is kept at all
    if has_compress():
        kept_count = keep(numbers, end, bound, np.uint64(len(row)), kept)
    else:
        kept_count = keep_by_mask(numbers, end, bound, np.uint64(len(row)), scratch.values, kept)
    for i in range(kept_count):
        _compete(kept[i], row)


@inner
def keep(numbers, end, bound, rows, kept):
    """Write the numbers up to ``end``, a multiple of 64, with values below ``bound`` to ``kept``; returns how many."""
    count = np.uint64(0)
    for index in range(np.uint64(0), end, np.uint64(KEEP_LANES)):
        count += keep_below(numbers, index, rows, bound, kept, count)
    return count


@inner
def keep_by_mask(numbers, end, bound, rows, values, kept):
    """The result of ``keep``, faster on a processor without an instruction for it; ``values`` is scratch."""
    for i in range(end):
        values[i] = value_of(numbers[i], rows)
    expected = MASK_BITS * (bound / 4294967296.0)
    written = np.uint64(expected + 1.2 * math.sqrt(expected)) // _RUN * _RUN + _RUN
    count = np.uint64(0)
    for first in range(np.uint64(0), end, np.uint64(MASK_BITS)):
        mask = mask_below(values, first, bound)
        total = bit_count(mask)
        for run in range(count, count + written, _RUN):  # a constant number, mostly enough: no branch to mispredict
            for i in range(_RUN):
                kept[run + i] = numbers[first + lowest_bit(mask)]
                mask &= mask - _ONE
        for i in range(written, total):
            kept[count + i] = numbers[first + lowest_bit(mask)]
            mask &= mask - _ONE
        count += total
    return count


@inner
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


@inner
def sign_short(shingles, seed, scratch, row):
    """Write the signature of one set to ``row``: every shingle competes in every round."""
    row[:] = INFINITY
    _first_round(shingles, round_of(seed, np.uint64(0)), np.uint32(0), scratch, row)
    _fill(shingles, seed, scratch, row)


@inner
def all_filled(scratch, row):
    """Whether a bound left no row empty; the next bound depends on it."""
    filled = _find_empty(row, scratch.empty) == 0
    survivors, at_first = scratch.survivors[0], scratch.survivors[1]
    scratch.survivors[0] = survivors * _LOWER if filled else min(survivors * _HIGHER, at_first * _HIGHEST)
    return filled


@inner
def _find_empty(row, empty):
    """Write the indices of the empty rows to ``empty``; returns how many there are."""
    count = 0
    for r in range(len(row)):
        empty[count] = r
        count += row[r] == INFINITY
    return count


@kernel("u64[], i64[], u64, RowScratch, u64[,]")
def _sign(values, starts, seed, scratch, signatures):
    for i in range(len(signatures)):
        sign_set(values[starts[i] : starts[i + 1]], seed, scratch, signatures[i])


@inner
def _first_round(shingles, first_round, bound, scratch, row):
    """Every row takes part. The hashing has a separate loop, which compiles to vector code."""
    numbers = scratch.numbers
    for first in range(0, len(shingles), BLOCK):
        block = shingles[first : first + BLOCK]
        for i in range(len(block)):
            numbers[i] = number_of(block[i], first_round)
        if bound:
            compete_below(len(block), bound, scratch, row)
        else:
            for i in range(len(block)):
                _compete(numbers[i], row)


@inlined
def _take_filled(filled, empty, left, row):
    """Give the ``left`` empty rows the numbers of a round; return how many are still empty, which stay in ``empty``."""
    count = 0
    for e in range(left):
        r = empty[e]
        row[r], empty[count] = filled[r], r
        count += row[r] == INFINITY
        filled[r] = INFINITY if row[r] == INFINITY else np.uint64(0)
    return count


@inner
def _fill(shingles, seed, scratch, row):
    """Rounds 1 to 2k - 1: k - 1 rounds over random rows, then one round for each row."""
    k = len(row)
    filled, empty, numbers = scratch.filled, scratch.empty, scratch.numbers
    left = _find_empty(row, empty)
    filled[:] = 0  # no number is less, so a filled row keeps its number
    for e in range(left):
        filled[empty[e]] = INFINITY
    for round_ in range(1, k):
        if left == 0:
            return
        one_round = round_of(seed, np.uint64(round_))
        for first in range(0, len(shingles), BLOCK):
            block = shingles[first : first + BLOCK]
            for i in range(len(block)):
                numbers[i] = number_of(block[i], one_round)
            for i in range(len(block)):
                _compete(numbers[i], filled)
        left = _take_filled(filled, empty, left, row)
    for e in range(left):
        r = empty[e]
        one_round = round_of(seed, np.uint64(k + r))
        least = INFINITY
        for i in range(len(shingles)):
            least = min(least, number_of(shingles[i], one_round))
        row[r] = least
