"""The evidence that words in order make: a row of 16-bit units for each text. Short words are stored in a byte.

- The code of each word.
- For each ``_BLOCK`` words but the first ones where they begin, in the text and in the gaps.
- The selected seeds, as a bit for each word. A text of more than ``LISTED_WORDS`` words has their number and a list of
  their positions, in order of the seeds: so a long text is searched by the seeds of a short one, and not read.
- The *gaps*: how many code points stand before each word. Most are one blank, or nothing after an ideograph, and take
  one bit, 0. A gap of two is 10, the less usual one of nothing and one 110. A longer one is 111 and how much longer
  than two it is, in Elias' gamma code. Bits are filled from the lowest on.

Stored, the codes are a byte for each word, then the second bytes of those that are not short; the other units follow.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.ordered.word_codes import (
    DIGIT,
    IDEOGRAPH,
    KANA,
    KIND_BITS,
    LETTERS_MAX,
    POSITION_SHIFT,
    SHORT,
    SHORT_COUNTS,
    SHORT_HASH,
    WordCodes,
)
from neardup.machine.bits import lowest_bit
from neardup.machine.compile import inlined, inner, kernel

# Words of a text from which on its selected seeds are a list.
LISTED_WORDS = 4096
_BLOCK_BITS, _BLOCK_UNITS = 8, 4
_UNIT_BITS, _IN_UNIT = 4, 15
KIND = np.uint16(0xF)
_ONE = np.uint64(1)
# No word comes before the first one of a text.
_NO_WORD = np.uint16(0)
# How many values the upper bits of the hash of a word have that is not short, above its second byte.
_UPPER = SHORT_HASH >> 8
_SHORT_CODE, _LOW = np.uint16(SHORT_HASH << KIND_BITS), np.uint16(0xFF)
# A gap of so many or less has a code of its own.
_SHORT_GAP = 2


class Ordered(NamedTuple):
    """Evidence of n texts: the units, where each text begins in them, and the number of its words (``int64[n]`` each).
    A text that equals the one before it begins where that does. ``mask`` is what two codes must agree in."""

    units: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    mask: np.uint16


class Selected(NamedTuple):
    """Positions of the selected seeds of n texts (``int64[m]``), and the starts of each text in them."""

    positions: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


def packed(
    words: WordCodes, selected: Selected, seeds: npt.NDArray[np.uint64], seed_starts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the units of n texts, and where each text begins in them, ``int64[n + 1]``; ``seeds`` order the lists."""
    starts, begins = np.zeros_like(words.starts), np.empty(len(words.starts) - 1, np.int64)
    _measure(words, selected.starts, starts, begins)
    units = np.zeros(int(starts[-1]), np.uint16)
    _pack(words, selected, units, starts)
    for i in np.flatnonzero(np.diff(words.starts) > LISTED_WORDS).tolist():
        positions = selected.positions[selected.starts[i] : selected.starts[i + 1]]
        order = np.lexsort((positions, seeds[seed_starts[i] : seed_starts[i + 1]][positions]))
        row = np.append(len(positions), positions[order]).astype("<u4").view("<u2")
        units[begins[i] : begins[i] + len(row)] = row
    return units, starts


