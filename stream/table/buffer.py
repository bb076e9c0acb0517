"""The buffer of candidates, as kernels: note a candidate, count the keys that it shares, drop it if they are too few.

``store.noted`` has the place in the buffer of each slot that the current probe has seen. It is read only for slots
whose mark in ``store.seen`` is that of the current probe, so it needs no cleaning.
"""

from __future__ import annotations

import numpy as np

from stream.kernels.compile import inlined
from stream.table.heads import NONE

_NOT_NOTED = np.uint32(0xFFFFFFFF)


@inlined
def note(found, i, slot, identical):
    """Note one candidate; ``run`` has made room."""
    n = found.length[0]
    found.items[n] = np.int32(i)
    found.slots[n] = slot
    found.identical[n] = identical
    found.length[0] = n + 1


@inlined
def expect(store, found, place, candidate, least):
    """Prepare to count for the slot at ``place``, whose ``candidate`` (``NONE``: no candidate) is noted next.

    ``least``: the number of common keys that it needs; the first one is found already.
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
    """Drop the candidates from ``begun`` on that miss common keys."""
    kept = begun
    for n in range(begun, found.length[0]):
        if found.missing[n] <= 0:
            found.slots[kept] = found.slots[n]
            kept += 1
    found.length[0] = kept
