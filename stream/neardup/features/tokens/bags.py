"""Ragged sets and bags of hashed elements: sorted, without repetitions, or with numbered repetitions.

Hashed elements are spread evenly over 64 (or fewer) bits. So one pass sorts them by their high bits into as many
buckets as there are elements, and insertion sorts each bucket: 7 to 10 ns an element. A comparison sort takes 50. It
sorts only elements that crowd into few buckets.

Numbering makes a bag a set: the second and further copies of x become different elements. The Jaccard similarity of two
such sets is the similarity of the bags, whose union has the greatest multiplicities. So signatures of sets serve bags
too.

Source: Mining of Massive Datasets, 3.1.3; Manku, Jain, Das Sarma, WWW 2007, for documents as weighted features.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.hashing import GOLDEN, mix64

Elements = npt.NDArray[np.uint64]
Starts = npt.NDArray[np.int64]

# If the mean square of bucket sizes reaches this number, insertion takes as long as a comparison sort.
_CROWD = 128


def sorted_bags(values: Elements, starts: Starts) -> Elements:
    """Each bag ``values[starts[i]:starts[i + 1]]`` in ascending order, under the same starts."""
    out = np.empty_like(values)
    _sort(np.ascontiguousarray(values), starts, bucket_counts(lengths_within(starts)[1]), out)
    return out


def sorted_sets(values: Elements, starts: Starts) -> tuple[Elements, Starts]:
    """Each set ``values[starts[i]:starts[i + 1]]`` in ascending order without repetitions: values and starts.

    >>> import numpy as np
    >>> [x.tolist() for x in sorted_sets(np.array([3, 1, 3, 7], np.uint64), np.array([0, 3, 4]))]
    [[1, 3, 7], [0, 2, 3]]
    """
    out, out_starts = sorted_bags(values, starts), np.empty(len(starts), np.int64)
    return out[: _unique(out, starts, out_starts)], out_starts


def numbered(values: Elements, starts: Starts, bits: int) -> Elements:
    """Bags as sets: each bag in ascending order, its repetitions replaced by elements of ``bits`` (32 or 64) of their
    own, under the same starts."""
    out = sorted_bags(values, starts)
    _number(out, starts, np.uint64((1 << bits) - 1))
    return out


def bucket_counts(elements: int) -> npt.NDArray[np.int64]:
    """Scratch for ``sort_bag`` of at most so many elements."""
    return np.empty(1 << max(elements - 1, 1).bit_length(), np.int64)


@kernel("const i64[]", direct=True)
def lengths_within(starts):
    """The least and the greatest length of ranges one after the other, whose starts these are; 0 for none."""
    least, most = np.int64(0), np.int64(0)
    for i in range(len(starts) - 1):
        length = starts[i + 1] - starts[i]
        least, most = length if i == 0 else min(least, length), max(most, length)
    return least, most


@kernel("u64[], i64[], i64[], u64[]")
def _sort(values, starts, counts, out):
    for i in range(len(starts) - 1):
        bag, into = values[starts[i] : starts[i + 1]], out[starts[i] : starts[i + 1]]
        if len(bag):
            sort_bag(bag, counts, into)


@inner
def sort_bag(bag, counts, into):
    """Write a bag that is not empty to ``into`` in ascending order; ``counts`` is of ``bucket_counts``."""
    n = len(bag)
    buckets = 2  # the greatest shift is 63, because a shift by 64 would not change the number
    while buckets < n:
        buckets *= 2
    greatest = np.uint64(0)
    for j in range(n):
        greatest = max(greatest, bag[j])
    shift = np.uint64(0)
    while (greatest >> shift) >= np.uint64(buckets):
        shift += np.uint64(1)
    indices = counts[:buckets]
    indices[:] = 0
    for j in range(n):
        indices[np.int64(bag[j] >> shift)] += 1
    squares, first = np.int64(0), np.int64(n)
    for bucket in range(buckets - 1, -1, -1):
        squares += indices[bucket] * indices[bucket]
        first -= indices[bucket]
        indices[bucket] = first
    if squares > _CROWD * n:
        for j in range(n):
            into[j] = bag[j]
        _heap_sort(into)
        return
    for j in range(n):
        own = np.int64(bag[j] >> shift)
        into[indices[own]] = bag[j]
        indices[own] += 1
    for j in range(1, n):
        x, at = into[j], j
        while at > 0 and into[at - 1] > x:
            into[at] = into[at - 1]
            at -= 1
        into[at] = x


@inner
def _heap_sort(values):
    """Sort in place, in n log n steps for any values, and without memory of its own."""
    n = len(values)
    for start in range(n // 2 - 1, -1, -1):
        _sift(values, start, n)
    for end in range(n - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        _sift(values, 0, end)


@inner
def _sift(heap, at, end):
    """Move an element of ``heap[:end]`` down until no child is greater."""
    x = heap[at]
    child = 2 * at + 1
    while child < end:
        if child + 1 < end and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= x:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = x


@kernel("u64[], i64[], i64[]")
def _unique(values, starts, out_starts):
    """Move the distinct elements of each bag to the front, in place; return how many there are."""
    at = out_starts[0] = 0
    for i in range(len(starts) - 1):
        for j in range(starts[i], starts[i + 1]):
            if j == starts[i] or values[j] != values[j - 1]:
                values[at] = values[j]
                at += 1
        out_starts[i + 1] = at
    return at


@kernel("u64[], i64[], u64")
def _number(values, starts, mask):
    for i in range(len(starts) - 1):
        copies = np.uint64(0)
        before = np.uint64(0)
        for j in range(starts[i], starts[i + 1]):
            x = values[j]
            copies = copies + np.uint64(1) if j > starts[i] and x == before else np.uint64(0)
            before = x
            if copies:
                values[j] = mix64(x + copies * GOLDEN) & mask
