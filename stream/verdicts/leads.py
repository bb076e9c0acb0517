"""The nearest originals of a document: by its pairs, and by comparisons with the originals that its pairs lead to.

A pair with a member of a cluster *leads* to the cluster's original. If the document and that original share no bucket,
or a probe stopped before it, no pair says how similar they are. Then they are compared directly, by their evidence.

The kernel does not compare: it looks results up in ``Comparing``, and asks for those that are missing. The caller
compares what was asked, as columns, and calls again. A call asks for the first document that lacks a result, and looks
ahead: for later documents it asks what is known to be needed. So a batch takes few calls, and the decisions do not
depend on how it was divided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stream.machine.compile import inlined
from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.row_columns import (
    IGNORED,
    NONE,
    STREAM_TIME,
    current,
    in_state,
    in_window,
    latest,
    row_at,
    standing,
)

# Originals that a document is compared with at most: those whose members are most similar to it.
LEADS_MAX = 64
# Comparisons that one call asks for at most.
ASKED_MAX = 1 << 14
# What a comparison says of two documents that are no pair, and the result of a comparison that was not made.
NO_PAIR, MISSING = np.float32(-1.0), np.float32(-2.0)


class Undecided(NamedTuple):
    """A document to decide: its place in the arrivals, its row, its time, and where its pairs begin and end."""

    place: int
    number: np.int64
    time: np.int64
    pairs_first: np.int64
    pairs_end: np.int64


class Comparing(NamedTuple):
    """Comparisons of arrivals with rows.

    The results of arrival i are ``[starts[i], starts[i + 1])``: rows, and similarities in [0, 1] or ``NO_PAIR``.
    ``asked_items`` and ``asked_rows`` receive ``asked[0]`` comparisons to make. ``leads`` and ``lead_similarities`` are
    scratch. Without ``usable`` nothing is compared.
    """

    usable: bool
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]
    asked: npt.NDArray[np.int64]
    asked_items: npt.NDArray[np.int64]
    asked_rows: npt.NDArray[np.int64]
    leads: npt.NDArray[np.int64]
    lead_similarities: npt.NDArray[np.float32]


class Nearest(NamedTuple):
    """Rows, ``NONE`` for none: the most similar original and the most similar content without one; how many leads."""

    best: np.int64
    best_similarity: np.float32
    near: np.int64
    leads: np.int64


def new_comparing() -> Comparing:
    """Return no results of no arrivals, and room for what is asked, which later calls use again."""
    return Comparing(
        False, np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.float32), np.zeros(1, np.int64),
        np.empty(ASKED_MAX, np.int64), np.empty(ASKED_MAX, np.int64), np.empty(LEADS_MAX, np.int64),
        np.empty(LEADS_MAX, np.float32),
    )  # fmt: skip


def with_results(
    comparing: Comparing,
    items: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float32],
) -> Comparing:
    """Add the results of what was asked; nothing is asked any more."""
    arrivals = len(comparing.starts) - 1
    known = np.repeat(np.arange(arrivals), np.diff(comparing.starts))
    items, rows = np.concatenate([known, items]), np.concatenate([comparing.rows, rows])
    similarities = np.concatenate([comparing.similarities, similarities])
    order = np.argsort(items, kind="stable")
    comparing.asked[0] = 0
    return comparing._replace(
        starts=np.searchsorted(items[order], np.arange(arrivals + 1)),
        rows=rows[order],
        similarities=similarities[order],
    )


@inlined
def result_of(comparing, place, row):
    """Return the similarity of an arrival and a row, ``NO_PAIR`` or ``MISSING``."""
    for k in range(comparing.starts[place], comparing.starts[place + 1]):
        if comparing.rows[k] == row:
            return comparing.similarities[k]
    return MISSING


@inlined
def add_lead(comparing, count, row, similarity):
    """Add the original that a pair leads to; return how many leads there are."""
    least = 0
    for k in range(count):
        if comparing.leads[k] == row:
            comparing.lead_similarities[k] = max(comparing.lead_similarities[k], similarity)
            return count
        if comparing.lead_similarities[k] < comparing.lead_similarities[least]:
            least = k
    if count < LEADS_MAX:
        least, count = count, count + 1
    elif similarity <= comparing.lead_similarities[least]:
        return count
    comparing.leads[least], comparing.lead_similarities[least] = row, similarity
    return count


@inlined
def nearest(columns, rules, document, decided, pairs, comparing):
    """Find the nearest original of a document; ``decided`` is the newest row of its content, or ``NONE``."""
    best, best_similarity = np.int64(NONE), np.float32(0.0)
    near, near_similarity = np.int64(NONE), np.float32(0.0)
    count = np.int64(0)
    if decided != NONE:
        original = standing(columns, rules, decided)
        if original != NONE and in_window(columns, rules, original, document.time):
            return Nearest(original, columns.similarities[row_at(columns, decided)], near, count)
        if not columns.removed[row_at(columns, decided)]:
            near, near_similarity = decided, np.float32(1.0)
    for j in range(document.pairs_first, document.pairs_end):
        other, similarity = pairs.numbers[j], pairs.similarities[j]
        if not in_state(columns, rules, other):
            columns.state[IGNORED] += 1
            continue
        if columns.removed[row_at(columns, other)]:
            continue
        other = current(columns, rules, other)
        original = standing(columns, rules, other)
        if original != NONE and in_window(columns, rules, original, document.time):
            if columns.contents[row_at(columns, original)] == columns.contents[row_at(columns, other)]:
                if similarity > best_similarity or (similarity == best_similarity and original < best):
                    best, best_similarity = original, similarity
                continue
            if comparing.usable:
                count = add_lead(comparing, count, original, similarity)
        if similarity > near_similarity or (similarity == near_similarity and other < near):
            near, near_similarity = other, similarity
    for k in range(count):
        row = comparing.leads[k]
        similarity = result_of(comparing, document.place, row)
        if similarity > best_similarity or (similarity == best_similarity and row < best):
            best, best_similarity = row, similarity
    return Nearest(best, best_similarity, near, count)


@inlined
def ask(comparing, place, count):
    """Ask for the missing comparisons of a document with its leads; return how many were missing."""
    missing = 0
    for k in range(count):
        if result_of(comparing, place, comparing.leads[k]) == MISSING:
            missing += 1
            at = comparing.asked[0]
            if at < ASKED_MAX:
                comparing.asked_items[at], comparing.asked_rows[at] = place, comparing.leads[k]
                comparing.asked[0] = at + 1
    return missing


@inlined
def ask_ahead(columns, rules, arrivals, kind, pairs, comparing, first):
    """Ask for the comparisons that the documents from ``first`` on need, as far as they are known by now."""
    state = columns.state
    ignored = state[IGNORED]
    for i in range(first, len(arrivals.places)):
        if comparing.asked[0] == ASKED_MAX:
            break
        if arrivals.kinds[i] != kind:
            continue
        if rules.by_content and latest(columns, rules, arrivals.contents[i]) != NONE:
            continue
        time = arrivals.times[i] if arrivals.times[i] != NO_TIME else state[STREAM_TIME]
        document = Undecided(i, np.int64(NONE), time, pairs.starts[i], pairs.starts[i + 1])
        found = nearest(columns, rules, document, np.int64(NONE), pairs, comparing)
        ask(comparing, i, found.leads)
    state[IGNORED] = ignored
