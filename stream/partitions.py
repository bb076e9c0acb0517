"""Partitions: where an item is sent, and which partition publishes a pair.

An item goes to every partition that owns one of its bucket keys, so equal keys always meet in one partition. A pair may
meet in several partitions: the owner of its first common key publishes it; the owner of the first key publishes an
identical pair. Both follow from the two pieces of evidence, so no partition asks another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.machine.compile import inlined, kernel
from neardup.stream.scheme_interface import Keys

# The table uses the upper 41 bits of a key, so the lower ones choose the partition; else its tables would be lopsided.
_LOW_BITS = np.uint64((1 << 23) - 1)
_LOW_SHIFT = np.uint64(23)
# With more partitions, the 2^23 values of the lower bits would be spread unevenly.
PARTITIONS_MAX = 4096


class Partition(NamedTuple):
    """One partition of the bucket keys: its number, and how many there are."""

    number: int
    of: int


# All keys in one place: the embedded mode.
WHOLE = Partition(0, 1)


def partitions_of(keys: npt.NDArray[np.uint64], partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key, ``int32[m]``, 0 to ``partitions - 1``."""
    out = np.empty(len(keys), np.int32)
    _partitions(keys, np.uint64(partitions), out)
    return out


def route(keys: Keys, partitions: int) -> list[npt.NDArray[np.int64]]:
    """For each partition, the items (in order) with a key in it."""
    member = np.zeros((len(keys.starts) - 1, partitions), np.bool_)
    _route(keys.values, keys.starts, np.uint64(partitions), member)
    return [np.flatnonzero(member[:, partition]) for partition in range(partitions)]


@inlined
def partition_of(key, partitions):
    """The partition of a bucket key, 0 to ``partitions - 1``; ``uint64`` in and out."""
    return ((key & _LOW_BITS) * partitions) >> _LOW_SHIFT


@kernel
def _partitions(keys, partitions, out):
    for i in range(len(keys)):
        out[i] = partition_of(keys[i], partitions)


@kernel
def _route(keys, starts, partitions, member):
    for i in range(len(member)):
        for j in range(starts[i], starts[i + 1]):
            member[i, np.int64(partition_of(keys[j], partitions))] = True
