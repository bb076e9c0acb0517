"""The records of stories with two members or more, their journal, the map of their ids, and the heap of their times.

Theory of operation. A record is a row of 44 numbers. A record that a step changes for the first time goes to the
journal as it was before; ``undo`` restores it. An ended record stays until a commit collects all ended ones: then its
number is free. The map leads from the hash of an id to the newest record of it, and ``OLDER`` to the next one.

The heap orders the records by the time of their newest member, and at equal times by place. A key may be less than
this time, until it comes to the top. So a story ends on time, and where there is no room the oldest one ends first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.stories.verdicts.row_columns import (
    BYTES,
    FIRST,
    FREE,
    GONE,
    HEAPED,
    JOURNAL,
    NONE,
    RECORDS,
    STEP,
    STORY_ENTRIES,
    Columns,
    Stories,
    row_at,
)
from neardup.window.pages import grow

# The fields of a record: the place of the original, the hash of its id (0 while it is not known), the times of its
# begin and of its oldest and newest member, the newest row by its id, whether it has ended, the next older record of
# its id, how many contents it has, bytes, the step that changed it, how many members it has (0 in a free record).
(PLACE, ID, BEGIN, OLDEST, NEWEST, OWN, HAS_ENDED, OLDER, CONTENTS, SIZE, CHANGED, MEMBERS) = range(12)
# Then for each content its row, place, hash and bytes; above them stands the mark of its id, 0 if it began the story.
# The first content of a story that was handed over (``heirs``) has a mark.
HEAD, CONTENT, BYTES_MASK = 12, 4, (1 << 32) - 1
CONTENT_ROW, CONTENT_PLACE, CONTENT_HASH, CONTENT_BYTES = range(CONTENT)
_MARK_BITS, _MARK_SET = np.uint64(0x7FFFFFFF << 32), np.uint64(1 << 32)
# The kept versions whose contents a story holds: the first and the newest, or the first ones (``rules.lasting``).
CONTENTS_MAX = 8
RECORD_FIELDS = HEAD + CONTENTS_MAX * CONTENT
_NO_RECORDS = np.empty((0, RECORD_FIELDS), np.int64)
# Bytes of a story besides its evidence, about: its record, the heap, the map, its name.
STORY_BYTES = 512
_MAP_ENTRIES_MIN = 1  # the first step makes it larger, so no later one has to load the kernel for that


@inlined
def mark_of(id_):
    """Return the mark of the hash of an id: its upper half, never 0."""
    return np.int64(id_ & _MARK_BITS | _MARK_SET)


@inlined
def touch(columns, story):
    """Keep a record as it was before the step."""
    story_columns, state = columns.story, columns.state
    record = story_columns.records[story]
    if record[CHANGED] != state[STEP]:
        kept = story_columns.journal[state[JOURNAL]]
        kept[0] = story
        for k in range(RECORD_FIELDS):
            kept[1 + k] = record[k]
        state[JOURNAL] += 1
        record[CHANGED] = state[STEP]


@inlined
def new_record(columns, place, id_, time, own):
    """Make a record without contents; return its number."""
    state, story_columns = columns.state, columns.story
    if state[FREE] > 0:
        state[FREE] -= 1
        story = story_columns.free[state[FREE]]
    else:
        story = state[RECORDS]
        state[RECORDS] += 1
        story_columns.records[story, CHANGED] = story_columns.records[story, MEMBERS] = 0
    touch(columns, story)
    record = story_columns.records[story]
    record[PLACE], record[ID], record[BEGIN], record[OLDEST], record[NEWEST] = place, id_, time, time, time
    record[OWN], record[HAS_ENDED], record[MEMBERS], record[SIZE], record[CONTENTS] = own, 0, 1, STORY_BYTES, 0
    record[OLDER] = NONE
    state[BYTES] += STORY_BYTES
    push(columns, story)
    return story


# The map from the hash of an id to its newest record, and the chain from there.


@inlined
def newest_story(columns, id_):
    """Return the newest record of an id, or ``NONE``."""
    entries = columns.story.id_map
    mask = len(entries) - 1
    at = np.int64(id_ & np.uint64(mask))
    while entries[at] != 0:
        story = np.int64(entries[at]) - 1
        if np.uint64(columns.story.records[story, ID]) == id_:
            return story
        at = (at + 1) & mask
    return np.int64(NONE)


@inner
def link(columns, story):
    """Add a record to the chain of its id, in order of the places."""
    entries, records = columns.story.id_map, columns.story.records
    mask = len(entries) - 1
    at = np.int64(np.uint64(records[story, ID]) & np.uint64(mask))
    while entries[at] != 0 and (
        records[np.int64(entries[at]) - 1, ID] != records[story, ID] or np.int64(entries[at]) - 1 == story
    ):
        at = (at + 1) & mask
    if entries[at] == 0:
        entries[at] = np.uint32(story + 1)
        records[story, OLDER] = NONE
        columns.state[STORY_ENTRIES] += 1
        return
    other = np.int64(entries[at]) - 1
    if records[other, PLACE] < records[story, PLACE]:
        entries[at] = np.uint32(story + 1)
        records[story, OLDER] = other
        return
    while records[other, OLDER] != NONE and records[records[other, OLDER], PLACE] > records[story, PLACE]:
        other = records[other, OLDER]
    touch(columns, other)
    records[story, OLDER] = records[other, OLDER]
    records[other, OLDER] = story


@inlined
def comes_before(columns, one, other):
    """Return whether the key at an index of the heap comes before the key at another."""
    keys, heap, records = columns.story.keys, columns.story.heap, columns.story.records
    if keys[one] != keys[other]:
        return keys[one] < keys[other]
    return records[heap[one], PLACE] < records[heap[other], PLACE]


@inlined
def swap(columns, one, other):
    """Exchange two entries of the heap."""
    keys, heap = columns.story.keys, columns.story.heap
    keys[one], keys[other] = keys[other], keys[one]
    heap[one], heap[other] = heap[other], heap[one]


@inlined
def push(columns, story):
    """Add a record to the heap."""
    at = columns.state[HEAPED]
    columns.story.heap[at], columns.story.keys[at] = story, columns.story.records[story, NEWEST]
    columns.state[HEAPED] = at + 1
    while at > 0 and comes_before(columns, at, (at - 1) >> 1):
        swap(columns, at, (at - 1) >> 1)
        at = (at - 1) >> 1


@inlined
def sift_down(columns):
    """Move the first entry of the heap to where it belongs."""
    at, size = np.int64(0), columns.state[HEAPED]
    while True:
        least, left = at, 2 * at + 1
        if left < size and comes_before(columns, left, least):
            least = left
        if left + 1 < size and comes_before(columns, left + 1, least):
            least = left + 1
        if least == at:
            break
        swap(columns, at, least)
        at = least


@inlined
def pop(columns):
    """Remove the first entry of the heap."""
    columns.state[HEAPED] -= 1
    swap(columns, 0, columns.state[HEAPED])
    sift_down(columns)


@kernel("Columns, i64")
def undo(columns, before_end):
    """Restore the records that the step changed; the rows from ``before_end`` on are gone."""
    state, records, journal = columns.state, columns.story.records, columns.story.journal
    for j in range(state[JOURNAL]):
        story = journal[j, 0]
        if journal[j, 1 + MEMBERS] == 0:  # made by this step
            number = records[story, HEAD + CONTENT_ROW]  # of an heir, it stands behind the original
            while number > state[FIRST] and columns.places[row_at(columns, number)] != records[story, PLACE]:
                number -= 1
            if number < before_end:
                columns.stories[row_at(columns, number)] = NONE
        for k in range(RECORD_FIELDS):
            records[story, k] = journal[j, 1 + k]
    state[JOURNAL] = 0


@kernel("Columns, i64[]")
def order(columns, stories):
    """Fill the empty map and the empty heap with records, in any order, and link them; between steps."""
    columns.state[HEAPED] = columns.state[STORY_ENTRIES] = 0
    for k in range(len(stories)):
        columns.story.records[stories[k], CHANGED] = columns.state[STEP]  # so that no change goes to the journal
        push(columns, stories[k])
    for k in range(len(stories)):
        link(columns, stories[k])


@kernel("Columns, i64[]")
def fill_map(columns, stories):
    """Fill the empty map with records that are linked already."""
    entries, records = columns.story.id_map, columns.story.records
    mask = len(entries) - 1
    columns.state[STORY_ENTRIES] = 0
    for k in range(len(stories)):
        story = stories[k]
        at = np.int64(np.uint64(records[story, ID]) & np.uint64(mask))
        while entries[at] != 0 and records[np.int64(entries[at]) - 1, ID] != records[story, ID]:
            at = (at + 1) & mask
        if entries[at] == 0:
            columns.state[STORY_ENTRIES] += 1
        elif records[np.int64(entries[at]) - 1, PLACE] > records[story, PLACE]:
            continue
        entries[at] = np.uint32(story + 1)


class Changes(NamedTuple):
    """What a step changed (``int64``): the rows and places of contents that stories have now and had not before, or not
    as the first one; of those that they have no longer; the places of stories that got a record or an heir, with the
    newest rows by their ids, ``NONE`` if unknown; of those that ended; the records of those that live and changed."""

    added: npt.NDArray[np.int64] = _NO_RECORDS[:, 0]
    added_places: npt.NDArray[np.int64] = _NO_RECORDS[:, 0]
    dropped: npt.NDArray[np.int64] = _NO_RECORDS[:, 0]
    dropped_places: npt.NDArray[np.int64] = _NO_RECORDS[:, 0]
    begun: npt.NDArray[np.int64] = _NO_RECORDS[:, 0]
    begun_rows: npt.NDArray[np.int64] = _NO_RECORDS[:, 0]
    ended: npt.NDArray[np.int64] = _NO_RECORDS[:, 0]
    records: npt.NDArray[np.int64] = _NO_RECORDS


NO_CHANGES = Changes()


def empty() -> Stories:
    """Return no records."""
    free, heap, keys = (np.empty(0, np.int64) for _ in range(3))
    records, journal = (np.empty((0, RECORD_FIELDS + own), np.int64) for own in (0, 1))
    id_map, mark_map = (np.zeros(_MAP_ENTRIES_MIN, np.uint32) for _ in range(2))
    return Stories(records, free, heap, keys, id_map, mark_map, journal)


def with_room(columns: Columns, count: int) -> Stories:
    """Return the records with room for ``count`` more, and for the journal of them all."""
    story, state = columns.story, columns.state
    wanted = int(state[RECORDS]) + count
    if wanted > len(story.journal):  # which comes last: after an exception all grow again
        wanted = max(wanted, len(story.journal) + (len(story.journal) >> 2))
        for array in (story.records, story.free, story.heap, story.keys):
            grow(array, wanted)
        journal = np.empty((wanted, 1 + RECORD_FIELDS), np.int64)  # its pages take memory when they are used
        journal[: state[JOURNAL]] = story.journal[: state[JOURNAL]]
        story = story._replace(journal=journal)
    if 4 * (int(state[RECORDS] - state[FREE]) + count) > 3 * len(story.id_map):  # each may get an id of its own
        entries = 1 << (2 * (int(state[RECORDS] - state[FREE]) + count) - 1).bit_length()
        story = story._replace(id_map=np.zeros(max(entries, _MAP_ENTRIES_MIN), np.uint32))
        fill_map(columns._replace(story=story), held(columns))
    return story


def held(columns: Columns) -> npt.NDArray[np.int64]:
    """Return the numbers of the records that are not free."""
    is_held = np.ones(int(columns.state[RECORDS]), np.bool_)
    is_held[columns.story.free[: columns.state[FREE]]] = False
    return np.flatnonzero(is_held)


def contents_of(columns: Columns, id_: np.uint64) -> npt.NDArray[np.uint64]:
    """Return the hashes of the contents of an id in all stories that have not ended, ``uint64[n]``."""
    numbers, records = held(columns), columns.story.records
    numbers = numbers[records[numbers, HAS_ENDED] == 0]
    contents, has = contents_in(records[numbers])
    marks, is_own = contents[..., CONTENT_BYTES] & ~BYTES_MASK, records[numbers, ID] == id_.astype(np.int64)
    has &= (marks == (id_ & _MARK_BITS | _MARK_SET).astype(np.int64)) | ((marks == 0) & is_own[:, None])
    return np.asarray(contents[has, CONTENT_HASH].view(np.uint64))


def collect(columns: Columns) -> npt.NDArray[np.int64]:
    """Free the records that have ended, which the caller still counts; return the numbers of the others."""
    numbers, records, state = held(columns), columns.story.records, columns.state
    ended = numbers[records[numbers, HAS_ENDED] != 0]
    records[ended, MEMBERS] = 0
    columns.story.free[state[FREE] : state[FREE] + len(ended)] = ended
    state[FREE] += len(ended)
    return held(columns)


def changes(columns: Columns, *, with_records: bool = True) -> Changes:
    """Return what the step changed so far, if asked for with the records."""
    if (count := columns.state.item(JOURNAL)) == 0:
        return NO_CHANGES
    journal, records = columns.story.journal[:count], columns.story.records
    contents, stories = np.empty((2, 2, CONTENTS_MAX * count), np.int64), np.empty((3, 2, count), np.int64)
    came, went, begun, ended, living = compare_records(journal, records, contents, stories)
    parts = *contents[0, :, :came], *contents[1, :, :went], *stories[0, :, :begun], stories[1, 0, :ended]
    lived = records.take(stories[2, 0, :living], axis=0) if with_records else NO_CHANGES.records
    return tuple.__new__(Changes, (*parts, lived))  # a call of ``Changes`` takes three times as long


@kernel("i64[,], i64[,], i64[,,], i64[,,]", locked=True, direct=True)
def compare_records(journal, records, contents, stories):
    """Compare the records of a journal with what they were before.

    ``contents`` (``int64[2, 2, n]``) receives the rows and places of the contents that came and went. ``stories``
    (``int64[3, 2, m]``) receives the stories that got a record or an heir, with their newest rows, those that ended,
    and the numbers of the records that live. Returns how many of each.
    """
    came = went = begun = ended = living = 0
    for j in range(len(journal)):
        before, now = journal[j, 1:], records[journal[j, 0]]
        had, has = before[MEMBERS] > 0 and not before[HAS_ENDED], not now[HAS_ENDED]
        for side in range(2):
            one, other = (now, before) if side == 0 else (before, now)
            is_here, is_there = (has, had) if side == 0 else (had, has)
            for k in range(one[CONTENTS] if is_here else 0):
                at = HEAD + k * CONTENT
                known = content_of(other, one[at + CONTENT_ROW]) if is_there else NONE
                if known == NONE or (side == 0 and k == 0 and known > 0):
                    out = contents[side, :, came if side == 0 else went]
                    out[0], out[1] = one[at + CONTENT_ROW], one[at + CONTENT_PLACE]
                    came, went = (came + 1, went) if side == 0 else (came, went + 1)
        if has and not (had and before[ID] == now[ID]):
            stories[0, 0, begun], stories[0, 1, begun] = now[PLACE], now[OWN]
            begun += 1
        if had and not has:
            stories[1, 0, ended] = before[PLACE]
            ended += 1
        if has:
            stories[2, 0, living] = journal[j, 0]
            living += 1
    return came, went, begun, ended, living


@inlined
def content_of(record, row):
    """Return the number of the content with a row, ``NONE`` if there is none."""
    for k in range(record[CONTENTS]):
        if record[HEAD + k * CONTENT + CONTENT_ROW] == row:
            return k
    return NONE


def contents_in(records: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the contents of records, a view (``int64[n, CONTENTS_MAX, CONTENT]``), and which of them a story has."""
    contents = records[:, HEAD:].reshape(len(records), CONTENTS_MAX, CONTENT)
    return contents, np.arange(CONTENTS_MAX) < records[:, CONTENTS, None]


