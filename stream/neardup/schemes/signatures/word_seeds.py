"""Seeds: a few words in a row that have one hash, and the evidence that words in order make.

A seed is three words; an ideograph or a kana counts as half a word, a digit that stands alone as a quarter: tables of
digits have few different threes, and each would meet each. A few of the seeds of a text are selected by robust
winnowing (``winnowing``), so of ``window`` seeds in a row one is selected. A text is held by its selected seeds, and
looked up by all: so few are held, and changes of a quote hide none that a selection on both sides would have to share.

The evidence of a text is a row of 16-bit units: the code of each word; of four words each the numbers of code points
before them, four bits each; of each ``_BLOCK`` words where the first begins; and the selected seeds, as a bit for each
word, or for texts of more than ``LISTED_WORDS`` words as a list of positions in order of their seeds. So a long text is
searched by the seeds of a short one, and not read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.ordered.word_codes import DIGIT, IDEOGRAPH, KANA, LETTERS_MAX, WordCodes
from neardup.features.tokens.bags import sorted_sets
from neardup.machine.bits import lowest_bit
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import BASE, derive_seed, mix64
from neardup.schemes.signatures.winnowing import POSITION_BITS, WINDOW_MAX, winnow

# Words of a text from which on its selected seeds are a list.
LISTED_WORDS = 4096
_BLOCK, _BLOCK_BITS = 64, 6
# A seed is complete at twelve quarters of a word.
_SEED_QUARTERS = 12
_GAP_MAX = 15
_KIND = np.uint16(0xF)
_POSITION = np.uint64(WINDOW_MAX)
# Separates the seeds that winnowing selects by, and keys, from the other uses of a seed.
_SELECT_PURPOSE, _KEY_PURPOSE = np.uint64(6 << 34), np.uint64((6 << 34) + 1)
_ONE = np.uint64(1)
_UNSELECTED = np.uint64(1 << 63)
# Seeds are selected by the letters of their words, in four ranks; more letters of a word count for nothing.
_LONG = 7
_RANK_BITS, _RANK_SHIFT = np.uint64(2), np.uint64(62)
# What two codes must agree in: all bits, or without the length.
EQUAL_CODES, EQUAL_HASHES = np.uint16(0xFFFF), np.uint16(0xFFF0)


class Ordered(NamedTuple):
    """Evidence of n texts: the units and the starts of each text in them, and the number of its words (``int64[n]``).
    ``mask`` is what two codes must agree in."""

    units: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    mask: np.uint16


def seeds_in_order(
    codes: npt.NDArray[np.uint16], starts: npt.NDArray[np.int64], mask: np.uint16 = EQUAL_CODES
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return the hash of the seed that begins at each word.

    Args:
        codes: the codes of the words of n texts, in order (``WordCodes.codes``).
        starts: where those of each text begin, ``int64[n + 1]``.
        mask: what two codes must agree in: ``EQUAL_CODES``, or ``EQUAL_HASHES`` with historic spelling.

    Returns:
        The hashes (``uint64[m]``) and their starts (``int64[n + 1]``). The last words of a text begin no seed.
    """
    out, out_starts = np.empty(len(codes), np.uint64), np.zeros(len(starts), np.int64)
    _seeds(codes, starts, mask, out, out_starts)
    return out[: out_starts[-1]].copy(), out_starts


