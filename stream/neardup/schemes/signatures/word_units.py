"""The evidence that words in order make: a row of 16-bit units for each text. Short words are stored in a byte.

- The code of each word.
- For each 256 words but the first ones where they begin, in the text and in the gaps.
- The selected seeds: for each how far it stands from the least place where it may stand, plus one, in ``_step_bits``
  bits, then a zero. A text of more than ``LISTED_WORDS`` words has their number and a list of their positions, in order
  of the seeds: so a long text is searched by the seeds of a short one, and not read.
- The gaps between words (``neardup.schemes.signatures.word_gaps``), whose code begins again with each 256 words.

Stored, the codes are a byte for each word, then the second bytes of those that are not short; the other units follow.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.ordered.word_codes import (
    IDEOGRAPH,
    KANA,
    KIND_BITS,
    LETTERS_MAX,
    NUMBER,
    POSITION_SHIFT,
    SHORT,
    SHORT_COUNTS,
    SHORT_HASH,
    WordCodes,
)
from neardup.machine.compile import inlined, inner, kernel
from neardup.schemes.signatures.word_gaps import (
    GAP_BITS,
    IN_UNIT,
    UNIT_BITS,
    UNIT_SIZE,
    put_bits,
    put_gap,
    put_run,
    take_bits,
    take_gap,
    take_run,
)

# Words of a text from which on its selected seeds are a list.
LISTED_WORDS = 4096
_BLOCK_BITS, _BLOCK_UNITS = 8, 4
_IN_BLOCK = (1 << _BLOCK_BITS) - 1
KIND = np.uint16(0xF)
# Between two selected seeds there are so many others at least, if the window has more.
_BETWEEN = 3
# No word comes before the first one of a text.
_NO_WORD = np.uint16(0)
# How many values the upper bits of the hash of a word have that is not short, above its second byte.
_UPPER = SHORT_HASH >> 8
_SHORT_CODE, _LOW = np.uint16(SHORT_HASH << KIND_BITS), np.uint16(0xFF)


class Ordered(NamedTuple):
    """Evidence of n texts: the units, where each text begins in them, and the number of its words (``int64[n]`` each).
    A text that equals the one before it begins where that does. ``mask`` is what two codes must agree in, ``window`` of
    how many seeds in a row one is selected."""

    units: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    mask: np.uint16
    window: int


class Selected(NamedTuple):
    """Positions of the selected seeds of n texts (``int64[m]``), and the starts of each text in them."""

    positions: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


def packed(
    words: WordCodes, selected: Selected, seeds: npt.NDArray[np.uint64], seed_starts: npt.NDArray[np.int64], window: int
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the units of n texts, and where each text begins in them, ``int64[n + 1]``; ``seeds`` order the lists."""
    n, last = len(words.starts) - 1, words.starts[1:][np.diff(words.starts) > 0] - 1
    bits = (UNIT_SIZE + GAP_BITS + 1) * len(words.values) + 2 * int(words.positions[last].sum())
    room = (bits >> UNIT_BITS) + 2 * len(selected.positions) + 4 * n
    units, starts, begins = np.zeros(room, np.uint16), np.zeros_like(words.starts), np.empty(n, np.int64)
    _pack(words, selected, window, units, starts, begins)
    for i in np.flatnonzero(np.diff(words.starts) > LISTED_WORDS).tolist():
        positions = selected.positions[selected.starts[i] : selected.starts[i + 1]]
        order = np.lexsort((positions, seeds[seed_starts[i] : seed_starts[i + 1]][positions]))
        row = np.append(len(positions), positions[order]).astype("<u4").view("<u2")
        units[begins[i] : begins[i] + len(row)] = row
    return units[: starts[-1]].copy(), starts


