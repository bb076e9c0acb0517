"""The rows of decisions, as columns: where a row stands, what it counts for, the newest row of a hash.

*Rows* are decided documents, numbered in order of arrival. ``heads`` of a row is the distance to another row: 0 for a
row that stands for its cluster, negative (back) for a duplicate, positive (forward) for a row whose later unchanged
version stands for the cluster in its place. A walk along ``heads`` ends at the row that stands, if all rows on the way
count (``in_state``). ``rules`` of the functions are the ``VerdictLimits`` of ``decisions``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.machine.compile import inlined, raw_kernel
from neardup.stream.table import NO_TIME, NO_WINDOW

NONE = -1
ROW_PAGE_BITS = 12
_PAGE_MASK = (1 << ROW_PAGE_BITS) - 1
# The maps store numbers modulo this, plus one; 0 is an empty entry.
_MODULUS = (1 << 32) - 1
# The fields of ``Columns.state``.
FIRST, END, STREAM_TIME, FIRST_TIME, CONTENT_ENTRIES, ID_ENTRIES, IGNORED, STEP = range(8)
STATE_FIELDS = 8


class Columns(NamedTuple):
    """The state: rows in pages, and two maps from a hash to the newest row that has it."""

    page_map: npt.NDArray[np.int32]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint64]
    places: npt.NDArray[np.int64]
    clusters: npt.NDArray[np.int64]
    heads: npt.NDArray[np.int32]
    versions: npt.NDArray[np.uint32]  # distance back to the version before, 0 for none
    similarities: npt.NDArray[np.float32]
    removed: npt.NDArray[np.uint32]  # the step that removed its id, 0 for none
    content_map: npt.NDArray[np.uint32]
    id_map: npt.NDArray[np.uint32]
    state: npt.NDArray[np.int64]


@inlined
def row_at(columns, number):
    """Return the place of a row in the arrays."""
    page = columns.page_map[(number >> ROW_PAGE_BITS) % len(columns.page_map)]
    return (np.int64(page) << ROW_PAGE_BITS) | (number & _PAGE_MASK)


@inlined
def time_of(columns, at):
    """Return the time of a row; rows before the first event time have that time."""
    time = columns.times[at]
    return columns.state[FIRST_TIME] if time == NO_TIME else time


@inlined
def in_state(columns, rules, number):
    """Return whether a row counts: it is decided, within the limit of rows, and not older than window and lateness."""
    state = columns.state
    if number < state[FIRST] or number >= state[END] or state[END] - number > rules.rows:
        return False
    if rules.window == NO_WINDOW or state[STREAM_TIME] == NO_TIME:
        return True
    return time_of(columns, row_at(columns, number)) >= state[STREAM_TIME] - rules.window - rules.lateness


@inlined
def in_window(columns, rules, number, time):
    """Return whether a row is in the window of a document with this time."""
    other = time_of(columns, row_at(columns, number))
    apart = np.int64(0) if other == NO_TIME or time == NO_TIME else time - other
    return -rules.window <= apart <= rules.window


@inlined
def standing(columns, rules, number):
    """Return the row that stands for the cluster of a row, or ``NONE`` if it has left the state or was removed."""
    while True:
        if not in_state(columns, rules, number):
            return NONE
        at = row_at(columns, number)
        distance = np.int64(columns.heads[at])
        if distance == 0:
            return NONE if columns.removed[at] else number
        number += distance


@inlined
def newest(entries, hashes, columns, hash_):
    """Return the newest stored row whose value in ``hashes`` is ``hash_``, or ``NONE``; it may have expired."""
    mask = len(entries) - 1
    last = columns.state[END] - 1
    place = np.int64(hash_ & np.uint64(mask))
    while entries[place] != 0:
        number = last - (last - (np.int64(entries[place]) - 1)) % _MODULUS
        if number >= columns.state[FIRST] and hashes[row_at(columns, number)] == hash_:
            return number
        place = (place + 1) & mask
    return np.int64(NONE)


@inlined
def latest(columns, rules, content):
    """Return the newest row of a content that counts (``in_state``), or ``NONE``."""
    number = newest(columns.content_map, columns.contents, columns, content)
    return number if in_state(columns, rules, number) else np.int64(NONE)


@inlined
def remember(entries, hashes, columns, hash_, number):
    """Make a row the newest of its hash; return the number of new entries, 1 or 0."""
    mask = len(entries) - 1
    last = columns.state[END] - 1
    place = np.int64(hash_ & np.uint64(mask))
    while entries[place] != 0:
        other = last - (last - (np.int64(entries[place]) - 1)) % _MODULUS
        if other >= columns.state[FIRST] and hashes[row_at(columns, other)] == hash_:
            entries[place] = np.uint32(number % _MODULUS + 1)
            return 0
        place = (place + 1) & mask
    entries[place] = np.uint32(number % _MODULUS + 1)
    return 1


@inlined
def append(columns, time, content, id_, place):
    """Add a row without a decision; return its number."""
    state = columns.state
    number = state[END]
    state[END] = number + 1
    if time != NO_TIME:
        if state[STREAM_TIME] == NO_TIME:
            state[FIRST_TIME] = time
        state[STREAM_TIME] = max(state[STREAM_TIME], time)
    at = row_at(columns, number)
    columns.times[at], columns.contents[at], columns.ids[at] = time, content, id_
    columns.places[at], columns.clusters[at] = place, place
    columns.heads[at], columns.versions[at] = 0, 0
    columns.similarities[at], columns.removed[at] = 1.0, 0
    return number


@inlined
def remove(columns, id_):
    """Mark every version of an id as removed."""
    number = newest(columns.id_map, columns.ids, columns, id_)
    while number != NONE:
        at = row_at(columns, number)
        if not columns.removed[at]:
            columns.removed[at] = np.uint32(columns.state[STEP])
        back = np.int64(columns.versions[at])
        number = number - back if back and number - back >= columns.state[FIRST] else NONE


@inlined
def repeat(columns, version, number):
    """Copy the decision of the version before a row; if that version stands for its cluster, the row replaces it."""
    before, at = row_at(columns, version), row_at(columns, number)
    columns.clusters[at], columns.similarities[at] = columns.clusters[before], columns.similarities[before]
    if columns.heads[before] == 0:
        columns.heads[before] = number - version
    else:
        columns.heads[at] = columns.heads[before] - (number - version)


@inlined
def current(columns, rules, number):
    """Return the row with the latest decision of a row's content: the newest copy, unless its id was removed."""
    if not rules.by_content:
        return number
    copy = latest(columns, rules, columns.contents[row_at(columns, number)])
    return number if copy == NONE or columns.removed[row_at(columns, copy)] else copy


