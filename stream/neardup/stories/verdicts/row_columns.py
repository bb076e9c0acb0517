"""The rows of decisions, as columns: what was decided of a row, whether it counts, the newest row of a hash.

*Rows* are decided documents, numbered in order of arrival. A row belongs to a story (``stories``). The first row of a
story has no record of it until a second one joins: ``stories`` of the row is ``NONE``, and ``clusters`` its own place.
A late row is stored for its number alone: no map leads to it. ``rules`` of the functions are the ``VerdictLimits``.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, kernel
from neardup.machine.memory import prefetch
from neardup.window import NO_TIME, NO_WINDOW, Limits
from neardup.window.pages import empty_arrays, index_at

# No row, no story; the story of a row that has ended and whose record is gone.
NONE, GONE = -1, -2
ROW_PAGE_BITS = 12
# The maps store numbers modulo this, plus one; 0 is an empty entry.
_MODULUS = (1 << 32) - 1
# The fields of ``Columns.state``. Rows from ``COUNTED`` on count, and have ``COUNTED_BYTES``; those from ``FIRST`` are
# stored until a step ends. The fields from ``RECORDS`` on are of ``records``: records in use or free, free ones,
# entries of the heap, ended records, records in the journal, bytes of the stories, stories that the limit of bytes
# ended, entries of the two maps.
(
    FIRST, END, STREAM_TIME, FIRST_TIME, CONTENT_ENTRIES, ID_ENTRIES, IGNORED, STEP, CUT, LATE,
    COUNTED, COUNTED_BYTES, RECORDS, FREE, HEAPED, ENDED, JOURNAL, BYTES, EVICTED, STORY_ENTRIES, MARK_ENTRIES,
) = range(21)  # fmt: skip
STATE_FIELDS = 21
# The values of ``kept``.
IS_OTHER, IS_KEPT, IS_LATE = range(3)
# How many rows ahead a look in the maps is prefetched: first the entries, then the rows that stand there.
ENTRIES_AHEAD, ROWS_AHEAD = 16, 8
# ``begun`` of a row whose id began no story up to it.
NOT_BEGUN = np.uint32(0xFFFFFFFF)


class VerdictLimits(NamedTuple):
    """What verdicts depend on besides the documents.

    Window and lateness in microseconds, the most rows, the most bytes of ids and evidence (but for its fixed part, of
    ``width``), and whether equal contents are duplicates of each other. A story lasts at most ``story_age``
    microseconds, and the evidence of all stories takes at most ``story_bytes``. If ``novel``, a pair does not say that
    a document repeats another one: it is compared with every content of the stories that its pairs lead to. If
    ``lasting``, the first contents of a story never leave it.
    """

    window: int
    lateness: int
    rows: int
    bytes: int = int(NO_WINDOW)
    width: int = 0
    by_content: bool = True
    story_age: int = int(NO_WINDOW)
    story_bytes: int = int(NO_WINDOW)
    novel: bool = False
    lasting: bool = False

    @classmethod
    def of(cls, limits: Limits, **values: Any) -> VerdictLimits:
        """The limits of verdicts about the documents of a table with these limits; ``values`` are those of stories."""
        return cls(
            limits.window, limits.lateness, limits.items, limits.bytes, by_content=limits.by_content, **values
        )  # fmt: skip


class Stories(NamedTuple):
    """The stories with two members or more; see ``stories``."""

    records: Annotated[npt.NDArray[np.int64], "[,]"]
    free: npt.NDArray[np.int64]
    heap: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    id_map: npt.NDArray[np.uint32]
    mark_map: npt.NDArray[np.uint32]
    journal: Annotated[npt.NDArray[np.int64], "[,]"]


class Columns(NamedTuple):
    """The state: rows in pages, two maps from a hash to the newest row that has it, and the stories."""

    page_map: npt.NDArray[np.int32]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint64]
    places: npt.NDArray[np.int64]
    clusters: npt.NDArray[np.int64]  # the place of the first version of its story
    matched: npt.NDArray[np.int64]  # the place of the version that its content was compared with
    stories: npt.NDArray[np.int32]  # the record of its story, or ``NONE`` or ``GONE``
    versions: npt.NDArray[np.uint32]  # distance back to the version before, 0 for none
    begun: npt.NDArray[np.uint32]  # distance back to the newest version that began a story, 0 for itself
    sizes: npt.NDArray[np.uint32]  # bytes of its id and its evidence
    similarities: npt.NDArray[np.float32]  # with ``matched``
    removed: npt.NDArray[np.uint32]  # the step that removed its id, 0 for none
    kept: npt.NDArray[np.uint8]  # ``IS_KEPT`` if its content is that of ``matched``; ``IS_LATE`` for a late row
    content_map: npt.NDArray[np.uint32]
    id_map: npt.NDArray[np.uint32]
    state: npt.NDArray[np.int64]
    story: Stories


class Undecided(NamedTuple):
    """A document to decide: its index in the arrivals, its time, the hash of its id, the version of its id that counts
    and the newest one (``NONE`` for none), and where its pairs begin and end."""

    item: int
    time: np.int64
    id: np.uint64
    version: np.int64
    newest: np.int64
    pairs_first: np.int64
    pairs_end: np.int64


class Found(NamedTuple):
    """m pairs of arrivals with documents that were decided before, in order of the arrivals.

    ``rows`` (``int64[m]``) are indices of the arrivals and never decrease, ``numbers`` (``int64[m]``) the numbers of
    the decided documents (a negative one was never decided), ``similarities`` (``float32[m]``) are in [0, 1].
    """

    rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]


NOTHING_FOUND = Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))


class Pairs(NamedTuple):
    """``Found`` as the kernel reads it: the pairs of arrival i are ``[starts[i], starts[i + 1])``."""

    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]


# The columns that have a value for each row.
ROW_COLUMNS = Columns._fields[1:14]
# A map has at least so many entries, a power of two, and is filled again when three quarters of them are used.
ENTRIES_MIN = 1 << 10


def empty(page_map: npt.NDArray[np.int32], story: Stories) -> Columns:
    """Return the state before the first row."""
    state = np.zeros(STATE_FIELDS, np.int64)
    state[[STREAM_TIME, FIRST_TIME]] = NO_TIME
    content_map, id_map = (np.zeros(ENTRIES_MIN, np.uint32) for _ in range(2))
    return Columns(story=story, **empty_arrays(Columns))._replace(
        page_map=page_map, content_map=content_map, id_map=id_map, state=state
    )


@inlined
def row_at(columns, number):
    """Return the index of a row in the arrays."""
    return index_at(columns.page_map, ROW_PAGE_BITS, number)


@inlined
def time_of(columns, at):
    """Return the time of a row; rows before the first event time have that time."""
    time = columns.times[at]
    return columns.state[FIRST_TIME] if time == NO_TIME else time


@inlined
def in_state(columns, rules, number):
    """Return whether a row counts: it is decided, within the limits of rows and bytes, and not older than window and
    lateness."""
    state = columns.state
    return state[COUNTED] <= number < state[END] and not is_past(columns, rules, number)


@inlined
def is_past(columns, rules, number):
    """Return whether a row is older than window and lateness."""
    time = columns.state[STREAM_TIME]
    if rules.window == NO_WINDOW or time == NO_TIME:
        return False
    return time_of(columns, row_at(columns, number)) < time - rules.window - rules.lateness


@inlined
def count(columns, rules, number):
    """Count the next row, and no more the oldest ones that have left the window, or with it exceed a limit: as a table
    does (``neardup.window.step.pass_time``)."""
    state, at = columns.state, row_at(columns, number)
    time = columns.times[at]
    state[END] = number + 1
    if time != NO_TIME:
        if state[STREAM_TIME] == NO_TIME:
            state[FIRST_TIME] = time
        state[STREAM_TIME] = max(state[STREAM_TIME], time)
    state[COUNTED_BYTES] += columns.sizes[at]
    while state[COUNTED] < number and is_past(columns, rules, state[COUNTED]):
        uncount(columns)
    while state[COUNTED] < number and exceeds(rules, state[COUNTED_BYTES], number + 1 - state[COUNTED]):
        uncount(columns)


@inlined
def exceeds(rules, size, rows):
    """Return whether so many rows of ``size`` bytes are more than the limits."""
    return rows > rules.rows or size - rows * rules.width > rules.bytes


@inlined
def uncount(columns):
    """Count the oldest row no more."""
    state = columns.state
    state[COUNTED_BYTES] -= columns.sizes[row_at(columns, state[COUNTED])]
    state[COUNTED] += 1


@inlined
def in_window(columns, rules, number, time):
    """Return whether a row is in the window of a document with this time."""
    other = time_of(columns, row_at(columns, number))
    apart = np.int64(0) if other == NO_TIME or time == NO_TIME else time - other
    return -rules.window <= apart <= rules.window


@inlined
def warm_arrivals(columns, arrivals, i):
    """Prefetch what the looks for contents and ids of arrivals behind ``i`` read, so that their misses overlap."""
    far, near = min(i + ENTRIES_AHEAD, len(arrivals.ids) - 1), min(i + ROWS_AHEAD, len(arrivals.ids) - 1)
    prefetch(columns.story.id_map, _first_of(columns.story.id_map, arrivals.ids[far]))
    warm(columns, arrivals.contents[far], arrivals.ids[far], arrivals.contents[near], arrivals.ids[near])


@inlined
def warm(columns, content, id_, next_content, next_id):
    """Prefetch the entries of a content and an id; of those whose turn comes before, the rows."""
    prefetch(columns.content_map, _first_of(columns.content_map, content))
    prefetch(columns.id_map, _first_of(columns.id_map, id_))
    warm_row(columns.content_map, columns.contents, columns, next_content)
    warm_row(columns.id_map, columns.ids, columns, next_id)


@inlined
def warm_row(entries, hashes, columns, hash_):
    """Prefetch the hash of the row that the first entry names."""
    entry = entries[_first_of(entries, hash_)]
    if entry != 0:
        prefetch(hashes, row_at(columns, _number_in(entry, columns)))


@inlined
def _first_of(entries, hash_):
    """Return where the look for a hash begins."""
    return np.int64(hash_ & np.uint64(len(entries) - 1))


@inlined
def _number_in(entry, columns):
    """Return the number of the row that an entry names, the newest one that it can be."""
    last = columns.state[END] - 1
    return last - (last - (np.int64(entry) - 1)) % _MODULUS


@inlined
def newest(entries, hashes, columns, hash_):
    """Return the newest stored row whose value in ``hashes`` is ``hash_``, or ``NONE``; it may have expired."""
    mask, slot = len(entries) - 1, _first_of(entries, hash_)
    while entries[slot] != 0:
        number = _number_in(entries[slot], columns)
        if number >= columns.state[FIRST] and hashes[row_at(columns, number)] == hash_:
            return number
        slot = (slot + 1) & mask
    return np.int64(NONE)


@inlined
def latest(columns, rules, content):
    """Return the newest row of a content that counts (``in_state``), or ``NONE``."""
    number = newest(columns.content_map, columns.contents, columns, content)
    return number if in_state(columns, rules, number) else np.int64(NONE)


@inlined
def remember(entries, hashes, columns, hash_, number):
    """Make a row the newest of its hash; return the number of new entries, 1 or 0."""
    mask, slot = len(entries) - 1, _first_of(entries, hash_)
    while entries[slot] != 0:
        other = _number_in(entries[slot], columns)
        if other >= columns.state[FIRST] and hashes[row_at(columns, other)] == hash_:
            entries[slot] = np.uint32(number % _MODULUS + 1)
            return 0
        slot = (slot + 1) & mask
    entries[slot] = np.uint32(number % _MODULUS + 1)
    return 1


@inlined
def is_late(columns, rules, time):
    """Return whether a document with this time comes after the window and the lateness have passed."""
    stream = columns.state[STREAM_TIME]
    if rules.window == NO_WINDOW or stream == NO_TIME or time == NO_TIME:
        return False
    return time < stream - rules.window - rules.lateness


@inlined
def append(columns, rules, time, content, id_, place, size):
    """Add a row without a decision; return its number."""
    number = columns.state[END]
    at = row_at(columns, number)
    columns.times[at], columns.contents[at], columns.ids[at] = time, content, id_
    columns.places[at], columns.clusters[at], columns.matched[at] = place, place, place
    columns.stories[at], columns.versions[at], columns.begun[at] = NONE, 0, NOT_BEGUN
    columns.sizes[at], columns.similarities[at] = size, 1.0
    columns.removed[at], columns.kept[at] = 0, 0
    count(columns, rules, number)
    return number


@inlined
def enter(columns, number):
    """Make a row the newest of its content and of its id, and link it to the version before."""
    state, at = columns.state, row_at(columns, number)
    id_ = columns.ids[at]
    before = newest(columns.id_map, columns.ids, columns, id_)
    if before != NONE:
        columns.versions[at] = number - before
        begun = columns.begun[row_at(columns, before)]
        if columns.begun[at] == NOT_BEGUN and begun != NOT_BEGUN:
            columns.begun[at] = begun + np.uint32(number - before)
    state[CONTENT_ENTRIES] += remember(columns.content_map, columns.contents, columns, columns.contents[at], number)
    state[ID_ENTRIES] += remember(columns.id_map, columns.ids, columns, id_, number)


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
def current(columns, rules, number):
    """Return the row with the latest decision of a row's content: the newest copy, unless its id was removed."""
    if not rules.by_content:
        return number
    copy = latest(columns, rules, columns.contents[row_at(columns, number)])
    return number if copy == NONE or columns.removed[row_at(columns, copy)] else copy


