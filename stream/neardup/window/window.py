"""The window of a band table: its columns, for another table, and its bound in bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.window import views
from neardup.window.band_table import POSTINGS_MAX, BandTable
from neardup.window.chains import CONTENT, REMOVED, first_posting, older, slot_of
from neardup.window.counters import POSTING_END
from neardup.window.heads import NONE, SEGMENT_BITS, SEGMENTS, entry_at, read_back

_LOW32, _U32 = np.uint64(0xFFFFFFFF), np.uint64(32)
# The positions of segment and tag in the 64 bits of a key.
_SEGMENT_SHIFT, _TAG_SHIFT = np.uint64(64 - SEGMENT_BITS), np.uint64(32 - SEGMENT_BITS)


class Window(NamedTuple):
    """The documents of a window in order of arrival; ``removed`` (``bool[m]``) says which were removed.

    ``slots`` (``int64[m]``). ``contents`` (``uint64[m, 2]``): the first half has only the 41 bits that the table
    compares; its other bits are 0. ``counted_times`` (``int64[m]``, microseconds): a document without a time has the
    stream time of its arrival.
    """

    slots: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    counted_times: npt.NDArray[np.int64]
    removed: npt.NDArray[np.bool_]


def window_of(table: BandTable) -> Window:
    """The window of a table; no step may be open."""
    slots = np.arange(table.oldest, table.slot_end)
    store, base = table.store, table._base
    keys, indices = np.zeros(len(slots), np.uint64), table._slots.at(slots)
    _content_keys(store, table.oldest, base, keys)
    contents = np.stack([keys, store.contents[indices]], axis=1)
    return Window(slots, contents, store.times[indices], (store.flags[indices] & REMOVED) != 0)


def bound(table: BandTable, bytes_max: int, items_max: int) -> None:
    """Let the window of a table without an open step grow up to bytes of memory, but not beyond ``items_max``
    documents; call it after each batch, which may pass the bound until then.

    The documents of the window say what a document takes, so the limit of documents follows from them; the batch after
    the call evicts what is too much. A table numbers its postings, so half of these numbers bound the window too.
    """
    postings = table.posting_end - int(views.posting_of(table.store, table.oldest, table._base))
    part = max(table.memory_bytes()[0] / bytes_max, 2 * postings / POSTINGS_MAX)
    items = items_max if part < 1 else min(items_max, max(1, int(table.documents / part)))
    table.limits = table.limits._replace(items=items)


@kernel("Store, i64, i64, u64[]")
def _content_keys(store, first, base, out):
    """The content keys of the slots from ``first`` on, ``uint64[m]``, each with the 41 bits that the heads store.

    A slot does not store its content key: the chain that holds the slot's first posting has this key.
    """
    heads = store.heads
    live = first_posting(store, first, base)
    for segment in range(SEGMENTS):
        for position in range(heads.sizes[segment]):
            entry = entry_at(heads, segment, position)
            posting = read_back(entry & _LOW32, base)
            if entry == np.uint64(0) or posting < live or posting >= store.state[POSTING_END]:
                continue
            key = (np.uint64(segment) << _SEGMENT_SHIFT) | ((entry >> _U32) << _TAG_SHIFT)
            while posting != NONE:
                slot = slot_of(store, posting, base)
                if posting == first_posting(store, slot, base) + CONTENT:
                    out[slot - first] = key
                posting = older(store, posting, live)
