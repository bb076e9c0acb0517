"""An index of a sample of sets: how many elements each document of a stream has in common with each of them.

Every element of the sample leads to the sets that have it, so one pass over the stream finds all neighbours of the
sample exactly. A document takes time in proportion to the sets that share an element with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import raw_kernel
from neardup.machine.kernels.hashing import GOLDEN

Elements = npt.NDArray[np.uint64]
Longs = npt.NDArray[np.int64]

# Hits that a call of the kernel can hold, besides those of one document.
_HITS = 1 << 16
_SHIFT = 64


class Hits(NamedTuple):
    """m hits: document, set of the sample, and how many elements they have in common (``int64[m]`` each)."""

    documents: Longs
    sampled: Longs
    common: Longs


class _Postings(NamedTuple):
    """``slots`` is a hash table of the elements: one more than the number of the element, 0 for none. The sets that
    have element n are ``sets[starts[n]:starts[n + 1]]``."""

    slots: npt.NDArray[np.uint32]
    shift: np.uint64
    elements: Elements
    starts: Longs
    sets: npt.NDArray[np.uint32]


class SampleIndex:
    """Sets to compare a stream with.

    Args:
        values, starts: set i is ``values[starts[i]:starts[i + 1]]``, without repetitions.
    """

    def __init__(self, values: Elements, starts: Longs) -> None:
        self.sizes = np.diff(starts)
        owners = np.repeat(np.arange(len(self.sizes), dtype=np.uint32), self.sizes)
        order = np.argsort(values, kind="stable")
        elements, firsts = np.unique(values[order], return_index=True)
        bits = max(1, (2 * len(elements)).bit_length())
        self._postings = _Postings(
            np.zeros(1 << bits, np.uint32), np.uint64(_SHIFT - bits), elements, np.append(firsts, len(values)),
            owners[order],
        )  # fmt: skip
        _fill(self._postings)
        self._counts = np.zeros(len(self.sizes), np.int64)
        self._touched = np.empty(len(self.sizes), np.int64)

    def hits(self, values: Elements, starts: Longs, least: float) -> Hits:
        """Return the documents and sampled sets that have at least a fraction of the smaller one's elements in common.

        Args:
            values, starts: documents as sets, in the same form.
            least: the fraction, above 0. A pair with a lower one has no measure of sets that reaches it.
        """
        parts: list[npt.NDArray[np.int64]] = [np.empty((3, 0), np.int64)]
        at, count = 0, len(starts) - 1
        while at < count:
            out = np.empty((3, _HITS + len(self.sizes)), np.int64)
            at, found = _count(self._postings, self.sizes, values, starts, at, least, self._counts, self._touched, out)
            parts.append(out[:, :found])
        documents, sampled, common = np.concatenate(parts, axis=1)
        return Hits(documents, sampled, common)


@raw_kernel
def _fill(postings):
    mask = len(postings.slots) - 1
    for n in range(len(postings.elements)):
        at = np.int64((postings.elements[n] * GOLDEN) >> postings.shift)
        while postings.slots[at] != 0:
            at = (at + 1) & mask
        postings.slots[at] = np.uint32(n + 1)


@raw_kernel
def _count(postings, sizes, values, starts, first, least, counts, touched, out):
    """Count the common elements of documents from ``first`` on; return the next document and the number of hits."""
    mask, found = len(postings.slots) - 1, 0
    for i in range(first, len(starts) - 1):
        if found + len(sizes) > out.shape[1]:
            return i, found
        met = 0
        for j in range(starts[i], starts[i + 1]):
            at = np.int64((values[j] * GOLDEN) >> postings.shift)
            while postings.slots[at] != 0 and postings.elements[postings.slots[at] - 1] != values[j]:
                at = (at + 1) & mask
            if postings.slots[at] == 0:
                continue
            n = np.int64(postings.slots[at]) - 1
            for k in range(postings.starts[n], postings.starts[n + 1]):
                owner = postings.sets[k]
                if counts[owner] == 0:
                    touched[met] = owner
                    met += 1
                counts[owner] += 1
        for k in range(met):
            owner = touched[k]
            if counts[owner] >= least * min(sizes[owner], starts[i + 1] - starts[i]):
                out[0, found], out[1, found], out[2, found] = i, owner, counts[owner]
                found += 1
            counts[owner] = 0
    return len(starts) - 1, found
