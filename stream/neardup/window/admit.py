"""Payloads: a number with each posting, which rules out a pair before its evidence is read.

What must be equal is in the key; what must lie within bounds is in the payload. The payload of a token is its position
in the ordered set, from 0, and its suffix length, the number of tokens from it to the end. Position and suffix length
add up to the size of the set. If a token is the first that two sets have in common, their intersection is at most the
shorter suffix, and their union is at least both positions and the longer suffix. If the quotient of these bounds is
below the ratio, no later common token gives more. So a pair that is refused in one bucket is refused in all.

A later common token gives a weaker bound. Tokens that are common before it are at most the lesser position, and from it
on at most the shorter suffix.

The number of common tokens of two prefixes is a bound, too. For a ratio R, the prefix of a set of L tokens leaves out
fewer than R L tokens. Choose the set whose prefix ends with the rarer token: both prefixes hold each common token up to
this last token. So two sets of L and M tokens share fewer than R max(L, M) tokens beyond their prefixes. At a ratio of
.8, two sets of 1,000 tokens must share 90 of the 201 tokens of their prefixes. Sets with fewer are no candidates.

The same bounds could be in the keys, at the cost of a bucket for each combination of position and length.

Source: Mining of Massive Datasets, 3.9.6.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inlined

_SUFFIX = np.uint64(0xFFFFFFFF)
_POSITION_SHIFT = np.uint64(32)
# Covers two roundings, of the quotient that decides a pair and of the product below: two parts in 2^53.
_SLACK = 1 - 2.0**-50


@inlined
def payload_of(position, suffix):
    """``position << 32 | suffix``, ``uint64``: position from 0, suffix length from 1, both below 2^32."""
    return (np.uint64(position) << _POSITION_SHIFT) | np.uint64(suffix)


@inlined
def admits(payload_a, payload_b, ratio):
    """Whether sets whose first common token has these payloads can have a Jaccard similarity of ``ratio`` or more.

    True for each pair whose similarity, the quotient of two numbers in ``float64``, is ``ratio`` or more.
    """
    suffix_a, suffix_b = np.int64(payload_a & _SUFFIX), np.int64(payload_b & _SUFFIX)
    heads = np.int64(payload_a >> _POSITION_SHIFT) + np.int64(payload_b >> _POSITION_SHIFT)
    return min(suffix_a, suffix_b) >= ratio * (heads + max(suffix_a, suffix_b)) * _SLACK


@inlined
def may_reach(payload_a, payload_b, ratio):
    """Whether sets with any common token of these payloads can have a Jaccard similarity of ``ratio`` or more.

    True for each pair whose similarity, the quotient of two numbers in ``float64``, is ``ratio`` or more.
    """
    suffix_a, suffix_b = np.int64(payload_a & _SUFFIX), np.int64(payload_b & _SUFFIX)
    before_a, before_b = np.int64(payload_a >> _POSITION_SHIFT), np.int64(payload_b >> _POSITION_SHIFT)
    most = min(before_a, before_b) + min(suffix_a, suffix_b)
    return most >= ratio * (before_a + suffix_a + before_b + suffix_b - most) * _SLACK


@inlined
def common_min(payload_a, payload_b, ratio):
    """Return how many tokens the prefixes of two sets must share, 1 or more, for a Jaccard similarity of ``ratio``.

    Any posting of a set gives its payload. Each pair whose similarity, the quotient of two numbers in ``float64``, is
    ``ratio`` or more shares at least so many.
    """
    size_a = np.int64(payload_a & _SUFFIX) + np.int64(payload_a >> _POSITION_SHIFT)
    size_b = np.int64(payload_b & _SUFFIX) + np.int64(payload_b >> _POSITION_SHIFT)
    beyond = np.floor(ratio * max(size_a, size_b))
    return max(np.int64(np.ceil(ratio / (1 + ratio) * (size_a + size_b) * _SLACK - beyond)), np.int64(1))
