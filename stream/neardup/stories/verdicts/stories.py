"""Stories: what a row belongs to, whether it lives, and the records of those with two members or more.

A *story* is an original, the contents of its kept versions, and its members. It lives while its newest member is within
window and lateness of stream time, and at most ``rules.story_age`` after its begin. So it may outlive all rows of its
original: the evidence of its contents is kept then (``kept``).

The *mark* of a content names the id that has added it to a story of another id. A map leads from a mark to the stories
with a content of it. It may also lead to others, as contents leave: the record of a story decides.

A reference names a story: the number of its record (``records``), or ``single_of`` of the row that is its only member.
A second member makes the record. A row that refers to the record of another story belongs to none that lives.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.stories.verdicts.records import (
    BEGIN,
    BYTES_MASK,
    CONTENT,
    CONTENT_BYTES,
    CONTENT_HASH,
    CONTENT_PLACE,
    CONTENT_ROW,
    CONTENTS,
    CONTENTS_MAX,
    HAS_ENDED,
    HEAD,
    ID,
    MEMBERS,
    NEWEST,
    OLDEST,
    OWN,
    PLACE,
    SIZE,
    contents_in,
    held,
    link,
    mark_of,
    new_record,
    pop,
    sift_down,
    touch,
)
from neardup.stories.verdicts.row_columns import (
    BYTES,
    ENDED,
    EVICTED,
    FIRST_TIME,
    HEAPED,
    IS_KEPT,
    MARK_ENTRIES,
    NONE,
    STREAM_TIME,
    Columns,
    in_state,
    in_window,
    newest,
    row_at,
    version_before,
)
from neardup.window import NO_TIME, NO_WINDOW

# What a person says holds already, or cannot hold (``judgement``).
HOLDS = -2


@inlined
def single_of(number):
    """Return the reference of a story whose only member is a row; and the row of such a reference."""
    return -number - 2


@inlined
def story_of(columns, number):
    """Return the story of a row, or ``NONE`` if its record is gone."""
    at = row_at(columns, number)
    record = np.int64(columns.stories[at])
    if record == NONE:
        return single_of(number)
    if record < NONE:
        return np.int64(NONE)
    return record if columns.story.records[record, PLACE] == columns.clusters[at] else np.int64(NONE)


@inlined
def place_of(columns, story):
    """Return the place of the original of a story."""
    return columns.story.records[story, PLACE] if story >= 0 else columns.places[row_at(columns, single_of(story))]


@inlined
def id_of(columns, story):
    """Return the hash of the id that began a story."""
    return np.uint64(columns.story.records[story, ID]) if story >= 0 else columns.ids[row_at(columns, single_of(story))]


@inlined
def contents_of(columns, story):
    """Return how many contents a story has."""
    return columns.story.records[story, CONTENTS] if story >= 0 else np.int64(1)


@inlined
def content_row(columns, story, k):
    """Return the row of content ``k`` of a story; it may have left the window."""
    return columns.story.records[story, HEAD + k * CONTENT + CONTENT_ROW] if story >= 0 else single_of(story)


@inlined
def content_place(columns, story, k):
    """Return the place of content ``k`` of a story."""
    return columns.story.records[story, HEAD + k * CONTENT + CONTENT_PLACE] if story >= 0 else place_of(columns, story)


@inlined
def known(columns, time):
    """Return a time, the first event time for none."""
    return columns.state[FIRST_TIME] if time == NO_TIME else time


@inlined
def in_time(columns, rules, time):
    """Return whether a member with this time keeps its story alive."""
    stream = columns.state[STREAM_TIME]
    if rules.window == NO_WINDOW or stream == NO_TIME:
        return True
    return known(columns, time) >= stream - rules.window - rules.lateness


@inlined
def is_young(columns, rules, begin):
    """Return whether a story that began at this time is not too old."""
    stream = columns.state[STREAM_TIME]
    return stream == NO_TIME or stream - known(columns, begin) <= rules.story_age


@inlined
def lives(columns, rules, story):
    """Return whether a document may join a story now."""
    if story == NONE:
        return False
    if story < NONE:
        number = single_of(story)
        at = row_at(columns, number)
        young = is_young(columns, rules, columns.times[at])
        return young and in_state(columns, rules, number) and not columns.removed[at]
    record = columns.story.records[story]
    if record[HAS_ENDED]:
        return False
    return in_time(columns, rules, record[NEWEST]) and is_young(columns, rules, record[BEGIN])


@kernel("Columns, VerdictLimits, u64, u64, u64, i64")
def judgement(columns, rules, id_, other, content, same):
    """Return how what a person says of two ids comes to hold: the row whose story the first one joins, ``NONE`` if it
    begins a story of its own, ``HOLDS`` if nothing changes: it holds, or the other one has no story, or this content.
    """
    row, its_story = story_now(columns, rules, other)
    _, own = story_now(columns, rules, id_)
    if its_story == NONE or id_ == other or (own == its_story) == (same != 0):
        return np.int64(HOLDS)
    if same:
        return row
    return np.int64(HOLDS) if columns.contents[row_at(columns, row)] == content else np.int64(NONE)


@inlined
def story_now(columns, rules, id_):
    """Return the latest version of an id that counts, and its story, if it lives; else ``NONE``."""
    row = newest(columns.id_map, columns.ids, columns, id_)
    if row == NONE or columns.removed[row_at(columns, row)] or not in_state(columns, rules, row):
        return np.int64(NONE), np.int64(NONE)
    story = story_of(columns, row)
    return row, story if lives(columns, rules, story) else np.int64(NONE)


@inlined
def is_open(columns, rules, story, time):
    """Return whether a story lives, and a document with this time is within its window."""
    if not lives(columns, rules, story):
        return False
    if story < NONE:
        return in_window(columns, rules, single_of(story), time)
    if rules.window == NO_WINDOW or time == NO_TIME:
        return True
    record = columns.story.records[story]
    return known(columns, record[OLDEST]) - rules.window <= time <= known(columns, record[NEWEST]) + rules.window


@inner
def begin(columns, number):
    """Make the record of a story whose only member is a row; return its number."""
    at = row_at(columns, number)
    story = new_record(columns, columns.places[at], np.int64(columns.ids[at]), columns.times[at], number)
    add_content(columns, story, at, number, True, False)
    columns.stories[at] = story
    link(columns, story)
    return story


@inlined
def slot_of(columns, mark):
    """Return where a search for a mark begins in the map of marks."""
    return mark >> 33 & (len(columns.story.mark_map) - 1)


@inlined
def enter_mark(columns, story, mark):
    """Make the map of marks lead from a mark to a story, if it does not yet."""
    entries, at = columns.story.mark_map, slot_of(columns, mark)
    while entries[at] != 0 and np.int64(entries[at]) != story + 1:
        at = (at + 1) & (len(entries) - 1)
    columns.state[MARK_ENTRIES] += entries[at] == 0
    entries[at] = np.uint32(story + 1)


@inlined
def drop_content(columns, story, gone):
    """Take a content other than the first one out of a story."""
    record = columns.story.records[story]
    freed, count = record[HEAD + gone * CONTENT + CONTENT_BYTES] & BYTES_MASK, record[CONTENTS] - 1
    record[SIZE] -= freed
    columns.state[BYTES] -= freed
    for k in range(HEAD + gone * CONTENT, HEAD + count * CONTENT):
        record[k] = record[k + CONTENT]
    record[CONTENTS] = count


@inlined
def add_content(columns, story, at, number, by_content, lasting):
    """Make the content of a row one of its story's: the newest, unless it is the first, or a story's contents are
    ``lasting`` and it is one of them. Where there is no room, they stay, or the second leaves."""
    record, hash_ = columns.story.records[story], np.int64(columns.contents[at])
    count = record[CONTENTS]
    # Of the contents after the first, the one that leaves.
    gone = np.int64(1 if count == CONTENTS_MAX else CONTENTS_MAX)
    if lasting and count == CONTENTS_MAX:
        return
    if by_content:
        for k in range(count):
            if record[HEAD + k * CONTENT + CONTENT_HASH] == hash_:
                if k == 0 or lasting:
                    return
                gone = np.int64(k)
    if gone < count:
        drop_content(columns, story, gone)
        count -= 1
    size, first = np.int64(columns.sizes[at]), HEAD + count * CONTENT
    record[first + CONTENT_ROW], record[first + CONTENT_PLACE] = number, columns.places[at]
    record[first + CONTENT_HASH], record[first + CONTENT_BYTES] = hash_, size
    if columns.ids[at] != np.uint64(record[ID]):
        mark = mark_of(columns.ids[at])
        record[first + CONTENT_BYTES] |= mark
        enter_mark(columns, story, mark)
    record[CONTENTS] = count + 1
    record[SIZE] += size
    columns.state[BYTES] += size


@inner
def join(columns, rules, story, number, similarity, matched, kept):
    """Make a row a member of a story; where it is its own match, it is kept, and its content is one of the story's."""
    if story < NONE:
        story = begin(columns, single_of(story))
    touch(columns, story)
    record, at = columns.story.records[story], row_at(columns, number)
    columns.stories[at], columns.clusters[at] = story, record[PLACE]
    columns.similarities[at], columns.matched[at], columns.kept[at] = similarity, matched, kept
    time = known(columns, columns.times[at])
    if time != NO_TIME:
        record[OLDEST] = min(known(columns, record[OLDEST]), time)
        record[NEWEST] = max(known(columns, record[NEWEST]), time)
    record[MEMBERS] += 1
    if columns.ids[at] == np.uint64(record[ID]):
        record[OWN] = number
    if matched == columns.places[at]:
        add_content(columns, story, at, number, rules.by_content, rules.lasting)
    return story


