"""What documents share with earlier ones: for each document, its relation to the one that it shares most with.

A relation says more than a verdict: a document that contains an earlier one is kept, and a reader wants to know. The
relations of a document are ordered: first what it is part of, then what it contains, then what it shares something
with; of one kind, first that which has the most of it; then the one that arrived first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Relation
from neardup.pairs.batches import Batch
from neardup.pairs.pair_rule import SIMILARITY_DIGITS, Matches, relation_kinds, relations_of
from neardup.pairs.pipeline import Slice
from neardup.schemes.interface import Shared, joined_shared


class Relations(NamedTuple):
    """The relations of k arrivals: their indices in the call (``int64[k]``, ascending), the ids of the earlier
    documents, and what the earlier document and the arrival share."""

    rows: npt.NDArray[np.int64]
    ids: list[str]
    shared: Shared

    def values(self) -> Iterator[tuple[int, Relation]]:
        """Return each index with its relation."""
        return zip(self.rows.tolist(), relations_of(self.shared, self.ids), strict=True)


def by_arrival(matches: Matches, times: npt.NDArray[np.int64]) -> tuple[Shared, list[str]]:
    """Return what m pairs, in order of event time, share, of the document that arrived first and of the later one, and
    the ids of the first. ``times`` are those of the documents that arrived later."""
    assert matches.shared is not None, "the scheme does not know what texts share"
    swapped = matches.newer_times != times
    names = zip(matches.older, matches.newer, swapped.tolist(), strict=True)
    return matches.shared.swapped(swapped), [newer if swap else older for older, newer, swap in names]


def closest(
    rows: npt.NDArray[np.signedinteger[Any]], others: npt.NDArray[np.int64], fractions: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return which of m pairs is the relation of each later document (``rows``), as positions by the later document.
    The earlier ones have numbers in order of arrival; ``fractions`` are shared by the earlier and by the later text."""
    newer = np.round(fractions[:, 1], SIMILARITY_DIGITS)
    order = np.lexsort((others, -newer, relation_kinds(fractions), rows))
    return order[np.flatnonzero(np.diff(rows[order], prepend=-1))]


def relations_in(part: Slice, batch: Batch, rows: npt.NDArray[np.int64]) -> tuple[Relations, Shared]:
    """Return the relations of a slice of a batch, whose items are the arrivals ``rows``; and what its pairs share."""
    shared, names = by_arrival(part.matches, batch.times[part.items])
    others = np.flatnonzero(part.matches.similarity < 1)
    best = others[closest(part.items[others], part.slots[others], shared.fractions[others])]
    return Relations(rows[part.items[best]], [names[n] for n in best.tolist()], shared.select(best)), shared


def joined_relations(parts: Sequence[Relations]) -> Relations | None:
    """Return the relations of consecutive parts of a call; ``None`` without parts."""
    if not parts:
        return None
    ids = [id_ for part in parts for id_ in part.ids]
    return Relations(np.concatenate([part.rows for part in parts]), ids, joined_shared([p.shared for p in parts]))
