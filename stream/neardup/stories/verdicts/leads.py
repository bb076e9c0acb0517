"""The nearest content of a story: by the pairs of a document, and by comparisons with what its pairs lead to.

A pair with a member *leads* to the story of the member. So do the version before and the newest stories that the id of
the document began. The document is compared with the contents of each leading story that lives, by their evidence,
whether or not they share a bucket. A pair with a kept version is such a comparison already.

The kernel does not compare: it looks results up in ``Comparing``, and asks for those that are missing. The caller
compares what was asked, as columns, and calls again. A call asks for the first document that lacks a result, and looks
ahead: for later documents it asks what is known to be needed. So a batch takes few calls, and the decisions do not
depend on how it was divided.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner
from neardup.pairs.comparing import DRIFTING, NEW_LESS, NO_PAIR, RESULT_FIELDS, SIGNAL, SIMILARITY
from neardup.stories.verdicts.heirs import standing
from neardup.stories.verdicts.records import OLDER, newest_story
from neardup.stories.verdicts.row_columns import (
    IGNORED,
    IS_KEPT,
    NONE,
    current,
    in_state,
    latest,
    row_at,
    single_from,
    undecided,
    version_before,
)
from neardup.stories.verdicts.stories import (
    content_place,
    content_row,
    contents_of,
    id_of,
    is_open,
    lives,
    place_of,
    single_of,
    story_of,
)

# Contents that a document is compared with at most, those of the stories whose members are most similar to it.
COMPARED_MAX = 64
# Where contents never leave a story, the kept members that a document is compared with besides, at most: those of its
# most similar pairs. So a copy of one whose content is none of its story is dropped too.
PAIRED_MAX = 64
# The newest stories of its own id that lead.
OWN_MAX = 8
# Comparisons that one call asks for at most.
ASKED_MAX = 1 << 14
# The row of a document that was compared with nothing: rows that left with an earlier process are below 0.
NO_ROW = np.iinfo(np.int64).min


class Comparing(NamedTuple):
    """Comparisons of arrivals with contents, which are named by their rows.

    The results of arrival i are ``[starts[i], starts[i + 1])``: rows, and what ``neardup.pairs.comparing.compared``
    says of each (``float32[m, 4]``). ``against`` receives the row that each arrival was compared with for its verdict.
    ``asked_items`` and ``asked_rows`` receive ``asked[0]`` comparisons to make. Without ``usable`` nothing is compared.
    The others are scratch: the leading stories with their similarities in steps, the places of contents that a pair
    names, the kept members that are compared besides, with their similarities, and the rows that lack a result.
    """

    usable: bool
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    results: Annotated[npt.NDArray[np.float32], "[,]"]
    against: npt.NDArray[np.int64]
    asked: npt.NDArray[np.int64]
    asked_items: npt.NDArray[np.int64]
    asked_rows: npt.NDArray[np.int64]
    leads: npt.NDArray[np.int64]
    lead_similarities: npt.NDArray[np.float32]
    direct: npt.NDArray[np.int64]
    paired: npt.NDArray[np.int64]
    paired_similarities: npt.NDArray[np.int64]
    missing: npt.NDArray[np.int64]


class Best(NamedTuple):
    """The most similar content so far: its story (``NONE`` for none), place and similarity, the rounded similarity,
    whether the id of the document began the story, and the index of the result that says so (``NONE`` for a pair)."""

    story: np.int64
    matched: np.int64
    similarity: np.float32
    rounded: np.int64
    is_own: bool
    result: np.int64


class Nearest(NamedTuple):
    """The content that decides, and whether the document says something new to it; the best of those that it says
    something new to; the most similar decided row, ``NONE`` for none; how many comparisons are missing; whether the
    limit left some contents out."""

    best: Best
    is_new: bool
    new: Best
    near: np.int64
    missing: np.int64
    cut: bool


def new_comparing() -> Comparing:
    """Return no results of no arrivals, and room for what is asked, which later calls use again."""
    return Comparing(
        False, np.zeros(1, np.int64), np.empty(0, np.int64), np.empty((0, RESULT_FIELDS), np.float32),
        np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(ASKED_MAX, np.int64), np.empty(ASKED_MAX, np.int64),
        np.empty(COMPARED_MAX, np.int64), np.empty(COMPARED_MAX, np.float32), np.empty(COMPARED_MAX, np.int64),
        np.empty(PAIRED_MAX, np.int64), np.empty(PAIRED_MAX, np.int64), np.empty(COMPARED_MAX + PAIRED_MAX, np.int64),
    )  # fmt: skip


@inlined
def result_of(comparing, index, row, missing):
    """Return the index of the result of an arrival and a row, ``NONE`` if it is missing, and how many are: with it."""
    for k in range(comparing.starts[index], comparing.starts[index + 1]):
        if comparing.rows[k] == row:
            return np.int64(k), missing
    if not is_among(comparing.missing, missing, row):
        comparing.missing[missing] = row
        missing += 1
    return np.int64(NONE), missing


@inlined
def leads_before(columns, comparing, one, other):
    """Return whether the lead at one index comes before that at another: the more similar, of equal ones the first."""
    similarities, leads = comparing.lead_similarities, comparing.leads
    if similarities[one] != similarities[other]:
        return similarities[one] > similarities[other]
    return place_of(columns, leads[one]) < place_of(columns, leads[other])


@inlined
def add_lead(columns, comparing, count, story, similarity):
    """Add the story that a pair leads to, in its order; return how many leads there are."""
    leads, similarities = comparing.leads, comparing.lead_similarities
    at = np.int64(0)
    while at < count and leads[at] != story:
        at += 1
    if at < count:
        similarities[at] = max(similarities[at], similarity)
    elif count < COMPARED_MAX:
        leads[at], similarities[at] = story, similarity
        count += 1
    else:
        at = count - 1  # the last
        if similarity < similarities[at] or (
            similarity == similarities[at] and place_of(columns, story) > place_of(columns, leads[at])
        ):
            return count
        leads[at], similarities[at] = story, similarity
    while at > 0 and leads_before(columns, comparing, at, at - 1):
        leads[at], leads[at - 1] = leads[at - 1], leads[at]
        similarities[at], similarities[at - 1] = similarities[at - 1], similarities[at]
        at -= 1
    return count


@inlined
def add_paired(comparing, count, row, similarity):
    """Add a kept member of a pair, the most similar first, of equal ones the earliest; return how many there are."""
    rows, similarities = comparing.paired, comparing.paired_similarities
    at = np.int64(0)
    while at < count and (similarities[at] > similarity or (similarities[at] == similarity and rows[at] < row)):
        at += 1
    if at == PAIRED_MAX or is_among(rows, count, row):
        return count
    count = min(count + 1, PAIRED_MAX)
    for k in range(count - 1, at, -1):
        rows[k], similarities[k] = rows[k - 1], similarities[k - 1]
    rows[at], similarities[at] = row, similarity
    return count


@inlined
def rounded_of(similarity):
    """Return a similarity in steps of 1 / 10,000: similarities are compared by four digits, as topics write them."""
    # Not ``np.round``: a kernel that has it loads all of SciPy's linear algebra, a tenth of a start.
    return np.int64(round(np.float64(similarity) * 10_000))


@inlined
def nothing():
    """Return no content."""
    return Best(np.int64(NONE), np.int64(NONE), np.float32(0.0), np.int64(0), False, np.int64(NONE))


@inlined
def found_in(columns, document, story, matched, similarity, result):
    """Return a content of a story, to which a document has this similarity."""
    is_own = id_of(columns, story) == document.id
    return Best(story, matched, similarity, rounded_of(similarity), is_own, result)


@inlined
def better(best, other):
    """Return the better of two contents: that of a story of its own id first, then the more similar one by four digits,
    then the earlier one."""
    if best.story == NONE or other.story == NONE:
        return other if best.story == NONE else best
    if best.is_own != other.is_own:
        return best if best.is_own else other
    is_before = best.rounded > other.rounded or (best.rounded == other.rounded and best.matched <= other.matched)
    return best if is_before else other


@inner
def add_own_leads(columns, rules, comparing, document, count):
    """Add the story of the version before, and the newest stories that the id of the document began."""
    if document.version != NONE:
        story = story_of(columns, document.version)
        if is_open(columns, rules, story, document.time):
            count = add_lead(columns, comparing, count, story, np.float32(0.0))
    record, number, lead_count = newest_story(columns, document.id), single_from(columns, document.newest), 0
    while lead_count < OWN_MAX and (record != NONE or number != NONE):
        if number == NONE or (record != NONE and place_of(columns, record) > columns.places[row_at(columns, number)]):
            story, record = record, columns.story.records[record, OLDER]
        else:
            story, number = single_of(number), single_from(columns, version_before(columns, number))
        if lives(columns, rules, story):
            lead_count += 1
            if is_open(columns, rules, story, document.time):
                count = add_lead(columns, comparing, count, story, np.float32(0.0))
    return count


@inner
def nearest(columns, rules, document, decided, pairs, comparing):
    """Find the content of a story that is nearest to a document; ``decided`` is the newest row of its content, or
    ``NONE``."""
    best = nothing()
    near, near_rounded = np.int64(NONE), np.int64(0)
    count, direct, paired, cut = np.int64(0), np.int64(0), np.int64(0), False
    if decided != NONE and not columns.removed[row_at(columns, decided)]:
        near, near_rounded = decided, np.int64(10_000)
    for j in range(document.pairs_first, document.pairs_end):
        similarity = pairs.similarities[j]
        other = pairs.numbers[j]
        if not in_state(columns, rules, other):
            columns.state[IGNORED] += 1
            continue
        other = current(columns, rules, other)
        at = row_at(columns, other)
        if columns.removed[at]:
            continue
        rounded = rounded_of(similarity)
        if rounded > near_rounded or (rounded == near_rounded and other < near):
            near, near_rounded = other, rounded
        story = story_of(columns, other)
        if not is_open(columns, rules, story, document.time):
            continue
        _, matched, kept = standing(columns, rules, story, other)
        if kept == IS_KEPT and matched != NONE and not rules.novel:
            best = better(best, found_in(columns, document, story, matched, similarity, np.int64(NONE)))
            if direct < COMPARED_MAX and not is_among(comparing.direct, direct, matched):
                comparing.direct[direct] = matched
                direct += 1
        if kept == IS_KEPT and matched != NONE and rules.lasting:
            paired = add_paired(comparing, paired, other, rounded)
        if comparing.usable:
            cut |= count == COMPARED_MAX
            count = add_lead(columns, comparing, count, story, np.float32(rounded))
    if comparing.usable:
        count = add_own_leads(columns, rules, comparing, document, count)
    best, missing = best_paired(columns, rules, document, comparing, paired, best)
    best, new, missing, left_out = best_content(columns, rules, document, comparing, count, direct, best, missing)
    is_new = best.result != NONE and comparing.results[best.result, SIMILARITY] < NO_PAIR
    return Nearest(best, is_new, new, near, missing, cut or left_out)


@inlined
def best_paired(columns, rules, document, comparing, count, best):
    """Compare a document with ``count`` kept members of pairs. Return the better of ``best`` and those that it repeats,
    and how many results are missing."""
    missing = np.int64(0)
    for k in range(count if comparing.usable else 0):
        row = comparing.paired[k]
        result, missing = result_of(comparing, document.item, row, missing)
        if result != NONE and comparing.results[result, SIMILARITY] >= 0:
            story = story_of(columns, row)
            _, matched, _ = standing(columns, rules, story, row)
            similarity = comparing.results[result, SIMILARITY]
            best = better(best, found_in(columns, document, story, matched, similarity, result))
    return best, missing


@inner
def best_content(columns, rules, document, comparing, count, direct, best, missing):
    """Compare a document with the contents of ``count`` leading stories, except ``direct`` ones. Return the better of
    ``best`` and these: one of its own id, else one that it repeats, else one whose story it continues. By vectors that
    is the second-nearest of a story, the nearest of its own id or where one alone has a vector. Also return the best of
    those that it says something new to, how many results are missing, and whether the limit left some contents out."""
    new, continued, compared, cut = nothing(), nothing(), np.int64(0), False
    for k in range(count):
        story = comparing.leads[k]
        first, second, vectors = nothing(), nothing(), np.int64(0)
        for c in range(contents_of(columns, story)):
            place = content_place(columns, story, c)
            if is_among(comparing.direct, direct, place):
                continue
            if compared == COMPARED_MAX:
                cut, vectors = True, vectors + 1  # what is left out may have one
                break
            compared += 1
            result, missing = result_of(comparing, document.item, content_row(columns, story, c), missing)
            if result == NONE:
                continue
            similarity, signal = comparing.results[result, SIMILARITY], comparing.results[result, SIGNAL]
            is_same, is_new = similarity >= -NEW_LESS, similarity < NO_PAIR
            vectors += abs(signal) == DRIFTING
            if similarity == NO_PAIR:
                continue
            if is_new:
                similarity += np.float32(NEW_LESS if is_same else 2 * NEW_LESS)
            found = found_in(columns, document, story, place, similarity, result)
            if signal == DRIFTING:
                is_nearest = better(first, found).result == result
                first, second = (found, first) if is_nearest else (first, better(second, found))
                continue
            new = better(new, found) if is_new else new
            if found.is_own or not is_new:
                best = better(best, found)
            elif is_same:
                continued = better(continued, found)
        near = first if first.is_own or vectors == 1 else second
        new = better(new, near)
        continued = better(continued, near)
        best = better(best, near) if near.is_own else best
    return continued if best.story == NONE else best, new, missing, cut


@inlined
def is_among(values, count, value):
    """Return whether one of the first ``count`` values is this one."""
    among = False
    for k in range(count):
        among |= values[k] == value
    return among


@inlined
def ask(comparing, index, missing):
    """Ask for the missing comparisons of a document."""
    for k in range(missing):
        at = comparing.asked[0]
        if at < ASKED_MAX:
            comparing.asked_items[at], comparing.asked_rows[at] = index, comparing.missing[k]
            comparing.asked[0] = at + 1


@inner
def ask_ahead(columns, rules, arrivals, kind, pairs, comparing, first, end):
    """Ask for the comparisons that the documents from ``first`` to ``end`` need, as far as they are known by now."""
    state = columns.state
    ignored = state[IGNORED]
    for i in range(first, end):
        if comparing.asked[0] == ASKED_MAX:
            break
        if arrivals.kinds[i] != kind:
            continue
        document = undecided(columns, rules, arrivals, pairs, i)
        is_led = pairs.starts[i] < pairs.starts[i + 1] or document.newest != NONE
        if not is_led and newest_story(columns, document.id) == NONE:
            continue  # as most are
        if rules.by_content and latest(columns, rules, arrivals.contents[i]) != NONE:
            continue
        ask(comparing, i, nearest(columns, rules, document, np.int64(NONE), pairs, comparing).missing)
    state[IGNORED] = ignored