@inlined
def end(columns, story):
    """End a story; its record is collected by a later commit."""
    record, state = columns.story.records[story], columns.state
    if not record[HAS_ENDED]:
        touch(columns, story)
        record[HAS_ENDED] = 1
        state[ENDED] += 1
        state[BYTES] -= record[SIZE]


@inner
def leave(columns, story, id_):
    """Take the contents that an id has added to a story of another id out of it. What was decided by them says nothing
    any longer, so the first content gets the mark of its owner: as if the story was handed over to it (``heirs``)."""
    record, mark, k = columns.story.records[story], mark_of(id_), np.int64(1)
    if record[HAS_ENDED]:
        return
    touch(columns, story)
    while k < record[CONTENTS]:
        if record[HEAD + k * CONTENT + CONTENT_BYTES] & ~BYTES_MASK == mark:
            drop_content(columns, story, k)
        else:
            k += 1
    if record[HEAD + CONTENT_BYTES] <= BYTES_MASK:
        record[HEAD + CONTENT_BYTES] |= mark_of(np.uint64(record[ID]))


@inner
def leave_stories(columns, rules, id_):
    """Take an id out of the stories of others that it has updated: those of its rows that count, and those that have a
    content of it."""
    number = newest(columns.id_map, columns.ids, columns, id_)
    while number != NONE:
        at = row_at(columns, number)
        is_kept = columns.kept[at] == IS_KEPT and columns.matched[at] == columns.places[at]
        story = story_of(columns, number)
        if is_kept and story >= 0 and id_of(columns, story) != id_ and in_state(columns, rules, number):
            leave(columns, story, id_)
        number = version_before(columns, number)
    mark, entries = mark_of(id_), columns.story.mark_map
    slot = slot_of(columns, mark)
    while entries[slot] != 0:
        story = np.int64(entries[slot]) - 1
        record = columns.story.records[story]
        has_content = False
        for k in range(record[CONTENTS] if record[MEMBERS] > 0 and np.uint64(record[ID]) != id_ else 0):
            has_content |= record[HEAD + k * CONTENT + CONTENT_BYTES] & ~BYTES_MASK == mark
        if has_content:
            leave(columns, story, id_)
        slot = (slot + 1) & (len(entries) - 1)


