"""Payloads: a number with each posting, which rules out a pair before its evidence is read.

What must be equal is in the key; what must lie within bounds is in the payload. The payload of a token is its position
in the ordered set, from 0, and its suffix length, the number of tokens from it to the end; their sum is the size of the
set. Two sets that meet at their first common token have at most the shorter suffix in common, and at least both heads
and the longer suffix in their union. If even that is below the ratio, no later common token does better, so a pair that
is refused in one bucket is refused in all.

The number of tokens that two prefixes share is a bound, too. A prefix leaves out fewer than R L of the L tokens of a
set, for a ratio R. Of two sets, take the one whose prefix ends with the rarer token: each common token up to that one
is in both prefixes. So beyond their prefixes two sets share fewer than R max(L, M) tokens. Two sets of 1,000 tokens
must share 90 of the 201 tokens of their prefixes at .8: sets that share a few of them are no candidates.

The same bounds could be in the keys, at the cost of a bucket for each combination of position and length.

Source: Mining of Massive Datasets, 3.9.6.
"""

from __future__ import annotations

import numpy as np

from stream.kernels.compile import inlined

_SUFFIX = np.uint64(0xFFFFFFFF)
_POSITION_SHIFT = np.uint64(32)
# Covers the rounding of the quotient that decides a pair and of the product below: two parts in 2^53.
_SLACK = 1 - 2.0**-50


@inlined
def payload_of(position, suffix):
    """``position << 32 | suffix``, ``uint64``: position from 0, suffix length from 1, both below 2^32."""
    return (np.uint64(position) << _POSITION_SHIFT) | np.uint64(suffix)


@inlined
def admits(payload_a, payload_b, ratio):
    """Whether sets that share these two postings, and no token before them, can have a Jaccard similarity of ``ratio``.

    Never false for a pair whose similarity, as the quotient of two numbers in ``float64``, is ``ratio`` or more.
    """
    suffix_a, suffix_b = np.int64(payload_a & _SUFFIX), np.int64(payload_b & _SUFFIX)
    heads = np.int64(payload_a >> _POSITION_SHIFT) + np.int64(payload_b >> _POSITION_SHIFT)
    return min(suffix_a, suffix_b) >= ratio * (heads + max(suffix_a, suffix_b)) * _SLACK


@inlined
def common_min(payload_a, payload_b, ratio):
    """Return how many tokens the prefixes of two sets must share, 1 or more, for a Jaccard similarity of ``ratio``.

    The payloads are those of any posting of each. Never too many for a pair whose similarity, as the quotient of two
    numbers in ``float64``, is ``ratio`` or more.
    """
    size_a = np.int64(payload_a & _SUFFIX) + np.int64(payload_a >> _POSITION_SHIFT)
    size_b = np.int64(payload_b & _SUFFIX) + np.int64(payload_b >> _POSITION_SHIFT)
    beyond = np.floor(ratio * max(size_a, size_b))
    return max(np.int64(np.ceil(ratio / (1 + ratio) * (size_a + size_b) * _SLACK - beyond)), np.int64(1))
