"""An index of a sample of sets: how many elements each document of a stream has in common with each of them.

One pass over the stream finds all neighbours of the sample exactly. Whatever is similar to a set of n elements has at
least m of them. So of any n - m + j elements of the set it has at least j: the index holds the n - m + j elements
that are rarest in the sample, and a document is compared with a set only if it has j of these. Most elements of a
document lead nowhere, and a bitmap says so. Where sets have keys of which similar ones share one, the index holds the
keys instead.

Source: Mining of Massive Datasets, 3.9.4; Wang, Li, Feng, "Can we beat the prefix filtering?", SIGMOD 2012, for j > 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.tokens.bags import sorted_sets
from neardup.features.tokens.verify import merged
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import GOLDEN

Elements = npt.NDArray[np.uint64]
Longs = npt.NDArray[np.int64]

# Candidates that a call of the kernel can hold, besides those of one document.
_HITS = 1 << 16
_SHIFT = 64
# j by the elements that a similar document may lack: more wait in the index, and fewer documents are compared.
_MORE = 0.1
# Bits of the bitmap for each element of the index, at least: one in sixteen other elements passes.
_BITS = 16
# Elements that so many sets of the sample have are equally common.
_COMMON = 256
# What is lost by rounding in a product of a fraction and a size.
_ROUNDING = 1e-6


class _Postings(NamedTuple):
    """Entries of an element and a set: those of slot s begin at ``heads[s] - 1``, and ``nexts`` leads on in the same
    way; 0 ends them. ``bitmap`` has a bit for each element."""

    bitmap: Elements
    bitmap_shift: np.uint64
    heads: npt.NDArray[np.uint32]
    shift: np.uint64
    elements: Elements
    sets: npt.NDArray[np.uint32]
    nexts: npt.NDArray[np.uint32]


class SampleIndex:
    """Sets to compare a stream with.

    Args:
        values, starts: set i is ``values[starts[i]:starts[i + 1]]``, ascending and without repetitions.
        share: the fraction of a set's elements that every similar document has at least
            (``SetMeasure.share_min``); 0 if it may have any.
        keys: ``uint64[n, b]``, keys of each set, of which every similar document has one at least; ``None``: elements
            are looked up.
    """

    def __init__(self, values: Elements, starts: Longs, share: float, keys: Elements | None = None) -> None:
        self.sizes = np.diff(starts)
        self._values, self._starts, self._share = values, starts, share
        shared = np.ceil(share * self.sizes - _ROUNDING).astype(np.int64)
        lacking = self.sizes - np.maximum(shared, 1)
        self._needed = np.minimum(1 + (_MORE * lacking).astype(np.int64), np.maximum(shared, 1))
        held = np.minimum(lacking + self._needed, self.sizes)
        self._by_keys = keys is not None
        if keys is not None:
            self._needed, held = np.ones_like(held), np.full_like(held, keys.shape[1])
        owners = np.repeat(np.arange(len(self.sizes), dtype=np.uint32), held)
        bits, bitmap_bits = _bits(len(owners)), _bits(_BITS * len(owners))
        self._postings = _Postings(
            np.zeros((1 << bitmap_bits >> 6) + 1, np.uint64), np.uint64(_SHIFT - bitmap_bits),
            np.zeros(1 << bits, np.uint32), np.uint64(_SHIFT - bits),
            np.empty(len(owners), np.uint64), owners, np.empty(len(owners), np.uint32),
        )  # fmt: skip
        if keys is None:
            times = np.zeros(1 << _bits(len(values)), np.uint32)
            shift, of_times = np.uint64(_SHIFT - _bits(len(values))), np.zeros(_COMMON, np.int64)
            _choose(values, starts, held, times, shift, of_times, self._postings.elements)
        else:
            self._postings.elements[:] = keys.reshape(-1)
        _fill(self._postings)
        self._counts = np.zeros(len(self.sizes), np.int64)
        self._touched = np.empty(len(self.sizes), np.int64)

    def candidates(self, values: Elements, starts: Longs, least: float) -> tuple[Longs, Longs]:
        """Return the documents and sampled sets that can be similar: two columns of m pairs, documents ascending.

        Documents have keys where the sets have some; otherwise they are elements in any order, repetitions included.
        ``least`` is the fraction of the smaller one's elements that similar sets have in common, above 0, where
        ``share`` is 0.
        """
        if not self._share and not self._by_keys:
            values, starts = sorted_sets(values, starts)
        values, met = np.ascontiguousarray(values), [np.empty((2, 0), np.int64)]
        at, count = 0, len(starts) - 1
        while at < count:
            out = np.empty((2, _HITS + len(self.sizes)), np.int64)
            at, found = _meet(
                self._postings, self._needed, self.sizes, values, starts, at,
                0.0 if self._share or self._by_keys else least, self._counts, self._touched, out,
            )  # fmt: skip
            met.append(out[:, :found])
        documents, sampled = np.concatenate(met, axis=1)
        return documents, sampled

    def common(self, documents: Longs, sampled: Longs, values: Elements, starts: Longs) -> tuple[Longs, Longs]:
        """Return how many elements m pairs of rows have in common, and how many the document has (``int64[m]`` each).
        Documents are elements in any order, repetitions included."""
        values, starts = sorted_sets(values, starts)
        out = np.empty(len(documents), np.int64)
        _common(self._values, self._starts, sampled, values, starts, documents, out)
        return out, np.diff(starts)[documents]


def _bits(count: int) -> int:
    """Bits of the number of slots for so many entries."""
    return max(6, count.bit_length())


@inlined
def _times_of(times, shift, element):
    return min(np.int64(times[np.int64((element * GOLDEN) >> shift)]), _COMMON - 1)


@kernel("u64[], i64[], i64[], u32[], u64, i64[], u64[]")
def _choose(values, starts, held, times, shift, of_times, chosen):
    """Write the rarest elements of each set, ``held`` of them; ``times`` counts elements by their hash. ``of_times`` is
    scratch."""
    for n in range(len(values)):
        times[np.int64((values[n] * GOLDEN) >> shift)] += 1
    out = 0
    for i in range(len(starts) - 1):
        of_times[:] = 0
        for n in range(starts[i], starts[i + 1]):
            of_times[_times_of(times, shift, values[n])] += 1
        greatest, left = 0, held[i]
        while greatest < _COMMON - 1 and of_times[greatest] < left:
            left -= of_times[greatest]
            greatest += 1
        # Elements below the greatest number are all held, and ``left`` of those that have it.
        for n in range(starts[i], starts[i + 1]):
            own = _times_of(times, shift, values[n])
            if own < greatest or (own == greatest and left > 0):
                left -= own == greatest
                chosen[out] = values[n]
                out += 1


@kernel("_Postings")
def _fill(postings):
    for n in range(len(postings.elements)):
        mixed = postings.elements[n] * GOLDEN
        bit = mixed >> postings.bitmap_shift
        postings.bitmap[np.int64(bit >> np.uint64(6))] |= np.uint64(1) << (bit & np.uint64(63))
        slot = np.int64(mixed >> postings.shift)
        postings.nexts[n] = postings.heads[slot]
        postings.heads[slot] = np.uint32(n + 1)


@kernel("_Postings, i64[], i64[], u64[], i64[], i64, f64, i64[], i64[], i64[,]")
def _meet(postings, needed, sizes, values, starts, first, least, counts, touched, out):
    """Find the sets of which documents from ``first`` on have enough elements; return the next document and how many
    pairs were found."""
    found = 0
    for i in range(first, len(starts) - 1):
        if found + len(sizes) > out.shape[1]:
            return i, found
        met = 0
        for j in range(starts[i], starts[i + 1]):
            mixed = values[j] * GOLDEN
            bit = mixed >> postings.bitmap_shift
            if (postings.bitmap[np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))) & np.uint64(1) == np.uint64(0):
                continue
            n = np.int64(postings.heads[np.int64(mixed >> postings.shift)])
            while n != 0:
                if postings.elements[n - 1] == values[j]:
                    owner = np.int64(postings.sets[n - 1])
                    if counts[owner] == 0:
                        touched[met] = owner
                        met += 1
                    counts[owner] += 1
                n = np.int64(postings.nexts[n - 1])
        for k in range(met):
            owner = touched[k]
            if counts[owner] >= max(needed[owner], least * min(sizes[owner], starts[i + 1] - starts[i])):
                out[0, found], out[1, found] = i, owner
                found += 1
            counts[owner] = 0
    return len(starts) - 1, found


@kernel("u64[], i64[], i64[], u64[], i64[], i64[], i64[]")
def _common(values_a, starts_a, rows_a, values_b, starts_b, rows_b, out):
    """Count the common elements of pairs of sets by their rows."""
    for n in range(len(out)):
        a, b = rows_a[n], rows_b[n]
        out[n] = merged(values_a[starts_a[a] : starts_a[a + 1]], values_b[starts_b[b] : starts_b[b + 1]])
