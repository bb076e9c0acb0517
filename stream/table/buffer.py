"""The buffer of candidates, as kernels: note a candidate, count its common keys, drop it if they are too few.

``store.noted`` has the place in the buffer of each slot that the current probe has seen. Kernels read it only for slots
that ``store.seen`` marks with the number of the current probe, so it is never cleared.
"""

from __future__ import annotations

import numpy as np

from stream.kernels.compile import inlined
from stream.table.heads import NONE

_NOT_NOTED = np.uint32(0xFFFFFFFF)


@inlined
def note(found, i, slot, identical):
    """Note one candidate; ``run`` has made sure that there is room."""
    n = found.length[0]
    found.items[n] = np.int32(i)
    found.slots[n] = slot
    found.identical[n] = identical
    found.length[0] = n + 1


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
