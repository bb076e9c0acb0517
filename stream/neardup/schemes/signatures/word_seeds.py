"""Seeds: a few words in a row that have one hash.

A seed is three words, or two of six letters or more, which fewer changes of a quote hide. An ideograph or a kana
counts as half a word, a number of five digits or less as a quarter, and one that the seed has already as a twelfth:
tables of numbers have few different threes, and each would meet each. A text is held by its *selected* seeds, and
looked up by all: so few are held, and changes of a quote hide none that a selection on both sides would have to share.
Of ``window`` seeds in a row one is selected: behind each selected seed the last one of the best rank in the next
window, but for the first three. So few are selected, at even distances, and ranks prefer long words, because fewer
texts have them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.features.ordered.word_codes import IDEOGRAPH, KANA, KIND_BITS, NUMBER, SHORT_HASH, WordCodes
from neardup.features.tokens.bags import sorted_sets
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import BASE, derive_seed, mix64
from neardup.schemes.signatures.word_units import (
    KIND,
    Ordered,
    Selected,
    first_end,
    least_step,
    length_of,
    packed,
    selected_positions,
)

# A seed is complete at three words of twelve points; a word of so many letters counts as one and a half.
_SEED_POINTS, _LONG = 36, 6
# Separates keys from the other uses of a seed.
_KEY_PURPOSE = np.uint64((6 << 34) + 1)
_ONE = np.uint64(1)
_UNSELECTED = np.uint64(1 << 63)
# Seeds are selected by the letters of their words; more letters of a word count for nothing. So many are rare.
_LETTERS_MAX, _RARE = 7, 13
# What two codes must agree in: all bits, or without the length.
EQUAL_CODES, EQUAL_HASHES = np.uint16(0xFFFF), np.uint16(0xFFF0)


def seeds_in_order(
    codes: npt.NDArray[np.uint16], starts: npt.NDArray[np.int64], mask: np.uint16 = EQUAL_CODES
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return the hash of the seed that begins at each word of n texts (``uint64[m]``), and where those of each text
    begin. The last words of a text begin no seed. ``mask`` is what two codes must agree in: ``EQUAL_CODES``, or
    ``EQUAL_HASHES`` with historic spelling."""
    out, out_starts = np.empty(len(codes), np.uint64), np.zeros(len(starts), np.int64)
    _seeds(codes, starts, mask, out, out_starts)
    return out[: out_starts[-1]].copy(), out_starts


def ordered_units(
    words: WordCodes, window: int, mask: np.uint16
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the units of the evidence of n texts, and where each text begins in them, ``int64[n + 1]``."""
    codes = words.codes
    seeds, seed_starts = seeds_in_order(codes, words.starts, mask)
    ranks = np.empty(len(seeds), np.uint8)
    _rank(codes, words.starts, seed_starts, ranks)
    selected, selected_starts = np.empty(len(seeds), np.int64), np.zeros_like(seed_starts)
    _select(ranks, seed_starts, window, selected, selected_starts)
    return packed(words, Selected(selected, selected_starts), seeds, seed_starts, window)


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


@kernel("u16[], i64[], i64[], u8[]")
def _rank(codes, starts, seed_starts, out):
    """Write the ranks of seeds, the best one 0: those of two long words, then those of many letters."""
    for i in range(len(starts) - 1):
        for n in range(seed_starts[i + 1] - seed_starts[i]):
            letters, points, numbers, first = np.int64(0), 0, 0, starts[i] + n
            at = first
            while points < _SEED_POINTS:
                letters += min(length_of(codes[at] & KIND), _LETTERS_MAX)
                more, numbers = _counted(codes[at], numbers)
                points, at = points + more, at + 1
            out[seed_starts[i] + n] = (0 if at - first == 2 else 2) + (letters < _RARE)


@kernel("u8[], i64[], i64, i64[], i64[]")
def _select(ranks, starts, window, out, out_starts):
    """Write the positions of the selected seeds of n texts."""
    at = 0
    for i in range(len(starts) - 1):
        first, count = starts[i], starts[i + 1] - starts[i]
        low, end = 0, min(first_end(window), count)
        while low < end:
            chosen = low
            for n in range(low + 1, end):
                if ranks[first + n] <= ranks[first + chosen]:
                    chosen = n
            out[at] = chosen
            at += 1
            low, end = chosen + least_step(window), chosen + window + 1
            if end > count:
                break
        out_starts[i + 1] = at


@inlined
def _counted(code, numbers):
    """The points of a word in a seed that has some numbers before it, a bit each; and the numbers with it."""
    kind = code & KIND
    if kind != NUMBER:
        return 6 if kind in (IDEOGRAPH, KANA) else 18 if kind >= _LONG else 12, numbers
    number = 1 << np.int64((code >> KIND_BITS) - SHORT_HASH)
    return 1 if numbers & number else 3, numbers | number


@inlined
def seed_end(units, first, begin, end):
    """Return where the seed ends that begins at a word, or -1; the codes of a text are ``units[first:]``."""
    points, numbers, at = 0, 0, begin
    while at < end and points < _SEED_POINTS:
        more, numbers = _counted(units[first + at], numbers)
        points, at = points + more, at + 1
    return at if points >= _SEED_POINTS else -1


@inlined
def seed_hash(units, at, mask):
    """Return the hash of the seed whose first code is ``units[at]``; it is complete before the text ends."""
    h, points, numbers = np.uint64(0), 0, 0
    while points < _SEED_POINTS:
        code = units[at]
        h = h * BASE + np.uint64(code & mask) + np.uint64(1)
        more, numbers = _counted(code, numbers)
        points, at = points + more, at + 1
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
