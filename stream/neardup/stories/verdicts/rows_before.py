"""Decisions of 0.1.0, as arrivals and what was decided of them."""

from __future__ import annotations

import numpy as np

from neardup.stories.verdicts.decisions import Arrivals
from neardup.stories.verdicts.restoring import PastVerdicts, members_before
from neardup.stories.verdicts.rule import DOCUMENT, DUPLICATE, ORIGINAL, REMOVAL, UNCHANGED
from neardup.stories.verdicts.saved import RowsBefore


def from_rows_before(rows: RowsBefore) -> tuple[Arrivals, PastVerdicts]:
    """Return rows of 0.1.0 as arrivals, with the removals of their ids, and what was decided of them.

    A row with a distance of 0 stands for its cluster; a positive one led to the unchanged version that stands for it.
    """
    begins, own = rows.clusters == rows.places, rows.heads >= 0
    statuses = np.where(begins, ORIGINAL, np.where(own, UNCHANGED, DUPLICATE)).astype(np.uint8)
    count = len(statuses)
    kinds = np.full(count, DOCUMENT, np.uint8)
    arrivals = Arrivals(rows.places, kinds, rows.ids, rows.times, rows.contents, np.zeros(count, np.int64))
    similarities = np.where(own, np.float32(0.0), rows.similarities)
    decided = PastVerdicts(
        statuses, rows.clusters, similarities, rows.clusters, rows.similarities == 1.0, np.zeros(count, np.bool_),
        members_before(rows.clusters, kinds == DOCUMENT),
    )  # fmt: skip
    removed = np.flatnonzero(rows.removed > 0)
    if not len(removed):
        return arrivals, decided
    # Each id is removed behind its last removed version; later versions stay.
    last = len(removed) - 1 - np.unique(rows.ids[removed][::-1], return_index=True)[1]
    at = np.sort(removed[last]) + 1
    wider = Arrivals._make(np.insert(column, at, column[at - 1]) for column in arrivals)
    new = at + np.arange(len(at))
    wider.kinds[new] = REMOVAL
    decided = PastVerdicts._make(np.insert(column, at, column[at - 1]) for column in decided)
    return wider, decided._replace(before=members_before(decided.clusters, wider.kinds == DOCUMENT))
