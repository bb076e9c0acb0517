"""Functions of grid squares: which fingerprints share a bucket, and with what probability.

A function is a set of squares, drawn at random. A fingerprint is in the bucket of a function if it has all squares of
the function. Functions form groups: a pair meets in a group if both fingerprints are in the bucket of at least one
function of the group (OR).

Probabilities, for a pair with K of N squares in common: it has all s squares of a random function with
C(K, s) / C(N, s); it meets in a group of F functions with p = 1 - (1 - C(K, s) / C(N, s))^F; it meets in all g groups
with p^g.

Example: a square holds a minutia with probability .2. Two fingerprints of one finger share the minutia with probability
.2 x .8, fingerprints of two fingers with .2 x .2. Both are in the bucket of a function of three squares with
probability .004096 and .000064. If functions were independent, a group of 1024 would bring together .985 and .063 of
the pairs, and two groups .970 and .00397. But functions use the same squares, so pairs with few common squares miss
many functions at once: with 1,000 squares, one group brings together .978 and .063, and two groups .958 and .0048
(``candidate_probability``).

Source: Mining of Massive Datasets, 3.8.4 (squares), 3.8.5 and Example 3.23 (functions, OR, AND).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import derive_seed, mix64, seed_of

# Separates the seeds of functions from the seeds of bands, signature rows and record keys.
_FUNCTION_PURPOSE = 1 << 34
_KEY_PURPOSE = (1 << 34) + 1

Bitmaps = npt.NDArray[np.uint8]


class Functions(NamedTuple):
    """Functions by group, ordered by their first square.

    ``squares`` is ``int32[groups, count, size]``. The functions of a group that begin with square q are
    ``starts[group, q]`` to ``starts[group, q + 1]`` (``int32[groups, grid + 1]``).
    So only functions that begin with a square of the fingerprint are tested: one in five if it has a fifth of all
    squares.
    """

    squares: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]


def functions(squares: int, groups: int, count: int, size: int, seed: int) -> Functions:
    """Draw ``count`` functions of ``size`` different squares for each group.

    Raises ``ConfigError`` for functions of more squares than the grid has.

    >>> functions(squares=1000, groups=2, count=1024, size=3, seed=1).squares.shape
    (2, 1024, 3)
    """
    if size > squares:
        raise ConfigError(
            f"grid:function_squares={size} is more than squares={squares}, but a function has different squares: "
            "make it smaller"
        )
    out = np.empty((groups, count, size), np.int32)
    _functions(squares, _seed(seed, _FUNCTION_PURPOSE), out)
    ordered = np.stack([group[np.argsort(group[:, 0], kind="stable")] for group in out])
    starts = np.stack([np.searchsorted(group[:, 0], np.arange(squares + 1)) for group in ordered])
    return Functions(ordered, starts.astype(np.int32))


def width(squares: int) -> int:
    """Return the bytes of the bitmap of a grid."""
    return (squares + 7) // 8


def bitmaps(values: npt.NDArray[np.integer], starts: npt.NDArray[np.int64], squares: int) -> Bitmaps:
    """Return bitmaps ``uint8[n, width(squares)]`` of n sets ``values[starts[i]:starts[i + 1]]`` of squares below
    ``squares``.

    Square q is bit q % 8 of byte q // 8, from the lowest.
    """
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    out = np.zeros((len(starts) - 1, 8 * width(squares)), np.uint8)
    out[rows, values] = 1
    return np.packbits(out, axis=1, bitorder="little")


def keys(fingerprints: Bitmaps, chosen: Functions, seed: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return the bucket keys of n fingerprints, ragged ``uint64[m]`` with starts ``int64[n + 1]``.

    A fingerprint has a key for each function of the first group whose squares it has all.
    """
    held, group = np.empty(8 * fingerprints.shape[1], np.uint8), chosen.squares[0]
    starts = np.zeros(len(fingerprints) + 1, np.int64)
    members = np.empty(len(group) + 1, np.int32)
    out = np.empty(int(_count(fingerprints, group, held)), np.uint64)
    _keys(fingerprints, group, _seed(seed, _KEY_PURPOSE), held, members, starts, out)
    return out, starts


def shared_functions(a: Bitmaps, b: Bitmaps, chosen: Functions) -> npt.NDArray[np.int32]:
    """Compare m pairs of fingerprints; returns the number of common buckets in each group (``int32[m, groups]``)."""
    shared = np.zeros((len(a), len(chosen.squares)), np.int32)
    _shared(a, b, *chosen, np.empty(a.shape[1], np.uint8), shared)
    return shared


