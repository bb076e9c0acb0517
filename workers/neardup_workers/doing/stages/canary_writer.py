"""The canaries of a signer: originals among the documents that it signs, and what it writes of them into ``signed``.

The canaries of a step stand in its last message, behind all of its documents: so every original is in the log before
its canary. A step that is aborted leaves nothing in the pool, because its documents may come again by another signer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.pairs.batches import Batch, concatenate, select
from neardup.schemes.config import Config
from neardup.stories.canaries.allowance import Allowance
from neardup.stories.canaries.draws import Draws
from neardup.stories.canaries.edits import has_canaries
from neardup.stories.canaries.pool import Now, Pool, PoolState, probes_of
from neardup.window import NO_TIME
from neardup_workers.doing.stages.canary_rows import CanaryRows

# Bytes of the canaries of a step at most, about: they come on top of the bytes of a message.
_BYTES_MAX = 64 << 10


class _Before(NamedTuple):
    """What a step that is aborted goes back to."""

    kept: PoolState
    now: Now
    seen: int


class CanaryWriter:
    """The originals of one signer: one document in ``every`` (0: none), as far as the allowance of all signers has
    room."""

    def __init__(self, config: Config, every: int, allowance: Allowance | None = None) -> None:
        self._allowance = allowance
        self._every = every if has_canaries(config) else 0
        self._pool = Pool(config, Draws(config.seed))
        self._now, self._seen = Now(0, int(NO_TIME)), 0
        self._share = 1.0
        self._documents: list[Document] = []
        self._batches: list[Batch] = []
        self._places: list[int] = []
        self._times: list[npt.NDArray[np.int64]] = []
        self._removed: set[bytes] = set()
        self._before = _Before(self._pool.before(), self._now, 0)

    def begin(self, share: float) -> None:
        """Begin a step. ``share`` is the part of the stream that comes to this signer, about: so many documents of
        others come for each of its own."""
        self._documents, self._batches, self._places, self._times, self._removed = [], [], [], [], set()
        self._before = _Before(self._pool.before(), self._now, self._seen)
        self._share = share

    def undo(self) -> None:
        """Forget the last step."""
        kept, self._now, self._seen = self._before
        self._pool.undo(kept)

    def take(
        self, documents: Sequence[Document], rows: npt.NDArray[np.int64], batch: Batch, places: npt.NDArray[np.int64]
    ) -> None:
        """Take signed documents of the step: row i of the batch is ``documents[rows[i]]``, at ``places[i]``."""
        if not self._every or not batch.size:
            return
        offered = range(-self._seen % self._every, batch.size, self._every)
        self._seen += batch.size
        self._times.append(batch.times)
        wanted = allowed = len(offered)
        if self._allowance is not None and wanted:
            allowed = self._allowance.take(wanted, self._share)
        if allowed:
            chosen = np.array([offered[n * wanted // allowed] for n in range(allowed)])
            self._documents += [documents[row] for row in rows[chosen].tolist()]
            self._batches.append(select(batch, chosen))
            self._places += places[chosen].tolist()

    def remove(self, id_: bytes) -> None:
        """Take a removal of the step."""
        self._removed.add(id_)

    def end(self) -> CanaryRows | None:
        """Return the canaries of the step, if there are any."""
        if self._removed:
            self._pool.forget(self._removed)
        if self._times:
            times = np.concatenate(self._times)
            number = self._now.number + round(len(times) / self._share)
            self._now = Now(number, max(self._now.time, int(times.max())))
        if not self._batches:
            return None
        batch, now = concatenate(self._batches), self._now
        ids = [batch.ids[a:b].tobytes() for a, b in zip(batch.id_starts[:-1], batch.id_starts[1:], strict=True)]
        rows = [n for n, id_ in enumerate(ids) if id_ not in self._removed]
        if not rows:
            return None
        documents, places = [self._documents[n] for n in rows], [self._places[n] for n in rows]
        batch = select(batch, np.array(rows))
        chosen = self._pool.sow(documents, batch, [now.number] * len(rows), batch.times.tolist(), places, now)
        sizes = [2 * one.document.fixed.size + one.document.ragged.size + one.copy.ragged.size for one in chosen]
        chosen = chosen[: int(np.searchsorted(np.cumsum(sizes), _BYTES_MAX, "right"))]
        if not chosen:
            return None
        return CanaryRows(np.array([one.note for one in chosen], np.int64), probes_of(chosen))
