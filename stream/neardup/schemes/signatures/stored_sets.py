"""Sets that stand behind sketches in a table, compared with those of a batch where they are.

The ragged part of the evidence is the set: its elements in ascending order, 4 or 8 bytes each, the lowest first. A
section of words may stand before them (``neardup.schemes.interface.with_first``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, kernel
from neardup.machine.lanes import COMMON_LANES, common_longs, copy_range
from neardup.machine.words import WORD_BYTES, word_at
from neardup.schemes.interface import Evidence
from neardup.window import BandTable
from neardup.window.views import read_ragged

# Room for so large a ragged part is made at first.
_ROOM_BYTES = 1 << 15


class Counts(NamedTuple):
    """Of m pairs of sets, the number of common elements, of those of the older and of the newer one, ``int64[m]``."""

    common: npt.NDArray[np.int64]
    older: npt.NDArray[np.int64]
    newer: npt.NDArray[np.int64]


def counts_in(
    table: BandTable, slots: npt.NDArray[np.int64], newer: Evidence, items: npt.NDArray[np.int32], size: int, *,
    has_words: bool,
) -> Counts:  # fmt: skip
    """Count what m documents of a table, which has their sets, and the items of ``newer`` that each is compared with
    have in common.

    ``size`` is the bytes of an element, 4 or 8; ``has_words``: a section of words stands before the elements.
    """
    counts, width = np.empty((3, len(slots)), np.int64), newer.fixed.shape[1]
    done, least = 0, _ROOM_BYTES
    while done < len(slots):
        rooms, store, data = np.empty((2, least), np.uint8), table.store, newer[1:]
        done, least = _count(store, slots, *data, items, done, width, size, has_words, *rooms, counts)
    return Counts(*counts)


def evidence_in(
    table: BandTable, slots: npt.NDArray[np.int64], derive: Callable[[Evidence, Any], npt.NDArray[np.uint8]], plan: Any
) -> Evidence:
    """Return the evidence of documents of a table; ``derive`` makes sketches that it does not store."""
    evidence, bare = Evidence(table.fixed(slots), *table.ragged(slots)), table.is_bare(slots)
    if bare.any():
        evidence.fixed[bare] = derive(evidence.select(bare), plan)
    return evidence


@kernel("Store, i64[], const u8[], const i64[], const i32[], i64, i64, i64, bool, u8[], u8[], i64[,]", direct=True)
def _count(store, slots, ragged, starts, items, done, width, size, has_words, older, newer, counts):
    """Fill in ``Counts`` from pair ``done`` on. Return the first pair that is not counted, and the bytes of room that
    it needs."""
    last, first, end = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(done, len(slots)):
        item = np.int64(items[i])
        if item != last:
            last, end = item, starts[item + 1] - starts[item]
            if end + WORD_BYTES > len(newer):
                return i, 2 * end + WORD_BYTES
            copy_range(ragged, starts[item], newer, 0, end)
            first = elements_from(newer, has_words)
        stop = read_ragged(store, slots[i], width, older)
        if stop + WORD_BYTES > len(older):
            return i, 2 * stop + WORD_BYTES
        begin = elements_from(older, has_words)
        counts[0, i] = merged(older, begin, stop, newer, first, end, size)
        counts[1, i], counts[2, i] = (stop - begin) // size, (end - first) // size
    return len(slots), 0


@inlined
def elements_from(data, has_words):
    """Return where the elements begin in the ragged part of an item."""
    return np.int64(word_at(data, 0) & np.uint64(0xFFFFFFFF)) if has_words else np.int64(0)


@inlined
def merged(a, i, a_end, b, j, b_end, size):
    """Count the common elements of two sets, which are ``a[i:a_end]`` and ``b[j:b_end]``, as bytes. Of elements of 8
    bytes, 4 of each set are compared at once; then the 4 with the smaller end are done."""
    mask, common, block = ~np.uint64(0) >> np.uint64(64 - 8 * size), np.int64(0), WORD_BYTES * COMMON_LANES
    while size == WORD_BYTES and i + block <= a_end and j + block <= b_end:
        common += np.int64(common_longs(a, i, b, j))
        x, y = word_at(a, i + block - WORD_BYTES), word_at(b, j + block - WORD_BYTES)
        i += block * (x <= y)
        j += block * (y <= x)
    while i < a_end and j < b_end:
        x, y = word_at(a, i) & mask, word_at(b, j) & mask  # no branch, as in ``neardup.features.tokens.verify``
        common += x == y
        i += size * (x <= y)
        j += size * (y <= x)
    return common
