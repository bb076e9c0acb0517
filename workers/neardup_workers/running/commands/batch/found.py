"""The pairs of a corpus at rest: its rows pass the matcher of the stream, one shard of it after another.

A shard (``neardup.pairs.shards``) reads every row and holds a part of them, so its table takes a part of the memory. A
corpus that does not fit in ``memory_max`` is divided among as many shards as the rows in the first table say. That is a
power of two, so that what a truncated bucket compares does not depend on a few bytes. The pairs of a shard go to files
in order of the newer row; ``pairs`` merges them.

A document with a copy makes one pair, with this copy. Only the shard of its content knows the copy; other shards may
find further pairs of the document, which are dropped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import CapacityError
from neardup.pairs.comparing import Leads, joined_leads
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import Shard
from neardup.schemes.config import Config
from neardup.schemes.interface import in_parts
from neardup.window import Limits
from neardup.window.steps import step
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.running.commands.batch.rows import ColumnFiles, RowFiles, Rows, spans

_PAIRS = {"newer": "<i8", "older": "<i8", "similarity": "<f8", "keys": "<i4"}
# Pairs read at a time, of all shards together.
_READ = 1 << 15
# Bytes of evidence matched at a time, unless one row has more.
EVIDENCE_BYTES = 64 << 20
# More shards do not help: each holds a mark of nearly every row.
_SHARDS_MAX = 1 << 10


class RowPairs(NamedTuple):
    """m pairs of rows by the newer row, then the newest older one first: rows in order of arrival (``int64[m]``),
    similarity (``float64[m]``), number of common keys (``int32[m]``)."""

    newer: Rows
    older: Rows
    similarity: npt.NDArray[np.float64]
    keys: npt.NDArray[np.int32]


class PairCounts(NamedTuple):
    """Numbers of candidates, of links between copies, and of buckets that a limit truncated."""

    candidates: int
    copies: int
    cuts: int


class Found:
    """The pairs of a corpus in files of a folder: ``find`` them, then read ``pairs``. Below the least score there are
    with ``candidates`` all others, with ``leads`` those that lead to stories too (``neardup.pairs.comparing``)."""

    def __init__(
        self, folder: Path, rows: RowFiles, config: Config, limits: Limits, *, candidates: bool, leads: bool
    ) -> None:
        self._folder, self._rows, self._config, self._limits = folder, rows, config, limits
        self._candidates, self._leads = candidates, leads
        self._linked = np.zeros(rows.count, np.bool_)  # rows with a copy before them
        self._shards: list[ColumnFiles] = []

    def find(self, memory_max: int) -> PairCounts:
        """Find the pairs with tables of at most ``memory_max`` bytes.

        Raises:
            Failure: if no number of shards makes the tables small enough, or the folder takes no more.
        """
        shards = 1
        while shards <= _SHARDS_MAX:
            found = self._find(shards, memory_max)
            if isinstance(found, PairCounts):
                return found
            shards = max(2 * shards, min(found, _SHARDS_MAX))
        raise Failure(
            Exit.CAPACITY,
            f"a table of this corpus needs more than --memory-max allows, {memory_max:,} bytes, even as one of "
            f"{_SHARDS_MAX:,} shards: give more",
        )

    def pairs(self) -> Iterator[RowPairs]:
        """Yield the pairs, some thousands at a time."""
        at, ends = [0] * len(self._shards), [len(files["newer"]) for files in self._shards]
        ahead = max(_READ // max(len(at), 1), 1)
        while True:
            left = [n for n, end in enumerate(ends) if at[n] < end]
            if not left:
                return
            columns = [self._shards[n]["newer"] for n in left]
            first = min(int(column[at[n]]) for n, column in zip(left, columns, strict=True))
            later = [
                int(column[at[n] + ahead]) for n, column in zip(left, columns, strict=True) if at[n] + ahead < ends[n]
            ]
            before = max(min(later, default=self._rows.count), first + 1)
            parts = []
            for n, column in zip(left, columns, strict=True):
                end = at[n] + int(np.searchsorted(column[at[n] :], before))
                parts.append([self._shards[n][name][at[n] : end] for name in _PAIRS])
                at[n] = end
            yield self._ordered(RowPairs._make(map(np.concatenate, zip(*parts, strict=True))))

    def close(self) -> None:
        """Remove the files."""
        for number, files in enumerate(self._shards):
            files.close()
            shutil.rmtree(self._folder / f"pairs-{number}", ignore_errors=True)
        self._shards.clear()

    def _ordered(self, found: RowPairs) -> RowPairs:
        """Return pairs in order, without the further pairs of documents with a copy."""
        kept = ~self._linked[found.newer]
        if len(self._shards) == 1:
            kept[:] = True
        elif not kept.all():
            at = np.flatnonzero(~kept)
            kept[at] = self._rows.equal(found.newer[at], found.older[at])
        order = np.lexsort((-found.older, found.newer))
        return RowPairs._make(column[order[kept[order]]] for column in found)

    def _find(self, shards: int, memory_max: int) -> PairCounts | int:
        """Find the pairs with so many shards. If a table needs more memory, return how many shards may be enough."""
        met, cuts = np.zeros(self._rows.count, np.int32), 0
        self._linked[:] = False
        for number in range(shards):
            files = ColumnFiles(self._folder / f"pairs-{number}", _PAIRS)
            self._shards.append(files)
            matcher = Matcher(
                self._config, shard=Shard(number, shards), candidates=self._candidates, limits=self._limits
            )
            empty = matcher.table.memory_bytes()[1]
            for first, end in self._parts():
                if not self._match(matcher, first, end, files, met, memory_max):
                    self.close()
                    whole = shards * (matcher.table.memory_bytes()[1] - empty) * self._rows.count // end
                    return 1 << (whole // max(memory_max - empty, 1)).bit_length()
            cuts += matcher.table.counts()["cuts"]
            files.seal()
        copies = int(np.count_nonzero(self._linked))
        return PairCounts(int(met[~self._linked].sum(dtype=np.int64)), copies, cuts)

    def _match(
        self, matcher: Matcher, first: int, end: int, files: ColumnFiles, met: npt.NDArray[np.int32], memory_max: int
    ) -> bool:
        """Pass rows through a shard; returns whether its table still fits."""
        batch = self._rows.between(first, end)
        try:
            with step(matcher.table):
                for part in matcher.slices(batch, leads=self._leads):
                    pairs = Leads(part.items, part.slots, part.matches.similarity, part.matches.buckets)
                    items, slots, similarity, keys = joined_leads(pairs, part.leads)
                    newer, older = first + items.astype(np.int64), matcher.table.arrivals(slots)
                    files.append(dict(zip(_PAIRS, (newer, older, similarity, keys), strict=True)))
                    met[first:end] += np.bincount(part.probed, minlength=batch.size)
                    if self._limits.by_content:
                        self._linked[newer[self._rows.equal(newer, older)]] = True
        except CapacityError:
            return False
        return matcher.table.memory_bytes()[1] <= memory_max

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Yield consecutive parts of the rows with bounded evidence."""
        for first, end in spans(self._rows.count):
            sizes = self._rows.evidence_bytes(np.arange(first, end))
            for part in in_parts(sizes, EVIDENCE_BYTES):
                yield first + int(part[0]), first + int(part[-1]) + 1
