"""Canaries: edited copies of documents of the window, looked up as if they came now, to see what is found.

Theory of operation. A pool keeps originals with their edited copies (``pool``); for each document that is kept one
original is looked up in the table (``looks``). The window that an original must be in follows from the settings and the
time of the stream, not from the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from neardup.documents.document import Document, Refusal, check_type
from neardup.pairs.batches import Batch, accepted_of, concatenate, select
from neardup.pairs.estimates.limits import counted_documents, counted_recall
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.pairs.pipeline import Matcher
from neardup.stories.canaries.allowance import TOGETHER, Allowance
from neardup.stories.canaries.draws import Draws
from neardup.stories.canaries.edits import has_canaries
from neardup.stories.canaries.looks import EVICTED, FAULT, LATE, OUTCOMES, REMOVED, Looks
from neardup.stories.canaries.pool import Now, Original, Pool, horizon, probes_of, row_of
from neardup.window import NO_TIME, again

__all__ = ("EVERY", "FAULT", "OUTCOMES", "Canaries", "recall_values")

EVERY = 100
# Hours, and sources, whose losses are among the values.
ACCOUNTS_SHOWN = 24


def recall_values(counts: Mapping[str, int], canaries: Canaries, losses: LossAccounts | None = None) -> dict[str, Any]:
    """Return what is known of recall as values of JSON, by the counters of a table, by its canaries, and by the
    accounts of what limits cost, if there are any."""
    return {"limits": limit_values(counts, losses), "canaries": canaries.values()}


def limit_values(counts: Mapping[str, int], losses: LossAccounts | None = None) -> dict[str, Any]:
    """Return what limits cost as values of JSON: documents first, then pairs, and the counts of each cause."""
    values: dict[str, Any] = {
        "documents": counted_documents(counts), "near_documents": counts["near_documents"],
        "lone_documents": counts["lone_documents"], "value": counted_recall(counts), "found": counts["near_pairs"],
        "missed": counts["missed_pairs"], "uncompared": counts["uncompared"],
        **{cause: counts[cause] for cause in ("truncated", "evicted", "late")},
    }  # fmt: skip
    return values if losses is None else values | losses.values(ACCOUNTS_SHOWN)


class _Due(NamedTuple):
    """Documents that were just added and will be originals, with the rows of their batch. ``evicted`` is how many
    documents had been evicted when they came."""

    documents: list[Document]
    batch: Batch
    slots: list[int]
    times: list[int]
    evicted: int


class Canaries:
    """The canaries of one matcher: one document in ``every`` (0: none), as far as the allowance has room. ``seed``
    draws originals and edits, with that of the configuration."""

    def __init__(
        self, matcher: Matcher, every: int = EVERY, seed: int = 0, allowance: Allowance | None = None
    ) -> None:  # fmt: skip
        check_type(every, Integral, "canaries_every is a whole number of documents")
        config = matcher.config
        self._matcher = matcher
        self._every = every if has_canaries(config) else 0
        draws = Draws(config.seed + seed)
        self._pool, self._seen = Pool(config, draws), 0
        self.looks = Looks(config, draws, None if self._every else ())
        self._due: list[_Due] = []
        self._allowance = allowance

    def after(self, documents: Sequence[Document], batch: Batch, refusals: Sequence[Refusal] = ()) -> None:
        """Take the documents that a step has added, the rows of its batch are those that were not refused; look up what
        is due."""
        if not self._every:
            return
        documents = accepted_of(documents, refusals)
        first = -self._seen % self._every
        self._seen += batch.size
        if first >= batch.size:
            return
        rows = np.arange(first, batch.size, self._every)
        if self._allowance is not None:
            rows = rows[: self._allowance.take(len(rows))]
        table = self._matcher.table
        slots = table.slot_end - batch.size + rows
        times = batch.times[rows]
        is_late = (times < horizon(self._matcher.config, table.stream_time)) & (times != NO_TIME)
        self.looks.outcomes[LATE] += int(np.count_nonzero(is_late))
        in_window = ~is_late & (slots >= table.oldest)
        rows, slots = rows[in_window], slots[in_window]
        if len(rows):
            chosen, times = [documents[row] for row in rows.tolist()], again.counted_times(table, slots)
            self._due.append(_Due(chosen, select(batch, rows), slots.tolist(), times.tolist(), self._evicted()))
            if sum(len(due.slots) for due in self._due) >= TOGETHER:
                self._sow_and_look()

    def restored(self, batch: Batch, first_slot: int, newest: int = 0) -> None:
        """Take signed documents that a store says are in the window, from ``first_slot`` on.

        Their copies are equal to them, because a store has no elements. Of the ``newest`` documents each one is kept:
        those that a restored table may lack.
        """
        if not self._every:
            return
        evicted, now = self._evicted(), self._now()
        rows = np.arange(batch.size)
        is_kept = ((self._seen + rows + 1) % self._every == 0) | (rows >= batch.size - newest)
        self._seen += batch.size
        for row in rows[is_kept].tolist():
            one = row_of(batch, row)
            self._pool.keep(Original(first_slot + row, int(batch.times[row]), evicted, one, one.evidence, 1.0), now)

    def values(self) -> dict[str, Any]:
        """Return what was found, as values of JSON."""
        return {"every": self._every, "documents": self._pool.sown, **self.looks.values()}

    def _now(self) -> Now:
        table = self._matcher.table
        return Now(table.slot_end, table.stream_time)

    def _evicted(self) -> int:
        return self._matcher.table.counts()["evicted"]

    def _sow_and_look(self) -> None:
        """Keep the documents that are due as originals, and look up as many originals."""
        due, self._due = self._due, []
        documents = [document for one in due for document in one.documents]
        slots = [slot for one in due for slot in one.slots]
        times, evicted = [time for one in due for time in one.times], [one.evicted for one in due for _ in one.slots]
        now = self._now()
        chosen = self._pool.sow(documents, concatenate([one.batch for one in due]), slots, times, evicted, now)
        if chosen:
            self.looks.look(self._matcher, probes_of(chosen), lambda n: self._cause(chosen[n]))

    def _cause(self, one: Original) -> str:
        """Why an original was not met, without a limit."""
        table = self._matcher.table
        if one.number < table.oldest:
            return EVICTED if self._evicted() > one.note else FAULT
        return REMOVED if one.number < table.slot_end and again.removed(table, one.number) else FAULT
