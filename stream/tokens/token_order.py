"""The order of tokens: all unknown tokens, then the known ones from the rarest to the most frequent.

The prefix index finds a set by the first of its tokens, in one fixed order; rare tokens in front make short buckets. A
stream has no frequencies of its own, so the order is configuration: it comes from counts of a sample. Every order finds
the same pairs, so an old or wrong order costs speed only; a token that is not in the sample counts as rare. A new order
is a new generation: sets in different orders cannot be compared.

Each token becomes an **order value**: half of its hash if it is unknown, else the top bit and its rank, spread over the
bits below. Ordering the values is ordering the tokens. Two tokens have the same value only if both are unknown
and their hashes agree in 63 bits.

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

from stream.errors import ConfigError
from stream.kernels.compile import kernel

Tokens = npt.NDArray[np.uint64]

# Most known tokens: a rank must fit 32 bits, next to 32 bits of the hash.
KNOWN_MAX = 1 << 24
# Places of the table for each known token: three in four stay empty, so most unknown tokens hit an empty place.
_PLACES_EACH = 4
_KNOWN = np.uint64(1 << 63)
_LOW32 = np.uint64(0xFFFFFFFF)
_HIGH32 = np.uint64(32)
_ONE = np.uint64(1)
_NO_TOKENS: Tokens = np.empty(0, np.uint64)


class TokenOrder:
    """Known tokens (hashed, ``uint64[n]``) from the rarest to the most frequent, and the table that finds them.

    Without known tokens, the order is the order of the hashes. Two orders are equal if their tokens are. Raises
    ``ConfigError`` for another type or shape, for a repeated token, and for more than ``KNOWN_MAX`` tokens.

    >>> import numpy as np
    >>> order = TokenOrder(np.array([8, 6], np.uint64))
    >>> order.values(np.array([40, 6, 8], np.uint64)).argsort().tolist()
    [0, 2, 1]
    """

    __slots__ = ("_places", "digest", "tokens")

    def __init__(self, tokens: npt.ArrayLike = _NO_TOKENS) -> None:
        self.tokens = _checked(tokens)
        # 32 hexadecimal digits, different for different orders.
        self.digest: str = mmh3.mmh3_x64_128_digest(self.tokens.astype("<u8").tobytes()).hex()
        # A place holds the upper half of a token's hash and its rank plus one, or 0.
        self._places = np.zeros(1 << (max(_PLACES_EACH * len(self.tokens), 1) - 1).bit_length(), np.uint64)
        _fill(self.tokens, self._places)

    def values(self, tokens: Tokens) -> Tokens:
        """Return the order value of each token: ``uint64[m]`` to ``uint64[m]``."""
        out = np.empty_like(tokens)
        _order_values(tokens, self.tokens, self._places, _spread(len(self.tokens)), out)
        return out

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenOrder) and self.digest == other.digest

    def __hash__(self) -> int:
        return int(self.digest, 16)

    def __repr__(self) -> str:
        return f"<order of {len(self.tokens):,} tokens, {self.digest}>"


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
    merged, places = np.unique(both, return_inverse=True)
    total = np.zeros(len(merged), np.int64)
    np.add.at(total, places, np.concatenate([frequencies.counts, counts]))
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


@kernel
def _fill(tokens, places):
    mask = np.uint64(len(places) - 1)
    for rank in range(len(tokens)):
        at = tokens[rank] & mask
        while places[at] != 0:
            at = (at + _ONE) & mask
        places[at] = (tokens[rank] & ~_LOW32) | np.uint64(rank + 1)


@kernel
def _order_values(values, tokens, places, spread, out):
    mask = np.uint64(len(places) - 1)
    for i in range(len(values)):
        x = values[i]
        out[i] = x >> _ONE
        at = x & mask
        while places[at] != 0:
            found = places[at]
            if (found ^ x) >> _HIGH32 == 0:
                rank = (found & _LOW32) - _ONE
                if tokens[rank] == x:
                    out[i] = _KNOWN | (rank << spread)
                    break
            at = (at + _ONE) & mask
