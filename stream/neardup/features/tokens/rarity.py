"""How rare elements are in a stream: counts in bounded memory, and the similarity of sets by the rarity of what is in
them.

A short text differs from another one by a word or two: a model number, a name. The weight of an element is the cube of
the logarithm of n / c, where c of the last n documents have it. So what two texts share counts if few others have it.

The counts are a count-min sketch with conservative update: each element has a cell in each of four rows, and its count
is the least of them. So a count is never too low, and too high only where other elements fill all four cells. A table
counts 1,024 documents (a **block**); then the next one begins, and the one before the last is dropped. The block before
counts half. So counts are a function of the last 1,024 to 2,048 documents: a reader of these has the same.

Weights are frozen for 64 documents (an **epoch**): the counts of an epoch enter when it is complete. So similarities do
not depend on how a stream is divided into batches. All is computed with whole numbers, so every processor has the same.

Source: Cormode, Muthukrishnan, "An improved data stream summary: the count-min sketch", 2005; Estan, Varghese, "New
directions in traffic measurement and accounting", 2002, for the conservative update.
"""

from __future__ import annotations

import struct
from math import isqrt
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import mix64

Elements = npt.NDArray[np.uint64]
Starts = npt.NDArray[np.int64]

EPOCH_DOCUMENTS = 64
BLOCK_DOCUMENTS = 1_024
ROWS, COLUMN_BITS = 4, 12
# What begins the counts in a saved window; then the documents of the block, of the block before, and the frozen ones.
RARITY_MAGIC = b"NDRARE02"
_HEADER = struct.Struct("<8sIII")
_SHAPE = ROWS, 1 << COLUMN_BITS
# Separates the hashes of elements from those of sketches.
_SEED = np.uint64(0xC2B2AE3D27D4EB4F)
_COLUMN_BITS, _COLUMN_MASK = np.uint64(COLUMN_BITS), np.uint64((1 << COLUMN_BITS) - 1)
# Logarithms count in sixteenths: how many of these numbers, 2^(i / 16) with 32 bits after the point, a ratio reaches.
_BINARY, _STEPS = 32, 16 * 12
_RATIOS = np.array([isqrt(isqrt(isqrt(isqrt(1 << (16 * _BINARY + i))))) for i in range(1, _STEPS)])


class Weights(NamedTuple):
    """Frozen counts, and the weight of an element that so many documents have (``int64[n + 1]``)."""

    counts: Annotated[npt.NDArray[np.uint32], "[,]"]
    of_count: npt.NDArray[np.int64]


def weights_of(documents: int) -> npt.NDArray[np.int64]:
    """Return the weight of an element of which c of so many documents have one, for each c from 0 on.

    >>> weights_of(3).tolist()
    [35937, 4913, 343, 1]
    """
    ratios = ((documents + 1) << _BINARY) // np.arange(1, documents + 2)
    return (np.searchsorted(_RATIOS, ratios, side="right") + 1) ** 3


