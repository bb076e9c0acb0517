"""Kernels that read a band table or a batch for it, and change nothing: evidence, lengths of buckets, room."""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import kernel
from neardup.machine.lanes import copy_range
from neardup.window.chains import (
    BYTE_PAGE_BITS,
    COPIED,
    FOREIGN,
    KEYS,
    OLDEST,
    OWN,
    REMOVAL,
    SLOT_END,
    byte_index,
    first_posting,
    older,
)
from neardup.window.heads import NONE


@kernel("Store, i64, i64, i64, i64[]")
def bucket_lengths(store, first, most, base, out):
    """Count the live postings from each bucket posting of the slots from ``first`` on; returns how many counts."""
    live = first_posting(store, store.state[OLDEST], base)
    n = 0
    for slot in range(first, store.state[SLOT_END]):
        for posting in range(first_posting(store, slot, base) + KEYS, first_posting(store, slot + 1, base)):
            length = np.int64(0)
            at = np.int64(posting)
            while at != NONE and length < most:
                length += 1
                at = older(store, at, live)
            out[n] = length
            n += 1
    return n


@kernel("Store, i64, i64", direct=True)
def posting_of(store, slot, base):
    """``chains.first_posting`` for Python."""
    return first_posting(store, slot, base)


@kernel("const u8[], const i64[], const i64[], const i64[], const i64[], bool", direct=True)
def demand(kinds, key_starts, added, id_starts, ragged_starts, hides):
    """Measure what a batch needs.

    Returns:
        The most keys of an item, and the least that one adds, 0 if one adds more than it has; the bytes of the longest
        id of an item; how many items are foreign; how many the table may hold, with ``hides`` the foreign ones too, and
        the keys that they add; how many are its own, and the bytes of their ragged parts.
    """
    longest, shortest, id_longest, foreign = 0, KEYS, 0, 0
    items, postings, own, ragged = 0, 0, 0, 0
    for i in range(len(kinds)):
        keys, kind = key_starts[i + 1] - key_starts[i], kinds[i]
        longest, shortest = max(longest, keys), min(shortest, added[i] if added[i] <= keys else 0)
        foreign += kind & FOREIGN != 0
        is_own = kind | COPIED == OWN | COPIED
        if kind != REMOVAL:
            id_longest = max(id_longest, id_starts[i + 1] - id_starts[i])
        if kind != REMOVAL if hides else is_own:
            items += 1
            postings += added[i]
        if is_own:
            own += 1
            ragged += ragged_starts[i + 1] - ragged_starts[i]
    return longest, shortest, id_longest, foreign, items, postings, own, ragged


@kernel("Store, i64[], i64, i64[], u8[]", direct=True)
def gather_bytes(store, indices, skipped, starts, out):
    """Copy what follows the ids of slots at ``indices``, without its ``skipped`` first bytes, to
    ``out[starts[n]:starts[n + 1]]``, ``uint8``."""
    mask = (1 << BYTE_PAGE_BITS) - 1
    for n in range(len(indices)):
        at = store.id_starts[indices[n]] + np.int64(store.id_lengths[indices[n]]) + skipped
        first, end = starts[n], starts[n + 1]
        while first < end:
            part = min(end - first, mask + 1 - (at & mask))
            source = byte_index(store, at)
            copy_range(store.bytes, source, out, first, part)
            first += part
            at += part
