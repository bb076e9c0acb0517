"""Read items that a band table holds: the newest version of an id, and what the probe of a stored item finds.

A repeated probe reads the buckets as they are now. It does not find items that have left the window since the first
probe. It does not find items with a newer copy, because the copy has replaced them in the buckets.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.window import views
from neardup.window.band_table import BandTable, Candidates
from neardup.window.chains import (
    CONTENT,
    ID,
    NO_LIMIT,
    REMOVED,
    SUPERSEDED,
    UNTIMED,
    Incoming,
    Items,
    StepOptions,
    Work,
    eligible_copy,
    first_posting,
    new_buffer,
    new_journal,
    new_scratch,
    note,
    older,
    same_id,
    slot_index,
    slot_of,
)
from neardup.window.counters import CUTS, EVICTED, LIVE_BYTES, OLDEST, POSTING_END, STREAM_BYTES, STREAM_ITEMS
from neardup.window.heads import NONE, locate
from neardup.window.step import find_content
from neardup.window.views import BASE, next_epoch
from neardup.window.walks import probe

# Items of a stream without one of some shard, at most.
_SPARSE = 1_000


def newest_version(table: BandTable, items: Items) -> int:
    """The slot of the newest version of the one id in ``items``, removed or not; -1 if the window holds none."""
    return int(_newest_version(table.store, items, items.keys[ID], table._base))


def contents(table: BandTable, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The stored half of the content hashes of slots of the window, ``uint64[m]``."""
    return table.store.contents[table._slots.at(slots)]


