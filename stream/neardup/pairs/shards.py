"""Shards: which table holds a document, and the rows of a stream as every table reads them.

A shard is a part of a stream, divided by document. Every shard reads the whole stream, and holds the documents that it
owns. A document goes to the shard of its content, so the copies of a content lie in one shard; where copies are not
looked up by content, to the shard of its id. A pair is found in the shard of its older document when the newer one
arrives. So the shards find together what one table finds, and no shard asks another.

The shard of a hash is that of the jump consistent hash: of the documents that a further shard takes, each other shard
gives its share, and no document moves between two shards that were there before.

Shards may be added while the stream runs. From a row on, documents go to more shards; older ones stay where they are
until they leave the window. So the older copies of a content may be in another shard than the newer ones. There, a
newer copy takes the place of the older one in the buckets, as a mark, and hides it.

Source: Lamping, Veach, "A fast, minimal memory, consistent hash algorithm", 2014.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.pairs.batches import (
    CONTENT_HALF,
    MICROSECONDS,
    Batch,
    batch_items,
    id_hashes,
    row_keys,
    select,
    table_items,
    without_derived,
)
from neardup.schemes.config import Config
from neardup.schemes.interface import AnyScheme
from neardup.window import FOREIGN, NO_LIMIT, NO_WINDOW, OWN, REMOVAL, Items, Limits
from neardup.window.chains import COPIED, DERIVED
from neardup.window.counters import KEYS_MAX

_MULTIPLIER, _ONE, _SHIFT = np.uint64(2862933555777941757), np.uint64(1), np.uint64(33)
# A limit of candidates is shared among shards; a bucket is not divided evenly, so a shard has so many deviations more.
_DEVIATIONS, SHARE_MIN = 4, 16
# A stream grows so often at most: the metadata of each committed offset name all times.
GROWTHS_MAX = 64


class Shard(NamedTuple):
    """One shard of a stream: its number, from 0, and how many there are now.

    ``grown`` has the times when there were more of them, while documents of before may be in the window: the first slot
    of the table after it, and how many shards there were before. A number that is not below ``of`` is that of a shard
    to come, which holds nothing yet.
    """

    number: int
    of: int
    grown: tuple[tuple[int, int], ...] = ()

    def grow(self, of: int, slot: int, oldest: int) -> Shard:
        """Return the shard among more of them, from a slot on; ``oldest`` is the oldest slot of the window."""
        return Shard(self.number, of, (*(one for one in self.grown if one[0] > oldest), (slot, self.of)))

    @property
    def settled(self) -> int:
        """The first slot of the table that came after the last growth."""
        return self.grown[-1][0] if self.grown else 0

    def fewest(self, oldest: int) -> int:
        """Return among how many shards the documents from a slot on were divided, at the fewest."""
        return next((of for slot, of in self.grown if slot > oldest), self.of) if self.grown else self.of


class Growth(NamedTuple):
    """How many shards a stream has, by position in its log: ``first`` at its beginning; ``steps`` are the positions
    from which on there are more, and how many."""

    first: int
    steps: tuple[tuple[int, int], ...] = ()

    @property
    def shards(self) -> int:
        """How many there are at the end."""
        return self.steps[-1][1] if self.steps else self.first

    def until(self, position: int) -> Growth:
        """Return what a reader knows that has read up to a position."""
        return Growth(self.first, tuple(step for step in self.steps if step[0] <= position))

    def grown(self, position: int, before: int, after: int) -> Growth:
        """Apply a control row, which ends at a position. It counts only if there are ``before`` shards, and ``after``
        is more: so of two rows that were written at a time, the first counts."""
        is_valid = before == self.shards < after and len(self.steps) < GROWTHS_MAX
        return Growth(self.first, (*self.steps, (position, after))) if is_valid else self


# The whole stream in one table.
WHOLE_STREAM = Shard(0, 1)


def shards_of(hashes: npt.NDArray[np.uint64], shards: int) -> npt.NDArray[np.int32]:
    """Return the shard of each hash, ``int32[n]``, 0 to ``shards - 1``."""
    out = np.empty(len(hashes), np.int32)
    _jump(np.array(hashes), shards, out)  # a copy: an array that is read-only would compile the kernel again
    return out


def table_limits(config: Config, scheme: AnyScheme) -> Limits:
    """The bounds of a table, from a configuration: seconds become microseconds. An exact scheme cuts no bucket."""
    window = NO_WINDOW if config.window_seconds is None else round(config.window_seconds * MICROSECONDS)
    return Limits(
        window=int(window),
        lateness=round(config.lateness_seconds * MICROSECONDS),
        items=config.window_documents,
        bytes=config.evidence_bytes_max,
        bucket_candidates=config.window_documents if scheme.exact else config.bucket_candidates_max,
        probe_candidates=config.probe_limit or NO_LIMIT,
        copies=config.window_documents if scheme.exact else config.bucket_candidates_max,
        by_content=scheme.by_content,
        admit_ratio=config.threshold,
        counted=scheme.has_payloads,
        pair_keys=config.tuning.bands if scheme.meets_parts(config.plan) else KEYS_MAX,
    )


def shared_limits(limits: Limits, shards: int, of: Limits | None = None) -> Limits:
    """Return the limits of one shard: the window is that of the stream, a limit of candidates is a share of it.

    The copies of a content lie in one shard, so their limit stays. So does one that the window does not reach. What is
    no limit of candidates is taken from ``of``, if it is given.
    """

    def share(limit: int) -> int:
        if shards == 1 or limit >= limits.items:
            return limit
        part = limit / shards
        return min(limit, max(SHARE_MIN, math.ceil(part + _DEVIATIONS * math.sqrt(part))))

    return (of or limits)._replace(
        bucket_candidates=share(limits.bucket_candidates), probe_candidates=share(limits.probe_candidates)
    )


def kinds_of(batch: Batch, shard: Shard, by_content: bool) -> npt.NDArray[np.uint8]:
    """Return whether each document is ``OWN`` or ``FOREIGN`` to a shard, ``uint8[n]``; see ``shards``."""
    if shard.of == 1:
        return np.full(batch.size, FOREIGN if shard.number else OWN)
    hashes = batch.contents[:, CONTENT_HALF] if by_content else id_hashes(batch.ids, batch.id_starts)
    return np.where(shards_of(hashes, shard.of) == shard.number, OWN, FOREIGN)


class StreamRows(NamedTuple):
    """Rows of a stream as every shard reads them: a batch, which of its rows are removals (``bool[n]``), the items of a
    table that holds them all, and which of them are compared with nothing (``bool[n]``; ``None``: none)."""

    batch: Batch
    removals: npt.NDArray[np.bool_]
    items: Items
    references: npt.NDArray[np.bool_] | None = None

    def until(self, end: int) -> StreamRows:
        """Return the rows before row ``end``."""
        references = None if self.references is None else self.references[:end]
        return StreamRows(select(self.batch, np.arange(end)), self.removals[:end], self.items.until(end), references)

    def items_of(self, shard: Shard, *, by_content: bool) -> Items:
        """Return the items as the table of a shard reads them."""
        if shard == WHOLE_STREAM:
            return self.items
        kinds = kinds_of(self.batch, shard, by_content)
        kinds[self.removals] = REMOVAL
        return self.items._replace(kinds=kinds | self.items.kinds & (COPIED | DERIVED))


def stream_rows(
    batch: Batch, config: Config, removals: npt.NDArray[np.bool_] | None = None,
    references: npt.NDArray[np.bool_] | None = None,
) -> StreamRows:  # fmt: skip
    """Return rows as tables read them; those in ``removals`` (``bool[n]``) remove their id, those in ``references``
    (``bool[n]``) are compared with nothing."""
    references = None if references is None or not references.any() else references
    if removals is None or not removals.any():
        return StreamRows(batch, np.zeros(batch.size, np.bool_), batch_items(batch, config), references)
    items = without_derived(table_items(batch, row_keys(batch, removals, config)), batch, config)
    items.kinds[removals] = REMOVAL
    return StreamRows(batch, removals, items, references)


@kernel("u64[], i64, i32[]")
def _jump(hashes, shards, out):
    for i in range(len(hashes)):
        state, shard, following = hashes[i], np.int64(-1), np.int64(0)
        while following < shards:
            shard = following
            state = state * _MULTIPLIER + _ONE
            following = np.int64((shard + 1) * (2147483648.0 / np.float64((state >> _SHIFT) + _ONE)))
        out[i] = shard