@inner
def end_oldest(columns, rules):
    """End the stories that have left the window, and those that the limit of bytes ends."""
    state = columns.state
    while state[HEAPED] > 0:
        story = columns.story.heap[0]
        record = columns.story.records[story]
        if record[HAS_ENDED]:
            pop(columns)
        elif columns.story.keys[0] < record[NEWEST]:
            columns.story.keys[0] = record[NEWEST]
            sift_down(columns)
        elif not in_time(columns, rules, record[NEWEST]):
            end(columns, story)
        elif state[BYTES] > rules.story_bytes:
            end(columns, story)
            state[EVICTED] += 1
        else:
            break


@kernel("Columns, i64[]")
def fill_marks(columns, stories):
    """Fill the empty map of marks from records, up to three quarters; return how many marks their contents have."""
    columns.state[MARK_ENTRIES] = count = np.int64(0)
    for k in range(len(stories)):
        record = columns.story.records[stories[k]]
        for n in range(record[CONTENTS]):
            mark = record[HEAD + n * CONTENT + CONTENT_BYTES] & ~BYTES_MASK
            count += mark != 0
            if mark and 4 * count <= 3 * len(columns.story.mark_map):
                enter_mark(columns, stories[k], mark)
    return count


def with_marks(columns: Columns, count: int) -> Columns:
    """Return the state with a map of marks that is filled again and has room for ``count`` more."""
    entries = len(columns.story.mark_map)
    while True:
        columns = columns._replace(story=columns.story._replace(mark_map=np.zeros(entries, np.uint32)))
        wanted = int(fill_marks(columns, held(columns))) + count
        if 4 * wanted <= 3 * entries:
            return columns
        entries = 1 << (2 * wanted - 1).bit_length()


def places_of_contents(columns: Columns) -> npt.NDArray[np.int64]:
    """Return the places of the contents of all records that are held."""
    contents, has = contents_in(columns.story.records[held(columns)])
    places: npt.NDArray[np.int64] = contents[has, CONTENT_PLACE]
    return places
