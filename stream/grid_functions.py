"""Functions of grid squares: which prints they send to one bucket, and how often.

A function is some squares drawn at random. A print is in the bucket of a function if it has all of its squares, and
else in none of that function's. Functions stand in groups: a pair meets in a group if one of its functions sends both
to its bucket (OR).

A pair that has K of N squares in common has all s squares of a random function with C(K, s) / C(N, s), meets in a group
of F functions with 1 - (1 - that)^F, and in every group with that to the power of the groups. Say that a square holds a
minutia with chance .2, and that two prints of one finger share it with .2 x .8, two of different fingers with .2 x .2:
a function of three squares sends both to its bucket with .004096 and .000064. Were the functions independent, 1024 of
them would meet for .985 and .063 of the pairs, two groups for .970 and .00397. They look at the same squares, so pairs
with few squares in common miss them all at once: with 1,000 squares it is .978 and .063, and .958 and .0048
(``candidate_probability``).

Source: Mining of Massive Datasets, 3.8.4 (squares), 3.8.5 and Example 3.23 (functions, OR, AND).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream.errors import ConfigError
from stream.hashing import derive_seed, mix64
from stream.kernels import inlined, kernel

# Told apart from the seeds of bands, signature rows and record keys.
_FUNCTION_PURPOSE = 1 << 34
_KEY_PURPOSE = (1 << 34) + 1

Bitmaps = npt.NDArray[np.uint8]
Functions = npt.NDArray[np.int32]


def functions(squares: int, groups: int, count: int, size: int, seed: int) -> Functions:
    """``count`` functions for each of ``groups``: ``int32[groups, count, size]``, different squares in each.

    Raises ``ConfigError`` for functions of more squares than the grid has.

    >>> functions(squares=1000, groups=2, count=1024, size=3, seed=1).shape
    (2, 1024, 3)
    """
    if size > squares:
        raise ConfigError(
            f"grid_function_squares={size} is more than grid_squares={squares}, but a function has different squares: "
            "make it smaller"
        )
    out = np.empty((groups, count, size), np.int32)
    _functions(squares, _seed(seed, _FUNCTION_PURPOSE), out)
    return out


def width(squares: int) -> int:
    """Bytes of the bitmap of a grid."""
    return (squares + 7) // 8


def bitmaps(values: npt.NDArray[np.integer], starts: npt.NDArray[np.int64], squares: int) -> Bitmaps:
    """Bitmaps ``uint8[n, width(squares)]`` of n sets ``values[starts[i]:starts[i + 1]]`` of squares below ``squares``.

    Square q is bit q % 8 of byte q // 8, from the lowest.
    """
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    out = np.zeros((len(starts) - 1, 8 * width(squares)), np.uint8)
    out[rows, values] = 1
    return np.packbits(out, axis=1, bitorder="little")


def keys(prints: Bitmaps, chosen: Functions, seed: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Bucket keys of n prints, ragged ``uint64[m]`` with starts ``int64[n + 1]``: the functions of the first group
    all of whose squares the print has, each with a key of its own.
    """
    held = np.empty(8 * prints.shape[1], np.uint8)
    counts = np.zeros(len(prints), np.int64)
    _count(prints, chosen[0], held, counts)
    starts = np.zeros(len(prints) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    members = np.empty(int(starts[-1]) + 1, np.int32)
    _members(prints, chosen[0], held, starts, members)
    out = np.empty(int(starts[-1]), np.uint64)
    _hash_functions(members, _seed(seed, _KEY_PURPOSE), out)
    return out, starts


def shared_functions(a: Bitmaps, b: Bitmaps, chosen: Functions) -> npt.NDArray[np.int32]:
    """Of m pairs of prints, in how many buckets of each group they meet: ``int32[m, groups]``."""
    out = np.zeros((len(a), len(chosen)), np.int32)
    both, held = a & b, np.empty(8 * a.shape[1], np.uint8)
    for group in range(len(chosen)):
        counts = np.zeros(len(a), np.int64)
        _count(both, chosen[group], held, counts)
        out[:, group] = counts
    return out


def first_shared(a: Bitmaps, b: Bitmaps, chosen: Functions) -> npt.NDArray[np.int32]:
    """Of m pairs of prints, the place among a's keys of the first that b has too, ``int32[m]``; -1 for none."""
    out = np.empty(len(a), np.int32)
    held = np.empty((2, 8 * a.shape[1]), np.uint8)
    _first(a, b, chosen[0], held[0], held[1], out)
    return out


def jaccard(a: Bitmaps, b: Bitmaps) -> npt.NDArray[np.float64]:
    """Jaccard similarity of m pairs of prints, ``float64[m]``; 0 for two empty ones.

    >>> one, other = (np.packbits([squares], axis=1) for squares in ([1, 1, 1, 0], [0, 1, 1, 1]))
    >>> jaccard(one, other)
    array([0.5])
    """
    common = np.bitwise_count(a & b).sum(axis=1, dtype=np.int64)
    union = np.bitwise_count(a | b).sum(axis=1, dtype=np.int64)
    return np.asarray(np.divide(common, union, out=np.zeros(len(a)), where=union > 0))


def candidate_probability(share: float, squares: int | None, groups: int, count: int, size: int) -> float:
    """The chance that a pair which shares each square with chance ``share`` (0 to 1) meets in every group.

    The squares are independent of each other and the functions random: exact over the number of squares in common,
    which follows the binomial law of ``squares``. ``None`` is a grid without end, where functions are independent.

    >>> [round(candidate_probability(share, None, groups=1, count=1024, size=3), 3) for share in (0.16, 0.04)]
    [0.985, 0.063]
    >>> round(candidate_probability(0.16, 1000, groups=1, count=1024, size=3), 3)
    0.978
    """
    if squares is None:
        law, function = np.ones(1), np.array([share**size])
    else:
        common = np.arange(squares + 1)
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, squares + 1)))])
        ways = logs[squares] - logs - logs[::-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            law = np.exp(ways + np.nan_to_num(common * np.log(share)) + np.nan_to_num(common[::-1] * np.log1p(-share)))
        function = np.prod([(common - i).clip(0) / (squares - i) for i in range(size)], axis=0)
    with np.errstate(divide="ignore"):
        missed = np.exp(count * np.log1p(-function))
    return float(law @ (1 - missed) ** groups)


def squares_of(points: npt.ArrayLike, cell: float, columns: int, border: float = 0.0) -> npt.NDArray[np.int64]:
    """The squares of a grid of ``columns`` in which points ``float[m, 2]`` (x, y) lie: sorted, each once.

    Square ``row * columns + column``; a row and a column are ``cell`` wide, the first begin at 0. A point nearer than
    ``border`` to the edge of a square (at most half of ``cell``) lies in the squares beyond that edge as well, where
    the grid has them; below it goes on for ever. Raises ``ConfigError`` for points outside of the grid.

    >>> squares_of([[5, 5], [19.5, 5], [31, 12]], cell=10, columns=4).tolist()
    [0, 1, 7]
    >>> squares_of([[19.5, 5]], cell=10, columns=4, border=1).tolist()
    [1, 2]
    """
    found = np.asarray(points, np.float64).reshape(-1, 2)
    if not cell > 0 or columns < 1 or not 0 <= border <= cell / 2:
        raise ConfigError(
            f"cell={cell}, columns={columns}, border={border}: a cell is above 0, there is at least one column, and a "
            "border is at most half a cell"
        )
    outside = ~((found >= 0).all(axis=1) & (found[:, 0] < cell * columns) & np.isfinite(found).all(axis=1))
    if outside.any():
        x, y = found[outside][0].tolist()
        raise ConfigError(
            f"the point ({x:g}, {y:g}) is outside of the grid, whose x goes from 0 to {cell * columns:g} and whose y "
            "begins at 0: move the points or take more columns"
        )
    squares = []
    for dx in (-border, 0.0, border):
        for dy in (-border, 0.0, border):
            column, row = (np.floor((found[:, axis] + shift) / cell) for axis, shift in enumerate((dx, dy)))
            inside = (column >= 0) & (column < columns) & (row >= 0)
            squares.append((row * columns + column)[inside])
    return np.unique(np.concatenate(squares)).astype(np.int64)


def _seed(seed: int, purpose: int) -> np.uint64:
    return np.uint64(derive_seed(np.uint64(seed), np.uint64(purpose)))


@kernel
def _functions(squares, seed, out):  # type: ignore[no-untyped-def]
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
def _unpack(bitmap, held):  # type: ignore[no-untyped-def]
    """A bitmap as a byte a square: what the functions look up without a branch."""
    for byte in range(len(bitmap)):
        bits = bitmap[byte]
        for bit in range(8):
            held[8 * byte + bit] = (bits >> np.uint8(bit)) & np.uint8(1)


@inlined
def _holds(held, group, function):  # type: ignore[no-untyped-def]
    """1 if a print has all squares of a function, else 0. A branch would be mispredicted for one function in five."""
    every = np.uint8(1)
    for i in range(group.shape[1]):
        every &= held[group[function, i]]
    return np.int64(every)


@kernel
def _count(prints, group, held, counts):  # type: ignore[no-untyped-def]
    for i in range(len(prints)):
        _unpack(prints[i], held)
        for function in range(len(group)):
            counts[i] += _holds(held, group, function)


@kernel
def _members(prints, group, held, starts, out):  # type: ignore[no-untyped-def]
    """The functions of a group that hold for each print, ascending; ``out`` has one place more than they need."""
    for i in range(len(prints)):
        _unpack(prints[i], held)
        at = starts[i]
        for function in range(len(group)):
            out[at] = function  # overwritten by the next unless it holds
            at += _holds(held, group, function)


@kernel
def _hash_functions(numbers, seed, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = mix64(seed ^ np.uint64(numbers[i]))


@kernel
def _first(a, b, group, held_a, held_b, out):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        _unpack(a[i], held_a)
        _unpack(b[i], held_b)
        place = 0
        out[i] = -1
        for function in range(len(group)):
            own = _holds(held_a, group, function)
            if own and _holds(held_b, group, function):
                out[i] = place
                break
            place += own
