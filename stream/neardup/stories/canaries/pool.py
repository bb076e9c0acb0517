"""Originals of canaries: documents that are kept with an edited copy of each, and which of them is looked up next.

Of one document in ``every`` an original is kept. For each, one original is chosen: a third are new, a third are among
the newest documents, a sixth among the oldest of a full window, and the others anywhere. The window that an original
must be in follows from the settings and the time of the stream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.pairs.batches import MICROSECONDS, Batch, concatenate, joined, make_batch
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence
from neardup.stories.canaries.draws import Draws
from neardup.stories.canaries.edits import edited, similarities
from neardup.window import NO_TIME

# Originals that are kept; beyond, half of them are dropped at random.
_POOL_MAX = 4_096
NEWEST, _OLDEST_PART = 20_000, 0.05
_PARTS = 1 << 20
# Kinds of originals in turn.
_NEW, _NEAR, _OLD, _ANY = range(4)
_TURNS = (_NEW, _NEAR, _NEW, _NEAR, _OLD, _ANY)


class Now(NamedTuple):
    """Where a stream is: the number of its next document, and its time in microseconds, or ``NO_TIME``."""

    number: int
    time: int


class Original(NamedTuple):
    """A document of the window and its edited copy. ``document`` is a batch of one row, ``number`` its number in the
    stream, ``note`` what its owner wants to know of it later."""

    number: int
    time: int
    note: int
    document: Batch
    copy: Evidence
    similarity: float


class Probes(NamedTuple):
    """n canaries as columns: the originals as a batch, the evidence of their copies, their similarities
    (``float64[n]``)."""

    originals: Batch
    copies: Evidence
    similarities: npt.NDArray[np.float64]


class PoolState(NamedTuple):
    """What ``Pool.undo`` goes back to."""

    originals: list[Original]
    part: float
    sown: int
    looks: int


def probes_of(originals: Sequence[Original]) -> Probes:
    """Return one or more originals as columns."""
    return Probes(
        concatenate([one.document for one in originals]), joined([one.copy for one in originals]),
        np.array([one.similarity for one in originals]),
    )  # fmt: skip


class Pool:
    """The originals of one window; ``sown`` counts those that were ever kept with an edited copy."""

    def __init__(self, config: Config, draws: Draws) -> None:
        self._config, self._draws, self._similarities = config, draws, similarities(config)
        self._originals: list[Original] = []
        self._kept_part, self.sown, self._looks = 1.0, 0, 0

    def sow(
        self, documents: Sequence[Document], batch: Batch, numbers: Sequence[int], times: Sequence[int],
        notes: Sequence[int], now: Now,
    ) -> list[Original]:  # fmt: skip
        """Keep documents as originals, each with an edited copy; return as many originals, to be looked up."""
        turns = (self.sown + np.arange(batch.size)) % len(self._similarities)
        least = [self._similarities[turn] for turn in turns.tolist()]
        edits = edited(documents, batch.evidence, self._config, least, self._draws)
        out = []
        for n, (number, time, note) in enumerate(zip(numbers, times, notes, strict=True)):
            if edits.exist[n] and self._horizon(now) <= time:
                self.sown += 1
                row = row_of(batch, n)._replace(times=np.array([time]))
                copy = edits.evidence.item(n)
                self.keep(Original(number, time, note, row, copy, float(edits.similarities[n])), now)
            out += self._chosen(now)
        return [one for one in out if self.is_promised(one, now)]

    def keep(self, original: Original, now: Now) -> None:
        """Keep an original, by chance if there are many."""
        if self._draws.below(_PARTS) < self._kept_part * _PARTS or not self._originals:
            self._originals.append(original)
        if len(self._originals) > _POOL_MAX:
            self._originals = [one for one in self._originals if self.is_promised(one, now)]
            if len(self._originals) > _POOL_MAX // 2:
                kept = np.sort(self._draws.some(_POOL_MAX // 2, len(self._originals)))
                self._originals = [self._originals[n] for n in kept.tolist()]
                self._kept_part /= 2

    def forget(self, ids: set[bytes]) -> None:
        """Drop the originals that have one of these ids."""
        self._originals = [one for one in self._originals if one.document.ids.tobytes() not in ids]

    def is_promised(self, one: Original, now: Now) -> bool:
        """Whether an original must be in the window."""
        return now.number - one.number <= self._config.window_documents and one.time >= self._horizon(now)

    def before(self) -> PoolState:
        """Return what a step that fails goes back to."""
        return PoolState(list(self._originals), self._kept_part, self.sown, self._looks)

    def undo(self, kept: PoolState) -> None:
        """Forget what came since ``before``."""
        self._originals, self._kept_part, self.sown, self._looks = kept

    def _chosen(self, now: Now) -> list[Original]:
        """Return the next original to look up, or none: the kinds take turns."""
        kind = _TURNS[self._looks % len(_TURNS)]
        self._looks += 1
        first = 0
        while first < len(self._originals) and not self.is_promised(self._originals[first], now):
            first += 1
        del self._originals[:first]
        if not self._originals:
            return []
        if kind == _NEW:
            return [self._originals[-1]]
        begin, end = 0, len(self._originals)
        if kind == _NEAR:
            begin = min(self._first_from(now.number - NEWEST), end - 1)
        elif kind == _OLD:
            end = self._old_end(now)
        return [self._originals[begin + self._draws.below(end - begin)]]

    def _first_from(self, number: int) -> int:
        """The index of the first original that is not older than a document."""
        return bisect_left(self._originals, number, key=lambda one: one.number)

    def _old_end(self, now: Now) -> int:
        """The end of the originals in the oldest part of a full window: by time, or by documents."""
        config = self._config
        if config.window_seconds is not None and now.time != NO_TIME:
            until = self._horizon(now) + int(_OLDEST_PART * config.window_seconds * MICROSECONDS)
            end = next((n for n, one in enumerate(self._originals) if one.time > until), len(self._originals))
        else:
            end = self._first_from(now.number - int((1 - _OLDEST_PART) * config.window_documents))
        return end or len(self._originals)

    def _horizon(self, now: Now) -> int:
        return horizon(self._config, now.time)


def horizon(config: Config, time: int) -> int:
    """Return the time from which documents must be in the window, by the settings and the time of the stream."""
    if config.window_seconds is None or time == NO_TIME:
        return int(NO_TIME)
    return time - round(config.window_seconds * MICROSECONDS) - round(config.lateness_seconds * MICROSECONDS)


def row_of(batch: Batch, n: int) -> Batch:
    """Return one row of a batch in arrays of its own, as ``select`` does, in less time."""
    ids, time = batch.ids[batch.id_starts[n] : batch.id_starts[n + 1]].copy(), batch.times[n : n + 1].copy()
    contents = batch.contents[n : n + 1].copy()
    return make_batch(ids, np.array([0, len(ids)]), time, contents, batch.evidence.item(n))