def counted_times(table: BandTable, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The times of slots of the window in microseconds; an item without a time has the stream time of its arrival."""
    return table.store.times[table._slots.at(slots)]


def removed(table: BandTable, slot: int) -> bool:
    """Whether a slot of the window was removed."""
    return bool(table.store.flags[table._slots.at(np.array([slot]))[0]] & REMOVED)


def is_full(table: BandTable) -> bool:
    """Whether the limits of items or bytes may have evicted: they did, or the window holds half as much. A shard sees
    where the window begins by its own oldest slot, so a window of some hundred items always counts as full."""
    store, limits = table.store, table.limits
    state = store.state
    items, size = table.documents, int(state[LIVE_BYTES])
    if len(store.before) and items:
        items, size = state[[STREAM_ITEMS, STREAM_BYTES]] - store.before[table._slots.at(np.array([table.oldest]))[0]]
    return bool(state[EVICTED] or 2 * items + _SPARSE > limits.items or 2 * size > limits.bytes)


def superseded(table: BandTable, slot: int) -> bool:
    """Whether a newer copy has replaced a slot of the window in its buckets."""
    return bool(table.store.flags[table._slots.at(np.array([slot]))[0]] & SUPERSEDED)


def copies(table: BandTable, items: Items, slot: int) -> npt.NDArray[np.int64]:
    """The slots with the content of the one item, newest first and removed ones included, along the chain of its
    content: those before ``slot``, its own, or all with -1. The table looks copies up by content; an item that is not
    stored has its content key."""
    slots = np.empty(8, np.int64)
    while (count := int(_copies(table.store, items, slot, table._base, slots))) > len(slots):
        slots = np.empty(count, np.int64)
    return slots[:count]


def later_copies(table: BandTable, slot: int, end: int) -> npt.NDArray[np.int64]:
    """The slots between a slot and ``end`` with the same content, newest first.

    Chains lead to older slots only, so this reads all contents between the two.
    """
    slots = np.arange(end - 1, slot, -1)
    is_copy: npt.NDArray[np.bool_] = contents(table, slots) == contents(table, np.array([slot]))[0]
    return slots[is_copy]


def bucket_lengths(table: BandTable, items: int) -> npt.NDArray[np.int64]:
    """The number of postings in each bucket of the newest ``items`` items, ``int64[m]``.

    It counts an item's own posting and older ones: the whole bucket for its newest item. It stops at
    ``bucket_candidates`` of the limits.
    """
    first = max(table.oldest, table.slot_end - items)
    out = np.empty(table.posting_end - int(views.posting_of(table.store, first, table._base)), np.int64)
    count = views.bucket_lengths(table.store, first, table.limits.bucket_candidates, table._base, out)
    return out[:count]


def found_again(table: BandTable, items: Items, slot: int) -> npt.NDArray[np.int64]:
    """The candidates of a stored item, which has id, content and payloads, among the older ones, within the limits of a
    probe, in its order; for a copy, only the slot of the document that it copies. The table has no open step, and does
    not change."""
    store, limits = table.store, table.limits
    keys = len(items.keys)
    before = store.state.copy()
    buffer = new_buffer(min(keys * min(limits.bucket_candidates, table.documents), table.documents) + 1)
    _found_again(store, limits, items, slot, table._turn, Work(new_journal(0), buffer, new_scratch(keys)))
    store.state[:] = before
    return buffer.slots[: buffer.length[0]]


def looked_up(table: BandTable, items: Items) -> Candidates:
    """Probe without a trace: the candidates of n items. No counter changes, also inside a step."""
    state = table.store.state
    before = state.copy()
    candidates = table.probe_add(items, add=False)
    state[:] = before
    return candidates


def cut(table: BandTable, items: Items, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which probes of some items reach a limit, without a trace."""
    state = table.store.state
    before, reach = state.copy(), np.zeros(len(rows), np.bool_)
    for n, row in enumerate(rows.tolist()):  # a table counts over all items of a call
        cuts = int(state[CUTS])
        table.probe_add(_one_item(items, row), add=False)
        reach[n] = state[CUTS] > cuts
    state[:] = before
    return reach


def _one_item(items: Items, n: int) -> Items:
    """Return a probe of item n alone."""
    keys, ids = slice(*items.key_starts[n : n + 2].tolist()), slice(*items.id_starts[n : n + 2].tolist())
    return items._replace(
        kinds=items.kinds[n : n + 1], keys=items.keys[keys], key_starts=items.key_starts[n : n + 2] - keys.start,
        added=items.added[n : n + 1], payloads=items.payloads[keys], contents=items.contents[n : n + 1],
        times=items.times[n : n + 1], ids=items.ids[ids], id_starts=items.id_starts[n : n + 2] - ids.start,
        fixed=items.fixed[n : n + 1],
        ragged=items.ragged[:0], ragged_starts=np.zeros(2, np.int64),
    )  # fmt: skip


@kernel("Store, const Items, u64, i64")
def _newest_version(store, items, key, base):
    live = first_posting(store, store.state[OLDEST], base)
    posting, _ = locate(store.heads, key, base, store.state[POSTING_END])
    while posting != NONE and posting >= live:
        slot = slot_of(store, posting, base)
        if same_id(store, slot_index(store, slot), items, 0):
            return slot
        posting = older(store, posting, live)
    return np.int64(NONE)


@kernel("Store, const Items, i64, i64, i64[]")
def _copies(store, items, slot, base, found):
    """Fill ``found`` as far as it goes; returns how many copies there are."""
    live = first_posting(store, store.state[OLDEST], base)
    if slot < 0:
        posting, _ = locate(store.heads, items.keys[CONTENT], base, store.state[POSTING_END])
    else:
        posting = older(store, first_posting(store, slot, base) + CONTENT, live)
    count = 0
    while posting != NONE and posting >= live:
        copy = slot_of(store, posting, base)
        if store.contents[slot_index(store, copy)] == items.contents[0]:
            if count < len(found):
                found[count] = copy
            count += 1
        posting = older(store, posting, live)
    return count


@kernel("Store, Limits, const Items, i64, i64[], Work")
def _found_again(store, limits, items, slot, turn, work):
    base, index = turn[BASE], slot_index(store, slot)
    options = StepOptions(True, False, np.uint32(next_epoch(store, turn, 1)), base, NO_LIMIT)
    first, end = first_posting(store, slot, base), first_posting(store, slot + 1, base)
    live = first_posting(store, store.state[OLDEST], base)
    untimed = (store.flags[index] & UNTIMED) != 0
    added = end - first
    item = Incoming(0, max(len(items.keys), added), added, store.times[index], untimed, live, True)
    for j in range(added):
        work.scratch.targets[j] = older(store, first + j, live)
    for j in range(added, len(items.keys)):  # keys that it only probed: what came before it in their buckets
        posting, _ = locate(store.heads, items.keys[j], base, store.state[POSTING_END])
        while posting >= first:
            posting = older(store, posting, live)
        work.scratch.targets[j] = posting if posting >= live else NONE
    top = find_content(store, limits, items, item, work.scratch.targets[CONTENT], base)
    copy = NONE
    if top != NONE:
        copy = eligible_copy(store, limits, top, items, item, base)
    if copy != NONE:
        note(work.found, 0, copy, True)
    else:
        probe(store, limits, items, item, top, options, work)
