"""The rule of verdicts, as one kernel over columns.

Documents are decided in order of arrival. A document to keep is an *original*. A document to drop is a *duplicate*
of an original, and the contents of the two were compared. This is pivot clustering in order of arrival
(Ailon, Charikar, Newman, "Aggregating inconsistent information", JACM 55(5), 2008). It does not chain.

For a document d with content X, the first rule that fits decides:

1. X is the content of the latest version of d's id: ``UNCHANGED``. It repeats what that version resolved to.
2. X is decided, and the original of X lies in d's window: ``DUPLICATE`` of it, with the similarity recorded for X.
3. A pair of d leads to an original in d's window: it is a pair with the content of the original, or with a member of
   its cluster, and then d and the original are compared directly (``leads``). ``DUPLICATE`` of the most similar such
   original that reaches the least score of a pair; of equal ones, of the first in order of arrival.
4. ``ORIGINAL``. If X or the content of a pair has another decision, ``related`` is the cluster of the most similar of
   these contents.
"""

from __future__ import annotations

import numpy as np

from neardup.stream.machine.compile import inlined, raw_kernel
from neardup.stream.table import NO_TIME
from neardup.stream.verdicts.leads import Undecided, ask, ask_ahead, nearest
from neardup.stream.verdicts.row_columns import (
    CONTENT_ENTRIES,
    END,
    FIRST_TIME,
    ID_ENTRIES,
    IGNORED,
    NONE,
    STREAM_TIME,
    append,
    in_state,
    in_window,
    latest,
    newest,
    remember,
    remove,
    repeat,
    row_at,
    standing,
)

ORIGINAL, DUPLICATE, UNCHANGED, REMOVED, REFUSED = range(5)
STATUSES = ("original", "duplicate", "unchanged", "removed", "refused")
DOCUMENT, REMOVAL, REFUSAL = range(3)  # the kinds of arrivals


@raw_kernel
def decide(columns, rules, arrivals, pairs, comparing, verdicts, first):
    """Decide arrivals from ``first`` on, in their order; see the module for the rule.

    Return the place of the first arrival that is not decided: the number of arrivals, or the place of a document
    that needs comparisons, which are asked for in ``comparing``. The caller has made room for the rows and in the maps.
    The pairs of arrival i are ``[pairs.starts[i], pairs.starts[i + 1])``.
    """
    for i in range(first, len(arrivals.places)):
        verdicts.clusters[i], verdicts.originals[i] = arrivals.places[i], NONE
        verdicts.related[i] = verdicts.previous[i] = NONE
        verdicts.similarities[i] = 0.0
        if arrivals.kinds[i] == REMOVAL:
            verdicts.statuses[i] = REMOVED
            remove(columns, arrivals.ids[i])
        elif arrivals.kinds[i] == REFUSAL:
            verdicts.statuses[i] = REFUSED
        elif not decide_document(columns, rules, arrivals, i, pairs, comparing, verdicts):
            ask_ahead(columns, rules, arrivals, DOCUMENT, pairs, comparing, i + 1)
            return i
    return len(arrivals.places)


@inlined
def decide_document(columns, rules, arrivals, i, pairs, comparing, verdicts):
    """Decide one document. If comparisons are missing, ask for them, change nothing and return false."""
    state = columns.state
    end, stream_time, first_time, ignored = state[END], state[STREAM_TIME], state[FIRST_TIME], state[IGNORED]
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
        document = Undecided(i, number, time, pairs.starts[i], pairs.starts[i + 1])
        found = nearest(columns, rules, document, decided, pairs, comparing)
        if ask(comparing, i, found.leads):
            state[END], state[STREAM_TIME], state[FIRST_TIME], state[IGNORED] = end, stream_time, first_time, ignored
            return False
        settle(columns, document, found, verdicts)
    verdicts.clusters[i] = columns.clusters[at]
    if columns.heads[at] != 0:
        verdicts.originals[i] = standing(columns, rules, number + columns.heads[at])
        verdicts.similarities[i] = columns.similarities[at]
    state[CONTENT_ENTRIES] += remember(columns.content_map, columns.contents, columns, content, number)
    state[ID_ENTRIES] += remember(columns.id_map, columns.ids, columns, id_, number)
    return True


@inlined
def settle(columns, document, found, verdicts):
    """Write the decision about a row that repeats no version: rules 2 to 4."""
    if found.best == NONE:
        verdicts.statuses[document.place] = ORIGINAL
        if found.near != NONE:
            verdicts.related[document.place] = columns.clusters[row_at(columns, found.near)]
        return
    at = row_at(columns, document.number)
    columns.heads[at] = found.best - document.number
    columns.clusters[at] = columns.clusters[row_at(columns, found.best)]
    columns.similarities[at] = found.best_similarity
    verdicts.statuses[document.place] = DUPLICATE
