"""Partitions: where an item is sent, and which partition publishes a pair.

An item goes to every partition that owns one of its bucket keys, so equal keys always meet in one partition. A pair may
meet in several partitions: the owner of its first common key publishes it; the owner of the first key publishes an
identical pair. Both follow from the two pieces of evidence, so no partition asks another.

A **shard** divides a stream by document instead. Every shard reads the whole stream, and holds the documents that it
owns. A document goes to the shard of its content, so the copies of a content lie in one shard; where copies are not
looked up by content, to the shard of its id. A pair is found in the shard of its older document when the newer one
arrives. So the shards find together what one table finds, and no shard asks another.

The shard of a hash is that of the jump consistent hash: of the documents that a further shard takes, each other shard
gives its share, and no document moves between two shards that were there before.

Source: Lamping, Veach, "A fast, minimal memory, consistent hash algorithm", 2014.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.machine.compile import inlined, kernel
from neardup.stream.scheme_interface import Keys
from neardup.stream.table import Limits

# The table uses the upper 41 bits of a key, so the lower ones choose the partition; else its tables would be lopsided.
_LOW_BITS = np.uint64((1 << 23) - 1)
_LOW_SHIFT = np.uint64(23)
# With more partitions, the 2^23 values of the lower bits would be spread unevenly.
PARTITIONS_MAX = 4096
_MULTIPLIER, _ONE, _SHIFT = np.uint64(2862933555777941757), np.uint64(1), np.uint64(33)
# A limit of candidates is shared among shards; a bucket is not divided evenly, so a shard has so many deviations more.
_DEVIATIONS, SHARE_MIN = 4, 16


class Partition(NamedTuple):
    """One partition of the bucket keys: its number, and how many there are."""

    number: int
    of: int


# All keys in one partition: the embedded mode.
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


class Shard(NamedTuple):
    """One shard of a stream: its number, from 0, and how many there are."""

    number: int
    of: int


# The whole stream in one table.
WHOLE_STREAM = Shard(0, 1)


def shards_of(hashes: npt.NDArray[np.uint64], shards: int) -> npt.NDArray[np.int32]:
    """Return the shard of each hash, ``int32[n]``, 0 to ``shards - 1``."""
    out = np.empty(len(hashes), np.int32)
    _jump(np.ascontiguousarray(hashes), shards, out)
    return out


def shared_limits(limits: Limits, shards: int) -> Limits:
    """Return the limits of one shard: the window is that of the stream, a limit of candidates is a share of it.

    The copies of a content lie in one shard, so their limit stays. So does one that the window does not reach.
    """

    def share(limit: int) -> int:
        if shards == 1 or limit >= limits.items:
            return limit
        part = limit / shards
        return min(limit, max(SHARE_MIN, math.ceil(part + _DEVIATIONS * math.sqrt(part))))

    return limits._replace(
        bucket_candidates=share(limits.bucket_candidates), probe_candidates=share(limits.probe_candidates)
    )


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


@kernel
def _jump(hashes, shards, out):
    for i in range(len(hashes)):
        state, shard, following = hashes[i], np.int64(-1), np.int64(0)
        while following < shards:
            shard = following
            state = state * _MULTIPLIER + _ONE
            following = np.int64((shard + 1) * (2147483648.0 / np.float64((state >> _SHIFT) + _ONE)))
        out[i] = shard
