"""The order of tokens: all unknown tokens, then the known ones from the rarest to the most frequent.

The prefix index finds a set by the first of its tokens, in one fixed order; rare tokens in front make short buckets. A
stream has no frequencies of its own, so the order is configuration: it comes from counts of a sample. Every order finds
the same pairs, so an old or wrong order costs speed only; a token that is not in the sample counts as rare. A new order
is a new generation: sets in different orders cannot be compared.

Each token becomes an **order value**: half of its hash if it is unknown, else the top bit and its rank, spread over the
bits below. Ordering the values is ordering the tokens. Two tokens have the same value only if both are unknown
and their hashes agree in 63 bits.

A **string** is a set in this order. Known tokens need no sorting: each marks the bit of its rank, and the marks are
read from the lowest to the highest. Only unknown tokens are sorted. On prose a string takes 11 ns a token; sorting all
tokens took 27.

Frequencies are counted in bounded memory. With more tokens than counters, every count is lowered by the count of the
first token beyond them, and tokens with no count left are dropped. So a count is never too high, and too low by at most
the number of tokens counted divided by the number of counters.

Source: Mining of Massive Datasets, 3.9.2, 3.9.3 (the box on ordering); Agarwal, Cormode, Huang, Phillips, Wei, Yi,
"Mergeable summaries", PODS 2012, after Misra and Gries.
"""

from __future__ import annotations

from typing import NamedTuple

import mmh3
import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.features.tokens.bags import bucket_counts, sort_bag
from neardup.machine.bits import lowest_bit
from neardup.machine.compile import inner, kernel

Tokens = npt.NDArray[np.uint64]
Starts = npt.NDArray[np.int64]

# Most known tokens: a rank must fit 32 bits, next to 32 bits of the hash.
KNOWN_MAX = 1 << 24
# Slots of the table for each known token: three in four stay empty, so most unknown tokens hit an empty slot.
_SLOTS_EACH = 4
_KNOWN = np.uint64(1 << 63)
_LOW32 = np.uint64(0xFFFFFFFF)
_HIGH32 = np.uint64(32)
_ONE = np.uint64(1)
_LINE_BITS, _LINE_MASK = np.uint64(6), np.uint64(63)
# Tokens whose slots are read at once: the reads overlap, because none of them waits for a comparison.
_BLOCK = 512
_NO_TOKENS: Tokens = np.empty(0, np.uint64)


class TokenOrder:
    """Known tokens (hashed, ``uint64[n]``) from the rarest to the most frequent, and the table that finds them.

    Without known tokens, the order is the order of the hashes. Two orders are equal if their tokens are. Raises
    ``ConfigError`` for another type or shape, for a repeated token, and for more than ``KNOWN_MAX`` tokens.

    >>> import numpy as np
    >>> order = TokenOrder(np.array([8, 6], np.uint64))
    >>> values, starts = order.strings(np.array([6, 40, 8, 6], np.uint64), np.array([0, 4]))
    >>> values.argsort().tolist(), starts.tolist()
    ([0, 1, 2], [0, 3])
    """

    __slots__ = ("_slots", "digest", "tokens")

    def __init__(self, tokens: npt.ArrayLike = _NO_TOKENS) -> None:
        self.tokens = _checked(tokens)
        # 32 hexadecimal digits, different for different orders.
        self.digest: str = mmh3.mmh3_x64_128_digest(self.tokens.astype("<u8").tobytes()).hex()
        # A slot holds the upper half of a token's hash and its rank plus one, or 0.
        self._slots = np.zeros(1 << (max(_SLOTS_EACH * len(self.tokens), 1) - 1).bit_length(), np.uint64)
        _fill(self.tokens, self._slots)

    def strings(self, values: Tokens, starts: Starts) -> tuple[Tokens, Starts]:
        """Return bags of tokens, ``values[starts[i]:starts[i + 1]]``, as strings: order values, ascending, each once.

        The result has the shapes and dtypes of the arguments, with fewer values.
        """
        out, out_starts = np.empty_like(values), np.zeros(len(starts), np.int64)
        longest = int(np.diff(starts).max(initial=0))
        lines = (len(self.tokens) >> int(_LINE_BITS)) + 1
        scratch = _Scratch(
            np.empty(_BLOCK, np.uint64), np.empty(longest, np.uint64), bucket_counts(longest),
            np.zeros(lines, np.uint64), np.zeros((lines >> int(_LINE_BITS)) + 1, np.uint64),
        )  # fmt: skip
        _strings(values, starts, self.tokens, self._slots, _spread(len(self.tokens)), scratch, out, out_starts)
        return out[: out_starts[-1]], out_starts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenOrder) and self.digest == other.digest

    def __hash__(self) -> int:
        return int(self.digest, 16)

    def __repr__(self) -> str:
        return f"<order of {len(self.tokens):,} tokens, {self.digest}>"


class _Scratch(NamedTuple):
    """The arrays that the kernels write: the first slots of a block of tokens; the unknown tokens of a bag, and what
    sorts them; a bit for each rank, in ``lines`` of 64, and a bit in ``pages`` for each line that is not 0."""

    firsts: npt.NDArray[np.uint64]
    unknown: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    lines: npt.NDArray[np.uint64]
    pages: npt.NDArray[np.uint64]


class Frequencies(NamedTuple):
    """The counted tokens in ascending order, and the number of sets that contain each (``int64``)."""

    tokens: Tokens
    counts: npt.NDArray[np.int64]


