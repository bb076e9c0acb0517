"""How far two texts go on alike from a common seed, and whether that is a quote.

An extension goes along a band of diagonals until its score has dropped by so much below the best one, as an X-drop
does. A word that matches counts by its length, a word that does not, or is missing, counts against it.

Two texts of the same few words align everywhere: three in five pairs of 170 random draws from ten words shared a part.
So a part counts only if it also reaches its score, but for two points, where a word that matches again counts half a
point at most. Verses and refrains say a few of their words twice and still do. Or it has a run of words without a
change, which chance does not make.

Reports in one form share its sentences and have other figures; names of bodies are long words, and few. So numbers
that stand for others count against a part, unless most are equal, and a part has some words. On a wire that leaves out
a third of the pairs: of 70 that were read, one shared a statement.
"""

from __future__ import annotations

import numpy as np

from neardup.features.ordered.word_codes import NUMBER
from neardup.machine.compile import inlined, inner

# Scores are in quarters of a point.
QUARTERS = 4
# Of a match, by kind: words of one to three letters 1, to six 2, longer 3; an ideograph 1, a kana a half, a
# number of five digits or less a quarter, because tables of few different ones would align everywhere.
_WEIGHTS = np.array([0, 4, 4, 4, 8, 8, 8, 12, 12, 12, 12, 4, 2, 1, 0, 0], np.int32)
_PENALTY = np.int32(4)
_KIND = np.uint16(0xF)
# Half the width of each band, and how far a score may drop; the narrow one ends when it has gained ``_GAIN``.
_NARROW, _NARROW_DROP, _GAIN = 3, 24, 20
_BAND, _DROP, _NO_GAIN = 8, 48, 1 << 40
_LOWEST = np.int32(-(1 << 30))
# The words of a band that are compared at once, one more than it has, and how many rows of it are.
_HOPED_WIDTH, _HOPED_ROWS = 2 * _NARROW + 2, 16
# What a word counts at most that matches again, and how much less than the least score a part may have then.
_AGAIN, _LESS = 2, 8
# What a number costs that stands for another one, if more than a third are others: those of reports in one form are.
_REPLACED = 12 * QUARTERS
# The words that match in a part at least, from this score on; for a lower one fewer. Names of bodies have fewer.
_WORDS, _SCORE = 10, 18 * QUARTERS
# A run of 150 characters of words without a change has so much at least.
_RUN = 30 * QUARTERS
# Entries of the row of a band, and codes of words that there are.
ROW, CODES = 2 * _BAND + 2, 1 << 16


@inner
def is_quote(sides, begins, ends, score, score_min, counts):
    """Whether a part, by its first words and those after its last ones in both texts, has words enough, and reaches its
    score where words count little that match again, and numbers count against it that stand for others; ``counts`` is 0
    for each code, and is again."""
    units, a, others, b, mask = sides
    words, equal, newer_numbers, older_numbers = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for at in range(b + begins[1], b + ends[1]):
        counts[others[at] & mask] += np.int32(1)
        older_numbers += others[at] & _KIND == NUMBER
    for at in range(a + begins[0], a + ends[0]):
        code, is_number = units[at] & mask, units[at] & _KIND == NUMBER
        newer_numbers += is_number
        if counts[code] > 0:  # the first; of what is below zero, all but one may match again
            counts[code] = -counts[code]
        elif counts[code] < -1:
            counts[code] += np.int32(1)
            score -= max(_WEIGHTS[units[at] & _KIND] - _AGAIN, 0)
        else:
            continue
        words += 1
        equal += is_number
    for at in range(b + begins[1], b + ends[1]):
        counts[others[at] & mask] = np.int32(0)
    replaced = min(newer_numbers, older_numbers) - equal
    if 2 * replaced > equal:
        score -= _REPLACED * replaced
    return score >= score_min - _LESS and words * _SCORE >= _WORDS * min(score_min, _SCORE)


@inlined
def is_run(sides, i, end, j, room):
    """Whether a seed is in a run of words without a change that chance does not make."""
    units, a, others, b, mask = sides
    score = np.int64(0)
    for at in range(i, end):
        score += _WEIGHTS[units[a + at] & _KIND]
    for step in range(min(room[0], room[1])):
        code = units[a + end + step]
        if score >= _RUN or (code ^ others[b + j + end - i + step]) & mask:
            break
        score += _WEIGHTS[code & _KIND]
    for step in range(1, min(room[2], room[3]) + 1):
        code = units[a + i - step]
        if score >= _RUN or (code ^ others[b + j - step]) & mask:
            break
        score += _WEIGHTS[code & _KIND]
    return score >= _RUN


@inlined
def around(sides, i, end, j, room, score_min, row):
    """Align two texts around a seed, which has the words from i to ``end`` of the newer one and begins at word j of the
    older one.

    Returns the score, or 0 if the narrow band says that it is too low; how many words of the newer text it takes before
    and after the seed, and how many of the older; and how many rows were computed.
    """
    nothing, after = np.int64(0), j + end - i
    score = nothing
    for word in range(i, end):
        score += _WEIGHTS[sides[0][sides[1] + word] & _KIND]
    wanted = min(_GAIN, score_min - score)
    hoped = _hope(sides, end, after, room[0], 1, wanted)
    if hoped + _hope(sides, i - 1, j - 1, room[2], -1, wanted - hoped) < wanted:
        return nothing, nothing, nothing, nothing, nothing, np.int64(1)
    gain, _, _, rows = _extend(sides, end, after, room[0], room[1], 1, _NARROW, _NARROW_DROP, _GAIN, row)
    if gain < _GAIN and score + gain < score_min:
        more, _, _, others = _extend(
            sides, i - 1, j - 1, room[2], room[3], -1, _NARROW, _NARROW_DROP, _GAIN - gain, row
        )
        rows += others
        if gain + more < _GAIN and score + gain + more < score_min:
            return nothing, nothing, nothing, nothing, nothing, rows
    gain, di, dj, others = _extend(sides, end, after, room[0], room[1], 1, _BAND, _DROP, _NO_GAIN, row)
    rows += others
    more, ei, ej, others = _extend(sides, i - 1, j - 1, room[2], room[3], -1, _BAND, _DROP, _NO_GAIN, row)
    return score + gain + more, ei, di, ej, dj, rows + others


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
def _extend(sides, i, j, room_i, room_j, step, band, drop, gain, row):
    """Extend an alignment from words i and j on, in the direction of ``step``, until its score has dropped or gained so
    much.

    Returns the best score, how many words of each text it takes, and how many rows were computed.
    """
    units, a, others, b, mask = sides
    width = 2 * band + 1
    row = row[: width + 1]
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
