"""The rule of verdicts, as one kernel over columns.

Documents are decided in order of arrival. A document to keep is an *original*, which begins a story, or an *update* of
a story: of its id, or, with ``novelty``, of anyone. A document to drop is a *duplicate*: its content was compared with
the content of a kept version of a story that lives. This is pivot clustering in order of arrival (Ailon, Charikar,
Newman, "Aggregating inconsistent information", JACM 55(5), 2008). It chains along updates only.

For a document d with content X, the first rule that fits decides:

1. X is the content of the latest version of d's id, and the story of that version is open to d (``stories.is_open``):
   ``UNCHANGED``. It repeats what that version resolved to.
2. X is decided, and the story of its newest copy is open to d: that story, with the similarity recorded for X.
3. A pair of d, the version before, or d's id leads to stories that are open to d, and d is compared with their contents
   (``leads``). Of the contents that reach the least score of a pair, the most similar one decides: that story.
   Without one, of those to which d says something new and whose story it tells (``novel``), the most similar one.
4. ``ORIGINAL``. ``related`` is the story of the most similar decided content, without one that of the version before.

To a document of an old set (``REFERENCE``), 2 and 3 do not apply.

In 2 and 3 the document is an ``UPDATE`` if its id began the story, or if it says something new to it: it is kept, and X
becomes a content of the story. Otherwise it is a ``DUPLICATE``.

The content that a story had in 1 or 2 may have left it with a removed document (``heirs``): then 3 decides.

A person may say which story a document tells (``judge``): that decides, and its content is one of the story's.

A document that is older than window and lateness allow is late: it is compared as any other, and has no further effect.
"""

from __future__ import annotations

from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.pairs.batches import CONTENT_HALF, Batch, held_sizes, id_hashes
from neardup.pairs.comparing import NEW_NUMBERS, SAID, SIGNAL, Leads
from neardup.stories.verdicts.heirs import hand_over, standing
from neardup.stories.verdicts.leads import NO_ROW, ask, ask_ahead, nearest
from neardup.stories.verdicts.records import OWN
from neardup.stories.verdicts.row_columns import (
    COUNTED,
    COUNTED_BYTES,
    CUT,
    END,
    FIRST,
    FIRST_TIME,
    GONE,
    IGNORED,
    IS_KEPT,
    IS_LATE,
    IS_OTHER,
    LATE,
    NONE,
    NOT_BEGUN,
    STREAM_TIME,
    Pairs,
    append,
    enter,
    is_late,
    latest,
    remove,
    row_at,
    undecided,
    warm_arrivals,
)
from neardup.stories.verdicts.stories import (
    content_place,
    end_oldest,
    id_of,
    is_open,
    join,
    leave_stories,
    lives,
    place_of,
    single_of,
    story_of,
)
from neardup.window import NO_TIME
from neardup.window.chains import ID as ID_KEY
from neardup.window.views import bytes_of

ORIGINAL, DUPLICATE, UNCHANGED, REMOVED, REFUSED, UPDATE = range(6)
STATUSES = ("original", "duplicate", "unchanged", "removed", "refused", "update")
# The statuses of the documents that are kept.
KEPT = (ORIGINAL, UPDATE)
IS_KEPT_STATUS = np.isin(np.arange(256), KEPT)
# The kinds of arrivals. ``REFERENCE`` is a document that is compared with nothing, and that later ones may repeat;
# ``JUDGED`` one of which a person says whose story it tells. A log of arrivals has 3 for what is no arrival.
DOCUMENT, REMOVAL, REFUSAL, REFERENCE, JUDGED = 0, 1, 2, 4, 5


class Arrivals(NamedTuple):
    """n arrivals in order, as columns.

    ``places`` (``int64[n]``) are names that the caller chooses; ``kinds`` (``uint8[n]``) those of this module; ``ids``
    (``uint64[n]``) hashes of ids, ``times`` (``int64[n]``) event times in microseconds, ``NO_TIME`` for none,
    ``contents`` (``uint64[n]``) hashes of what is compared, ``sizes`` (``int64[n]``) bytes of id and evidence that a
    story keeps. A removal has an id, a refusal a place only.
    """

    places: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]
    ids: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]
    contents: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.int64]


