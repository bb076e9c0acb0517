"""Partitions: which of them an item is sent to, and which one alone may publish a pair.

An item goes to every partition in which one of its bucket keys falls, so equal keys meet in one partition whoever
signed them. A pair that meets in several is published by the owner of its first common key; an identical pair by the
owner of key 0. Both can be told from the two pieces of evidence, so no partition has to ask another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.batches import Batch, make_batch, table_items
from stream.kernels import kernel
from stream.table import Items

# The table looks at the upper 41 bits of a key; partitions are chosen by the others, or its tables would be lopsided.
_LOW_BITS = np.uint64((1 << 23) - 1)
_LOW_SHIFT = np.uint64(23)
# More would show in the balance of 2^23 values.
PARTITIONS_MAX = 4096


class Partition(NamedTuple):
    """One partition of the bucket keys: its number, and how many there are."""

    number: int
    of: int


# All keys in one place: the embedded mode.
WHOLE = Partition(0, 1)


def partitions_of(keys: npt.NDArray[np.uint64], partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key, any shape, 0 to ``partitions - 1``."""
    return (((keys & _LOW_BITS) * np.uint64(partitions)) >> _LOW_SHIFT).astype(np.int32)


def route(owners: npt.NDArray[np.int32], partitions: int) -> list[npt.NDArray[np.int64]]:
    """For each partition, the items (in order) with a key in it; ``owners`` is ``int32[n, b]``."""
    member = np.zeros((len(owners), partitions), np.bool_)
    _route(owners, member)
    return [np.flatnonzero(member[:, partition]) for partition in range(partitions)]


def take(batch: Batch, rows: npt.NDArray[np.int64]) -> Batch:
    """Some rows of a batch, in the given order."""
    lengths = np.diff(batch.id_starts)[rows]
    id_starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=id_starts[1:])
    ids = np.empty(int(id_starts[-1]), np.uint8)
    _gather(batch.ids, batch.id_starts, rows, id_starts, ids)
    return make_batch(ids, id_starts, batch.times[rows], batch.contents[rows], batch.evidence[rows])


def local_items(batch: Batch, keys: npt.NDArray[np.uint64], partition: Partition) -> Items:
    """A batch as the table of one partition takes it: of the bucket keys, only those that fall in it."""
    whole = table_items(batch, keys)
    if partition.of == 1:
        return whole
    kept = np.empty(len(whole.keys), np.uint64)
    starts = np.zeros(batch.size + 1, np.int64)
    number, count = np.uint64(partition.number), np.uint64(partition.of)
    _local(whole.keys, keys.shape[1] + 2, number, count, kept, starts)
    return whole._replace(keys=kept[: starts[-1]], key_starts=starts)


@kernel
def _route(owners, member):  # type: ignore[no-untyped-def]
    for i in range(owners.shape[0]):
        for j in range(owners.shape[1]):
            member[i, owners[i, j]] = True


@kernel
def _gather(data, starts, rows, out_starts, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        first = starts[rows[i]]
        for j in range(out_starts[i + 1] - out_starts[i]):
            out[out_starts[i] + j] = data[first + j]


@kernel
def _local(keys, width, partition, partitions, kept, starts):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(len(starts) - 1):
        for j in range(width):
            key = keys[i * width + j]
            # The first two are content and id, which every partition that has the item keeps.
            if j < 2 or ((key & _LOW_BITS) * partitions) >> _LOW_SHIFT == partition:
                kept[at] = key
                at += 1
        starts[i + 1] = at
