"""The walk of an item with many keys, as a kernel: all buckets in rounds, and the common keys are counted.

A round visits one posting of each bucket. So the postings of a round do not depend on each other, and they are
prefetched a round ahead: a visit takes a third of the time of a walk bucket by bucket, where each posting names the
next one and each read waits for memory. No limit applies: only exact schemes count common keys, and they truncate
nothing.

``store.noted`` has the place in the buffer of each slot that the current probe has seen. Kernels read it only for slots
that ``store.seen`` marks with the number of the current probe, so it is never cleared.

Source: for counting, Sarawagi, Kirpal, "Efficient set joins on similarity predicates", SIGMOD 2004.
"""

from __future__ import annotations

import numpy as np

from stream.kernels.compile import inlined, raw_inner
from stream.table.admit import admits, common_min
from stream.table.chains import (
    CANDIDATES,
    GROUP_BITS,
    KEYS,
    SUPERSEDED,
    eligible_copy,
    first_posting,
    note,
    older,
    posting_place,
    relink,
    slot_of,
    slot_place,
)
from stream.table.heads import NONE, prefetch

_NOT_NOTED = np.uint32(0xFFFFFFFF)


@raw_inner
def walk_counted(store, limits, items, item, top, options, work):
    """Probe every bucket of an item, a round after the other; leave in ``targets`` what the new posting will link to.

    ``top`` is a copy that the item supersedes and that may not pair with it: the walk skips it like superseded slots.
    A slot is a candidate if it has as many common keys as two payloads demand.
    """
    state, base = store.state, options.base
    journal, found, scratch = work.journal, work.found, work.scratch
    first, begun = items.key_starts[item.place], found.length[0]
    epoch = options.epoch + np.uint32(item.place)
    chains, current, newer = scratch.chains, scratch.current, scratch.newer
    count = 0
    for j in range(KEYS, item.keys):
        posting = scratch.targets[j]
        scratch.targets[j] = NONE
        newer[j] = NONE
        if posting != NONE:
            fetch(store, posting)
            current[j] = posting
            chains[count] = j
            count += 1
    while count:
        left = 0
        for n in range(count):
            j = chains[n]
            posting = current[j]
            following = older(store, posting, item.live)
            if following != NONE:
                fetch(store, following)
                current[j] = following
                chains[left] = j
                left += 1
            slot = slot_of(store, posting, base)
            place = slot_place(store, slot)
            hidden = store.flags[place] & SUPERSEDED or slot == top
            if hidden and posting - first_posting(store, slot, base) >= KEYS:
                if options.add and newer[j] != NONE:
                    relink(store, newer[j], following, journal)
                continue
            if newer[j] == NONE:
                scratch.targets[j] = posting
            newer[j] = posting
            if hidden:  # a posting of a content or an id whose key shares the chain
                continue
            if store.seen[place] == epoch:
                count_common(store, found, place)
                continue
            own, other = items.payloads[first + j], store.payloads[posting_place(store, posting)]
            if admits(own, other, limits.admit_ratio):
                store.seen[place] = epoch
                candidate = eligible_copy(store, limits, slot, items, item, base)
                expect(store, found, place, candidate, common_min(own, other, limits.admit_ratio))
                if candidate != NONE:
                    note(found, item.place, candidate, False)
        count = left
    drop_short(found, begun)
    state[CANDIDATES] += found.length[0] - begun


@inlined
def fetch(store, posting):
    """Prefetch what a visit of a posting reads."""
    at = posting_place(store, posting)
    prefetch(store.links, at)
    prefetch(store.payloads, at)
    prefetch(store.groups, at >> GROUP_BITS)


@inlined
def expect(store, found, place, candidate, least):
    """Prepare to count for the slot at ``place``, whose ``candidate`` (``NONE``: no candidate) is noted next.

    ``least`` is the number of common keys that a candidate needs; the first common key is already found.
    """
    at = found.length[0]
    store.noted[place] = _NOT_NOTED if candidate == NONE else np.uint32(at)
    found.missing[at] = np.int32(least - 1)


@inlined
def count_common(store, found, place):
    """Count one more common key of the slot at ``place``, if it is a candidate."""
    at = store.noted[place]
    if at != _NOT_NOTED:
        found.missing[at] -= np.int32(1)


@inlined
def drop_short(found, begun):
    """Drop the candidates from ``begun`` on that have too few common keys."""
    kept = begun
    for n in range(begun, found.length[0]):
        if found.missing[n] <= 0:
            found.slots[kept] = found.slots[n]
            kept += 1
    found.length[0] = kept
