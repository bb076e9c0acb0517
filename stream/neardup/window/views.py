"""Kernels that read a band table or a batch for it, and change nothing: evidence, lengths of buckets, room."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.lanes import copy_range
from neardup.machine.memory import put, reader_of
from neardup.window.chains import (
    BARE,
    BYTE_PAGE_BITS,
    DERIVED,
    FOREIGN,
    GROUP_BITS,
    KEYS,
    NO_TIME,
    REMOVAL,
    UNTIMED,
    Items,
    StepOptions,
    Store,
    Work,
    byte_index,
    first_posting,
    links_before,
    older,
    slot_index,
)
from neardup.window.counters import BYTE_END, LINK_END, OLDEST, POSTING_END, SLOT_END, Limits
from neardup.window.heads import NONE, PAGE

# The length of an id stands in 16 bits.
ID_BYTES_MAX = (1 << 16) - 1


# The fields of ``Table.turn``: the ends of slots, postings, bytes and links for which there is room; the posting from
# which 32-bit numbers are read; and the number of the next probe.
SLOTS_ROOM, POSTINGS_ROOM, BYTES_ROOM, LINKS_ROOM, BASE, EPOCH = range(6)


class Table(NamedTuple):
    """What ``run`` reads and writes of a table, besides its items; ``before``: its state before the step."""

    store: Store
    limits: Limits
    work: Work
    before: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int64]
    is_shard: bool


table_at, items_at = reader_of(Table), reader_of(Items, const=True)


@kernel("Table, i64", locked=True, direct=True)
def keep_table(table, address):
    """Write a table for ``table_at``."""
    put(table, address)


@kernel("const Items, i64", locked=True, direct=True)
def keep_items(items, address):
    """Write items for ``items_at``."""
    put(items, address)


def slot_arrays(store: Store) -> tuple[npt.NDArray[np.generic], ...]:
    """Return the arrays with an element for each slot."""
    return store.times, store.starts, store.contents, store.id_starts, store.id_lengths, store.flags, store.seen


def used_bytes(store: Store, base: int) -> int:
    """Return the bytes of a window but for ids and evidence."""
    state, has_payloads, (first, _, first_link) = store.state, len(store.payloads) > 0, firsts(store, base)
    per_slot = sum(a.itemsize for a in slot_arrays(store))
    per_slot += 4 * (len(store.ragged_lengths) > 0) + 4 * has_payloads + 16 * (len(store.before) > 0)
    slots = int(state[SLOT_END] - state[OLDEST])
    postings = int(state[POSTING_END]) - first
    links = postings if has_payloads else int(state[LINK_END]) - first_link
    pages = len(store.heads.entries) // PAGE - int(store.heads.free_count[0])
    of_groups = (postings >> GROUP_BITS) * store.groups.itemsize * store.groups.shape[1]
    used: int = slots * per_slot + postings * 8 * has_payloads + of_groups + links * 4 + pages * PAGE * 8
    return used


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


@kernel("Store, i64, i64", locked=True, direct=True)
def posting_of(store, slot, base):
    """``chains.first_posting`` for Python."""
    return first_posting(store, slot, base)


@kernel("Store, i64", locked=True, direct=True)
def firsts(store, base):
    """The numbers of the first posting, the first byte and the first link of the window."""
    end, oldest = store.state[LINK_END], store.state[OLDEST]
    posting = first_posting(store, oldest, base)
    if oldest == store.state[SLOT_END]:
        return posting, store.state[BYTE_END], end
    link, _ = links_before(store, posting)
    return posting, store.id_starts[slot_index(store, oldest)], end - ((end - link) & 0xFFFFFFFF)


@kernel("i64, const i64[], i64, i64[,]", locked=True, direct=True)
def id_bounds(table, rows, offset, out):
    """Fill in where the ids of rows of the ``Table`` at an address begin and end in ``store.bytes``, except for rows
    below 0; the slots of rows are ``offset`` more. Return how many ids there are."""
    store, count = table_at(table).store, 0
    for n in range(len(rows)):
        if rows[n] >= 0:
            put_bounds(store, slot_index(store, rows[n] + offset), out, count)
            count += 1
    return count


@inlined
def put_bounds(store, index, out, n):
    """Fill in where an id begins and ends."""
    out[0, n] = byte_index(store, store.id_starts[index])
    out[1, n] = out[0, n] + np.int64(store.id_lengths[index])


@kernel("Store, const i64[], i64[]", locked=True, direct=True)
def times_of(store, slots, out):
    """Fill in the event time of each slot, ``NO_TIME`` if it has none."""
    for n in range(len(slots)):
        out[n] = time_at(store, slot_index(store, slots[n]))


@inlined
def time_at(store, index):
    """An event time, ``NO_TIME`` for none."""
    return NO_TIME if store.flags[index] & UNTIMED else store.times[index]


@kernel("i64, const i64[], const i32[], const i64[], const i64[], i64[,]", locked=True, direct=True)
def name_pairs(table, slots, items, id_starts, times, out):
    """``put_names`` of pairs of a slot of the ``Table`` at an address and an item of a batch; returns how many items
    have the earlier time."""
    store, turned = table_at(table).store, 0
    for n in range(len(slots)):
        turned += put_names(out, n, store, slots[n], id_starts, times, items[n])
    return turned


@inlined
def put_names(out, n, store, slot, id_starts, times, item):
    """Fill in, of a pair, where both ids begin and end (the slot's in ``store.bytes``), and both event times; return
    whether the item has the earlier time."""
    index = slot_index(store, slot)
    put_bounds(store, index, out, n)
    out[2, n], out[3, n] = id_starts[item], id_starts[item + 1]
    older, newer = time_at(store, index), times[item]
    out[4, n], out[5, n] = older, newer
    return newer < older and newer != NO_TIME and older != NO_TIME


@inlined
def bytes_of(items, i):
    """Return the bytes of an item outside its slot: its id, and the ragged part of its evidence."""
    return items.id_starts[i + 1] - items.id_starts[i] + items.ragged_starts[i + 1] - items.ragged_starts[i]


@kernel("const Items, i64, bool", locked=True, direct=True)
def demand(items, first, hides):
    """``measured`` for Python."""
    return measured(items, first, hides)


@inner
def measured(items, first, hides):
    """Measure what the items from ``first`` on need.

    Returns:
        The most keys of an item, and the least that one adds, 0 if one adds more than it has; the bytes of the longest
        id of an item; how many items are foreign; how many the table may hold, with ``hides`` the foreign ones too, and
        the keys that they add; and room for their bytes.
    """
    longest, shortest, id_longest, foreign = 0, KEYS, 0, 0
    slots, postings, fixed, ragged = 0, 0, 0, 0
    for i in range(first, len(items.kinds)):
        keys, kind, added = items.key_starts[i + 1] - items.key_starts[i], items.kinds[i], items.added[i]
        longest, shortest = max(longest, keys), min(shortest, added if added <= keys else 0)
        foreign += kind & FOREIGN != 0
        is_own = not kind & (FOREIGN | REMOVAL)
        if kind != REMOVAL:
            id_longest = max(id_longest, items.id_starts[i + 1] - items.id_starts[i])
        if kind != REMOVAL if hides else is_own:
            slots += 1
            postings += added
        if is_own:
            fixed += not kind & DERIVED
            ragged += items.ragged_starts[i + 1] - items.ragged_starts[i]
    # An id that does not fit the rest of a page starts the next page; fewer bytes than its length stay unused.
    pages = 1 + ((2 * len(items.ids) + fixed * items.fixed.shape[1] + ragged) >> BYTE_PAGE_BITS)
    return longest, shortest, id_longest, foreign, slots, postings, pages << BYTE_PAGE_BITS


@inner
def lacks_room(store, items, first, options, scratch):
    """Whether the items from ``first`` on are more than the arrays hold, or not as they must be."""
    state = store.state
    longest, shortest, id_longest, foreign, slots, postings, size = measured(
        items, first, state[OLDEST] < options.settled
    )
    if longest > len(scratch.heads) or not options.add:
        return longest > len(scratch.heads)
    lacks = (foreign and not options.is_shard) or state[SLOT_END] + slots > options.slots_end
    lacks |= state[POSTING_END] + postings > options.postings_end
    lacks |= state[BYTE_END] + size > options.bytes_end or state[LINK_END] + postings > options.links_end
    # Arrays that only some schemes need begin with the first slot: foreign items alone take none.
    has_first = len(items.payloads) and not len(store.payloads)
    lacks |= slots > 0 and (has_first or (len(items.ragged) and not len(store.ragged_lengths)))
    return lacks or id_longest > ID_BYTES_MAX or shortest < KEYS


@inlined
def options_of(store, turn, probes, probe, add, candidates_max, settled, is_shard):
    """Return the ``StepOptions`` of a call that makes some probes."""
    return StepOptions(
        probe, add, np.uint32(next_epoch(store, turn, probes)), turn[BASE], candidates_max, settled, is_shard,
        turn[SLOTS_ROOM], turn[POSTINGS_ROOM], turn[BYTES_ROOM], turn[LINKS_ROOM],
    )  # fmt: skip


@inlined
def next_epoch(store, turn, probes):
    """Return the number of the first of some probes, which no probe before has, as long as marks are kept."""
    if turn[EPOCH] + probes >= 1 << 32:
        store.seen[:] = 0
        turn[EPOCH] = 1
    turn[EPOCH] += probes
    return turn[EPOCH] - probes


@inlined
def fixed_at(store, slot, room):
    """Return where the fixed part of the evidence of a slot begins in ``store.bytes``; ``NONE`` if it lies on two pages
    and is in ``room`` now."""
    index, size = slot_index(store, slot), len(room)
    at, mask = store.id_starts[index] + np.int64(store.id_lengths[index]), (1 << BYTE_PAGE_BITS) - 1
    first = byte_index(store, at)
    part = min(size, mask + 1 - (at & mask))
    if part == size:
        return first
    copy_range(store.bytes, first, room, 0, part)
    copy_range(store.bytes, byte_index(store, at + part), room, part, size - part)
    return NONE


@kernel("Store, i64[], i64, i64[], u8[]", direct=True)
def gather_bytes(store, indices, skipped, starts, out):
    """Copy what follows the ids of slots at ``indices`` to ``out[starts[n]:starts[n + 1]]``, ``uint8``: with
    ``skipped`` without the fixed part, which has so many bytes."""
    for n in range(len(indices)):
        read_bytes(store, evidence_at(store, indices[n], skipped), out, starts[n], starts[n + 1])


@inlined
def evidence_at(store, index, skipped):
    """Return the number of the byte behind an id, and behind ``skipped`` bytes of the fixed part where that is
    stored."""
    fixed = np.int64(0) if store.flags[index] & BARE else np.int64(skipped)
    return store.id_starts[index] + np.int64(store.id_lengths[index]) + fixed


@inlined
def read_ragged(store, slot, width, out):
    """Copy the ragged part of the evidence of a slot, behind the fixed part of ``width`` bytes, to ``out`` if it has
    room for it; return its length."""
    index = slot_index(store, slot)
    size = np.int64(store.ragged_lengths[index])
    if size <= len(out):
        read_bytes(store, evidence_at(store, index, width), out, np.int64(0), size)
    return size


@inlined
def read_bytes(store, at, out, first, end):
    """Copy the bytes from number ``at`` on, over pages, to ``out[first:end]``."""
    mask = (1 << BYTE_PAGE_BITS) - 1
    while first < end:
        part = min(end - first, mask + 1 - (at & mask))
        copy_range(store.bytes, byte_index(store, at), out, first, part)
        first += part
        at += part
