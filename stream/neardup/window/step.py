"""One step of a band table over a batch, as kernels: expire, probe, then add; and ``undo``.

The order inside ``step_on`` defines the stream's meaning, so it fits on one screen. For each item: check the room (to
let an array grow, return before it changes anything), advance time, look up the content, walk the buckets, append. A
removal is a row between items, so what is before it and what is after it do not depend on batches.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.lanes import copy_range
from neardup.window.chains import (
    BARE,
    BUDGET_REACHED,
    BYTE_PAGE_BITS,
    CANDIDATES_FULL,
    CHANGES,
    CONTENT,
    COPIED,
    DERIVED,
    FINISHED,
    FLAGS,
    FOREIGN,
    HEADS,
    HEADS_FULL,
    ID,
    JOURNAL_FULL,
    KEYS,
    LINKS,
    MARK,
    NO_ROOM,
    NO_TIME,
    NO_WINDOW,
    REMOVAL,
    REMOVED,
    SUPERSEDED,
    UNDONE,
    UNTIMED,
    Incoming,
    byte_index,
    eligible_copy,
    event_time,
    first_posting,
    link_at,
    note,
    older,
    posting_index,
    put_link,
    same_id,
    slot_index,
    slot_of,
)
from neardup.window.counters import (
    BYTE_END,
    COPIES,
    CUTS,
    EVICTED,
    EXPIRED,
    FIRST_TIME,
    ITEMS,
    LATE,
    LIVE_BYTES,
    OLDEST,
    POSTING_END,
    REMOVALS,
    SLOT_END,
    STREAM_BYTES,
    STREAM_ITEMS,
    STREAM_TIME,
    TRUNCATED,
    VERSIONS,
)
from neardup.window.heads import NONE, locate, make_room, put_at, warm
from neardup.window.views import bytes_of, items_at, lacks_room, options_of, table_at
from neardup.window.walks import probe, unlink

_LOW32 = np.uint64(0xFFFFFFFF)
# How many items ahead the heads are prefetched: two items take about as long as a read from memory.
AHEAD = 2


@kernel("i64, i64, i64, bool, bool, i64, i64", direct=True)
def run(table, rows, first, probe, add, candidates_max, settled):
    """``run_at`` for Python."""
    return run_at(table, rows, first, probe, add, candidates_max, settled)


@inner
def run_at(table, rows, first, probe, add, candidates_max, settled):
    """Process items from ``first`` on, until ``work.found`` holds ``candidates_max`` candidates; the ``Table`` and the
    ``Items`` are at addresses. What changes a step first keeps the state before it, and empties the journal.
    ``StepOptions`` says what the other numbers mean. Returns the next item, why it stopped, the segment of the heads
    that is full (``NONE``: none), how many candidates it found, the oldest slot, and the ends of slots and postings.
    """
    (store, limits, work, before, turn, is_shard), items = table_at(table), items_at(rows)
    if before[SLOT_END] == NONE:
        for i in range(len(store.state)):
            before[i] = store.state[i]
        work.journal.counts[:CHANGES] = 0
    options = options_of(store, turn, len(items.times), probe, add, candidates_max, settled, is_shard)
    at, why, segment = first, NO_ROOM, NONE
    if not lacks_room(store, items, first, options, work.scratch):
        at, why, segment = step_on(store, limits, items, work, first, options.base, options)
    state = store.state
    return at, why, segment, work.found.length[0], state[OLDEST], state[SLOT_END], state[POSTING_END]


@inlined
def step_on(store, limits, items, work, first, base, options):
    """Process items from ``first`` on, which have room; returns the first three values of ``run``."""
    heads, state = store.heads, store.state
    journal, found, scratch = work.journal, work.found, work.scratch
    for i in range(first, min(first + AHEAD, len(items.times))):
        warm(heads, items.keys[items.key_starts[i] : items.key_starts[i + 1]])
    for i in range(first, len(items.times)):
        if found.length[0] >= options.candidates_max:
            return i, BUDGET_REACHED, NONE
        keys, kind = items.keys[items.key_starts[i] : items.key_starts[i + 1]], items.kinds[i]
        if kind == REMOVAL:
            if not remove(store, items, i, base, journal):
                return i, JOURNAL_FULL, NONE
            continue
        is_own, added = not kind & FOREIGN, items.added[i]
        if i + AHEAD < len(items.times):
            warm(heads, items.keys[items.key_starts[i + AHEAD] : items.key_starts[i + AHEAD + 1]])
        if options.add:
            if is_own or state[OLDEST] < options.settled:
                segment = make_room(heads, keys[:added], base, state[POSTING_END])
                if segment != NONE:
                    return i, HEADS_FULL, segment
            has_flags = journal.counts[FLAGS] < len(journal.flag_slots)
            if not has_flags or journal.counts[HEADS] + added > len(journal.head_keys):
                return i, JOURNAL_FULL, NONE
        if options.probe:
            live_slots = state[SLOT_END] - state[OLDEST]
            most = min(len(keys) * min(limits.bucket_candidates, live_slots), live_slots, limits.probe_candidates) + 1
            if found.length[0] + most > len(found.slots):
                return i, CANDIDATES_FULL, NONE
        time = items.times[i]
        if options.add:
            pass_time(store, limits, time, bytes_of(items, i), is_own)
        untimed, live = time == NO_TIME, first_posting(store, state[OLDEST], base)
        time = state[STREAM_TIME] if untimed else time
        for j in range(len(keys)):
            scratch.heads[j], scratch.indices[j] = locate(heads, keys[j], base, state[POSTING_END])
            scratch.targets[j] = scratch.heads[j] if scratch.heads[j] >= live else NONE
        item = Incoming(i, len(keys), added, time, untimed, live, scratch.targets[ID] != NONE)
        top = find_content(store, limits, items, item, scratch.targets[CONTENT], base)
        walked = look_up(store, limits, items, item, top, kind, options, work)
        if options.add and (is_own or hides_held(store, top, options)):
            state[VERSIONS] += is_own and has_version(store, items, item, scratch.targets[ID], base)
            if top != NONE and not walked:
                unlink(store, limits, item, top, base, work)
            flags = BARE if kind & DERIVED else np.uint8(0)
            append(store, items, item, flags if is_own else MARK, base, work)
            if top != NONE:
                set_flag(store, top, SUPERSEDED, journal)
        if options.add:
            state[STREAM_ITEMS] += 1
            state[STREAM_BYTES] += bytes_of(items, i)
    return len(items.times), FINISHED, NONE


@inlined
def look_up(store, limits, items, item, top, kind, options, work):
    """Note the candidates of an item: its newest eligible copy, or else what its buckets hold.

    A mark is no candidate. Returns whether the buckets were walked.
    """
    if not options.probe:
        return False
    state, found = store.state, work.found
    cuts, copy = state[CUTS], NONE
    if top != NONE:
        copy = eligible_copy(store, limits, top, items, item, options.base)
    if copy != NONE and not store.flags[slot_index(store, copy)] & MARK:
        note(found, item.position, copy, True)
        state[COPIES] += 1
    walked = (copy == NONE and not kind & COPIED) or limits.ranking
    if walked:
        probe(store, limits, items, item, top, options, work)
    state[TRUNCATED] += not kind & FOREIGN and state[CUTS] > cuts
    return walked


@inlined
def drop_oldest(store):
    """Drop the oldest live slot, with its bytes; returns whether it held an item."""
    state = store.state
    index = slot_index(store, state[OLDEST])
    state[LIVE_BYTES] -= np.int64(store.id_lengths[index])
    if len(store.ragged_lengths):
        state[LIVE_BYTES] -= np.int64(store.ragged_lengths[index])
    state[OLDEST] += 1
    return not store.flags[index] & MARK


@inlined
def exceeds(store, limits, size):
    """Return whether the window and one more item of ``size`` bytes exceed the limits of items or bytes.

    For a shard, these are the items and the bytes of the stream since its oldest slot.
    """
    state = store.state
    if len(store.before):
        at = store.before[slot_index(store, state[OLDEST])]
        return state[STREAM_ITEMS] - at[0] >= limits.items or state[STREAM_BYTES] - at[1] + size > limits.bytes
    return state[SLOT_END] - state[OLDEST] >= limits.items or state[LIVE_BYTES] + size > limits.bytes


@inlined
def expire(store, limits):
    """Expire the oldest items whose time has left the window."""
    state = store.state
    if limits.window != NO_WINDOW and state[STREAM_TIME] != NO_TIME:
        horizon = state[STREAM_TIME] - limits.window - limits.lateness
        while state[OLDEST] < state[SLOT_END]:
            if event_time(store, store.times[slot_index(store, state[OLDEST])]) >= horizon:
                break
            state[EXPIRED] += drop_oldest(store)


@inlined
def pass_time(store, limits, time, size, is_own):
    """Advance stream time by one item of ``size`` bytes; expire what has left the window, and make room within the
    limits of items and bytes.

    Only bytes of items count, not the gaps between them: a table that is restored from the middle of a log has other
    gaps, and evicts the same items.
    """
    state = store.state
    state[ITEMS] += is_own
    if time != NO_TIME:
        if state[STREAM_TIME] == NO_TIME:
            state[FIRST_TIME] = time
            state[STREAM_TIME] = time
        elif time > state[STREAM_TIME]:
            state[STREAM_TIME] = time
        elif limits.window != NO_WINDOW and time < state[STREAM_TIME] - limits.lateness:
            state[LATE] += is_own
    expire(store, limits)
    while state[OLDEST] < state[SLOT_END] and exceeds(store, limits, size):
        state[EVICTED] += drop_oldest(store)


@inlined
def has_version(store, items, item, posting, base):
    """Return whether the window holds a version of the id of ``item``, removed or not, in the chain of ``posting``."""
    while posting != NONE:
        if same_id(store, slot_index(store, slot_of(store, posting, base)), items, item.position):
            return True
        posting = older(store, posting, item.live)
    return False


@inlined
def find_content(store, limits, items, item, posting, base):
    """Return the newest slot with the content of ``item``, removed or not, or ``NONE``."""
    if not limits.by_content:
        return NONE
    while posting != NONE:
        slot = slot_of(store, posting, base)
        if store.contents[slot_index(store, slot)] == items.contents[item.position]:
            return slot
        posting = older(store, posting, item.live)  # another content with the same key
    return NONE


@inlined
def hides_held(store, top, options):
    """Whether the item of another shard takes the place of ``top``, its newest copy here, in the buckets: the content
    was of this shard before the number of shards grew, and ``top`` is in the buckets."""
    if top == NONE or store.state[OLDEST] >= options.settled:
        return False
    return first_posting(store, top + 1, options.base) - first_posting(store, top, options.base) > KEYS


@inlined
def append(store, items, item, flags, base, work):
    """Give an item, or a mark of it, the next slot, and make its postings the heads of their buckets."""
    state, journal, scratch = store.state, work.journal, work.scratch
    slot, start, first = state[SLOT_END], state[POSTING_END], items.key_starts[item.position]
    end = start + item.added
    index = slot_index(store, slot)
    store.times[index] = item.time
    store.starts[index] = np.uint32(start & 0xFFFFFFFF)
    store.contents[index] = items.contents[item.position]
    store.flags[index] = flags | UNTIMED if item.untimed else flags
    if len(store.before):
        store.before[index, 0], store.before[index, 1] = state[STREAM_ITEMS], state[STREAM_BYTES]
    append_bytes(store, index, items, item.position, flags)
    for j in range(item.added):
        key, posting = items.keys[first + j], start + j
        before, to, target = scratch.heads[j], scratch.indices[j], scratch.targets[j]
        if j > 0 and (store.heads.entries[to] - np.uint64(start)) & _LOW32 < np.uint64(j):
            # An earlier key of the same item has used the entry, or added to the bucket.
            before, to = locate(store.heads, key, base, end)
            if before >= start:
                # The earlier posting stays in the chain if it is the content or the id; else this one replaces it.
                target = before if before < start + KEYS else older(store, before, base)
        put_link(store, posting, slot, target)
        if len(items.payloads):
            store.payloads[posting_index(store, posting)] = items.payloads[first + j]
        n = journal.counts[HEADS]
        journal.head_keys[n] = key
        journal.head_postings[n] = before
        journal.counts[HEADS] = n + 1
        put_at(store.heads, key, to, posting, base)
    state[SLOT_END], state[POSTING_END] = slot + 1, end


@inlined
def append_bytes(store, index, items, i, flags):
    """Store the bytes of an id within one page, and after it the evidence, which a mark lacks."""
    first, end = items.id_starts[i], items.id_starts[i + 1]
    at = store.state[BYTE_END]
    mask = (1 << BYTE_PAGE_BITS) - 1
    if (at & mask) + (end - first) > mask + 1:
        at = (at | mask) + 1
    store.id_starts[index] = at
    store.id_lengths[index] = np.uint16(end - first)
    if end > first:
        to = byte_index(store, at)
        for j in range(end - first):
            store.bytes[to + j] = items.ids[first + j]
    at += end - first
    store.state[LIVE_BYTES] += end - first
    if not flags & (MARK | BARE):
        at = put_bytes(store, at, items.fixed[i], 0, items.fixed.shape[1])
    if len(store.ragged_lengths):
        first, end = items.ragged_starts[i], items.ragged_starts[i + 1]
        if flags & MARK:
            end = first
        store.ragged_lengths[index] = np.uint32(end - first)
        store.state[LIVE_BYTES] += end - first
        at = put_bytes(store, at, items.ragged, first, end)
    store.state[BYTE_END] = at


@inlined
def put_bytes(store, at, data, first, end):
    """Copy ``data[first:end]`` to the bytes from number ``at`` on, over pages; returns the number behind them."""
    while first < end:
        part = min(end - first, (1 << BYTE_PAGE_BITS) - (at & ((1 << BYTE_PAGE_BITS) - 1)))
        copy_range(data, first, store.bytes, byte_index(store, at), part)
        first += part
        at += part
    return at


@inlined
def set_flag(store, slot, flag, journal):
    """Set a flag of an older slot; ``run`` has made sure that the journal has room."""
    n = journal.counts[FLAGS]
    index = slot_index(store, slot)
    journal.flag_slots[n] = slot
    journal.flag_values[n] = store.flags[index]
    journal.counts[FLAGS], journal.counts[CHANGES] = n + 1, journal.counts[CHANGES] + 1
    store.flags[index] |= flag


@inlined
def remove(store, items, i, base, journal):
    """Flag every live version of the id of row ``i`` as removed; false if the journal fills up before the last.

    Slots that are flagged then stay flagged; the journal holds them.
    """
    live = first_posting(store, store.state[OLDEST], base)
    posting, _ = locate(store.heads, items.keys[items.key_starts[i] + ID], base, store.state[POSTING_END])
    while posting != NONE and posting >= live:
        slot = slot_of(store, posting, base)
        index = slot_index(store, slot)
        if same_id(store, index, items, i) and not store.flags[index] & REMOVED:
            if journal.counts[FLAGS] == len(journal.flag_slots):
                return False
            store.state[REMOVALS] += not store.flags[index] & MARK
            set_flag(store, slot, REMOVED, journal)
        posting = older(store, posting, live)
    return True


@kernel("Store, Journal, i64")
def undo(store, journal, base):
    """Restore the values in the journal, newest first; the caller then restores the state."""
    for n in range(journal.counts[HEADS] - 1, -1, -1):
        key = journal.head_keys[n]
        _, to = locate(store.heads, key, base, store.state[POSTING_END])
        put_at(store.heads, key, to, journal.head_postings[n], base)
    for n in range(journal.counts[LINKS] - 1, -1, -1):
        store.links[link_at(store, journal.link_postings[n])] = journal.link_values[n]
    for n in range(journal.counts[FLAGS] - 1, -1, -1):
        store.flags[slot_index(store, journal.flag_slots[n])] = journal.flag_values[n]
    journal.counts[:CHANGES] = 0
    journal.counts[CHANGES], journal.counts[UNDONE] = journal.counts[CHANGES] + 1, journal.counts[UNDONE] + 1
