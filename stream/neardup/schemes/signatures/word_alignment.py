"""Parts that two texts share, found by common seeds and scored by an alignment of words.

A common seed begins an alignment, which goes on to both sides (``word_extension``): first along a narrow band, which
decides whether it is worth more, then along a wide one. The score is the significance: between unrelated texts, pairs
of a score fall sixfold to tenfold for each two points.

The newer text is read word by word, and each word is in one part at most. So the work follows its length: an
alignment begins at seeds outside of the parts before, ``_OCCURRENCES`` positions of the older text are tried for a
seed, and a pair of texts takes ``_ROWS_A_WORD`` steps for each of its words at most. An alignment begins at runs
without a change only where a part was refused that says a few words again and again, and after ``_TRIED_A_WORD`` steps
for each word: tables of the same few words share seeds everywhere.

Source: for the end of an extension, Zhang, Schwartz, Wagner, Miller, "A greedy algorithm for aligning DNA sequences",
2000 (X-drop).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.schemes.signatures.word_extension import CODES, QUARTERS, ROW, around, is_quote, is_run
from neardup.schemes.signatures.word_seeds import seed_end, seed_hash
from neardup.schemes.signatures.word_units import (
    LISTED_WORDS,
    Ordered,
    listed_position,
    selected_list,
    selected_positions,
)

_OCCURRENCES = 8
_ROWS_A_WORD, _TRIED_A_WORD, _ROWS_FREE = 128, 4, 4096
# A list is searched if it has so many positions for each seed that is looked for.
_SEARCH_FACTOR = 16
# Columns of a part: pair; first word and the word after the last, in the newer and in the older text; score.
PAIR, NEWER_BEGIN, NEWER_END, OLDER_BEGIN, OLDER_END, SCORE = range(6)
_COLUMNS = 6
# Bits of the first two words of a seed: by them most seeds that are not in the table are left out at once.
_FILTER_BITS = 15
_FILTER_SHIFT = np.uint32(32 - _FILTER_BITS)
_FIRST, _SECOND = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77)
# A seed of a part has two words at least.
_WORDS_MIN = 2


class _Scratch(NamedTuple):
    """What an alignment needs: a row of a band; positions of selected seeds of the older text; a table of the seeds of
    the newer text, with the entry of each; for each entry its first and last word, the pair that used it last, and
    positions of the older text; whether a seed of the table may begin so; how often a part has the word of each
    code."""

    row: npt.NDArray[np.int32]
    older: npt.NDArray[np.int32]
    seeds: npt.NDArray[np.uint64]
    is_used: npt.NDArray[np.bool_]
    entries: npt.NDArray[np.int32]
    ends: Annotated[npt.NDArray[np.int32], "[,]"]
    pairs: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    filter: npt.NDArray[np.bool_]
    words: npt.NDArray[np.int32]


def aligned(newer: Ordered, older: Ordered, score_min: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Align text i of ``newer`` with text i of ``older``; a part has at least ``score_min`` points.

    Returns the parts, ``int64[k, 6]``: pair; first word and the word after the last one in the newer and in the older
    text; score in quarters of a point; by pair and newer text. And how many different selected seeds of the older text
    the newer one has, ``int32[m]``.
    """
    m = len(newer.words)
    parts, seeds = np.empty((int((newer.words // _WORDS_MIN).sum()), _COLUMNS), np.int64), np.zeros(m, np.int32)
    most = [int(texts.words.max(initial=0)) for texts in (newer, older)]
    entries = 1 << (2 * most[0] + 1).bit_length()
    scratch = _Scratch(
        np.empty(ROW, np.int32), np.empty(most[1], np.int32),
        np.empty(entries, np.uint64), np.zeros(entries, np.bool_),
        np.empty(most[0], np.int32), np.empty((entries, 2), np.int32),
        np.empty(entries, np.int64), np.empty(entries, np.int32),
        np.empty(entries * _OCCURRENCES, np.int32), np.empty(1 << _FILTER_BITS, np.bool_),
        np.zeros(CODES, np.int32),
    )  # fmt: skip
    count = np.zeros(1, np.int64)
    _align(newer, older, round(score_min * QUARTERS), scratch, parts, seeds, count)
    return parts[: count[0]].copy(), seeds


@kernel("const Ordered, const Ordered, i64, _Scratch, i64[,], i32[], i64[]")
def _align(newer, older, score_min, scratch, parts, seeds, count):
    at, selected, mask = np.int64(0), 0, np.int64(0)
    for pair in range(len(seeds)):
        is_same = pair and newer.starts[pair] == newer.starts[pair - 1] and newer.words[pair] == newer.words[pair - 1]
        if not is_same:
            selected, mask = _fill_table(newer, pair, scratch)
        seeds[pair], first, last = _meet(older, pair, scratch, selected, mask)
        if seeds[pair]:
            at = _parts(newer, older, pair, score_min, scratch, (first, last), parts, at)
    count[0] = at


@inner
def _fill_table(texts, i, scratch):
    """Enter the seeds of a text in the table; return how many there are, and the mask of the table."""
    first, words, count = texts.starts[i], texts.words[i], np.int64(0)
    while count < words and seed_end(texts.units, first, count, words) >= 0:
        count += 1
    entries = np.int64(2)
    while entries < 2 * count:
        entries *= 2
    mask = entries - 1
    scratch.is_used[:entries] = False
    scratch.filter[:] = False
    for n in range(count):
        h = seed_hash(texts.units, first + n, texts.mask)
        scratch.filter[_begin(texts.units, first + n, texts.mask)] = True
        at = _entry(scratch, h, mask)
        if not scratch.is_used[at]:
            scratch.is_used[at], scratch.seeds[at], scratch.pairs[at], scratch.ends[at, 0] = True, h, -1, n
        scratch.entries[n], scratch.ends[at, 1] = np.int32(at), n
    return count, mask


@inlined
def _begin(units, at, mask):
    """A number below the entries of the filter, from the first two words of a seed."""
    return np.uint32(np.uint32(units[at] & mask) * _FIRST + np.uint32(units[at + 1] & mask) * _SECOND) >> _FILTER_SHIFT


@inlined
def _entry(scratch, h, mask):
    """The entry of a seed in the table, or the free one where it would stand."""
    at = np.int64(h & np.uint64(mask))
    while scratch.is_used[at] and scratch.seeds[at] != h:
        at = (at + 1) & mask
    return at


@inner
def _meet(older, pair, scratch, selected, mask):
    """Note for each seed of the table where it is selected in the older text; return how many seeds are, and the first
    and the last word of the newer text that begins one."""
    first, words, met, ends = older.starts[pair], older.words[pair], np.int32(0), (np.int32(selected), np.int32(-1))
    begin, listed = selected_list(older, pair) if words > LISTED_WORDS else (np.int64(0), np.int64(0))
    if listed > _SEARCH_FACTOR * selected:
        for n in range(selected):
            at = np.int64(scratch.entries[n])
            if scratch.pairs[at] != pair:
                found = _search(older, first, begin, listed, scratch.seeds[at])
                while found < listed and _hash_at(older, first, begin, found) == scratch.seeds[at]:
                    met += _note(scratch, at, pair, listed_position(older.units, begin, found))
                    ends = min(ends[0], scratch.ends[at, 0]), max(ends[1], scratch.ends[at, 1])
                    if scratch.counts[at] == _OCCURRENCES:
                        break
                    found += 1
        return met, ends[0], ends[1]
    for n in range(selected_positions(older, pair, scratch.older)):
        position = scratch.older[n]
        if not scratch.filter[_begin(older.units, first + position, older.mask)]:
            continue
        at = _entry(scratch, seed_hash(older.units, first + position, older.mask), mask)
        if scratch.is_used[at]:
            met += _note(scratch, at, pair, position)
            ends = min(ends[0], scratch.ends[at, 0]), max(ends[1], scratch.ends[at, 1])
    return met, ends[0], ends[1]


@inlined
def _note(scratch, at, pair, position):
    """Note a position of the older text for an entry; return 1 if it is the first of the pair."""
    is_first = scratch.pairs[at] != pair
    if is_first:
        scratch.pairs[at], scratch.counts[at] = pair, 0
    if scratch.counts[at] < _OCCURRENCES:
        scratch.positions[at * _OCCURRENCES + scratch.counts[at]] = position
        scratch.counts[at] += np.int32(1)
    return np.int32(is_first)


@inlined
def _hash_at(texts, first, begin, n):
    return seed_hash(texts.units, first + listed_position(texts.units, begin, n), texts.mask)


@inner
def _search(texts, first, begin, listed, wanted):
    """The first position in a list whose seed is not below the one that is wanted."""
    low, high = np.int64(0), listed
    while low < high:
        middle = (low + high) >> 1
        if _hash_at(texts, first, begin, middle) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _parts(newer, older, pair, score_min, scratch, ends, parts, at):
    """Write the parts of a pair from ``at`` on; return where the next ones begin. Its seeds begin between two words."""
    sides = newer.units, newer.starts[pair], older.units, older.starts[pair], newer.mask
    n_words, o_words, passed, refused = newer.words[pair], older.words[pair], np.int64(0), np.int64(0)
    left, spent = _ROWS_A_WORD * n_words + _ROWS_FREE, (_ROWS_A_WORD - _TRIED_A_WORD) * n_words
    for n in range(ends[0], ends[1] + 1):
        entry, i = np.int64(scratch.entries[n]), np.int64(n)
        if i < passed or scratch.pairs[entry] != pair:
            continue
        best, end = np.int64(0), seed_end(newer.units, sides[1], i, n_words)
        for k in range(scratch.counts[entry]):
            j = np.int64(scratch.positions[entry * _OCCURRENCES + k])
            room = n_words - end, o_words - (j + end - i), i - passed, j
            if (i < refused or left < spent) and not is_run(sides, i, end, j, room):
                continue
            score, ei, di, ej, dj, rows = around(sides, i, end, j, room, score_min, scratch.row)
            left -= rows
            if score >= score_min and score > best:
                begins, ends = (i - ei, j - ej), (end + di, j + end - i + dj)
                if is_quote(sides, begins, ends, score, score_min, scratch.words) or is_run(sides, i, end, j, room):
                    best = score
                    parts[at, PAIR], parts[at, SCORE] = pair, score
                    parts[at, NEWER_BEGIN], parts[at, OLDER_BEGIN] = begins
                    parts[at, NEWER_END], parts[at, OLDER_END] = ends
                else:
                    refused = max(refused, end + di)
            if left < 0:
                break
        if best:
            passed = parts[at, NEWER_END]
            at += 1
        if left < 0:
            break
    return at
