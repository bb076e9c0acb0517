"""Rows of decisions from the verdicts that were made: a process that takes over decides as the last one would have.

The rows must be consecutive in order of arrival and begin at or before the oldest that may still speak. What a row
refers to before the first of them has left the window, so a distance that leads below the first row says the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.machine.compile import raw_kernel
from neardup.stream.verdicts.row_columns import (
    CONTENT_ENTRIES,
    ID_ENTRIES,
    NONE,
    append,
    newest,
    remember,
    remove,
    repeat,
    row_at,
)
from neardup.stream.verdicts.rule import DOCUMENT, DUPLICATE, REMOVAL, UNCHANGED


class Decided(NamedTuple):
    """What was decided of n arrivals: statuses (``uint8[n]``) and clusters (``int64[n]``) as in ``Verdicts``; ``rows``
    (``int64[n]``), for each duplicate the place in the arrivals of its original, -1 where that is before them;
    similarities (``float32[n]``)."""

    statuses: npt.NDArray[np.uint8]
    clusters: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]


@raw_kernel
def replay(columns, arrivals, decided, numbers):
    """Add the rows of decided arrivals. ``numbers`` (``int64[n]``) receives the number of each row, -1 without one."""
    state = columns.state
    for i in range(len(arrivals.places)):
        numbers[i] = NONE
        if arrivals.kinds[i] == REMOVAL:
            remove(columns, arrivals.ids[i])
        if arrivals.kinds[i] != DOCUMENT:
            continue
        number = append(columns, arrivals.times[i], arrivals.contents[i], arrivals.ids[i], arrivals.places[i])
        numbers[i] = number
        at = row_at(columns, number)
        columns.clusters[at] = decided.clusters[i]
        version = newest(columns.id_map, columns.ids, columns, arrivals.ids[i])
        if version != NONE:
            columns.versions[at] = number - version
        if decided.statuses[i] == UNCHANGED and version != NONE:
            repeat(columns, version, number)
        elif decided.statuses[i] == DUPLICATE or (decided.statuses[i] == UNCHANGED and decided.similarities[i] > 0):
            original = numbers[decided.rows[i]] if decided.rows[i] != NONE else np.int64(NONE)
            columns.heads[at] = original - number
            columns.similarities[at] = decided.similarities[i]
        state[CONTENT_ENTRIES] += remember(columns.content_map, columns.contents, columns, arrivals.contents[i], number)
        state[ID_ENTRIES] += remember(columns.id_map, columns.ids, columns, arrivals.ids[i], number)
