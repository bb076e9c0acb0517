"""Rows of decisions from the verdicts that were made: a process that takes over decides as the last one would have.

The rows must be consecutive in order of arrival and begin at or before the oldest that may still speak.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import raw_kernel
from neardup.stories.verdicts.row_columns import IS_KEPT, IS_LATE, IS_OTHER, NONE, append, enter, remove, row_at
from neardup.stories.verdicts.rule import DOCUMENT, ORIGINAL, REMOVAL, UNCHANGED, UPDATE


@raw_kernel
def replay(columns, arrivals, decided, stories, numbers):
    """Add the rows of decided arrivals. ``stories`` (``int64[n]``) has the record of each. ``numbers`` (``int64[n]``)
    receives the number of each row, -1 without one."""
    for i in range(len(arrivals.places)):
        numbers[i] = NONE
        if arrivals.kinds[i] == REMOVAL:
            remove(columns, arrivals.ids[i])
        if arrivals.kinds[i] != DOCUMENT:
            continue
        number = append(
            columns, arrivals.times[i], arrivals.contents[i], arrivals.ids[i], arrivals.places[i], arrivals.sizes[i]
        )
        numbers[i] = number
        at = row_at(columns, number)
        if decided.late[i]:
            columns.kept[at], columns.clusters[at] = IS_LATE, decided.clusters[i]
            continue
        if decided.statuses[i] == ORIGINAL:
            columns.kept[at], columns.begun[at], columns.stories[at] = IS_KEPT, 0, stories[i]
            enter(columns, number)
            continue
        is_update = decided.statuses[i] == UPDATE
        is_own = is_update or (decided.statuses[i] == UNCHANGED and decided.similarities[i] == 0)
        columns.stories[at], columns.clusters[at] = stories[i], decided.clusters[i]
        columns.similarities[at] = np.float32(1.0) if is_own else decided.similarities[i]
        columns.matched[at] = arrivals.places[i] if is_update else decided.matched[i]
        columns.kept[at] = IS_KEPT if is_own or decided.equal[i] else IS_OTHER
        enter(columns, number)