NO_FREQUENCIES = Frequencies(_NO_TOKENS, np.empty(0, np.int64))


def counted(frequencies: Frequencies, values: Tokens, counters_max: int) -> Frequencies:
    """Add more sets to the counts; ``values`` are the tokens of each set without repetitions.

    The result has the ``counters_max`` tokens with the highest counts.
    """
    tokens, counts = np.unique(values, return_counts=True)
    both = np.concatenate([frequencies.tokens, tokens])
    merged, inverse = np.unique(both, return_inverse=True)
    total = np.zeros(len(merged), np.int64)
    np.add.at(total, inverse, np.concatenate([frequencies.counts, counts]))
    if len(merged) > counters_max:
        total -= np.partition(total, len(total) - counters_max - 1)[len(total) - counters_max - 1]
        merged, total = merged[total > 0], total[total > 0]
    return Frequencies(merged, total)


def most_frequent(frequencies: Frequencies, tokens_max: int) -> Tokens:
    """Return the ``tokens_max`` most frequent tokens with a count of 2 or more, the rarest first."""
    often = frequencies.counts > 1
    tokens, counts = frequencies.tokens[often], frequencies.counts[often]
    return tokens[np.argsort(counts, kind="stable")][max(len(tokens) - tokens_max, 0) :]


def _checked(tokens: npt.ArrayLike) -> Tokens:
    given = np.asarray(tokens)
    if given.ndim != 1 or given.dtype.kind != "u" or given.dtype.itemsize != 8:
        raise ConfigError(
            f"a token order of {given.ndim} dimensions of {given.dtype} cannot be used: "
            "give one dimension of uint64, as neardup learn-order writes it"
        )
    if len(given) > KNOWN_MAX:
        raise ConfigError(f"a token order of {len(given):,} is above {KNOWN_MAX:,}: leave out the rarest tokens")
    known = np.ascontiguousarray(given, np.uint64)
    if len(np.unique(known)) != len(known):
        raise ConfigError("a token stands twice in the token order: each must stand once, as neardup learn-order does")
    return known


def _spread(known: int) -> np.uint64:
    """Return how many bits to shift a rank, so that ranks spread over the 63 bits below the top bit."""
    return np.uint64(63 - max(known - 1, 0).bit_length())


@kernel("u64[], u64[]")
def _fill(tokens, slots):
    mask = np.uint64(len(slots) - 1)
    for rank in range(len(tokens)):
        at = tokens[rank] & mask
        while slots[at] != 0:
            at = (at + _ONE) & mask
        slots[at] = (tokens[rank] & ~_LOW32) | np.uint64(rank + 1)


@kernel("u64[], i64[], u64[], u64[], u64, _Scratch, u64[], i64[]")
def _strings(values, starts, tokens, slots, spread, scratch, out, out_starts):
    at = 0
    for i in range(len(starts) - 1):
        bag = values[starts[i] : starts[i + 1]]
        unknown = _split(bag, tokens, slots, scratch)
        if unknown:
            into = out[at : at + unknown]
            sort_bag(scratch.unknown[:unknown], scratch.counts, into)
            at += _distinct(into)
        at = _marked(scratch, spread, out, at)
        out_starts[i + 1] = at


@inner
def _split(bag, tokens, slots, scratch):
    """Mark the ranks of the known tokens of a bag; write the values of the others to ``scratch.unknown``, and return
    their number."""
    firsts, unknown = scratch.firsts, scratch.unknown
    mask = np.uint64(len(slots) - 1)
    count = 0
    for first in range(0, len(bag), _BLOCK):
        block = bag[first : first + _BLOCK]
        for j in range(len(block)):
            firsts[j] = slots[np.int64(block[j] & mask)]
        for j in range(len(block)):
            x, found = block[j], firsts[j]
            at = x & mask
            while found != 0:
                if (found ^ x) >> _HIGH32 == 0 and tokens[np.int64((found & _LOW32) - _ONE)] == x:
                    break
                at = (at + _ONE) & mask
                found = slots[np.int64(at)]
            if found != 0:
                rank = (found & _LOW32) - _ONE
                line = rank >> _LINE_BITS
                scratch.lines[np.int64(line)] |= _ONE << (rank & _LINE_MASK)
                scratch.pages[np.int64(line >> _LINE_BITS)] |= _ONE << (line & _LINE_MASK)
            else:
                unknown[count] = x >> _ONE
                count += 1
    return count


@inner
def _distinct(values):
    """Move the distinct ones of sorted values to the front; returns their number."""
    at = 0
    for j in range(len(values)):
        if j == 0 or values[j] != values[j - 1]:
            values[at] = values[j]
            at += 1
    return at


@inner
def _marked(scratch, spread, out, at):
    """Write the values of the marked ranks to ``out`` from ``at`` on, ascending, and clear the marks; returns the
    index after them."""
    lines, pages = scratch.lines, scratch.pages
    for page in range(len(pages)):
        summary = pages[page]
        pages[page] = 0
        while summary:
            line = (np.int64(page) << 6) + np.int64(lowest_bit(summary))
            summary &= summary - _ONE
            marks = lines[line]
            lines[line] = 0
            base = np.uint64(line) << _LINE_BITS
            while marks:
                out[at] = _KNOWN | ((base + lowest_bit(marks)) << spread)
                marks &= marks - _ONE
                at += 1
    return at