def stored(
    units: npt.NDArray[np.uint16], starts: npt.NDArray[np.int64], words: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the stored bytes of the units of n texts, and where each text begins in them, ``int64[n + 1]``."""
    out, out_starts = np.empty(2 * len(units), np.uint8), np.zeros_like(starts)
    _store(units, starts, words, out, out_starts)
    return out[: out_starts[-1]].copy(), out_starts


def restored(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], words: npt.NDArray[np.int64], mask: np.uint16
) -> Ordered:
    """Return the texts of stored bytes: the reverse of ``stored``."""
    units = np.empty(int(words.sum() + (starts[-1] - starts[0] >> 1)), np.uint16)
    begins = np.empty(len(words), np.int64)
    _restore(data, starts, words, _first_bytes(), units, begins)
    return Ordered(units, begins, words, mask)


@functools.cache
def _first_bytes() -> npt.NDArray[np.uint16]:
    """The bits of a code that its first byte says, ``uint16[256]``: all those of a short word, of others the kind and
    the upper bits of the hash."""
    kinds = np.repeat([DIGIT, 1, 2, 3], SHORT_COUNTS)
    short = (SHORT_HASH + np.arange(SHORT)) << KIND_BITS | kinds
    kind, upper = np.divmod(np.arange(256 - SHORT), _UPPER)
    table = np.append(short, upper << 8 + KIND_BITS | kind + 1).astype(np.uint16)
    table.flags.writeable = False
    return table


def positions_of(
    texts: Ordered, rows: npt.NDArray[np.int64], words: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where words begin and end, in code points, ``int64[m]`` each: word ``words[k]`` of text ``rows[k]``."""
    begins, ends = np.empty((2, len(rows)), np.int64)
    _positions(texts, rows, words, begins, ends)
    return begins, ends


@inlined
def length_of(kind):
    """The code points of a word of a kind."""
    return np.int64(kind) if kind <= LETTERS_MAX else np.int64(1)


@inlined
def _selection_at(start, count):
    """Where the selected seeds of a text of ``count`` words begin in its units."""
    return start + count + (_BLOCK_UNITS * ((count - 1) >> _BLOCK_BITS) if count else 0)


@inlined
def _selection_units(count, held):
    """How many units the selected seeds of a text of ``count`` words take; a list has ``held``."""
    return 2 + 2 * held if count > LISTED_WORDS else (count + 15) >> 4


@inlined
def _number(units, at):
    """The number of 32 bits in two units."""
    return np.int64(units[at]) | np.int64(units[at + 1]) << 16


@inlined
def _put_number(units, at, number):
    units[at], units[at + 1] = np.uint16(number & 0xFFFF), np.uint16(number >> 16)


@inner
def selected_positions(texts, i, out):
    """Write the positions of the selected seeds of a text; return how many. A list is in order of the seeds."""
    count, at = texts.words[i], 0
    if count > LISTED_WORDS:
        begin, listed = selected_list(texts, i)
        for n in range(listed):
            out[at] = listed_position(texts.units, begin, n)
            at += 1
        return at
    begin = _selection_at(texts.starts[i], count)
    for n in range(_selection_units(count, 0)):
        bits = np.uint64(texts.units[begin + n])
        while bits:
            out[at] = np.int32((n << 4) + np.int64(lowest_bit(bits)))
            at += 1
            bits &= bits - _ONE
    return at


@inlined
def selected_list(texts, i):
    """Where the list of a text of more than ``LISTED_WORDS`` words begins, and how many positions it has."""
    begin = _selection_at(texts.starts[i], texts.words[i])
    return begin + 2, _number(texts.units, begin)


@inlined
def listed_position(units, begin, n):
    """The n-th position of a list that begins at a unit."""
    return np.int32(_number(units, begin + 2 * n))


@inlined
def _unusual(gap, before):
    """A gap, with 0 and 1 exchanged after an ideograph or a kana: 1 is the usual one. It is its own reverse."""
    return gap ^ 1 if gap <= 1 and before in (IDEOGRAPH, KANA) else gap


@inlined
def _gap_length(gap):
    """How many bits a gap takes."""
    if gap <= _SHORT_GAP:
        return 3 if gap == 0 else gap
    bits = 4
    while (gap - _SHORT_GAP) >> ((bits >> 1) - 1):
        bits += 2
    return bits


@inlined
def _put_bits(units, bit, count, number):
    for n in range(count):
        units[(bit + n) >> _UNIT_BITS] |= np.uint16((number >> n & 1) << (bit + n & _IN_UNIT))
    return bit + count


@inlined
def _put_gap(units, bit, gap):
    """Write a gap from a bit on, over zeros; return where the next one is written."""
    if gap <= _SHORT_GAP:
        return bit + 1 if gap == 1 else _put_bits(units, bit, 2, 1) if gap == 2 else _put_bits(units, bit, 3, 3)
    longer, digits = gap - _SHORT_GAP, (_gap_length(gap) - 4) >> 1
    bit = _put_bits(units, bit, 3, 7)
    bit = _put_bits(units, bit + digits, 1, 1)
    return _put_bits(units, bit, digits, longer)


@inlined
def _is_set(units, bit):
    return units[bit >> _UNIT_BITS] >> (bit & _IN_UNIT) & 1


@inlined
def _take_gap(units, bit):
    """Return the gap that is written from a bit on, and where the next one is."""
    ones = 0
    while ones < 3 and _is_set(units, bit):
        ones, bit = ones + 1, bit + 1
    if ones < 3:
        return (ones + 1) % 3, bit + 1
    digits = 0
    while not _is_set(units, bit):
        digits, bit = digits + 1, bit + 1
    longer = np.int64(1) << digits
    for n in range(digits):
        longer |= np.int64(_is_set(units, bit + 1 + n)) << n
    return longer + _SHORT_GAP, bit + 1 + digits


@inlined
def _gap_before(words, k, end, before):
    """Return the gap before word k, what it is coded as after a word of a kind that ends there, and its kind."""
    gap = np.int64(words.values[k] >> POSITION_SHIFT) - end
    return gap, _unusual(gap, before), np.uint16(words.values[k]) & KIND


@kernel("WordCodes, i64[], i64[], i64[]")
def _measure(words, selected_starts, starts, begins):
    """Write where the units of each text begin, and where those of its selected seeds do."""
    for i in range(len(begins)):
        first, count = words.starts[i], words.starts[i + 1] - words.starts[i]
        end, before, bits = np.int64(0), _NO_WORD, 0
        for k in range(first, first + count):
            gap, coded, before = _gap_before(words, k, end, before)
            end += gap + length_of(before)
            bits += _gap_length(coded)
        begins[i] = _selection_at(starts[i], count)
        size = _selection_units(count, selected_starts[i + 1] - selected_starts[i])
        starts[i + 1] = begins[i] + size + ((bits + _IN_UNIT) >> _UNIT_BITS)


@kernel("WordCodes, Selected, u16[], i64[]")
def _pack(words, selected, units, starts):
    """Write all but the lists of texts that have one."""
    for i in range(len(starts) - 1):
        first, count = words.starts[i], words.starts[i + 1] - words.starts[i]
        start, seeds = starts[i], _selection_at(starts[i], count)
        held = selected.starts[i + 1] - selected.starts[i]
        bit = (seeds - start + _selection_units(count, held)) << _UNIT_BITS
        end, before = np.int64(0), _NO_WORD
        for k in range(count):
            if k and k & ((1 << _BLOCK_BITS) - 1) == 0:
                at = start + count + _BLOCK_UNITS * ((k >> _BLOCK_BITS) - 1)
                _put_number(units, at, end)
                _put_number(units, at + 2, bit)
            units[start + k] = np.uint16(words.values[first + k])
            gap, coded, before = _gap_before(words, first + k, end, before)
            end += gap + length_of(before)
            bit = _put_gap(units[start:], bit, coded)
        if count <= LISTED_WORDS:
            for n in range(selected.starts[i], selected.starts[i + 1]):
                position = selected.positions[n]
                units[seeds + (position >> _UNIT_BITS)] |= np.uint16(1 << (position & _IN_UNIT))


@kernel("const Ordered, i64[], i64[], i64[], i64[]")
def _positions(texts, rows, words, begins, ends):
    for n in range(len(rows)):
        i, k = rows[n], words[n] >> _BLOCK_BITS << _BLOCK_BITS
        units, count = texts.units[texts.starts[i] :], texts.words[i]
        end, before = np.int64(0), _NO_WORD
        if k:
            at = count + _BLOCK_UNITS * ((k >> _BLOCK_BITS) - 1)
            end, bit, before = _number(units, at), _number(units, at + 2), units[k - 1] & KIND
        else:
            held = selected_list(texts, i)[1] if count > LISTED_WORDS else np.int64(0)
            bit = (_selection_at(0, count) + _selection_units(count, held)) << _UNIT_BITS
        begin = end
        for at in range(k, words[n] + 1):
            gap, bit = _take_gap(units, bit)
            begin = end + _unusual(gap, before)
            before = units[at] & KIND
            end = begin + length_of(before)
        begins[n], ends[n] = begin, end


@kernel("u16[], i64[], i64[], u8[], i64[]")
def _store(units, starts, words, out, out_starts):
    at = np.int64(0)
    for i in range(len(words)):
        first, end = starts[i], starts[i] + words[i]
        second = at + words[i]
        for k in range(first, end):
            h = units[k] >> KIND_BITS
            if units[k] >= _SHORT_CODE:
                out[at] = np.uint8(h - SHORT_HASH)
            else:
                out[at] = np.uint8(SHORT + ((units[k] & KIND) - 1) * _UPPER + (h >> 8))
                out[second] = np.uint8(h & _LOW)
                second += 1
            at += 1
        at = second
        for k in range(end, starts[i + 1]):
            out[at], out[at + 1] = np.uint8(units[k] & _LOW), np.uint8(units[k] >> 8)
            at += 2
        out_starts[i + 1] = at


@kernel("const u8[], const i64[], i64[], const u16[], u16[], i64[]")
def _restore(data, starts, words, firsts, units, begins):
    at = np.int64(0)
    for i in range(len(words)):
        first, end = starts[i], starts[i + 1]
        if i and words[i] == words[i - 1] and _is_same(data, starts[i - 1], first, end):
            begins[i] = begins[i - 1]
            continue
        count, second = words[i], np.uint64(0)
        heads, tails, out = data[first : first + count], data[first + count : end], units[at:]
        for k in range(count):  # without a branch: which words are short is hard to predict
            is_long = heads[k] >= SHORT
            low = np.uint16(tails[second]) << KIND_BITS  # that of a short word is another byte, and counts nothing
            out[k] = firsts[heads[k]] | (low if is_long else np.uint16(0))
            second += np.uint64(is_long)
        begins[i], at = at, at + count
        for k in range(first + count + np.int64(second), end, 2):
            units[at] = np.uint16(data[k]) | np.uint16(data[k + 1]) << 8
            at += 1


@inlined
def _is_same(data, one, other, end):
    """Whether the bytes of a text are those of the one before it."""
    if other - one != end - other:
        return False
    before, this, difference = data[one:other], data[other:end], np.uint8(0)
    for n in range(len(this)):  # without an early end this compiles to vector code
        difference |= before[n] ^ this[n]
    return difference == 0