def ordered_units(
    words: WordCodes, window: int, seed: int, mask: np.uint16
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the units of the evidence of n texts, and where each text begins in them, ``int64[n + 1]``."""
    codes = words.codes
    seeds, seed_starts = seeds_in_order(codes, words.starts, mask)
    ranked = np.empty_like(seeds)
    _rank(codes, words.starts, seeds, seed_starts, np.uint64(seed), ranked)
    selected = winnow(ranked, seed_starts, window, 0)
    counts, held = np.diff(words.starts), np.diff(selected.starts)
    listed = np.where(counts > LISTED_WORDS, 2 * held, -(-counts // 16))
    sizes = counts + -(-counts // 4) + 2 * -(-counts // _BLOCK) + listed
    starts = np.concatenate([[0], np.cumsum(sizes)])
    units = np.zeros(int(starts[-1]), np.uint16)
    _pack(words, codes, selected.values, selected.starts, units, starts)
    for i in np.flatnonzero(counts > LISTED_WORDS).tolist():
        differences = (selected.values[selected.starts[i] : selected.starts[i + 1]] & _POSITION).astype(np.int64)
        positions = np.cumsum(differences)
        order = np.lexsort((positions, seeds[seed_starts[i] : seed_starts[i + 1]][positions]))
        ends = int(starts[i + 1])
        units[ends - 2 * len(positions) : ends] = positions[order].astype("<u4").view("<u2")
    return units, starts


def seed_keys(texts: Ordered, seed: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return a bucket key for each seed of n texts, once: those of the selected seeds first, each part in ascending
    order of the seeds; their starts, ``int64[n + 1]``; and how many are of selected seeds, ``int64[n]``."""
    most, n = int(texts.words.max(initial=0)), len(texts.words)
    marked, marked_starts = np.empty(int(texts.words.sum()), np.uint64), np.zeros(n + 1, np.int64)
    _mark(texts, np.empty(most, np.int32), np.empty(most, np.bool_), marked, marked_starts)
    seeds, seed_starts = sorted_sets(marked[: marked_starts[-1]], marked_starts)
    out, out_starts, selected = np.empty_like(seeds), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    _keys(seeds, seed_starts, np.uint64(seed), out, out_starts, selected)
    return out[: out_starts[-1]], out_starts, selected


def positions_of(
    texts: Ordered, rows: npt.NDArray[np.int64], words: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where words begin and end, in code points, ``int64[m]`` each: word ``words[k]`` of text ``rows[k]``."""
    begins, ends = np.empty((2, len(rows)), np.int64)
    _positions(texts, rows, words, begins, ends)
    return begins, ends


@kernel("u16[], i64[], u64[], i64[], u64, u64[]")
def _rank(codes, starts, seeds, seed_starts, seed, out):
    """Write the numbers by which seeds are selected: those of long words come first, because fewer texts have them."""
    select_seed = derive_seed(seed, _SELECT_PURPOSE)
    for i in range(len(starts) - 1):
        for n in range(seed_starts[i + 1] - seed_starts[i]):
            letters, quarters, at = np.int64(0), 0, starts[i] + n
            while quarters < _SEED_QUARTERS:
                kind = codes[at] & _KIND
                letters += min(length_of(kind), _LONG)
                quarters += quarters_of(kind)
                at += 1
            rank = 0 if letters >= 3 * _LONG - 4 else 1 if letters >= 2 * _LONG else 2 if letters > _LONG else 3
            h = mix64(seeds[seed_starts[i] + n] ^ select_seed)
            out[seed_starts[i] + n] = h >> _RANK_BITS | np.uint64(rank) << _RANK_SHIFT


@inlined
def quarters_of(kind):
    """The quarters of a word that a word of a kind counts as in a seed."""
    return 1 if kind == DIGIT else 2 if kind in (IDEOGRAPH, KANA) else 4


@inlined
def seed_end(units, first, begin, end):
    """Return where the seed ends that begins at a word, or -1; the codes of a text are ``units[first:]``."""
    quarters, at = 0, begin
    while at < end and quarters < _SEED_QUARTERS:
        quarters += quarters_of(units[first + at] & _KIND)
        at += 1
    return at if quarters >= _SEED_QUARTERS else -1


@inlined
def seed_hash(units, at, mask):
    """Return the hash of the seed whose first code is ``units[at]``; it is complete before the text ends."""
    h, quarters = np.uint64(0), 0
    while quarters < _SEED_QUARTERS:
        code = units[at]
        h = h * BASE + np.uint64(code & mask) + np.uint64(1)
        quarters += quarters_of(code & _KIND)
        at += 1
    return mix64(h)


@kernel("u16[], i64[], u16, u64[], i64[]")
def _seeds(codes, starts, mask, out, out_starts):
    at = 0
    for i in range(len(starts) - 1):
        first, count = starts[i], starts[i + 1] - starts[i]
        for begin in range(count):
            if seed_end(codes, first, begin, count) < 0:
                break
            out[at] = seed_hash(codes, first + begin, mask)
            at += 1
        out_starts[i + 1] = at


@kernel("WordCodes, u16[], u64[], i64[], u16[], i64[]")
def _pack(words, codes, selected, selected_starts, units, starts):
    """Write the codes, the gaps, the positions of blocks, and the bits of selected seeds of texts that have no list."""
    for i in range(len(starts) - 1):
        first, count = words.starts[i], words.starts[i + 1] - words.starts[i]
        at = starts[i]
        gaps = at + count
        blocks = gaps + (count + 3) // 4
        end = np.int64(0)
        for k in range(count):
            position = np.int64(words.values[first + k] >> POSITION_BITS)
            units[at + k] = codes[first + k]
            gap = position - end if position - end < _GAP_MAX else np.int64(_GAP_MAX)
            units[gaps + (k >> 2)] |= np.uint16(gap << (4 * (k & 3)))
            if k & (_BLOCK - 1) == 0:
                units[blocks + 2 * (k >> _BLOCK_BITS)] = np.uint16(position & 0xFFFF)
                units[blocks + 2 * (k >> _BLOCK_BITS) + 1] = np.uint16(position >> 16)
            end = position + length_of(codes[first + k] & _KIND)
        if count <= LISTED_WORDS:
            bits = blocks + 2 * ((count + _BLOCK - 1) >> _BLOCK_BITS)
            position = np.int64(0)
            for n in range(selected_starts[i], selected_starts[i + 1]):
                position += np.int64(selected[n] & _POSITION)
                units[bits + (position >> 4)] |= np.uint16(1 << (position & 15))


@inlined
def length_of(kind):
    """The code points of a word of a kind."""
    return np.int64(kind) if kind <= LETTERS_MAX else np.int64(1)


@inlined
def selection_at(start, count):
    """Where the selected seeds of a text of ``count`` words begin in its units."""
    return start + count + (count + 3) // 4 + 2 * ((count + _BLOCK - 1) >> _BLOCK_BITS)


@inner
def selected_positions(texts, i, out):
    """Write the positions of the selected seeds of a text; return how many. A list is in order of the seeds."""
    count, at = texts.words[i], 0
    begin = selection_at(texts.starts[i], count)
    if count > LISTED_WORDS:
        for n in range((texts.starts[i + 1] - begin) >> 1):
            out[at] = listed_position(texts.units, begin, n)
            at += 1
        return at
    for n in range((count + 15) >> 4):
        bits = np.uint64(texts.units[begin + n])
        while bits:
            out[at] = np.int32((n << 4) + np.int64(lowest_bit(bits)))
            at += 1
            bits &= bits - _ONE
    return at


@inlined
def listed_position(units, begin, n):
    """The n-th position of a list that begins at a unit."""
    return np.int32(units[begin + 2 * n]) | np.int32(units[begin + 2 * n + 1]) << np.int32(16)


@kernel("const Ordered, i32[], bool[], u64[], i64[]")
def _mark(texts, positions, is_selected, out, out_starts):
    """Write the hash of each seed in 63 bits, below a bit that is set if the seed is not selected."""
    at = 0
    for i in range(len(texts.words)):
        first, count = texts.starts[i], texts.words[i]
        is_selected[:count] = False
        for n in range(selected_positions(texts, i, positions)):
            is_selected[positions[n]] = True
        for n in range(count):
            if seed_end(texts.units, first, n, count) < 0:
                break
            h = seed_hash(texts.units, first + n, texts.mask) >> _ONE
            out[at] = h if is_selected[n] else h | _UNSELECTED
            at += 1
        out_starts[i + 1] = at


@kernel("u64[], i64[], u64, u64[], i64[], i64[]")
def _keys(seeds, starts, seed, out, out_starts, selected):
    key_seed, at = derive_seed(seed, _KEY_PURPOSE), 0
    for i in range(len(selected)):
        one, end = starts[i], starts[i + 1]
        while one < end and seeds[one] < _UNSELECTED:
            out[at] = mix64(seeds[one] ^ key_seed)
            at, one = at + 1, one + 1
        selected[i] = at - out_starts[i]
        same, last = starts[i], one
        for n in range(last, end):  # a seed may be selected at one place and not at another
            wanted = seeds[n] & ~_UNSELECTED
            while same < last and seeds[same] < wanted:
                same += 1
            if same == last or seeds[same] != wanted:
                out[at] = mix64(wanted ^ key_seed)
                at += 1
        out_starts[i + 1] = at


@kernel("const Ordered, i64[], i64[], i64[], i64[]")
def _positions(texts, rows, words, begins, ends):
    for n in range(len(rows)):
        start, count = texts.starts[rows[n]], texts.words[rows[n]]
        gaps = start + count
        block = words[n] >> _BLOCK_BITS
        at = gaps + (count + 3) // 4 + 2 * block
        position = np.int64(texts.units[at]) | np.int64(texts.units[at + 1]) << 16
        for k in range(block << _BLOCK_BITS, words[n]):
            following = k + 1
            gap = np.int64(texts.units[gaps + (following >> 2)] >> np.uint16(4 * (following & 3)) & _KIND)
            position += length_of(texts.units[start + k] & _KIND) + gap
        begins[n] = position
        ends[n] = position + length_of(texts.units[start + words[n]] & _KIND)
