"""Parts that two texts share, found by common seeds and scored by an alignment of words.

A common seed begins an alignment, which goes on to both sides until its score has dropped by ``_DROP`` below the best
one: first along a narrow band, which decides whether it is worth more, then along a wide one. A word that matches
counts by its length, a word that does not, or is missing, counts against it. The score is the significance: between
unrelated texts, pairs of a score fall sixfold to tenfold for each two points.

The newer text is read word by word, and each word is in one part at most. So the work follows its length: an
alignment begins at seeds outside of the parts before, ``_OCCURRENCES`` positions of the older text are tried for a
seed, and a pair of texts takes ``_ROWS_A_WORD`` steps for each of its words at most.

Source: for the end of an extension, Zhang, Schwartz, Wagner, Miller, "A greedy algorithm for aligning DNA sequences",
2000 (X-drop).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.schemes.signatures.word_seeds import (
    LISTED_WORDS,
    Ordered,
    listed_position,
    seed_end,
    seed_hash,
    selected_positions,
    selection_at,
)

# Scores are in quarters of a point.
QUARTERS = 4
# Of a match, by kind: words of one to three letters 1, to six 2, longer 3; an ideograph 1, a kana a half, a digit that
# stands alone a quarter, because tables of few different digits would align everywhere.
_WEIGHTS = np.array([0, 4, 4, 4, 8, 8, 8, 12, 12, 12, 12, 4, 2, 1, 0, 0], np.int32)
_PENALTY = np.int32(4)
_KIND = np.uint16(0xF)
# Half the width of each band, and how far a score may drop; the narrow one ends when it has gained ``_GAIN``.
_NARROW, _NARROW_DROP, _GAIN = 3, 24, 20
_BAND, _DROP, _NO_GAIN = 8, 48, 1 << 40
_LOWEST = np.int32(-(1 << 30))
# The words of a band that are compared at once, one more than it has, and how many rows of it are.
_HOPED_WIDTH, _HOPED_ROWS = 2 * _NARROW + 2, 16
_OCCURRENCES = 8
_ROWS_A_WORD, _ROWS_FREE = 128, 4096
# A list is searched if it has so many positions for each seed that is looked for.
_SEARCH_FACTOR = 16
# Columns of a part: pair; first word and the word after the last, in the newer and in the older text; score.
PAIR, NEWER_BEGIN, NEWER_END, OLDER_BEGIN, OLDER_END, SCORE = range(6)
_COLUMNS = 6
# Bits of the first two words of a seed: by them most seeds that are not in the table are left out at once.
_FILTER_BITS = 15
_FILTER_SHIFT = np.uint32(32 - _FILTER_BITS)
_FIRST, _SECOND = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77)
# A seed of a part has three words at least, or six ideographs.
_WORDS_MIN = 3


class _Scratch(NamedTuple):
    """What an alignment needs: a row of a band; positions of selected seeds of the older text; a table of the seeds of
    the newer text, with the entry of each; for each entry the pair that used it last, and positions of the older text;
    whether a seed of the table may begin so."""

    row: npt.NDArray[np.int32]
    older: npt.NDArray[np.int32]
    seeds: npt.NDArray[np.uint64]
    is_used: npt.NDArray[np.bool_]
    entries: npt.NDArray[np.int32]
    pairs: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    filter: npt.NDArray[np.bool_]


def aligned(newer: Ordered, older: Ordered, score_min: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Align text i of ``newer`` with text i of ``older``.

    Args:
        newer: m texts.
        older: m texts.
        score_min: the least score of a part, in points.

    Returns:
        The parts, ``int64[k, 6]``: pair; first word and the word after the last one in the newer and in the older text;
        score in quarters of a point; by pair and newer text. And how many different selected seeds of the older text
        the newer one has, ``int32[m]``.
    """
    m = len(newer.words)
    parts, seeds = np.empty((int((newer.words // _WORDS_MIN).sum()), _COLUMNS), np.int64), np.zeros(m, np.int32)
    most = [int(texts.words.max(initial=0)) for texts in (newer, older)]
    entries = 1 << (2 * most[0] + 1).bit_length()
    scratch = _Scratch(
        np.empty(2 * _BAND + 2, np.int32), np.empty(most[1], np.int32),
        np.empty(entries, np.uint64), np.zeros(entries, np.bool_),
        np.empty(most[0], np.int32), np.empty(entries, np.int64), np.empty(entries, np.int32),
        np.empty(entries * _OCCURRENCES, np.int32), np.empty(1 << _FILTER_BITS, np.bool_),
    )  # fmt: skip
    count = np.zeros(1, np.int64)
    _align(newer, older, round(score_min * QUARTERS), scratch, parts, seeds, count)
    return parts[: count[0]].copy(), seeds


@kernel("const Ordered, const Ordered, i64, _Scratch, i64[,], i32[], i64[]")
def _align(newer, older, score_min, scratch, parts, seeds, count):
    at, selected, mask = np.int64(0), 0, np.int64(0)
    for pair in range(len(seeds)):
        if pair == 0 or not _is_same(newer, pair):
            selected, mask = _fill_table(newer, pair, scratch)
        seeds[pair] = _meet(older, pair, scratch, selected, mask)
        if seeds[pair]:
            at = _parts(newer, older, pair, score_min, scratch, selected, parts, at)
    count[0] = at


@inlined
def _is_same(texts, i):
    """Whether a text is the one before it."""
    one, other, end = texts.starts[i - 1], texts.starts[i], texts.starts[i + 1]
    if texts.words[i] != texts.words[i - 1] or end - other != other - one:
        return False
    before, this, difference = texts.units[one:other], texts.units[other:end], np.uint16(0)
    for n in range(len(this)):  # without an early end this compiles to vector code
        difference |= before[n] ^ this[n]
    return difference == 0


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
            scratch.is_used[at], scratch.seeds[at], scratch.pairs[at] = True, h, -1
        scratch.entries[n] = np.int32(at)
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
    """Note for each seed of the table where it is selected in the older text; return how many seeds are."""
    first, words, met = older.starts[pair], older.words[pair], np.int32(0)
    begin = selection_at(first, words)
    listed = (older.starts[pair + 1] - begin) >> 1
    if words > LISTED_WORDS and listed > _SEARCH_FACTOR * selected:
        for n in range(selected):
            at = np.int64(scratch.entries[n])
            if scratch.pairs[at] != pair:
                found = _search(older, first, begin, listed, scratch.seeds[at])
                while found < listed and _hash_at(older, first, begin, found) == scratch.seeds[at]:
                    met += _note(scratch, at, pair, listed_position(older.units, begin, found))
                    if scratch.counts[at] == _OCCURRENCES:
                        break
                    found += 1
        return met
    for n in range(selected_positions(older, pair, scratch.older)):
        position = scratch.older[n]
        if not scratch.filter[_begin(older.units, first + position, older.mask)]:
            continue
        at = _entry(scratch, seed_hash(older.units, first + position, older.mask), mask)
        if scratch.is_used[at]:
            met += _note(scratch, at, pair, position)
    return met


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
def _parts(newer, older, pair, score_min, scratch, selected, parts, at):
    """Write the parts of a pair from ``at`` on; return where the next ones begin."""
    a, b, n_words, o_words = newer.starts[pair], older.starts[pair], newer.words[pair], older.words[pair]
    mask, passed = newer.mask, np.int64(0)
    left = _ROWS_A_WORD * n_words + _ROWS_FREE
    for n in range(selected):
        entry, i = np.int64(scratch.entries[n]), np.int64(n)
        if i < passed or scratch.pairs[entry] != pair:
            continue
        best = np.int64(0)
        for k in range(scratch.counts[entry]):
            j = np.int64(scratch.positions[entry * _OCCURRENCES + k])
            end = seed_end(newer.units, a, i, n_words)
            after = j + end - i
            score = np.int64(0)
            for word in range(i, end):
                score += _WEIGHTS[newer.units[a + word] & _KIND]
            sides = newer.units, a, older.units, b, mask
            room = n_words - end, o_words - after, i - passed, j
            wanted = min(_GAIN, score_min - score)
            hoped = _hope(sides, end, after, room[0], 1, wanted)
            if hoped + _hope(sides, i - 1, j - 1, room[2], -1, wanted - hoped) < wanted:
                left -= 1
                if left < 0:
                    return at
                continue
            gain, _, _, rows = _extend(sides, end, after, room[0], room[1], 1, _NARROW, _NARROW_DROP, _GAIN, scratch)
            left -= rows
            if gain < _GAIN and score + gain < score_min:
                more, _, _, rows = _extend(
                    sides, i - 1, j - 1, room[2], room[3], -1, _NARROW, _NARROW_DROP, _GAIN - gain, scratch
                )
                left -= rows
                if gain + more < _GAIN and score + gain + more < score_min:
                    if left < 0:
                        return at
                    continue
            gain, di, dj, rows = _extend(sides, end, after, room[0], room[1], 1, _BAND, _DROP, _NO_GAIN, scratch)
            more, ei, ej, others = _extend(sides, i - 1, j - 1, room[2], room[3], -1, _BAND, _DROP, _NO_GAIN, scratch)
            left -= rows + others
            score += gain + more
            if score >= score_min and score > best:
                best = score
                parts[at, PAIR], parts[at, SCORE] = pair, score
                parts[at, NEWER_BEGIN], parts[at, NEWER_END] = i - ei, end + di
                parts[at, OLDER_BEGIN], parts[at, OLDER_END] = j - ej, after + dj
            if left < 0:
                break
        if best:
            passed = parts[at, NEWER_END]
            at += 1
        if left < 0:
            return at
    return at


@inlined
def _hope(sides, i, j, room, step, wanted):
    """Return what ``_extend`` gains on the narrow band at most, or ``wanted`` and more: each word counts as a match if
    the band has an equal one. Most common seeds are chance, and this costs a tenth of the band."""
    units, a, others, b, mask = sides
    value, best = np.int64(0), np.int64(0)
    for r in range(min(room, _HOPED_ROWS + 1)):
        first = b + j + r * step - _NARROW
        if r == _HOPED_ROWS or first < 0 or first + _HOPED_WIDTH > len(others):
            return max(wanted, best)
        code = units[a + i + r * step]
        weight = _WEIGHTS[code & _KIND]
        code &= mask
        band, is_equal = others[first : first + _HOPED_WIDTH], False
        for k in range(_HOPED_WIDTH):  # of constant length and without an early end: vector code
            is_equal |= band[k] & mask == code
        value += weight if is_equal else -_PENALTY
        best = max(best, value)
        if best >= wanted or value < -_NARROW_DROP:
            break
    return best


@inner
def _extend(sides, i, j, room_i, room_j, step, band, drop, gain, scratch):
    """Extend an alignment from words i and j on, in the direction of ``step``, until its score has dropped or gained so
    much.

    Returns the best score, how many words of each text it takes, and how many rows were computed.
    """
    units, a, others, b, mask = sides
    width = 2 * band + 1
    row = scratch.row[: width + 1]
    row[width] = _LOWEST
    for k in range(width):
        row[k] = np.int32(band - k) * _PENALTY if k >= band else _LOWEST
    best, best_i, best_j, rows = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for r in range(1, room_i + 1):
        rows += 1
        code = units[a + i + (r - 1) * step]
        weight = _WEIGHTS[code & _KIND]
        code &= mask
        first = b + j + (r - 1) * step - band
        if r + band <= room_j and first >= 0 and first + width <= len(others):
            top = _fill_row(row, others[first : first + width], code, mask, weight, step)
        else:
            top = _fill_edge(row, others, b + j + (r - band - 1) * step, r - band, room_j, code, mask, weight, step)
        if top > best:
            best, best_i, column = np.int64(top), np.int64(r), np.int64(0)
            while row[column] != top:
                column += 1
            best_j = r + column - band
        if best >= gain or top < best - drop:
            break
    return best, best_i, best_j, rows


@inlined
def _fill_row(row, band, code, mask, weight, step):
    """Write the next row of a band that is inside of the older text; return its greatest value."""
    width, last = len(band), len(band) - 1
    less = np.int32(-_PENALTY)  # numbers of 32 bits throughout, or fewer fit a vector
    if step > 0:
        for k in range(width):
            matched = np.int32(row[k] + (weight if band[k] & mask == code else less))
            row[k] = max(matched, np.int32(row[k + 1] + less))
    else:
        for k in range(width):
            matched = np.int32(row[k] + (weight if band[last - k] & mask == code else less))
            row[k] = max(matched, np.int32(row[k + 1] + less))
    top = left = np.int32(_LOWEST)
    for k in range(width):
        left = max(row[k], np.int32(left + less))
        row[k] = left
        top = max(top, left)
    return top


@inlined
def _fill_edge(row, others, at, q, room_j, code, mask, weight, step):
    """The same where the band reaches beyond the older text, which has the words 1 to ``room_j``; the first is q."""
    top = left = _LOWEST
    for k in range(len(row) - 1):
        value = row[k + 1] - _PENALTY
        if 1 <= q <= room_j:
            matched = row[k] + (weight if others[at] & mask == code else -_PENALTY)
            value = max(value, left - _PENALTY, matched)
        at, q = at + step, q + 1
        row[k] = left = value
        top = max(top, value)
    return top
