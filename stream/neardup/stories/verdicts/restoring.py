"""Rows of decisions from the verdicts that were made: a process that takes over decides as the last one would have.

The rows must be consecutive in order of arrival and begin at or before the oldest that may still speak. The stories are
given as records, or they are made from the rows. A story that is made without the row of its original ends with the
newest version of its id.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import raw_kernel
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.records import ID, link
from neardup.stories.verdicts.row_columns import IS_KEPT, IS_LATE, IS_OTHER, NONE, append, enter, remove, row_at
from neardup.stories.verdicts.rule import DOCUMENT, DUPLICATE, ORIGINAL, REMOVAL, UNCHANGED, UPDATE, Arrivals
from neardup.stories.verdicts.saved import RowsBefore
from neardup.stories.verdicts.stories import adopt, end_stories_of, join, story_of


def members_before(clusters: npt.NDArray[np.int64], counts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return for each arrival the index of the last one before it in its cluster, ``int64[n]``, -1 for none.

    Args:
        clusters: ``int64[n]``, the cluster of each arrival.
        counts: ``bool[n]``, which arrivals are members.
    """
    out = np.full(len(clusters), -1)
    members = np.flatnonzero(counts)
    order = members[np.argsort(clusters[members], kind="stable")]
    same = np.flatnonzero(clusters[order[1:]] == clusters[order[:-1]])
    out[order[same + 1]] = order[same]
    return out


@raw_kernel
def replay(columns, rules, arrivals, decided, befores, stories, numbers):
    """Add the rows of decided arrivals. ``stories`` (``int64[n]``) has the record of each, or is empty: then they are
    made here, by ``befores``, which is what ``members_before`` returns. ``numbers`` (``int64[n]``) receives the number
    of each row, -1 without one."""
    for i in range(len(arrivals.places)):
        numbers[i] = NONE
        if arrivals.kinds[i] == REMOVAL:
            remove(columns, arrivals.ids[i])
            if len(stories) == 0:  # else the records are as they were left, those of stories that began later, too
                end_stories_of(columns, arrivals.ids[i])
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
            columns.kept[at], columns.begun[at] = IS_KEPT, 0
            if len(stories):
                columns.stories[at] = stories[i]
            enter(columns, number)
            continue
        is_update = decided.statuses[i] == UPDATE
        is_own = is_update or (decided.statuses[i] == UNCHANGED and decided.similarities[i] == 0)
        similarity = np.float32(1.0) if is_own else decided.similarities[i]
        matched = arrivals.places[i] if is_update else decided.matched[i]
        kept = IS_KEPT if is_own or decided.equal[i] else IS_OTHER
        if len(stories):
            columns.stories[at], columns.clusters[at] = stories[i], decided.clusters[i]
            columns.similarities[at], columns.matched[at], columns.kept[at] = similarity, matched, kept
        else:
            before = befores[i]
            story = story_of(columns, numbers[before]) if before != NONE else np.int64(NONE)
            if story == NONE:
                story = adopt(columns, decided.clusters[i], number)
            if is_own and story >= 0 and columns.story.records[story, ID] == 0:
                columns.story.records[story, ID] = np.int64(arrivals.ids[i])
                link(columns, story)
            join(columns, rules, story, number, similarity, matched, kept)
        enter(columns, number)


def from_rows_before(rows: RowsBefore) -> tuple[Arrivals, Verdicts]:
    """Return rows of 0.1.0 as arrivals, with the removals of their ids, and what was decided of them.

    A row with a distance of 0 stands for its cluster; a positive one led to the unchanged version that stands for it.
    """
    begins, own = rows.clusters == rows.places, rows.heads >= 0
    statuses = np.where(begins, ORIGINAL, np.where(own, UNCHANGED, DUPLICATE)).astype(np.uint8)
    count = len(statuses)
    kinds, none = np.full(count, DOCUMENT, np.uint8), np.full(count, NONE)
    arrivals = Arrivals(rows.places, kinds, rows.ids, rows.times, rows.contents, np.zeros(count, np.int64))
    similarities = np.where(own, np.float32(0.0), rows.similarities)
    equal, late = rows.similarities == 1.0, np.zeros(count, np.bool_)
    decided = Verdicts(statuses, rows.clusters, none, similarities, none, none, rows.clusters, equal, late)
    removed = np.flatnonzero(rows.removed > 0)
    if not len(removed):
        return arrivals, decided
    # Each id is removed behind its last removed version; later versions stay.
    last = len(removed) - 1 - np.unique(rows.ids[removed][::-1], return_index=True)[1]
    at = np.sort(removed[last]) + 1
    wider = Arrivals._make(np.insert(column, at, column[at - 1]) for column in arrivals)
    wider.kinds[at + np.arange(len(at))] = REMOVAL
    return wider, Verdicts._make(np.insert(column, at, column[at - 1]) for column in decided)