def stored(
    units: npt.NDArray[np.uint16], starts: npt.NDArray[np.int64], words: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the stored bytes of the units of n texts, and where each text begins in them, ``int64[n + 1]``."""
    out, out_starts = np.empty(2 * len(units), np.uint8), np.zeros_like(starts)
    _store(units, starts, words, out, out_starts)
    return out[: out_starts[-1]].copy(), out_starts


def restored(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    words: npt.NDArray[np.int64],
    mask: np.uint16,
    window: int,
) -> Ordered:
    """Return the texts of stored bytes: the reverse of ``stored``."""
    units = np.empty(int(words.sum() + (starts[-1] - starts[0] >> 1)), np.uint16)
    begins = np.empty(len(words), np.int64)
    _restore(data, starts, words, _first_bytes(), units, begins)
    return Ordered(units, begins, words, mask, window)


@functools.cache
def _first_bytes() -> npt.NDArray[np.uint16]:
    """The bits of a code that its first byte says, ``uint16[256]``: all those of a short word, of others the kind and
    the upper bits of the hash."""
    kinds = np.repeat([NUMBER, 1, 2, 3, 4, 5], SHORT_COUNTS)
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
def least_step(window):
    """How far the next selected seed is at least: so many seeds after the one before it, or after the begin."""
    return min(_BETWEEN + 1, window)


@inlined
def _step_bits(window):
    """How many bits a step from a selected seed to the next one takes."""
    bits = 1
    while (window - least_step(window) + 1) >> bits:
        bits += 1
    return bits


@inlined
def first_end(window):
    """Before which seed the first selected one stands."""
    return min(window, (1 << _step_bits(window)) - 1)


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
    size, least = _step_bits(texts.window), least_step(texts.window)
    bit, low = _selection_at(texts.starts[i], count) << UNIT_BITS, -1
    step = take_bits(texts.units, bit, size)
    while step:
        out[at] = np.int32(low + step)
        low = out[at] + least - 1
        at, bit = at + 1, bit + size
        step = take_bits(texts.units, bit, size)
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
def _gap_before(words, k, end, before):
    """Return the gap before word k, what it is coded as after a word of a kind that ends there, and its kind."""
    gap = np.int64(words.values[k] >> POSITION_SHIFT) - end
    return gap, _unusual(gap, before), np.uint16(words.values[k]) & KIND


@kernel("WordCodes, Selected, i64, u16[], i64[], i64[]")
def _pack(words, selected, window, units, starts, begins):
    """Write all but the lists of texts that have one, over zeros, and where each text and its selected seeds begin."""
    for i in range(len(begins)):
        first, count = words.starts[i], words.starts[i + 1] - words.starts[i]
        seeds, held = selected.starts[i], selected.starts[i + 1]
        own = units[starts[i] :]
        begins[i] = _selection_at(starts[i], count)
        bit, size, low = (begins[i] - starts[i]) << UNIT_BITS, _step_bits(window), -1
        if count > LISTED_WORDS:
            bit += (2 + 2 * (held - seeds)) << UNIT_BITS
        else:
            for n in range(seeds, held):
                bit = put_bits(own, bit, size, selected.positions[n] - low)
                low = selected.positions[n] + least_step(window) - 1
            bit += size
        end, before, run = np.int64(0), _NO_WORD, 0
        for k in range(count):
            if k & _IN_BLOCK == 0:
                if run:
                    bit, run = put_run(own, bit, run), 0
                if k:
                    at = count + _BLOCK_UNITS * ((k >> _BLOCK_BITS) - 1)
                    _put_number(own, at, end)
                    _put_number(own, at + 2, bit)
            own[k] = np.uint16(words.values[first + k])
            gap, coded, before = _gap_before(words, first + k, end, before)
            end += gap + length_of(before)
            if coded == 1:
                run += 1
            else:
                bit, run = put_gap(own, put_run(own, bit, run), coded), 0
        if run:
            bit = put_run(own, bit, run)
        starts[i + 1] = starts[i] + ((bit + IN_UNIT) >> UNIT_BITS)


@inner
def _gaps_at(texts, i):
    """The bit where the gaps of a text begin in its units."""
    units, count = texts.units[texts.starts[i] :], texts.words[i]
    bit = _selection_at(0, count) << UNIT_BITS
    if count > LISTED_WORDS:
        return bit + ((2 + 2 * selected_list(texts, i)[1]) << UNIT_BITS)
    size = _step_bits(texts.window)
    while take_bits(units, bit, size):
        bit += size
    return bit + size


@kernel("const Ordered, i64[], i64[], i64[], i64[]")
def _positions(texts, rows, words, begins, ends):
    for n in range(len(rows)):
        i, k = rows[n], words[n] >> _BLOCK_BITS << _BLOCK_BITS
        units, end, before, run = texts.units[texts.starts[i] :], np.int64(0), _NO_WORD, np.int64(-1)
        if k:
            at = texts.words[i] + _BLOCK_UNITS * ((k >> _BLOCK_BITS) - 1)
            end, bit, before = _number(units, at), _number(units, at + 2), units[k - 1] & KIND
        else:
            bit = _gaps_at(texts, i)
        begin = end
        for at in range(k, words[n] + 1):
            if run < 0:
                run, bit = take_run(units, bit)
            coded, run = np.int64(1), run - 1
            if run < 0:
                coded, bit = take_gap(units, bit)
            begin = end + _unusual(coded, before)
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
