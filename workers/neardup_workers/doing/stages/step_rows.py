"""The rows of a signer's step: one for each record of ``documents``, in order, and whether it was added, removed or
refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column
from neardup.documents.ids import ID_BYTES_MAX, stored_id
from neardup.pairs.batches import Batch, concatenate, empty_batch, id_columns
from neardup.schemes.interface import select_ragged
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.rule import DOCUMENT, JUDGED, REFERENCE, REFUSAL, REMOVAL, is_document
from neardup_workers.outside.topics.arrivals import NOT_JUDGED
from neardup_workers.outside.topics.places import places_of
from neardup_workers.outside.topics.shown import join_shown
from neardup_workers.outside.topics.signed import APART, TOGETHER, SignedRows
from neardup_workers.outside.transport.protocol import Headers, Record

# The headers of a record by which a person says that its document tells the story of the id that they name, or not.
JUDGEMENTS = {"neardup-together": TOGETHER, "neardup-apart": APART}


def is_any_judged(headers: Iterable[Headers]) -> bool:
    """Whether a person judges the document of one of these records, or of some."""
    return any(name in JUDGEMENTS for one in headers for name, _ in one)


def judgement_in(headers: Headers, collection: str | None, *, separate: bool) -> bytes:
    """Return what the headers of a record say of its document, as ``SignedRows.judged``; empty for nothing. The other
    id is of the same collection."""
    for name, value in headers:
        if name in JUDGEMENTS:
            other = value[: ID_BYTES_MAX + 1].decode(errors="replace")  # one that is too long, or no UTF-8, is unknown
            return JUDGEMENTS[name] + stored_id(other, collection, separate=separate)
    return b""


class StepRows:
    """The rows of a step. A record that is neither added nor a removal was refused."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        n = len(records)
        partitions, offsets = (np.fromiter((record[i] for record in records), np.int64, n) for i in (0, 1))
        self._places = places_of(partitions, offsets)
        self._kinds = np.full(n, REFUSAL, np.uint8)
        self._ranks = np.full(n, NO_RANK)
        self._removed: dict[int, bytes] = {}
        self._judged: dict[int, bytes] = {}
        self._batches: list[Batch] = []
        self._shown: list[Column | None] = []

    def add(
        self, rows: npt.NDArray[np.int64], batch: Batch, ranks: npt.NDArray[np.float64], shown: Column | None = None,
        references: npt.NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        """Mark these records as the documents of a batch, with ranks, what is shown of them, and which are of an old
        set; later calls have later records."""
        self._batches.append(batch)
        self._shown.append(shown)
        self._kinds[rows] = DOCUMENT if references is None else np.where(references, REFERENCE, DOCUMENT)
        self._ranks[rows] = ranks

    def places_at(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the places of records."""
        return self._places[rows]

    def remove(self, row: int, id_: bytes) -> None:
        """Mark a record as the removal of an id."""
        self._kinds[row] = REMOVAL
        self._removed[row] = id_

    def judge(self, row: int, said: bytes) -> None:
        """Mark a record as a document that a person judges, if it is added; ``said`` is as in ``SignedRows``."""
        self._judged[row] = said

    def signed(self, width: int) -> SignedRows:
        """Return a row for each record, and one for each offset of a refused batch; ``width`` is that of the fixed
        evidence."""
        parts = self._batches
        judged = {row: said for row, said in self._judged.items() if is_document(self._kinds[row])}
        self._kinds[list(judged)] = JUDGED
        batch = concatenate(parts) if parts else empty_batch(width)
        removed, removed_starts = id_columns(list(self._removed.values()))
        ids = np.concatenate([batch.ids, removed])
        starts = np.concatenate([batch.id_starts, batch.id_starts[-1] + removed_starts[1:], batch.id_starts[-1:] * 0])
        starts[-1] = starts[-2]  # the last of the ids is empty: that of a refusal
        at = np.full(len(self._records), len(starts) - 2)
        at[is_document(self._kinds)] = np.arange(batch.size)
        at[list(self._removed)] = batch.size + np.arange(len(self._removed))
        counts = np.fromiter((record.offset + 1 - _first_offset(record) for record in self._records), np.int64)
        rows = np.repeat(np.arange(len(counts)), counts)
        before_end = np.cumsum(counts)[rows] - 1 - np.arange(len(rows))
        places = self._places[rows] - before_end
        return SignedRows(
            self._kinds[rows], places, *select_ragged(ids, starts, at[rows]), self._ranks[rows],
            batch.times, batch.contents, batch.evidence, join_shown(self._shown, [part.size for part in parts]),
            judged={int(self._places[row]): said for row, said in judged.items()} or NOT_JUDGED,
        )  # fmt: skip


def _first_offset(record: Record) -> int:
    return record.offset if record.refused is None else record.refused.first_offset
