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
from neardup.window.chains import MARK, eligible_copy, note, posting_index, slot_index
from neardup.window.heads import NONE

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


@inlined
def is_admitted(store, limits, items, item, j, posting):
    """Whether the payload of a posting of bucket ``j`` allows a pair with the item."""
    if not len(items.payloads):
        return True
    own = items.payloads[items.key_starts[item.position] + j]
    return admits(own, store.payloads[posting_index(store, posting)], limits.admit_ratio)


@inlined
def partner(store, limits, slot, items, item, base):
    """Return the copy of a slot's content that ``item`` pairs with, or ``NONE``: a mark stands for another shard's."""
    copy = eligible_copy(store, limits, slot, items, item, base)
    if copy != NONE and store.flags[slot_index(store, copy)] & MARK:
        return NONE
    return copy


@inlined
def count_common(store, limits, items, item, j, posting, slot, index, epoch, found):
    """Count key ``j`` of the item, common with the slot at ``index``; note the slot if it is new.

    ``store.noted`` is the index of a slot in the buffer. It is read only for slots that ``store.seen`` marks with the
    number of the current probe, so it is never cleared.
    """
    if store.seen[index] == epoch:
        found.left[store.noted[index]] -= np.int32(1)
        return
    own = items.payloads[items.key_starts[item.position] + j]
    other = store.payloads[posting_index(store, posting)]
    if may_reach(own, other, limits.admit_ratio):
        store.seen[index] = epoch
        at = found.length[0]
        store.noted[index] = np.uint32(at)
        note(found, item.position, slot, False)
        found.left[at] = np.int32(common_min(own, other, limits.admit_ratio) - 1)


@inlined
def keep_candidates(store, limits, items, item, base, found, begun):
    """Keep of the noted slots from ``begun`` on those with enough common keys, or their eligible copies."""
    noted = found.length[0]
    found.length[0] = begun
    for at in range(begun, noted):
        if found.left[at] <= 0:
            candidate = partner(store, limits, found.slots[at], items, item, base)
            if candidate != NONE:
                note(found, item.position, candidate, False)