class Rarity:
    """The counts of a stream. They change in the steps of the table whose documents they count.

    Example:
        >>> rarity = Rarity()
        >>> rarity.add(np.arange(64, dtype=np.uint64), np.arange(65))
        >>> rarity.freeze(), rarity.weights.of_count.shape
        (None, (65,))
    """

    def __init__(self) -> None:
        self._counts, self._documents = np.zeros(_SHAPE, np.uint32), 0  # of the block
        self._earlier, self._earlier_documents = self._counts.copy(), 0  # halves of those of the block before
        self._frozen = 0  # the documents of the block when weights were frozen
        self.weights = Weights(self._counts.copy(), weights_of(0))
        self._before = self._state()

    @property
    def left(self) -> int:
        """How many documents may come before the weights change."""
        return EPOCH_DOCUMENTS - (self._documents - self._frozen)

    @property
    def is_full(self) -> bool:
        """Whether the next document begins a block."""
        return self._documents == BLOCK_DOCUMENTS

    def freeze(self) -> None:
        """Let the counts of an epoch that is complete enter the weights. Call it before documents are compared."""
        if self.left:
            return
        if self.is_full:
            self.next_block()
        else:
            self._freeze()

    def next_block(self) -> None:
        """Begin a block, whether or not the one before is complete."""
        earlier, counts = self._counts >> np.uint32(1), np.zeros(_SHAPE, np.uint32)
        self._earlier, self._earlier_documents, self._counts = earlier, self._documents >> 1, counts
        self._documents, self._frozen = 0, -EPOCH_DOCUMENTS  # an exception leaves an epoch that is to be frozen
        self._freeze()

    def _freeze(self) -> None:
        weights = Weights(self._earlier + self._counts, weights_of(self._earlier_documents + self._documents))
        self._frozen, self.weights = self._documents, weights

    def add(self, values: Elements, starts: Starts) -> None:
        """Count the elements of at most ``left`` documents; the set of document i is
        ``values[starts[i]:starts[i + 1]]``."""
        assert len(starts) - 1 <= self.left, "an epoch is complete: freeze comes first"
        _count(values, starts, self._counts)
        self._documents += len(starts) - 1

    def begin(self) -> None:
        """Begin a step."""
        self._before = self._state()

    def commit(self) -> None:
        """End a step and keep what it has counted."""
        self.freeze()

    def undo(self) -> None:
        """Reverse what the step has counted."""
        counts, self._documents, self._earlier, self._earlier_documents, self._frozen, self.weights = self._before
        self._counts = counts.copy()

    def save(self) -> bytes:
        """The counts, to ``resume`` from, also within a step that has compared all of its documents."""
        self.freeze()
        counts = np.stack([self._counts, self._earlier, self.weights.counts]).astype("<u4")
        documents = self._documents, self._earlier_documents, self._frozen
        return _HEADER.pack(RARITY_MAGIC, *documents) + counts.tobytes()

    def resume(self, data: bytes) -> None:
        """Continue from what ``save`` gave."""
        _, self._documents, self._earlier_documents, self._frozen = _HEADER.unpack_from(data)
        stored = np.frombuffer(data, "<u4", offset=_HEADER.size).reshape(-1, *_SHAPE).astype(np.uint32)
        self._counts, self._earlier, frozen = (one.copy() for one in stored)
        self.weights = Weights(frozen, weights_of(self._earlier_documents + self._frozen))

    def _state(self) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.uint32], int, int, Weights]:
        before = self._earlier, self._earlier_documents, self._frozen, self.weights
        return self._counts.copy(), self._documents, *before


def jaccard_idf(
    values_a: Elements, starts_a: Starts, values_b: Elements, starts_b: Starts, weights: Weights
) -> npt.NDArray[np.float64]:
    """Return the weight that two sets share as a part of the weight of their union, for m pairs, ``float64[m]``."""
    out = np.empty((len(starts_a) - 1, 2), np.int64)
    _weigh(values_a, starts_a, values_b, starts_b, weights, out)
    return np.asarray(out[:, 0] / np.maximum(out[:, 1], 1))


@inlined
def _least(counts, value):
    """Return the least of the cells of an element, and the hash that names their columns."""
    columns = mix64(value ^ _SEED)
    least, left = counts[0, np.int64(columns & _COLUMN_MASK)], columns
    for row in range(1, ROWS):
        left >>= _COLUMN_BITS
        least = min(least, counts[row, np.int64(left & _COLUMN_MASK)])
    return least, columns


@inlined
def _weight(weights, value):
    least, _ = _least(weights.counts, value)
    return weights.of_count[min(np.int64(least), len(weights.of_count) - 1)]


@kernel("const u64[], const i64[], u32[,]")
def _count(values, starts, counts):
    for j in range(starts[0], starts[-1]):
        least, columns = _least(counts, values[j])
        for row in range(ROWS):
            column = np.int64(columns & _COLUMN_MASK)
            counts[row, column] = max(counts[row, column], least + np.uint32(1))
            columns >>= _COLUMN_BITS


@kernel("const u64[], const i64[], const u64[], const i64[], Weights, i64[,]")
def _weigh(values_a, starts_a, values_b, starts_b, weights, out):
    for pair in range(len(out)):
        i, j, common, union = starts_a[pair], starts_b[pair], np.int64(0), np.int64(0)
        while i < starts_a[pair + 1] or j < starts_b[pair + 1]:
            is_last_a, is_last_b = i == starts_a[pair + 1], j == starts_b[pair + 1]
            takes_a = is_last_b or (not is_last_a and values_a[i] <= values_b[j])
            takes_b = is_last_a or (not is_last_b and values_b[j] <= values_a[i])
            weight = _weight(weights, values_a[i] if takes_a else values_b[j])
            i, j = i + takes_a, j + takes_b
            union += weight
            common += weight if takes_a and takes_b else 0
        out[pair, 0], out[pair, 1] = common, union
