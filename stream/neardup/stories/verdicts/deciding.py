"""The kernels of decisions: ``rule.decide`` over a state at an address, alone or in the call that finds the pairs; and
those that look at all rows: ``counted_for`` in an open step, the others between steps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.memory import put, reader_of
from neardup.pairs.at_once import SLOT, judging_at, run_at
from neardup.pairs.batches import MICROSECONDS
from neardup.pairs.comparing import RESULT_FIELDS, comparing_limits
from neardup.pairs.explanations.relations import Relations
from neardup.schemes.config import Config
from neardup.stories.verdicts import row_columns, rule
from neardup.stories.verdicts.fields import NOTHING_NEW, NewWords, Verdicts
from neardup.stories.verdicts.leads import Comparing
from neardup.stories.verdicts.row_columns import (
    CONTENT_ENTRIES,
    COUNTED,
    END,
    ENTRIES_AHEAD,
    FIRST,
    ID_ENTRIES,
    IS_LATE,
    JOURNAL,
    NONE,
    ROWS_AHEAD,
    Columns,
    Pairs,
    VerdictLimits,
    count,
    in_state,
    newest,
    remember,
    row_at,
    uncount,
    warm,
)
from neardup.stories.verdicts.rule import Arrivals
from neardup.window import NO_WINDOW, Limits
from neardup.window.chains import FINISHED
from neardup.window.views import items_at

# Compares m arrivals, by their indices in the call, with m contents of stories, by the numbers of their rows (both
# ``int64[m]``): what ``neardup.pairs.comparing.compared`` returns, as ``float32[m, 4]``.
Compare = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.float32]]


class Decided(NamedTuple):
    """The verdicts about n arrivals.

    ``first_place`` is the place of the first arrival, ``first_row`` the row number of the first document among them;
    ``ids`` are those of the originals, of the arrivals where ``verdicts.originals`` is not ``NONE``, in order, without
    collections. ``relations`` are those of the arrivals, where the scheme knows what texts share. ``new`` is what the
    texts of kept arrivals say that no earlier one said, by arrival; empty without ``novelty`` or without texts.
    """

    verdicts: Verdicts
    first_place: int
    first_row: int
    ids: list[str]
    relations: Relations | None = None
    new: NewWords = NOTHING_NEW


new_decided = functools.partial(tuple.__new__, Decided)  # a call of ``Decided`` takes three times as long


class Deciding(NamedTuple):
    """What is decided, and with what: ``before`` receives the state before the step; ``pairs`` has room for the pairs
    of a call, ``comparing`` has no results; ``every`` says that all arrivals are accepted."""

    columns: Columns
    rules: VerdictLimits
    arrivals: Arrivals
    verdicts: Verdicts
    before: npt.NDArray[np.int64]
    pairs: Pairs
    comparing: Comparing
    every: npt.NDArray[np.bool_]


_deciding_at = reader_of(Deciding)


@kernel("Deciding, i64", locked=True, direct=True)
def keep(deciding, address):
    """Write what is decided for the kernels."""
    put(deciding, address)


@kernel("i64, i64, const bool[], i64, const bool[], Pairs, Comparing, i64, i64", direct=True)
def decide_arrivals(deciding, items, accepted, place, references, pairs, comparing, first, end):
    """``decide_at`` for Python."""
    return decide_at(deciding, items, accepted, place, references, pairs, comparing, first, end)


@inner
def decide_at(deciding, items, accepted, place, references, pairs, comparing, first, end):
    """``rule.decide`` with a state and arrivals at an address; before it, the arrivals come, and a step keeps the state
    before its first change. Returns what that returns, and how many records of stories the step has changed."""
    state = _deciding_at(deciding)
    if state.before[END] == NONE:
        row_columns.begin(state.columns.state, state.before)
    if items:
        rule.arrive(items_at(items), accepted, place, references, state.arrivals)
    at, end, more = rule.decide(
        state.columns, state.rules, state.arrivals, pairs, comparing, state.verdicts, first, end
    )
    return at, end, more, state.columns.state[JOURNAL]


@kernel("i64, i64, i64, i64, i64, i64, i64, bool, bool, i64, i64", direct=True)
def run(judging, deciding, place, offset, table, rows, first, probe, add, candidates_max, settled):
    """``at_once.run`` of all items; if no candidate is left, the documents, which are all accepted and compared with
    earlier ones, are decided, too. The slots of rows are ``offset`` more. Returns what that returns, and then what
    ``decide_at`` returns, first ``NONE`` if they are not decided."""
    at, why, segment, count, oldest, slots, postings = run_at(
        judging, table, rows, first, probe, add, candidates_max, settled
    )
    decided, end, more, changed = np.int64(NONE), np.int64(0), np.int64(0), np.int64(0)
    if why == FINISHED and count == 0:
        state = _deciding_at(deciding)
        if judging:
            take_pairs(judging_at(judging), offset, state.pairs)
        else:
            state.pairs.starts[:] = 0
        decided, end, more, changed = decide_at(
            deciding, rows, state.every, place, state.every[:0], state.pairs, state.comparing, 0, len(state.every)
        )
    return at, why, segment, count, oldest, slots, postings, decided, end, more, changed


@inlined
def take_pairs(found, offset, pairs):
    """Make pairs of slots pairs of rows."""
    at, count = 0, found.counts[0]
    for i in range(len(pairs.starts)):
        while at < count and found.items[at] < i:
            pairs.numbers[at] = found.numbers[SLOT, at] - offset
            pairs.similarities[at] = np.float32(found.similarity[at])
            at += 1
        pairs.starts[i] = at


def with_results(
    comparing: Comparing,
    items: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    results: npt.NDArray[np.float32],
    first: int,
    end: int,
) -> Comparing:
    """Add the results of what was asked for arrivals from ``first`` to ``end``, and keep those of no others; nothing is
    asked any more."""
    known = comparing.starts
    size, starts = int(known[end] - known[first]) + len(items), np.zeros(len(known), np.int64)
    merged = np.empty(size, np.int64), np.empty((size, RESULT_FIELDS), np.float32)
    _merge(comparing, items, rows, results, first, end, starts, *merged)
    return comparing._replace(starts=starts, rows=merged[0], results=merged[1])


@kernel("Comparing, const i64[], const i64[], const f32[,], i64, i64, i64[], i64[], f32[,]", direct=True)
def _merge(comparing, items, rows, results, first, end, starts, out_rows, out):
    """Fill in ``with_results``, from the last one of each arrival to the first: ``starts[i + 1]`` falls from the end of
    arrival i to its start."""
    comparing.asked[0], known = 0, comparing.starts
    for i in range(first, end):
        starts[i + 1] = known[i + 1] - known[i]
    for k in range(len(items)):
        starts[items[k] + 1] += 1
    for i in range(first, end):
        starts[i + 1] += starts[i]
    for k in range(len(items) - 1, -1, -1):
        put_result(starts, items[k], rows[k], results[k], out_rows, out)
    for i in range(first, end):
        for k in range(known[i + 1] - 1, known[i] - 1, -1):
            put_result(starts, i, comparing.rows[k], comparing.results[k], out_rows, out)
        starts[i] = starts[i + 1]
    starts[end] = len(out_rows)


@inlined
def put_result(starts, i, row, result, out_rows, out):
    """Put a result of an arrival before those that are there."""
    starts[i + 1] -= 1
    out_rows[starts[i + 1]] = row
    for n in range(RESULT_FIELDS):
        out[starts[i + 1], n] = result[n]


def verdict_limits(config: Config, limits: Limits) -> VerdictLimits:
    """Return what verdicts depend on; ``limits`` are those of the table, or of all shards together."""
    longest = max(config.story_seconds_max, config.window_seconds or 0.0)
    age = int(NO_WINDOW) if config.window_seconds is None else round(longest * MICROSECONDS)  # or without an end
    return VerdictLimits.of(
        limits,
        story_age=age,
        story_bytes=config.evidence_bytes_max,
        width=config.plan.width,
        **comparing_limits(config),
    )


@kernel("Columns, u64[], i64[]")
def newest_rows(columns, contents, numbers):
    """Find the newest kept row of each content, ``NONE`` where there is none."""
    for i in range(len(contents)):
        numbers[i] = newest(columns.content_map, columns.contents, columns, contents[i])


@kernel("Columns, i64")
def rebuild(columns, end):
    """Fill the empty maps from the rows below ``end``, from the oldest to the newest; late rows are in neither."""
    state = columns.state
    state[CONTENT_ENTRIES] = state[ID_ENTRIES] = 0
    for number in range(state[FIRST], end):
        far, near = min(number + ENTRIES_AHEAD, end - 1), min(number + ROWS_AHEAD, end - 1)
        far, near = row_at(columns, far), row_at(columns, near)
        warm(columns, columns.contents[far], columns.ids[far], columns.contents[near], columns.ids[near])
        at = row_at(columns, number)
        if columns.kept[at] != IS_LATE:
            state[CONTENT_ENTRIES] += remember(
                columns.content_map, columns.contents, columns, columns.contents[at], number
            )
            state[ID_ENTRIES] += remember(columns.id_map, columns.ids, columns, columns.ids[at], number)


@kernel("Columns, i64, i64")
def unmark(columns, end, step):
    """Remove the marks of removal that ``step`` set on the rows before ``end``."""
    for number in range(columns.state[FIRST], end):
        at = row_at(columns, number)
        if columns.removed[at] == np.uint32(step):
            columns.removed[at] = 0


@kernel("Columns, i64")
def uncount_below(columns, before):
    """Count no row below ``before``."""
    while columns.state[COUNTED] < before:
        uncount(columns)


@kernel("Columns, VerdictLimits, i64[], i64[], bool[]")
def counted_for(columns, rules, numbers, others, counts):
    """Find which of ``others`` counted when the rows ``numbers``, which increase, were decided. ``columns.state`` is
    that of the begin of the step, and goes on."""
    for k in range(len(numbers)):
        while columns.state[END] <= numbers[k]:
            count(columns, rules, columns.state[END])
        counts[k] = in_state(columns, rules, others[k])