@raw_kernel
def newest_rows(columns, contents, numbers):
    """Find the newest kept row of each content, ``NONE`` where there is none."""
    for i in range(len(contents)):
        numbers[i] = newest(columns.content_map, columns.contents, columns, contents[i])


@raw_kernel
def rebuild(columns, end):
    """Fill the empty maps from the rows below ``end``, from the oldest to the newest."""
    state = columns.state
    state[CONTENT_ENTRIES] = state[ID_ENTRIES] = 0
    for number in range(state[FIRST], end):
        at = row_at(columns, number)
        state[CONTENT_ENTRIES] += remember(columns.content_map, columns.contents, columns, columns.contents[at], number)
        state[ID_ENTRIES] += remember(columns.id_map, columns.ids, columns, columns.ids[at], number)


@raw_kernel
def undo(columns, end, step):
    """Restore the rows before ``end``: the rows from ``end`` on and the removals of ``step`` changed them."""
    for number in range(columns.state[FIRST], end):
        at = row_at(columns, number)
        if number + columns.heads[at] >= end:
            columns.heads[at] = 0
        if columns.removed[at] == np.uint32(step):
            columns.removed[at] = 0


@raw_kernel
def drop(columns, rules):
    """Drop the oldest rows that no longer count; return the first row that remains."""
    state = columns.state
    while state[FIRST] < state[END] and not in_state(columns, rules, state[FIRST]):
        state[FIRST] += 1
    return state[FIRST]
