"""Kernels that read a band table and change nothing: evidence, lengths of buckets."""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import kernel
from neardup.machine.lanes import copy_range
from neardup.window.chains import (
    BYTE_PAGE_BITS,
    KEYS,
    OLDEST,
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


@kernel("Store, i64, i64")
def posting_of(store, slot, base):
    """``chains.first_posting`` for Python."""
    return first_posting(store, slot, base)


@kernel("Store, i64[], i64, i64[], u8[]")
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
