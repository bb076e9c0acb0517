"""Heirs: a story whose original is removed goes on with its next member.

The *heir* is the first row of the story, in order of arrival, that counts and is not removed. Its id then owns the
story, as if it had begun it. The contents of the removed id leave, and those before the heir, whose rows have left the
window; the content of the heir becomes the first one, with the mark of its id. So the first mark says of a story that
it was handed over, also after a restart. Without an heir the story ends. A story that loses an update of another id
counts as handed over to its own original (``stories.leave``).

Rows keep what was decided of them. In a story that was handed over this may name a content that has left: then it says
nothing any longer, and the document is compared with the contents of now (``standing``).
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inlined, inner
from neardup.stories.verdicts.records import (
    BYTES_MASK,
    CONTENT,
    CONTENT_BYTES,
    CONTENT_HASH,
    CONTENT_PLACE,
    CONTENT_ROW,
    CONTENTS,
    HEAD,
    ID,
    OLDER,
    OWN,
    PLACE,
    SIZE,
    STORY_BYTES,
    link,
    mark_of,
    newest_story,
    touch,
)
from neardup.stories.verdicts.row_columns import (
    BYTES,
    END,
    FIRST,
    IS_KEPT,
    NONE,
    STORY_ENTRIES,
    in_state,
    newest,
    row_at,
    version_before,
)
from neardup.stories.verdicts.stories import content_row, end, lives, story_of


@inlined
def was_handed_over(columns, story):
    """Return whether the original of a story is an heir."""
    return story >= 0 and columns.story.records[story, HEAD + CONTENT_BYTES] > BYTES_MASK


@inner
def standing(columns, rules, story, number):
    """Return what was decided of a row of a story: similarity, place of the content, and whether they are equal; the
    place is ``NONE`` if that content has left a story that was handed over."""
    at = row_at(columns, number)
    similarity, matched, kept = columns.similarities[at], columns.matched[at], columns.kept[at]
    if not was_handed_over(columns, story):
        return similarity, matched, kept
    record, stays = columns.story.records[story], False
    for k in range(record[CONTENTS]):
        content = HEAD + k * CONTENT
        is_equal = rules.by_content and np.uint64(record[content + CONTENT_HASH]) == columns.contents[at]
        if is_equal or record[content + CONTENT_ROW] == number:
            return np.float32(1.0), record[content + CONTENT_PLACE], np.uint8(IS_KEPT)
        stays |= record[content + CONTENT_PLACE] == matched
    return similarity, matched if stays else np.int64(NONE), kept


@inner
def hand_over(columns, rules, id_):
    """Hand over the stories with records that an id began; its rows are marked as removed."""
    story = newest_story(columns, id_)
    while story != NONE:
        older = columns.story.records[story, OLDER]
        heir = heir_of(columns, rules, story) if lives(columns, rules, story) else np.int64(NONE)
        if heir == NONE:
            end(columns, story)
        else:
            unlink(columns, story)
            inherit(columns, rules, story, heir, mark_of(id_))
            link(columns, story)
        story = older


@inlined
def heir_of(columns, rules, story):
    """Return the first row behind the original of a story that counts and is not removed, ``NONE`` for none."""
    number = max(columns.state[FIRST], content_row(columns, story, 0) + 1)
    while number < columns.state[END]:
        at = row_at(columns, number)
        is_member = columns.stories[at] == story and columns.clusters[at] == columns.story.records[story, PLACE]
        if is_member and not columns.removed[at] and in_state(columns, rules, number):
            return number
        number += 1
    return np.int64(NONE)


@inlined
def inherit(columns, rules, story, heir, removed):
    """Make the id of a row the owner of a story, and its content the first one; the contents with the mark ``removed``
    leave, and those of its owner."""
    touch(columns, story)
    record, at = columns.story.records[story], row_at(columns, heir)
    columns.state[BYTES] -= record[SIZE]
    hash_, count, size = np.int64(columns.contents[at]), np.int64(1), STORY_BYTES + np.int64(columns.sizes[at])
    for k in range(1, record[CONTENTS]):
        first, to = HEAD + k * CONTENT, HEAD + count * CONTENT
        mark = record[first + CONTENT_BYTES] & ~BYTES_MASK
        is_equal = rules.by_content and record[first + CONTENT_HASH] == hash_
        if mark != 0 and mark != removed and record[first + CONTENT_ROW] > heir and not is_equal:
            for n in range(CONTENT):
                record[to + n] = record[first + n]
            size += record[to + CONTENT_BYTES] & BYTES_MASK
            count += 1
    record[HEAD + CONTENT_ROW], record[HEAD + CONTENT_PLACE] = heir, columns.places[at]
    record[HEAD + CONTENT_HASH] = hash_
    record[HEAD + CONTENT_BYTES] = np.int64(columns.sizes[at]) | mark_of(columns.ids[at])
    record[ID], record[CONTENTS], record[SIZE] = np.int64(columns.ids[at]), count, size
    columns.state[BYTES] += size
    number = newest(columns.id_map, columns.ids, columns, columns.ids[at])
    while number > heir and story_of(columns, number) != story:
        number = version_before(columns, number)
    record[OWN] = max(number, heir)


@inlined
def unlink(columns, story):
    """Take a record out of the chain of its id, and the entry of an id without a record out of the map."""
    entries, records = columns.story.id_map, columns.story.records
    mask = len(entries) - 1
    at = np.int64(np.uint64(records[story, ID]) & np.uint64(mask))
    while records[np.int64(entries[at]) - 1, ID] != records[story, ID]:
        at = (at + 1) & mask
    other = np.int64(entries[at]) - 1
    if other != story:
        while records[other, OLDER] != story:
            other = records[other, OLDER]
        touch(columns, other)
        records[other, OLDER] = records[story, OLDER]
    elif records[story, OLDER] != NONE:
        entries[at] = np.uint32(records[story, OLDER] + 1)
    else:
        columns.state[STORY_ENTRIES] -= 1
        entries[at] = 0
        after = (at + 1) & mask
        while entries[after] != 0:  # what stood behind it because of it moves up
            wanted = np.int64(np.uint64(records[np.int64(entries[after]) - 1, ID]) & np.uint64(mask))
            if (after - wanted) & mask >= (after - at) & mask:
                entries[at], entries[after] = entries[after], np.uint32(0)
                at = after
            after = (after + 1) & mask
