"""A set of keys that says of each next item whether an earlier one shares a key with it: no payload, no limit.

It holds 32 bits of a key in an open table at most half full. So two different keys are equal by chance, which adds
items that share nothing, and never hides one that does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import GOLDEN

Keys = npt.NDArray[np.uint32]

_BITS = 16
_HASH_BITS = 64
_KEPT = np.uint64(32)


def short_keys(keys: npt.NDArray[np.uint64]) -> Keys:
    """Return 32 bits of keys that are hashes; 0 is no key."""
    return np.maximum((keys >> _KEPT).astype(np.uint32), np.uint32(1))


class KeySet:
    """The keys of the items that were added.

    Example:
        >>> keys = KeySet()
        >>> keys.meet(np.array([[7, 8], [9, 8], [9, 5]], np.uint32), np.array([True, False, True])).tolist()
        [False, True, False]
    """

    def __init__(self) -> None:
        self._slots, self._count = np.zeros(1 << _BITS, np.uint32), 0

    def meet(self, keys: Keys, adds: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which of n items share a key (``uint32[n, b]``, from ``short_keys``) with an item that was added
        before, and add those of ``adds``, in order."""
        while 2 * (self._count + keys.size) > len(self._slots):
            held = self._slots[self._slots > 0].reshape(-1, 1)
            self._slots = np.zeros(2 * len(self._slots), np.uint32)
            _meet(self._slots, self._shift, held, np.ones(len(held), np.bool_), np.empty(len(held), np.bool_))
        met = np.zeros(len(keys), np.bool_)
        self._count += _meet(self._slots, self._shift, keys, adds, met)
        return met

    @property
    def _shift(self) -> np.uint64:
        return np.uint64(_HASH_BITS + 1 - len(self._slots).bit_length())


@kernel("u32[], u64, u32[,], bool[], bool[]")
def _meet(slots, shift, keys, adds, met):
    """Look up each key of each item; return how many were added."""
    added = 0
    for i in range(len(keys)):
        for j in range(keys.shape[1]):
            key = keys[i, j]
            at = np.int64((np.uint64(key) * GOLDEN) >> shift)
            while slots[at] != 0 and slots[at] != key:
                at = (at + 1) & (len(slots) - 1)
            if slots[at] == key:
                met[i] = True
            elif adds[i]:
                slots[at] = key
                added += 1
    return added
