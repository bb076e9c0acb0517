"""The records of a signer's step: the place of each, and whether it was added, removed or refused.

Progress lists, by partition of ``documents``, the offsets that the step read, from the end of the step before. So the
progress of consecutive steps has no holes, although control records leave gaps between offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neardup.stream.batches import CONTENT_HALF, Batch, id_columns
from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.representatives import NO_RANK
from neardup.stream.verdicts.rule import DOCUMENT, REFUSAL, REMOVAL
from neardup.workers.topics.arrivals import ArrivalRows
from neardup.workers.topics.places import places_of
from neardup.workers.transport.protocol import Record


class StepRows:
    """The rows of a step. A record that is neither added nor a removal was refused."""

    def __init__(self, records: Sequence[Record], starts: Mapping[int, int]) -> None:
        self._records = records
        n = len(records)
        partitions, offsets = (np.fromiter((record[i] for record in records), np.int64, n) for i in (0, 1))
        self._places = places_of(partitions, offsets)
        self._kinds = np.full(n, REFUSAL, np.uint8)
        self._times = np.full(n, NO_TIME)
        self._contents = np.zeros(n, np.uint64)
        self._ids: list[bytes] = [b""] * n
        self._ranks = np.full(n, NO_RANK)
        self._batches: list[tuple[npt.NDArray[np.int64], Batch]] = []
        self.stream_time = int(NO_TIME)
        self.progress = _progress(records, partitions, offsets, starts)

    def add(self, rows: npt.NDArray[np.int64], batch: Batch, ranks: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Mark these records as the documents of a batch, with their ranks; returns their places."""
        self._batches.append((rows, batch))
        self._ranks[rows] = ranks
        self.stream_time = int(batch.times.max(initial=self.stream_time))
        return self._places[rows]

    def remove(self, row: int, id_: bytes) -> None:
        """Mark a record as the removal of an id."""
        self._kinds[row] = REMOVAL
        self._ids[row] = id_

    def arrivals(self) -> ArrivalRows:
        """Return a row for each record, and one for each offset of a refused batch."""
        for rows, batch in self._batches:
            self._kinds[rows], self._times[rows] = DOCUMENT, batch.times
            self._contents[rows] = batch.contents[:, CONTENT_HALF]
            data, starts = batch.ids.tobytes(), batch.id_starts.tolist()
            for row, first, end in zip(rows.tolist(), starts[:-1], starts[1:], strict=True):
                self._ids[row] = data[first:end]
        made = ArrivalRows(self._places, self._kinds, self._times, self._contents, *id_columns(self._ids), self._ranks)
        batches = [(i, record) for i, record in enumerate(self._records) if record.refused is not None]
        if not batches:
            return made
        counts = np.ones(len(self._records), np.int64)
        for i, record in batches:
            counts[i] = record.offset + 1 - _first_offset(record)
        rows = np.repeat(np.arange(len(counts)), counts)
        before_end = np.cumsum(counts)[rows] - 1 - np.arange(len(rows))
        made = made.select(rows)
        return made._replace(places=made.places - before_end)


def _progress(
    records: Sequence[Record],
    partitions: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    starts: Mapping[int, int],
) -> npt.NDArray[np.int64]:
    """Return partition, first offset and end of the read offsets, ``int64[k, 3]``."""
    distinct, firsts = np.unique(partitions, return_index=True)
    ends = np.full(int(distinct.max(initial=-1)) + 1, -1)
    np.maximum.at(ends, partitions, offsets + 1)
    rows = [
        (partition, starts.get(partition, _first_offset(records[first])), ends[partition])
        for partition, first in zip(distinct.tolist(), firsts.tolist(), strict=True)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def _first_offset(record: Record) -> int:
    return record.offset if record.refused is None else record.refused.first_offset
