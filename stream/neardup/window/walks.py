"""The two walks through the buckets of an item, as kernels: ``walk`` and ``walk_counted``.

``walk`` goes bucket by bucket, each from its newest posting, within limits. The first documents of a cluster may be far
down its buckets. So what a limit leaves of a bucket is its newest candidates, and the oldest of those that the walk
still reads.

``walk_counted`` is for items with many keys. It walks all buckets in rounds, and counts the common keys.

A round visits one posting of each bucket. So the postings of a round do not depend on each other, and they are
prefetched a round ahead. In a walk bucket by bucket, each posting names the next one, and each visit waits for memory.

A slot is noted at a common key whose payloads allow a pair, and counted at further common keys. It is a candidate if it
has as many common keys as the payloads demand (``neardup.window.admit``). A refused slot is looked at again at
its next key, because another key may share the chain by accident. No limit applies: only exact schemes count common
keys, and they truncate nothing.

Source: for counting, Sarawagi, Kirpal, "Efficient set joins on similarity predicates", SIGMOD 2004.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inlined, inner
from neardup.machine.memory import prefetch
from neardup.window.admit import count_common, is_admitted, keep_candidates, partner
from neardup.window.chains import (
    CHANGES,
    FURTHER,
    GROUP_BITS,
    KEPT_HEAD,
    KEPT_KEYS,
    KEPT_OLDEST,
    KEPT_WAYS,
    KEYS,
    NO_LIMIT,
    OLD_PART,
    OLDEST_MAX,
    REST_HEAD,
    REST_MAX,
    SUPERSEDED,
    UNCOMPARED_LAST,
    UNCOMPARED_MAX,
    UNCOMPARED_READ,
    UNCOMPARED_ROW,
    UNDONE,
    first_posting,
    in_window,
    note,
    older,
    posting_index,
    relink,
    slot_index,
    slot_of,
)
from neardup.window.counters import CANDIDATES, CUTS, UNCOMPARED
from neardup.window.heads import NONE

# What a walk does with a posting: it considers it, passes it, or passes it and takes it out of the bucket. A posting
# that is only passed belongs to a content or an id whose key shares the chain.
_SHOWN, _PASSED, _UNLINKED = range(3)
# The head of a row of ``Scratch.kept``: where a walk began, how many postings it read and kept, how many of these stand
# there, and the changes of flags before it. A later one reads so many to come to where it began.
_FROM, _READ, _STORED, _COUNTED, _CHANGED, _NEWER_MAX = *range(5), 64
# The head of a row of ``Scratch.rests``: its first posting, how many are kept, how many counts have used it, after
# which it begins again, and the undone steps before it.
_FIRST, _KEPT, _USES, _UNDONE, _USES_MAX = *range(4), 64


@inlined
def probe(store, limits, items, item, top, options, work):
    """Probe every bucket of an item; leave in ``targets`` what the new posting will link to."""
    if limits.counted:
        walk_counted(store, limits, items, item, top, options, work)
        return
    cuts, begun = store.state[CUTS], work.found.length[0]
    walk(store, limits, items, item, top, options, work)
    if store.state[CUTS] > cuts:
        count_uncompared(store, limits, items, item, top, options, work, begun)


@inlined
def walk(store, limits, items, item, top, options, work):
    """Probe every bucket of an item, newest posting first; leave in ``targets`` what the new posting will link to.

    ``top`` is a copy that the item supersedes and that may not pair with it: the walk skips it like superseded slots.
    """
    state, base, journal, found, scratch = store.state, options.base, work.journal, work.found, work.scratch
    begun, pairing = found.length[0], KEYS + limits.pair_keys
    old = min(min(limits.bucket_candidates, limits.probe_candidates) // OLD_PART, OLDEST_MAX)
    further = FURTHER * min(limits.bucket_candidates, NO_LIMIT // FURTHER)
    newest, end, is_full = limits.bucket_candidates - old, begun + limits.probe_candidates - old, False
    for j in range(KEYS, item.keys):
        if j <= pairing:
            is_full = found.length[0] - begun == limits.probe_candidates
        posting = scratch.current[j] = scratch.targets[j]
        if found.length[0] - begun == limits.probe_candidates:
            continue  # a bucket that is not walked keeps its links
        scratch.targets[j] = NONE
        newer, visited = NONE, 0
        while posting != NONE:
            slot = slot_of(store, posting, base)
            following = older(store, posting, item.live)
            hidden = is_hidden(store, slot, posting, top, base)
            if hidden == _UNLINKED:
                if options.add and newer != NONE:
                    relink(store, newer, following, journal)
            else:
                if newer == NONE:
                    scratch.targets[j] = posting
                newer = posting
                if not hidden:
                    if visited >= newest or found.length[0] >= end:
                        break
                    visited += 1
                    consider(store, limits, items, item, j, posting, slot, options, work)
            posting = following
        scratch.current[j] = posting
        if posting == NONE:
            continue
        count, read, is_cut = find_oldest(store, limits, items, item, j, posting, top, old, further, options, work)
        further -= max(read - old, 0)
        state[CUTS] += j < pairing and is_cut and count <= old and found.length[0] - begun < limits.probe_candidates
        for n in range(max(count - old, 0), count):
            if found.length[0] - begun < limits.probe_candidates:
                posting = scratch.oldest[n % old]
                consider(store, limits, items, item, j, posting, slot_of(store, posting, base), options, work)
        state[CUTS] += j < pairing and count > old
    state[CANDIDATES] += found.length[0] - begun
    state[CUTS] += is_full or (item.keys <= pairing and found.length[0] - begun == limits.probe_candidates)


@inlined
def is_hidden(store, slot, posting, top, base):
    """Return what a walk does with a posting."""
    if not store.flags[slot_index(store, slot)] & SUPERSEDED and slot != top:
        return _SHOWN
    return _UNLINKED if posting - first_posting(store, slot, base) >= KEYS else _PASSED


@inner
def find_oldest(store, limits, items, item, j, posting, top, old, further, options, work):
    """Read on in a bucket, ``old + further`` postings at most; leave the ``old`` oldest in the window of the item in
    ``oldest``: number n, newest first, at index n modulo ``old``.

    Items of a flood read the same long bucket one after the other. So the end of what a walk has read is kept: a later
    walk that comes to where it began goes on behind it, and finds what it would have found.

    Returns how many are in the window (where that is more than ``old``, perhaps ``old + 1``), how many it read, and
    whether it stopped before the end.
    """
    scratch, key = work.scratch, items.keys[items.key_starts[item.position] + j]
    last = len(scratch.kept) - 1  # of walks that keep nothing
    row = KEPT_WAYS * j + np.int64(key % np.uint64(KEPT_WAYS)) if j < KEPT_KEYS and top == NONE else last
    way = scratch.kept[row]
    if 0 <= way[_FROM] <= posting and way[_CHANGED] == work.journal.counts[CHANGES]:
        read, is_cut = join_kept(store, way, item, posting, old, further, options, work)
        if read > 0:
            count = oldest_kept(store, limits, way, item, old, options, work)
            if count > old:
                way[_FROM], way[_READ] = posting, read
                return count, read, is_cut
    way[_FROM], way[_CHANGED] = posting if row != last else NONE, work.journal.counts[CHANGES]
    read, passed, is_cut = np.int64(0), np.int64(0), False
    newer = NONE
    while posting != NONE:
        slot = slot_of(store, posting, options.base)
        following = older(store, posting, item.live)
        hidden = is_hidden(store, slot, posting, top, options.base)
        if hidden == _UNLINKED and options.add and newer != NONE:
            relink(store, newer, following, work.journal)
        newer = newer if hidden == _UNLINKED else posting
        if hidden == _SHOWN:
            if read >= old + further or old == 0:
                is_cut = True
                break
            way[KEPT_HEAD + read % KEPT_OLDEST] = posting
            read += 1
            if in_window(store, limits, slot_index(store, slot), item):
                scratch.oldest[passed % old] = posting
                passed += 1
        posting = following
    way[_READ], way[_STORED], way[_COUNTED] = read, read, min(read, KEPT_OLDEST)
    return passed, read, is_cut


@inner
def join_kept(store, way, item, posting, old, further, options, work):
    """Read on to where the walk before began, and go on behind what it has read; keep what is read there. Returns how
    many postings this read, 0 if that walk is of no use; and whether it stopped before the end."""
    read, newer = np.int64(0), NONE
    while posting != way[_FROM]:
        if posting < way[_FROM] or read == _NEWER_MAX:
            return np.int64(0), False
        following = older(store, posting, item.live)
        hidden = is_hidden(store, slot_of(store, posting, options.base), posting, NONE, options.base)
        if hidden == _UNLINKED and options.add and newer != NONE:
            relink(store, newer, following, work.journal)
        newer = newer if hidden == _UNLINKED else posting
        read += hidden == _SHOWN
        posting = following
    stored, end = way[_STORED], way[_STORED] - way[_COUNTED]
    while stored > end and way[KEPT_HEAD + (stored - 1) % KEPT_OLDEST] < item.live:
        stored -= 1
    known = way[_READ] - (way[_STORED] - stored)
    left_out = max(known + read - old - further, 0)
    stored, read = stored - left_out, read + known - left_out
    if stored <= end:
        return np.int64(0), False
    is_cut = left_out > 0
    posting = older(store, way[KEPT_HEAD + (stored - 1) % KEPT_OLDEST], item.live)
    while posting != NONE and not is_cut:
        if is_hidden(store, slot_of(store, posting, options.base), posting, NONE, options.base) == _SHOWN:
            is_cut = read >= old + further
            if not is_cut:
                way[KEPT_HEAD + stored % KEPT_OLDEST] = posting
                stored, read = stored + 1, read + 1
        posting = older(store, posting, item.live)
    way[_STORED], way[_COUNTED] = stored, min(stored - end, KEPT_OLDEST)
    return read, is_cut


@inner
def oldest_kept(store, limits, way, item, old, options, work):
    """Leave the ``old`` oldest kept postings in the window of an item in ``oldest``, as ``find_oldest`` does; return
    how many there are, ``old + 1`` at most."""
    count, at = np.int64(0), way[_STORED]
    while count <= old and at > way[_STORED] - way[_COUNTED]:
        at -= 1
        posting = way[KEPT_HEAD + at % KEPT_OLDEST]
        if in_window(store, limits, slot_index(store, slot_of(store, posting, options.base)), item):
            if count < old:
                work.scratch.oldest[(old - count) % old] = posting
            count += 1
    return count


@inlined
def consider(store, limits, items, item, j, posting, slot, options, work):
    """Note the slot of a posting of bucket ``j`` as a candidate, unless the probe has met it or its payload rules it
    out."""
    index = slot_index(store, slot)
    epoch = options.epoch + np.uint32(item.position)
    if store.seen[index] == epoch or not is_admitted(store, limits, items, item, j, posting):
        return
    store.seen[index] = epoch
    candidate = partner(store, limits, slot, items, item, options.base)
    if candidate != NONE:
        note(work.found, item.position, candidate, False)


@inner
def count_uncompared(store, limits, items, item, top, options, work, begun):
    """Count the documents in the buckets of an item from where its walk within limits has stopped (``current``), as it
    would have noted them; write the number to its first candidate, at ``begun``.

    Items of a flood read the same rests of buckets. So a rest is kept, and read there by the next items: what it holds
    stays in the bucket, or is superseded. They come to its beginning through what was added since. Superseded postings
    do not count: which of them are still linked depends on the walks before, and a restored table had none.
    """
    epoch, cuts = options.epoch + np.uint32(item.position), store.state[CUTS]
    count, shown = 0, UNCOMPARED_READ
    for j in range(KEYS, min(item.keys, KEYS + limits.pair_keys)):
        posting, row_end, before = work.scratch.current[j], min(shown, UNCOMPARED_LAST) - UNCOMPARED_ROW, count
        rest = work.scratch.rests[j % len(work.scratch.rests)]
        undone, at, newer = work.journal.counts[UNDONE], NONE, NONE
        if posting == NONE or count >= UNCOMPARED_MAX or shown <= 0:
            continue
        if rest[_USES] == _USES_MAX or rest[_UNDONE] != undone or not 0 < rest[_FIRST] <= posting:
            rest[_FIRST], rest[_KEPT], rest[_USES], rest[_UNDONE] = posting, 0, 0, undone
        rest[_USES] += 1
        while posting != NONE and count < UNCOMPARED_MAX and shown > 0:
            if shown == row_end:
                if 16 * (count - before) < UNCOMPARED_ROW:
                    shown //= 2  # the next buckets may be of the same documents
                    break
                row_end, before = shown - UNCOMPARED_ROW, count
            if posting <= rest[_FIRST] and at == NONE:
                at = np.int64(0 if posting == rest[_FIRST] else REST_MAX)
                rest[_USES] = rest[_USES] if at == 0 else _USES_MAX  # it is of another bucket
            if 0 <= at < rest[_KEPT]:
                slot = rest[REST_HEAD + 2 * at + 1]
            else:
                slot = slot_of(store, posting, options.base)
                if at == rest[_KEPT] < REST_MAX:
                    rest[REST_HEAD + 2 * at], rest[REST_HEAD + 2 * at + 1] = posting, slot
                    rest[_KEPT] += 1
            index, hidden = slot_index(store, slot), is_hidden(store, slot, posting, top, options.base)
            if not hidden:
                shown -= 1
                if store.seen[index] != epoch and is_admitted(store, limits, items, item, j, posting):
                    store.seen[index] = epoch
                    count += partner(store, limits, slot, items, item, options.base) != NONE
            at += at != NONE
            if 0 <= at < rest[_KEPT]:
                following = rest[REST_HEAD + 2 * at]
                following = following if following >= item.live else NONE
            else:
                following = older(store, posting, item.live)
                if hidden == _UNLINKED and options.add and newer != NONE:
                    relink(store, newer, following, work.journal)
            newer = newer if hidden == _UNLINKED else posting
            posting = following
    store.state[CUTS] = cuts
    store.state[UNCOMPARED] += count
    if work.found.length[0] > begun:
        work.found.left[begun] = count


@inner
def walk_counted(store, limits, items, item, top, options, work):
    """Probe every bucket of an item, a round after the other; leave in ``targets`` what the new posting will link to.

    ``top`` is a copy that the item supersedes and that may not pair with it: the walk skips it like superseded slots.
    """
    base, journal, found, scratch = options.base, work.journal, work.found, work.scratch
    begun = found.length[0]
    epoch = options.epoch + np.uint32(item.position)
    chains, current, newer = scratch.chains, scratch.current, scratch.newer
    count = 0
    for j in range(KEYS, item.keys):
        posting = scratch.targets[j]
        scratch.targets[j] = newer[j] = NONE
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
            index = slot_index(store, slot)
            hidden = store.flags[index] & SUPERSEDED or slot == top
            if hidden and posting - first_posting(store, slot, base) >= KEYS:
                if options.add and newer[j] != NONE:
                    relink(store, newer[j], following, journal)
                continue
            if newer[j] == NONE:
                scratch.targets[j] = posting
            newer[j] = posting
            if not hidden:  # a hidden posting here belongs to a content or an id whose key shares the chain
                count_common(store, limits, items, item, j, posting, slot, index, epoch, found)
        count = left
    keep_candidates(store, limits, items, item, base, found, begun)
    store.state[CANDIDATES] += found.length[0] - begun


@inlined
def fetch(store, posting):
    """Prefetch what a visit of a posting reads."""
    at = posting_index(store, posting)
    prefetch(store.links, at)
    prefetch(store.payloads, at)
    prefetch(store.groups, at >> GROUP_BITS)


@inlined
def unlink(store, limits, item, top, base, work):
    """Unlink the postings of slot ``top`` from the buckets of ``item``, a copy of the slot that walks no bucket.

    The search passes all newer postings of a bucket, up to as many as a probe would visit.
    """
    journal, scratch = work.journal, work.scratch
    first, end = first_posting(store, top, base) + KEYS, first_posting(store, top + 1, base)
    for j in range(KEYS, item.added):
        newer, posting = NONE, scratch.targets[j]
        for _ in range(limits.bucket_candidates):
            if posting < end:  # found, or not in this bucket
                break
            newer = posting
            posting = older(store, posting, item.live)
        if first <= posting < end:
            following = older(store, posting, item.live)
            if newer == NONE:
                scratch.targets[j] = following
            else:
                relink(store, newer, following, journal)
