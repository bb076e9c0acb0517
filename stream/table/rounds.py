"""The walk of an item with many keys, as a kernel: all buckets in rounds, and the common keys are counted.

A round visits one posting of each bucket. So the postings of a round do not depend on each other, and they are
prefetched a round ahead. In a walk bucket by bucket, each posting names the next one, and each visit waits for memory.

A slot is noted at a common key whose payloads allow a pair, and counted at further common keys. It is a candidate if it
has as many common keys as the payloads demand (``neardup.stream.table.admit``). A refused slot is looked at again at
its next key, because another key may share the chain by accident. No limit applies: only exact schemes count common
keys, and they truncate nothing.

Source: for counting, Sarawagi, Kirpal, "Efficient set joins on similarity predicates", SIGMOD 2004.
"""

from __future__ import annotations

import numpy as np

from neardup.stream.kernels.compile import inlined, raw_inner
from neardup.stream.table.admit import common_min, may_reach
from neardup.stream.table.chains import (
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
from neardup.stream.table.heads import NONE, prefetch


@raw_inner
def walk_counted(store, limits, items, item, top, options, work):
    """Probe every bucket of an item, a round after the other; leave in ``targets`` what the new posting will link to.

    ``top`` is a copy that the item supersedes and that may not pair with it: the walk skips it like superseded slots.
    """
    base, journal, found, scratch = options.base, work.journal, work.found, work.scratch
    begun = found.length[0]
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
            if not hidden:  # a hidden posting here belongs to a content or an id whose key shares the chain
                count_common(store, limits, items, item, j, posting, slot, place, epoch, found)
        count = left
    keep_candidates(store, limits, items, item, base, found, begun)
    store.state[CANDIDATES] += found.length[0] - begun


@inlined
def fetch(store, posting):
    """Prefetch what a visit of a posting reads."""
    at = posting_place(store, posting)
    prefetch(store.links, at)
    prefetch(store.payloads, at)
    prefetch(store.groups, at >> GROUP_BITS)


@inlined
def count_common(store, limits, items, item, j, posting, slot, place, epoch, found):
    """Count key ``j`` of the item, common with the slot at ``place``; note the slot if it is new.

    ``store.noted`` is the place of a slot in the buffer. It is read only for slots that ``store.seen`` marks with the
    number of the current probe, so it is never cleared.
    """
    if store.seen[place] == epoch:
        found.missing[store.noted[place]] -= np.int32(1)
        return
    own = items.payloads[items.key_starts[item.place] + j]
    other = store.payloads[posting_place(store, posting)]
    if may_reach(own, other, limits.admit_ratio):
        store.seen[place] = epoch
        at = found.length[0]
        store.noted[place] = np.uint32(at)
        found.missing[at] = np.int32(common_min(own, other, limits.admit_ratio) - 1)
        note(found, item.place, slot, False)


@inlined
def keep_candidates(store, limits, items, item, base, found, begun):
    """Keep of the noted slots from ``begun`` on those with enough common keys, or their eligible copies."""
    noted = found.length[0]
    found.length[0] = begun
    for at in range(begun, noted):
        if found.missing[at] <= 0:
            candidate = eligible_copy(store, limits, found.slots[at], items, item, base)
            if candidate != NONE:
                note(found, item.place, candidate, False)