def jaccard(a: Bitmaps, b: Bitmaps) -> npt.NDArray[np.float64]:
    """Return the Jaccard similarity of m pairs of fingerprints, ``float64[m]``; 0 for two empty ones.

    >>> one, other = (np.packbits([squares], axis=1) for squares in ([1, 1, 1, 0], [0, 1, 1, 1]))
    >>> jaccard(one, other)
    array([0.5])
    """
    common = np.bitwise_count(a & b).sum(axis=1, dtype=np.int64)
    union = np.bitwise_count(a | b).sum(axis=1, dtype=np.int64)
    return np.asarray(np.divide(common, union, out=np.zeros(len(a)), where=union > 0))


def candidate_probability(chance: float, squares: int | None, groups: int, count: int, size: int) -> float:
    """Return the probability that a pair meets in every group, if it shares each square with probability ``chance``.

    The squares are independent and the functions random. The result is exact: it sums over the number of common
    squares, which has a binomial distribution. ``None`` is an unlimited grid, where functions are independent.

    >>> [round(candidate_probability(p, None, groups=1, count=1024, size=3), 3) for p in (0.16, 0.04)]
    [0.985, 0.063]
    >>> round(candidate_probability(0.16, 1000, groups=1, count=1024, size=3), 3)
    0.978
    """
    if squares is None:
        law, function = np.ones(1), np.array([chance**size])
    else:
        common = np.arange(squares + 1)
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, squares + 1)))])
        ways = logs[squares] - logs - logs[::-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            law = np.exp(
                ways + np.nan_to_num(common * np.log(chance)) + np.nan_to_num(common[::-1] * np.log1p(-chance))
            )
        function = np.prod([(common - i).clip(0) / (squares - i) for i in range(size)], axis=0)
    with np.errstate(divide="ignore"):
        missed = np.exp(count * np.log1p(-function))
    return float(law @ (1 - missed) ** groups)


def _seed(seed: int, purpose: int) -> np.uint64:
    return np.uint64(seed_of(np.uint64(seed), np.uint64(purpose)))


@kernel("i64, u64, i32[,,]")
def _functions(squares, seed, out):
    drawn = np.uint64(0)
    for group in range(out.shape[0]):
        for function in range(out.shape[1]):
            row = out[group, function]
            have = 0
            while have < len(row):
                square = np.int32(derive_seed(seed, drawn) % np.uint64(squares))
                drawn += np.uint64(1)
                new = True
                for i in range(have):
                    new &= row[i] != square
                if new:
                    row[have] = square
                    have += 1


@inlined
def _has(bitmap, square):
    return (bitmap[square >> 3] >> np.uint8(square & 7)) & np.uint8(1)


@inlined
def _has_rest(bitmap, function):
    """Return whether a fingerprint has the squares of a function after the first."""
    i = 1
    while i < len(function) and _has(bitmap, function[i]):
        i += 1
    return i == len(function)


@inlined
def _unpack(bitmap, held):
    """Write a bitmap as one byte for each square."""
    for byte in range(len(bitmap)):
        bits = bitmap[byte]
        for bit in range(8):
            held[8 * byte + bit] = (bits >> np.uint8(bit)) & np.uint8(1)


@inlined
def _holds(held, function):
    """Return 1 if a fingerprint has all squares of a function, else 0; a branch would be mispredicted one time in
    five."""
    every = np.uint8(1)
    for i in range(len(function)):
        every &= held[function[i]]
    return np.int64(every)


@kernel("const u8[,], i32[,], u8[]")
def _count(fingerprints, group, held):
    """Return how many functions apply, over all fingerprints."""
    total = 0
    for i in range(len(fingerprints)):
        _unpack(fingerprints[i], held)
        for function in range(len(group)):
            total += _holds(held, group[function])
    return total


@kernel("const u8[,], i32[,], u64, u8[], i32[], i64[], u64[]")
def _keys(fingerprints, group, seed, held, members, starts, out):
    """Write the keys. ``members`` is scratch, one longer than the number of functions."""
    for i in range(len(fingerprints)):
        _unpack(fingerprints[i], held)
        count = 0
        for function in range(len(group)):
            members[count] = function  # the next function overwrites it unless this one applies
            count += _holds(held, group[function])
        for j in range(count):
            out[starts[i] + j] = mix64(seed ^ np.uint64(members[j]))
        starts[i + 1] = starts[i] + count


@kernel("const u8[,], const u8[,], i32[,,], i32[,], u8[], i32[,]")
def _shared(a, b, squares, starts, both, shared):
    """Read only the functions that begin in a common square: two fingerprints have few squares in common. ``both`` is
    scratch."""
    for i in range(len(a)):
        for byte in range(len(both)):
            both[byte] = a[i, byte] & b[i, byte]
        for byte in range(len(both)):
            if not both[byte]:
                continue
            for q in range(8 * byte, min(8 * byte + 8, starts.shape[1] - 1)):
                if not _has(both, q):
                    continue
                for group in range(len(squares)):
                    for function in range(starts[group, q], starts[group, q + 1]):
                        if _has_rest(both, squares[group, function]):
                            shared[i, group] += 1