@kernel("Columns, i64, i64, i64[,]", locked=True, direct=True)
def with_contents(columns, first, end, out):
    """Fill in the rows from ``first`` to ``end`` whose contents living stories have, and the place of the story whose
    first one each is, else ``NONE`` (``int64[2, n]``); return how many there are."""
    count = 0
    for number in range(first, end):
        story = np.int64(columns.stories[row_at(columns, number)])
        record = columns.story.records[max(story, 0)]
        content = content_of(record, number) if story >= 0 and not record[HAS_ENDED] else NONE
        if content != NONE:
            out[0, count], out[1, count] = number, record[PLACE] if content == 0 else NONE
            count += 1
    return count


def saved(columns: Columns, first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the records that have not ended, with rows counted from ``first``; and the new numbers of the old ones:
    the last two are those of ``GONE`` and ``NONE``."""
    numbers = held(columns)
    numbers = numbers[columns.story.records[numbers, HAS_ENDED] == 0]
    records = columns.story.records[numbers]
    records[:, [OWN, *range(HEAD + CONTENT_ROW, RECORD_FIELDS, CONTENT)]] -= first
    records[:, CHANGED] = 0
    new = np.full(int(columns.state[RECORDS]) + 2, GONE)
    new[numbers], new[-1] = np.arange(len(numbers)), NONE
    return records, new


def resume(columns: Columns, records: npt.NDArray[np.int64]) -> None:
    """Continue from saved records; there is room, and there are no others."""
    columns.story.records[: len(records)] = records
    columns.state[RECORDS], columns.state[BYTES] = len(records), records[:, SIZE].sum()
