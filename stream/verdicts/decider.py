"""Decide the documents of one process: the matcher finds the pairs, and the rule of verdicts decides.

Theory of operation. Every document that the table adds has a row in the decisions, so that slot and row number differ
by a constant. A batch is one step of both: on any exception neither has it. What the table no longer holds, the
decisions forget before the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from stream.batches import id_columns, id_hashes
from stream.documents import Document, Verdict
from stream.errors import ConfigError
from stream.pipeline import Matcher, Signed, step
from stream.table import NO_TIME
from stream.verdicts.decisions import Arrivals, Decisions, Found, VerdictLimits, Verdicts
from stream.verdicts.rule import DOCUMENT, REFUSAL, REFUSED, REMOVAL, STATUSES


class Decider:
    """The decisions about what a matcher adds. Used by one thread at a time.

    Args:
        matcher: all documents go to it through ``decide``.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        limits = matcher.table.limits
        self.decisions = Decisions(VerdictLimits(limits.window, limits.lateness, limits.items, limits.by_content))
        self._places = 0  # of the documents decided so far, refused ones included
        self._first_slot: int | None = None  # of the document with row number 0

    def decide(self, documents: Sequence[Document], signed: Signed) -> Iterator[Verdict]:
        """Match and decide documents.

        Args:
            documents: in order of arrival.
            signed: what the signer made of them.

        Returns:
            One verdict for each document, in order.

        Raises:
            ConfigError: the table holds documents that were added in another way since the first decision, or the
                matcher keeps candidates that are no pairs.
        """
        table, decisions = self._matcher.table, self.decisions
        offset = self._offset()
        with step(table):
            decisions.forget(table.oldest - offset)
            with _step(decisions):
                verdicts = self._decide(len(documents), signed, offset)
                originals = verdicts.originals[verdicts.originals >= 0] + offset
                ids = iter(table.ids(originals))
        self._places += len(documents)
        return _verdicts(documents, verdicts, ids)

    def remove(self, id_: bytes) -> None:
        """Note that all versions of an id (UTF-8) are removed."""
        if self._first_slot is None:
            return
        hashes = id_hashes(*id_columns([id_]))
        none, no_time = np.zeros(1, np.uint64), np.array([NO_TIME])
        arrivals = Arrivals(no_time, np.array([REMOVAL], np.uint8), hashes, no_time, none)
        with _step(self.decisions):
            self.decisions.decide(arrivals, _NOTHING_FOUND)

    def _offset(self) -> int:
        """What to add to a row number to get the slot."""
        end = self._matcher.table.slot_end
        if self._first_slot is None:
            self._first_slot = end
        if end != self._first_slot + self.decisions.end:
            raise ConfigError(
                f"{end - self._first_slot - self.decisions.end} documents were processed and not decided: "
                "use either decide or process on one Deduplicator"
            )
        if self._matcher.score_min < self._matcher.config.tuning.score_min:
            raise ConfigError("candidates is on, so pairs below the least score would drop documents: leave it off")
        return self._first_slot

    def _decide(self, count: int, signed: Signed, offset: int) -> Verdicts:
        slices = list(self._matcher.slices(signed.batch))
        accepted = np.ones(count, np.bool_)
        accepted[[refusal.place for refusal in signed.refusals]] = False
        rows = np.flatnonzero(accepted)
        kinds = np.where(accepted, DOCUMENT, REFUSAL).astype(np.uint8)
        ids, contents, times = np.zeros(count, np.uint64), np.zeros(count, np.uint64), np.zeros(count, np.int64)
        ids[rows] = id_hashes(signed.batch.ids, signed.batch.id_starts)
        contents[rows], times[rows] = signed.batch.contents[:, 0], signed.batch.times
        arrivals = Arrivals(np.arange(self._places, self._places + count), kinds, ids, times, contents)
        found = Found(
            rows[np.concatenate([part.items for part in slices])],
            np.concatenate([part.slots for part in slices]) - offset,
            np.concatenate([part.matches.similarity for part in slices]).astype(np.float32),
        )
        return self.decisions.decide(arrivals, found)


_NOTHING_FOUND = Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))


@contextmanager
def _step(decisions: Decisions) -> Iterator[None]:
    """A step of the decisions, committed at the end and undone on any exception."""
    decisions.begin()
    try:
        yield
    except BaseException:
        decisions.undo()
        raise
    decisions.commit()


def _verdicts(documents: Sequence[Document], verdicts: Verdicts, ids: Iterator[str]) -> Iterator[Verdict]:
    columns = zip(documents, *(column.tolist() for column in verdicts), strict=True)
    for document, status, cluster, original, similarity, related, previous in columns:
        yield Verdict(
            document.id,
            STATUSES[status],
            None if original < 0 else next(ids),
            similarity or None,
            None if status == REFUSED else cluster,
            None if related < 0 else related,
            None if previous < 0 else previous,
        )