@inlined
def undecided(columns, rules, arrivals, pairs, i):
    """Return an arrival as a document to decide."""
    time = arrivals.times[i] if arrivals.times[i] != NO_TIME else columns.state[STREAM_TIME]
    before = newest(columns.id_map, columns.ids, columns, arrivals.ids[i])
    counts = before != NONE and not columns.removed[row_at(columns, before)] and in_state(columns, rules, before)
    version = before if counts else np.int64(NONE)
    return Undecided(i, time, arrivals.ids[i], version, before, pairs.starts[i], pairs.starts[i + 1])


@inlined
def version_before(columns, number):
    """Return the stored version before a row, or ``NONE``."""
    distance = np.int64(columns.versions[row_at(columns, number)])
    return number - distance if distance and number - distance >= columns.state[FIRST] else np.int64(NONE)


@inlined
def single_from(columns, number):
    """Return the newest version, at a row or before it, that began a story and is its only member, or ``NONE``."""
    while number != NONE:
        distance = columns.begun[row_at(columns, number)]
        number = number - np.int64(distance)
        if distance == NOT_BEGUN or number < columns.state[FIRST]:
            return np.int64(NONE)
        if columns.stories[row_at(columns, number)] == NONE:
            return number
        number = version_before(columns, number)
    return np.int64(NONE)


@kernel("i64[], i64[]", locked=True)
def begin(state, before):
    """Number a step, with an empty journal, and keep the state as it is before its changes."""
    state[STEP] += 1
    state[JOURNAL] = 0
    for i in range(len(state)):
        before[i] = state[i]
