"""The rule of verdicts, as one kernel over columns.

Documents are decided in order of arrival. A document to keep is an *original*. A document to drop is a *duplicate*
of an original, and the contents of the two were compared. This is pivot clustering in order of arrival
(Ailon, Charikar, Newman, "Aggregating inconsistent information", JACM 55(5), 2008). It does not chain.

For a document d with content X, the first rule that fits decides:

1. X is the content of the latest version of d's id: ``UNCHANGED``. It repeats what that version resolved to.
2. X is decided, and the original of X lies in d's window: ``DUPLICATE`` of it, with the similarity recorded for X.
3. A pair of d leads to the content of an original in d's window: ``DUPLICATE`` of the most similar such original; of
   equal ones, of the first in order of arrival.
4. ``ORIGINAL``. If X or the content of a pair has another decision, ``related`` is the cluster of the most similar of
   these contents.

*Rows* are decided documents, numbered in order of arrival. ``heads`` of a row is the distance to another row: 0 for a
row that stands for its cluster, negative (back) for a duplicate, positive (forward) for a row whose later unchanged
version stands for the cluster in its place. A walk along ``heads`` ends at the row that stands, if all rows on the way
count (``in_state``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.kernels.compile import inlined, raw_kernel
from neardup.stream.table import NO_TIME

ORIGINAL, DUPLICATE, UNCHANGED, REMOVED, REFUSED = range(5)
STATUSES = ("original", "duplicate", "unchanged", "removed", "refused")
DOCUMENT, REMOVAL, REFUSAL = range(3)  # the kinds of arrivals
NONE = -1
ROW_PAGE_BITS = 12
_PAGE_MASK = (1 << ROW_PAGE_BITS) - 1
# The maps store numbers modulo this, plus one; 0 is an empty entry.
_MODULUS = (1 << 32) - 1
# The fields of ``Columns.state``.
FIRST, END, STREAM_TIME, FIRST_TIME, CONTENT_ENTRIES, ID_ENTRIES, IGNORED, STEP = range(8)
STATE_FIELDS = 8
NO_WINDOW = np.int64(np.iinfo(np.int64).max)


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


class Rules(NamedTuple):
    """The window and the lateness in microseconds, the most rows, and whether equal contents are duplicates."""

    window: int
    lateness: int
    rows: int
    by_content: bool


class Undecided(NamedTuple):
    """A document to decide: its place in the arrivals, its row, its time, and where its pairs begin and end."""

    place: int
    number: int
    time: int
    pairs_first: int
    pairs_end: int


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
def choose(columns, rules, document, decided, pairs, verdicts):
    """Decide a row that repeats no version: rules 2 to 4. ``decided`` is the newest row of its content, or ``NONE``."""
    best, best_similarity = np.int64(NONE), np.float32(0.0)
    near, near_similarity = np.int64(NONE), np.float32(0.0)
    if decided != NONE:
        original = standing(columns, rules, decided)
        if original != NONE and in_window(columns, rules, original, document.time):
            best, best_similarity = original, columns.similarities[row_at(columns, decided)]
        elif not columns.removed[row_at(columns, decided)]:
            near, near_similarity = decided, np.float32(1.0)
    if best == NONE:
        for j in range(document.pairs_first, document.pairs_end):
            other, similarity = pairs.numbers[j], pairs.similarities[j]
            if not in_state(columns, rules, other):
                columns.state[IGNORED] += 1
                continue
            if columns.removed[row_at(columns, other)]:
                continue
            other = current(columns, rules, other)
            content = columns.contents[row_at(columns, other)]
            original = standing(columns, rules, other)
            if (
                original != NONE
                and columns.contents[row_at(columns, original)] == content
                and in_window(columns, rules, original, document.time)
            ):
                if similarity > best_similarity or (similarity == best_similarity and original < best):
                    best, best_similarity = original, similarity
            elif similarity > near_similarity or (similarity == near_similarity and other < near):
                near, near_similarity = other, similarity
    at = row_at(columns, document.number)
    if best != NONE:
        columns.heads[at] = best - document.number
        columns.clusters[at] = columns.clusters[row_at(columns, best)]
        columns.similarities[at] = best_similarity
        verdicts.statuses[document.place] = DUPLICATE
        return
    verdicts.statuses[document.place] = ORIGINAL
    if near != NONE:
        verdicts.related[document.place] = columns.clusters[row_at(columns, near)]


@inlined
def current(columns, rules, number):
    """Return the row with the latest decision of a row's content: the newest copy, unless its id was removed."""
    if not rules.by_content:
        return number
    copy = latest(columns, rules, columns.contents[row_at(columns, number)])
    return number if copy == NONE or columns.removed[row_at(columns, copy)] else copy


@inlined
def pairs_end(pairs, first, arrival):
    """Return the end of the pairs of an arrival; they begin at ``first``."""
    while first < len(pairs.rows) and pairs.rows[first] == arrival:
        first += 1
    return first


@raw_kernel
def decide(columns, rules, arrivals, pairs, verdicts):
    """Decide arrivals in their order; see the module for the rule.

    ``pairs.rows`` never decrease: they say which arrival a pair belongs to. The caller has made room for the rows and
    in the maps.
    """
    pair = np.int64(0)  # the literal 0 has a type of its own, for which the compiler would compile every step twice
    for i in range(len(arrivals.places)):
        verdicts.clusters[i], verdicts.originals[i] = arrivals.places[i], NONE
        verdicts.related[i] = verdicts.previous[i] = NONE
        verdicts.similarities[i] = 0.0
        first, pair = pair, pairs_end(pairs, pair, i)
        if arrivals.kinds[i] == REMOVAL:
            verdicts.statuses[i] = REMOVED
            remove(columns, arrivals.ids[i])
        elif arrivals.kinds[i] == REFUSAL:
            verdicts.statuses[i] = REFUSED
        else:
            decide_document(columns, rules, arrivals, i, pairs, first, pair, verdicts)


@inlined
def decide_document(columns, rules, arrivals, i, pairs, first, end, verdicts):
    """Decide one document; its pairs are ``[first, end)``."""
    state = columns.state
    time = arrivals.times[i] if arrivals.times[i] != NO_TIME else state[STREAM_TIME]
    content, id_ = arrivals.contents[i], arrivals.ids[i]
    number = append(columns, time, content, id_, arrivals.places[i])
    at = row_at(columns, number)
    version = newest(columns.id_map, columns.ids, columns, id_)
    if version != NONE:
        columns.versions[at] = number - version
        before = row_at(columns, version)
        if (
            columns.removed[before]
            or not in_state(columns, rules, version)
            or not in_window(columns, rules, version, time)
        ):
            version = np.int64(NONE)
        else:
            verdicts.previous[i] = columns.places[before]
    if version != NONE and columns.contents[row_at(columns, version)] == content:
        repeat(columns, version, number)
        verdicts.statuses[i] = UNCHANGED
    else:
        decided = latest(columns, rules, content) if rules.by_content else np.int64(NONE)
        choose(columns, rules, Undecided(i, number, time, first, end), decided, pairs, verdicts)
    verdicts.clusters[i] = columns.clusters[at]
    if columns.heads[at] != 0:
        verdicts.originals[i] = standing(columns, rules, number + columns.heads[at])
        verdicts.similarities[i] = columns.similarities[at]
    state[CONTENT_ENTRIES] += remember(columns.content_map, columns.contents, columns, content, number)
    state[ID_ENTRIES] += remember(columns.id_map, columns.ids, columns, id_, number)


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