def is_document(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which arrivals of a log are documents, ``bool[n]``."""
    return np.asarray((kinds == DOCUMENT) | (kinds >= REFERENCE))


# The types of the columns.
_TYPES = tuple(map(np.dtype, ("i8", "u1", "u8", "i8", "u8", "i8")))


def new_arrivals(count: int) -> Arrivals:
    """Return columns to fill, ``count`` long."""
    return Arrivals(*map(np.empty, repeat(count), _TYPES))


def arrival_of(batch: Batch, place: int, kind: int = DOCUMENT) -> Arrivals:
    """Return the one document of a batch as an arrival."""
    hashes, contents = id_hashes(batch.ids, batch.id_starts), batch.contents[:, CONTENT_HALF].copy()
    place_, kind_ = np.array([place]), np.array([kind], np.uint8)
    return Arrivals(place_, kind_, hashes, batch.times.copy(), contents, held_sizes(batch))


# The arrivals of a call: the address of their items, which are accepted, the place of the first, which are of an old
# set (``arrive``). Without an address they are known already.
Arriving = tuple[int, npt.NDArray[np.bool_], int, npt.NDArray[np.bool_]]
NONE_OLD: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
ARRIVED: Arriving = 0, NONE_OLD, 0, NONE_OLD


@inlined
def arrive(items, accepted, place, references, out):
    """Fill in arrivals, the first of which has a place: the ``accepted`` ones are items, of which ``references`` are of
    an old set, if it has any; the others are refused."""
    n = 0
    for i in range(len(accepted)):
        out.places[i] = place + i
        if accepted[i]:
            out.kinds[i] = REFERENCE if len(references) and references[n] else DOCUMENT
            out.ids[i], out.times[i] = items.keys[items.key_starts[n] + ID_KEY], items.times[n]
            out.contents[i] = items.contents[n]
            out.sizes[i] = bytes_of(items, n) + items.fixed.shape[1]
            n += 1
        else:
            out.kinds[i], out.ids[i], out.times[i], out.contents[i], out.sizes[i] = REFUSAL, 0, 0, 0, 0


def pairs_of(led: Leads, rows: npt.NDArray[np.int64], offset: int, count: int) -> Pairs:
    """Return m leads as pairs of ``count`` arrivals: ``rows`` names the arrivals of their items, and the rows of their
    slots are ``offset`` less."""
    pairs = Pairs(np.empty(count + 1, np.int64), np.empty(m := len(led.items), np.int64), np.empty(m, np.float32))
    _pair(led.items, led.slots, led.similarity, rows, offset, *pairs)
    return pairs


@kernel("const i32[], const i64[], const f64[], const i64[], i64, i64[], i64[], f32[]", locked=True, direct=True)
def _pair(items, slots, similarity, rows, offset, starts, numbers, similarities):
    at = 0
    for i in range(len(starts)):
        while at < len(items) and rows[items[at]] < i:
            numbers[at], similarities[at] = slots[at] - offset, np.float32(similarity[at])
            at += 1
        starts[i] = at


def starts_of(rows: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return where those of each arrival begin among rows in ascending order, and the end (``int64[count + 1]``)."""
    starts = np.empty(count + 1, np.int64)
    _start(rows, starts)
    return starts


@kernel("const i64[], i64[]", locked=True, direct=True)
def _start(rows, starts):
    at = 0
    for i in range(len(starts)):
        while at < len(rows) and rows[at] < i:
            at += 1
        starts[i] = at


@inlined
def decide(columns, rules, arrivals, pairs, comparing, verdicts, first, end):
    """Decide arrivals from ``first`` to ``end``, in their order; see the module for the rule.

    Return the index of the first arrival that is not decided: ``end``, or the index of a document that needs
    comparisons, which are asked for in ``comparing``; the number of the next row; and how many verdicts say more than
    that a document is an original. The caller has made room for the rows and in the maps. The pairs of arrival i are
    ``[pairs.starts[i], pairs.starts[i + 1])``.
    """
    more, comparing.asked[0] = 0, 0  # an exception may have left some
    for i in range(first, end):
        warm_arrivals(columns, arrivals, i)
        verdicts.clusters[i], verdicts.originals[i] = arrivals.places[i], NONE
        verdicts.related[i] = verdicts.previous[i] = verdicts.matched[i] = NONE
        verdicts.similarities[i], verdicts.equal[i], verdicts.late[i] = 0.0, False, False
        verdicts.against[i], verdicts.said[i], verdicts.new_numbers[i], verdicts.signals[i] = NONE, 0.0, 0, 0
        comparing.against[i] = NO_ROW
        if arrivals.kinds[i] == REMOVAL:
            verdicts.statuses[i] = REMOVED
            take_out(columns, rules, arrivals.ids[i])
        elif arrivals.kinds[i] == REFUSAL:
            verdicts.statuses[i] = REFUSED
        elif arrivals.kinds[i] == JUDGED:
            judge(columns, rules, arrivals, i, pairs, verdicts)
        elif not decide_document(columns, rules, arrivals, i, pairs, comparing, verdicts):
            ask_ahead(columns, rules, arrivals, DOCUMENT, pairs, comparing, i + 1, end)
            return i, columns.state[END], more
        more += says_more(verdicts, i)
    return end, columns.state[END], more


@inlined
def says_more(verdicts, i):
    """Return whether a verdict says more than that a document is an original."""
    is_plain = verdicts.statuses[i] == ORIGINAL and not (verdicts.equal[i] or verdicts.late[i])
    is_plain = is_plain and verdicts.similarities[i] == 0 and verdicts.said[i] == 0 and verdicts.new_numbers[i] == 0
    is_plain = is_plain and verdicts.originals[i] == verdicts.related[i] == verdicts.previous[i] == NONE
    return not (is_plain and verdicts.matched[i] == verdicts.against[i] == NONE)


@inlined
def decide_document(columns, rules, arrivals, i, pairs, comparing, verdicts):
    """Decide one document. If comparisons are missing, ask for them, change nothing and return false."""
    state = columns.state
    before = state[END], state[STREAM_TIME], state[FIRST_TIME], state[IGNORED], state[COUNTED], state[COUNTED_BYTES]
    time = arrivals.times[i] if arrivals.times[i] != NO_TIME else state[STREAM_TIME]
    content = arrivals.contents[i]
    number = append(columns, rules, time, content, arrivals.ids[i], arrivals.places[i], arrivals.sizes[i])
    document = undecided(columns, rules, arrivals, pairs, i)
    version = document.version
    verdicts.late[i] = is_late(columns, rules, time)
    is_repeated = version != NONE and columns.contents[row_at(columns, version)] == content
    is_repeated = is_repeated and is_open(columns, rules, story_of(columns, version), time)
    is_old = arrivals.kinds[i] == REFERENCE
    known = latest(columns, rules, content) if rules.by_content and not is_old else np.int64(NONE)
    story, similarity, matched, kept = np.int64(NONE), np.float32(0.0), np.int64(NONE), np.uint8(IS_OTHER)
    near, is_new = np.int64(NONE), False
    if is_repeated:
        story = story_of(columns, version)
        similarity, matched, kept = standing(columns, rules, story, version)
        is_repeated = matched != NONE
    if not is_repeated and known != NONE and is_open(columns, rules, story_of(columns, known), time):
        story = story_of(columns, known)
        similarity, matched, kept = standing(columns, rules, story, known)
    if matched == NONE and not is_old:
        found = nearest(columns, rules, document, known, pairs, comparing)
        if found.missing:
            ask(comparing, i, found.missing)
            (
                state[END], state[STREAM_TIME], state[FIRST_TIME], state[IGNORED], state[COUNTED], state[COUNTED_BYTES]
            ) = before  # fmt: skip
            return False
        state[CUT] += found.cut
        story, similarity, matched = found.best.story, found.best.similarity, found.best.matched
        kept, near, is_new = np.uint8(IS_OTHER), found.near, found.is_new
        say(comparing, i, found.new if story == NONE else found.best, verdicts)
        verdicts.against[i] = found.new.matched if story == NONE else np.int64(NONE)
    if version != NONE:
        verdicts.previous[i] = columns.places[row_at(columns, version)]
    if story != NONE:
        match(columns, rules, i, number, story, similarity, matched, kept, is_repeated, is_new, verdicts)
    else:
        verdicts.statuses[i] = ORIGINAL
        columns.kept[row_at(columns, number)], columns.begun[row_at(columns, number)] = IS_KEPT, 0
        near = near if near != NONE else version
        if near != NONE:
            verdicts.related[i] = columns.clusters[row_at(columns, near)]
    settle(columns, rules, number, verdicts.late[i])
    return True


@inner
def take_out(columns, rules, id_):
    """Remove an id: the stories that it has updated go on without it, and those that it began with their heirs."""
    leave_stories(columns, rules, id_)
    remove(columns, id_)
    hand_over(columns, rules, id_)


@inner
def judge(columns, rules, arrivals, i, pairs, verdicts):
    """Decide a document as a person says: it tells the story of its pair, without one a story of its own. The versions
    of its id before are removed, and leave their stories."""
    id_, first = arrivals.ids[i], pairs.starts[i]
    document = undecided(columns, rules, arrivals, pairs, i)
    if document.version != NONE:
        verdicts.previous[i] = columns.places[row_at(columns, document.version)]
    take_out(columns, rules, id_)
    story = np.int64(NONE) if first == document.pairs_end else story_of(columns, pairs.numbers[first])
    number = append(columns, rules, document.time, arrivals.contents[i], id_, arrivals.places[i], arrivals.sizes[i])
    if lives(columns, rules, story):
        matched = content_place(columns, story, np.int64(0))
        match(
            columns, rules, i, number, story, pairs.similarities[first], matched, np.uint8(IS_OTHER), False, True,
            verdicts,
        )  # fmt: skip
    else:
        verdicts.statuses[i] = ORIGINAL
        columns.kept[row_at(columns, number)], columns.begun[row_at(columns, number)] = IS_KEPT, 0
    settle(columns, rules, number, False)


@inlined
def say(comparing, i, content, verdicts):
    """Write what the comparison with a content says of what is new, and the signal that made it."""
    if content.result != NONE:
        comparing.against[i] = comparing.rows[content.result]
        verdicts.said[i] = comparing.results[content.result, SAID]
        verdicts.new_numbers[i] = np.int64(comparing.results[content.result, NEW_NUMBERS])
        verdicts.signals[i] = np.uint8(max(comparing.results[content.result, SIGNAL], np.float32(0)))


@inlined
def match(columns, rules, i, number, story, similarity, matched, kept, is_repeated, is_new, verdicts):
    """Write the decision about a row whose content was compared with a content of a story (``is_new``: it says
    something new to it), or equals that of the version before (``is_repeated``)."""
    at = row_at(columns, number)
    is_own = id_of(columns, story) == columns.ids[at]
    is_update = is_new or (is_own and not is_repeated)
    verdicts.clusters[i], verdicts.matched[i], verdicts.equal[i] = place_of(columns, story), matched, kept == IS_KEPT
    verdicts.statuses[i] = UNCHANGED if is_repeated else UPDATE if is_update else DUPLICATE
    if not (is_own and is_repeated):
        verdicts.similarities[i] = similarity
    if not is_own and not is_update:
        verdicts.originals[i] = own_row(columns, story)
    if verdicts.late[i]:
        return
    if is_update:
        similarity, matched, kept = np.float32(1.0), columns.places[at], np.uint8(IS_KEPT)
    join(columns, rules, story, number, similarity, matched, kept)


@inlined
def own_row(columns, story):
    """Return the newest row of the id that began a story, ``GONE`` if it has left the rows."""
    row = columns.story.records[story, OWN] if story >= 0 else single_of(story)
    return row if row >= columns.state[FIRST] else np.int64(GONE)


@inlined
def settle(columns, rules, number, late):
    """End the decision about a row: it counts from now on, unless it is late."""
    if late:
        columns.state[LATE] += 1
        columns.kept[row_at(columns, number)] = IS_LATE
        columns.begun[row_at(columns, number)] = NOT_BEGUN
    else:
        enter(columns, number)
        end_oldest(columns, rules)


@kernel("Columns, VerdictLimits, Arrivals, Verdicts, i64[], i64[]")
def replay(columns, rules, arrivals, decided, stories, numbers):
    """Add the rows of arrivals that were decided before: a process that takes over decides as the last one would have.

    The arrivals are consecutive, and begin at or before the oldest row that counts. ``stories`` (``int64[n]``) has the
    record of each. ``numbers`` (``int64[n]``) receives the number of each row, -1 without one.
    """
    for i in range(len(arrivals.places)):
        numbers[i] = NONE
        if arrivals.kinds[i] == REMOVAL or arrivals.kinds[i] == JUDGED:
            remove(columns, arrivals.ids[i])
        if arrivals.kinds[i] == REMOVAL or arrivals.kinds[i] == REFUSAL:
            continue
        number = append(
            columns, rules, arrivals.times[i], arrivals.contents[i], arrivals.ids[i], arrivals.places[i],
            arrivals.sizes[i],
        )  # fmt: skip
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
