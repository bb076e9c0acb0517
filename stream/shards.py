"""Shards: which table holds a document.

A shard is a part of a stream, divided by document. Every shard reads the whole stream, and holds the documents that it
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

from neardup.stream.machine.compile import kernel
from neardup.stream.table import Limits

_MULTIPLIER, _ONE, _SHIFT = np.uint64(2862933555777941757), np.uint64(1), np.uint64(33)
# A limit of candidates is shared among shards; a bucket is not divided evenly, so a shard has so many deviations more.
_DEVIATIONS, SHARE_MIN = 4, 16


class Shard(NamedTuple):
    """One shard of a stream: its number, from 0, and how many there are."""

    number: int
    of: int


# The whole stream in one table.
WHOLE_STREAM = Shard(0, 1)


def shards_of(hashes: npt.NDArray[np.uint64], shards: int) -> npt.NDArray[np.int32]:
    """Return the shard of each hash, ``int32[n]``, 0 to ``shards - 1``."""
    out = np.empty(len(hashes), np.int32)
    _jump(np.array(hashes), shards, out)  # a copy: an array that is read-only would compile the kernel again
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


@kernel
def _jump(hashes, shards, out):
    for i in range(len(hashes)):
        state, shard, following = hashes[i], np.int64(-1), np.int64(0)
        while following < shards:
            shard = following
            state = state * _MULTIPLIER + _ONE
            following = np.int64((shard + 1) * (2147483648.0 / np.float64((state >> _SHIFT) + _ONE)))
        out[i] = shard
