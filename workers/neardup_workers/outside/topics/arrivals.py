"""Arrivals: the rows of ``signed`` as linkers keep them, without evidence. Their order is that of the log."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column
from neardup.schemes.interface import select_ragged, starts_of_lengths
from neardup.window import NO_TIME
from neardup_workers.outside.topics.shown import join_shown, select_shown

# What is said of no document.
NOT_JUDGED: Mapping[int, bytes] = MappingProxyType({})


class ArrivalRows(NamedTuple):
    """n arrivals as columns.

    ``places`` (``int64[n]``); ``kinds`` (``uint8[n]``) are the kinds of ``neardup.stories.verdicts.rule``; ``times``
    (``int64[n]``) are event times in microseconds, ``NO_TIME`` for other kinds than documents; ``contents``
    (``uint64[n]``) are hashes of the compared content; ``ids`` (``uint8``) the UTF-8 bytes of all ids, id i at
    ``id_starts[i]:id_starts[i + 1]``; a refusal has no id. ``ranks`` (``float64[n]``) are the ranks of documents,
    ``NO_RANK`` for none, ``sizes`` (``int64[n]``) the bytes of their ids and evidence. ``shown`` are source, URL and
    title of each (``neardup_workers.outside.topics.shown``). ``judged`` is that of
    ``neardup_workers.outside.topics.signed``.
    """

    places: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]
    shown: Column | None = None
    judged: Mapping[int, bytes] = NOT_JUDGED

    def select(self, rows: npt.NDArray[np.int64]) -> ArrivalRows:
        """Return some rows, in the given order."""
        ids, starts = select_ragged(self.ids, self.id_starts, rows)
        return ArrivalRows(
            self.places[rows], self.kinds[rows], self.times[rows], self.contents[rows], ids, starts, self.ranks[rows],
            self.sizes[rows], select_shown(self.shown, rows), self.judged,
        )  # fmt: skip


def arrived_at(timestamps_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return times of messages of ``signed``, -1 for none, as times of arrival in microseconds."""
    return np.where(timestamps_ms < 0, NO_TIME, timestamps_ms * 1000)


def join_arrivals(parts: list[ArrivalRows]) -> ArrivalRows:
    """Return the rows of all parts, one after the other; at least one part."""
    if len(parts) == 1:
        return parts[0]
    places, kinds, times, contents, ids, starts, ranks, sizes, shown, judged = zip(*parts, strict=True)
    joined = starts_of_lengths(np.concatenate([np.diff(part) for part in starts]))
    return ArrivalRows(
        np.concatenate(places), np.concatenate(kinds), np.concatenate(times), np.concatenate(contents),
        np.concatenate(ids), joined, np.concatenate(ranks), np.concatenate(sizes),
        join_shown(shown, list(map(len, places))), dict(ChainMap(*judged)) if any(judged) else NOT_JUDGED,
    )  # fmt: skip
