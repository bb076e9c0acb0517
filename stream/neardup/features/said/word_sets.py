"""Word sets: the distinct words and numbers of a text, as evidence of what it says.

Two word sets tell which part of one text the other has said, and whether a number of it is new:

- A *word* is a run of letters. Text without blanks between words gives every two ideographs or kana in a row, or every
  four letters (Thai, Lao, Khmer, Burmese). Of a word two 16-bit hashes are kept: the least of the hashes of its runs of
  four letters, so that inflected forms of a word mostly share one. A word of up to four letters has its own hash.
- A *number* (``numbers``) is a run of digits or numerals and what stands between them; ``three`` is 3. Its hash has 32
  bits. A word of correction (``corrected``) is stored as a number; so is a negation, each time that it occurs.
- A number that occurs again is a *repeat*, up to eight times: it is new where another text has it less often, and has a
  number that this text lacks: seven dead and eight hurt, then eight dead and eight hurt.
- An abbreviation of English wires (``qtly``) is the word that it stands for. Words of captions (``pictured``) are none.
- Words weigh by their length, as rare words are long: the weights of 1 to 8 letters in 15ths.
- Of a word that is a *name* (``neardup.features.said.names``) this is kept too, and how often it occurs: a name that is
  new is what the text says where a name of the other text is gone, or occurs less often. No other word stands for a
  name: both of its hashes must be there. The form of a company (``Inc``) is no word.

A set is a row of 32-bit units, padded to an even number: its length in bytes, the number of words, the number of
numbers, and, from the lowest bit on, whether the text has more than a set holds, the number of repeats (15 bits), that
of the repeats of names; then the words (two hashes each), the numbers, both kinds of repeats in ascending order, and
the classes of the words, eight to a unit: letters, and whether it is a name.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.said.names import Names
from neardup.features.said.numbers import CHARACTERS_MAX, COUNTER, next_hash, number_at, numeral_at
from neardup.features.said.word_tables import (
    DIGIT,
    FIRST_LETTER,
    IN_RUN,
    IN_WORD,
    LETTERS_OF_RUN,
    NOTHING,
    SPAN_BITS,
    UNSPACED,
    WORDLIKE,
    hash_between,
    one_stem,
    stems_of,
    word_tables,
)
from neardup.features.texts.normalize import CodePoints
from neardup.features.tokens.bags import lengths_within
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import mix64

# Words and numbers of a set at most: a text of more says something that the set does not hold.
WORDS_MAX, NUMBERS_MAX = 1 << 14, 1 << 12
HEADER_UNITS = 4
WORDS_UNIT, NUMBERS_UNIT, CUT_UNIT = 1, 2, 3  # units of the header after the length
# The set of a text without words and numbers.
NO_WORDS = np.array([4 * HEADER_UNITS, 0, 0, 0], np.uint32)
# Of the unit after the numbers: whether the text has more is its lowest bit, then come repeats, and repeats of names.
_REPEATS_SHIFT, _NAMES_SHIFT = 1, 16
_REPEATS_BITS = (1 << (_NAMES_SHIFT - _REPEATS_SHIFT)) - 1
# Letters of a run of syllables in a script without blanks, and the code point from which a letter is a syllable.
_IDEOGRAPH_RUN, _IDEOGRAPHS = 2, 0x2E80
# Weight of a word by its class: letters up to ``LETTERS_MAX``, and ``NAME_CLASSES`` more for a name; that of a run in a
# script without blanks, and of a number.
WEIGHTS = np.array([0, 2, 2, 5, 9, 9, 12, 12, 15, 5, 9, 9, 12, 12, 15], np.int64)
LETTERS_MAX, NAME_CLASSES = 8, 6
_RUN_CLASS, NUMBER_WEIGHT = np.uint32(4), 15
CLASS_BITS, CLASSES_A_UNIT = np.uint32(4), 8
_NEGATION = np.uint64(1 << 63)  # the first one; no hash of a word or number is near it, but by chance
_REPEAT, _REPEATS_MAX = np.uint64(0x9E3779B97F4A7C15), 7  # what the hash of a number changes by, and how often
_LENGTH = (1 << SPAN_BITS) - 1


class _Scratch(NamedTuple):
    """What one text needs: the tokens seen and the names as tables, words and classes, numbers, repeats of numbers and
    of names, the characters of one."""

    seen: npt.NDArray[np.uint64]
    names: npt.NDArray[np.uint64]
    words: npt.NDArray[np.uint32]
    classes: npt.NDArray[np.uint32]
    numbers: npt.NDArray[np.uint32]
    repeats: npt.NDArray[np.uint32]
    name_repeats: npt.NDArray[np.uint32]
    characters: npt.NDArray[np.uint8]
    # words, numbers, whether the text has more, negations, repeats, tokens, mask of the names, repeats of names
    counts: npt.NDArray[np.int64]


def word_sets(
    codes: CodePoints, names: Names | None = None, *, words: bool = True
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the word sets of normalised texts: the units of all, and where each begins, ``int64[n + 1]``.

    Without ``names`` no word is a name; without ``words`` a set has numbers and corrections only.
    """
    n, most = len(codes.lengths), WORDS_MAX + NUMBERS_MAX
    if names is None:
        names = Names(np.empty(0, np.uint64), np.zeros(n + 1, np.int64))
    scratch = _kept.scratch_for(codes.longest, lengths_within(names.starts)[1])
    characters = codes.characters if codes.longest <= most else int(np.minimum(codes.lengths, most).sum())
    out, starts = np.empty(n * (HEADER_UNITS + 2) + 2 * characters, np.uint32), np.empty(n + 1, np.int64)
    return out[: _make_sets(codes, names, word_tables(), scratch, words, out, starts)].copy(), starts


class _Kept(threading.local):
    """The scratch of a thread, with room for the longest text and the most names of a text so far; 1 MB at most."""

    def __init__(self) -> None:
        self._scratch, self._longest, self._names = _scratch(0, 0), 0, 0

    def scratch_for(self, longest: int, names: int) -> _Scratch:
        """Return scratch for texts of so many code points and names at most."""
        if names > WORDS_MAX:
            return _scratch(longest, names)  # not kept: such texts are rare
        if longest > self._longest or names > self._names:
            self._longest, self._names = max(longest, self._longest), max(names, self._names)
            self._scratch = _scratch(self._longest, self._names)
        return self._scratch


def _scratch(longest: int, names: int) -> _Scratch:
    words, numbers = min(longest + 1, WORDS_MAX), min(longest + 1, NUMBERS_MAX)
    seen = np.empty(1 << (2 * min(longest + 1, words + numbers) - 1).bit_length(), np.uint64)
    return _Scratch(
        seen, np.empty(1 << (2 * names).bit_length(), np.uint64), np.empty(words, np.uint32),
        np.empty(words, np.uint32), np.empty(numbers, np.uint32), np.empty(numbers, np.uint32),
        np.empty(numbers, np.uint32), np.empty(CHARACTERS_MAX + 1, np.uint8), np.zeros(8, np.int64),
    )  # fmt: skip


_kept = _Kept()


@kernel("CodePoints, Names, const word_tables.WordTables, _Scratch, bool, u32[], i64[]", direct=True)
def _make_sets(codes, names, tables, scratch, with_words, out, starts):
    at = starts[0] = np.int64(0)
    for i in range(len(codes.lengths)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        scratch.counts[:] = 0
        entries = np.int64(1)
        while entries < 2 * (end - first) and entries < len(scratch.seen):
            entries *= 2
        scratch.seen[:entries] = 0
        _hold_names(names.tokens[names.starts[i] : names.starts[i + 1]], scratch)
        if codes.is_wide[i]:
            _scan(codes.wide[first:end], tables, scratch, entries - 1, with_words)
        else:
            _scan(codes.narrow[first:end], tables, scratch, entries - 1, with_words)
        at = _write(scratch, out, at)
        starts[i + 1] = at
    return at


@inner
def _hold_names(tokens, scratch):
    """Make the table of the names of one text, at most half full."""
    entries = np.int64(1)
    while entries < 2 * len(tokens):
        entries *= 2
    scratch.names[:entries] = 0
    mask = entries - 1
    for token in tokens:
        slot = np.int64(token & np.uint64(mask))
        while scratch.names[slot] != 0 and scratch.names[slot] != token:
            slot = (slot + 1) & mask
        scratch.names[slot] = token
    scratch.counts[6] = mask


@inlined
def _is_name(token, scratch):
    mask = scratch.counts[6]
    slot = np.int64(token & np.uint64(mask))
    while scratch.names[slot] != 0 and scratch.names[slot] != token:
        slot = (slot + 1) & mask
    return scratch.names[slot] == token


@inlined
def _class_of(token, letters, scratch):
    """Return the class of a word of the text."""
    return np.uint32(min(letters, LETTERS_MAX) + (NAME_CLASSES if _is_name(token, scratch) else 0))


@inner
def _write(scratch, out, at):
    """Write the set in the scratch; return where the next one begins."""
    words, numbers, repeats, names = scratch.counts[0], scratch.counts[1], scratch.counts[4], scratch.counts[7]
    packed = (words + CLASSES_A_UNIT - 1) // CLASSES_A_UNIT
    size = HEADER_UNITS + words + numbers + repeats + names + packed
    size += size & 1
    out[at] = size * 4
    out[at + WORDS_UNIT], out[at + NUMBERS_UNIT] = words, numbers
    out[at + CUT_UNIT] = scratch.counts[2] | repeats << _REPEATS_SHIFT | names << _NAMES_SHIFT
    begin = at + HEADER_UNITS
    for n in range(words):
        out[begin + n] = scratch.words[n]
    begin += words
    for n in range(numbers):
        out[begin + n] = scratch.numbers[n]
    begin += numbers
    for n in range(repeats):
        out[begin + n] = scratch.repeats[n]
    begin += repeats
    for n in range(names):
        out[begin + n] = scratch.name_repeats[n]
    begin += names
    for n in range(begin, at + size):
        out[n] = 0
    for n in range(words):
        out[begin + n // CLASSES_A_UNIT] |= scratch.classes[n] << (np.uint32(n % CLASSES_A_UNIT) * CLASS_BITS)
    return at + size


@inner
def _scan(codes, tables, scratch, mask, with_words):
    """Collect the words and numbers of a text."""
    i, n = np.int64(0), np.int64(len(codes))
    while i < n:
        kind = tables.kinds[codes[i]]
        if kind & FIRST_LETTER:
            i = _take_word(codes, i, tables, scratch, mask, with_words)
        elif kind & DIGIT:
            i, token = number_at(codes, i, tables.digits, tables.numerals, scratch.characters)
            _add_number(token, scratch, mask)
        elif kind & UNSPACED:
            i = _take_runs(codes, i, tables, scratch, mask, with_words)
        else:
            i += 1


@inlined
def _take_word(codes, i, tables, scratch, mask, with_words):
    """Take the word that begins at i; return where it ends, after the ``'s`` of a possessive and the ``'t`` of a
    negation."""
    n, begin, h = np.int64(len(codes)), i, np.uint64(0)
    while i < n and tables.kinds[codes[i]] & IN_WORD:
        h = next_hash(h, codes[i])
        i += 1
    token, last = mix64(h), np.uint64(len(tables.spoken) - 1)
    at = token & last
    while tables.spoken[at] != 0 and tables.spoken[at] != token:
        at = (at + np.uint64(1)) & last
    if tables.spoken[at] == token and tables.spans[at] == 0:
        if tables.numbers[at] == 0:
            _add_negation(scratch, mask)
        else:
            _add_number(tables.numbers[at], scratch, mask)
    elif tables.spoken[at] == token:
        if tables.spans[at] != NOTHING and with_words and _is_new(tables.numbers[at], scratch, mask):
            first, letters = tables.spans[at] >> SPAN_BITS, tables.spans[at] & _LENGTH
            stems = stems_of(tables.letters, first, first + letters, tables.numbers[at])
            _add_word(stems, _class_of(token, letters, scratch), scratch)
    elif with_words and _is_new(token, scratch, mask):
        _add_word(stems_of(codes, begin, i, token), _class_of(token, i - begin, scratch), scratch)
    elif with_words and _is_name(token, scratch):
        _add_repeat(token, scratch, mask, scratch.name_repeats, 7)
    if i + 1 >= n or tables.kinds[codes[i]] & WORDLIKE or (i + 2 < n and tables.kinds[codes[i + 2]] & WORDLIKE):
        return i
    if codes[i + 1] == 0x73 and (codes[i] == 0x27 or codes[i] == 0x2019):
        return i + 2
    if codes[i + 1] == 0x74 and codes[i - 1] == 0x6E and codes[i] != 0x20:  # whatever the sign
        _add_negation(scratch, mask)
        return i + 2
    return i


@inlined
def _take_runs(codes, i, tables, scratch, mask, with_words):
    """Take the runs of a stretch without blanks that begins at i, and its numerals; return where it ends."""
    n, begin = np.int64(len(codes)), i
    run = _IDEOGRAPH_RUN if codes[i] >= _IDEOGRAPHS else LETTERS_OF_RUN
    while i < n and tables.kinds[codes[i]] & IN_RUN:
        i += 1
    if run == _IDEOGRAPH_RUN:
        _take_numerals(codes[:i], begin, tables, scratch, mask)
    if with_words:
        last = max(begin, i - run)
        for at in range(begin, last + 1):
            token = hash_between(codes, at, min(at + run, i))
            if _is_new(token, scratch, mask):
                _add_word(one_stem(token), _RUN_CLASS, scratch)
    return i


@inner
def _take_numerals(codes, i, tables, scratch, mask):
    """Take the numerals from i on: two or more in a row, or one but for "one" before what it counts."""
    while i < len(codes):
        if tables.numerals[codes[i]] < COUNTER:
            end, token = numeral_at(codes, i, tables.digits, tables.numerals, scratch.characters)
            is_counted = end < len(codes) and tables.numerals[codes[end]] == COUNTER and tables.numerals[codes[i]] != 1
            if end - i > 1 or is_counted:
                _add_number(token, scratch, mask)
            i = end - 1
        i += 1


@inlined
def _is_new(token, scratch, mask):
    """Whether a token was not seen before in the text; then it is seen now, unless the table is half full."""
    seen = scratch.seen
    slot = np.int64(token & np.uint64(mask))
    while seen[slot] != 0 and seen[slot] != token:
        slot = (slot + 1) & mask
    if seen[slot] == token:
        return False
    if scratch.counts[5] > mask >> 1:  # a search would take as long as the table
        scratch.counts[2] = 1
        return False
    seen[slot] = token
    scratch.counts[5] += 1
    return True


@inlined
def _add_word(stem, kind, scratch):
    at = scratch.counts[0]
    if at < len(scratch.words):
        scratch.words[at], scratch.classes[at] = stem, kind
        scratch.counts[0] = at + 1
    else:
        scratch.counts[2] = 1


@inner
def _add_negation(scratch, mask):
    """Add one more negation, as a number of its own."""
    _add_number(mix64(_NEGATION + np.uint64(scratch.counts[3])), scratch, mask)
    scratch.counts[3] += 1


@inner
def _add_number(token, scratch, mask):
    """Add a number, or what says that it occurs again."""
    if _is_new(token, scratch, mask):
        _insert(scratch.numbers, token, scratch.counts, 1)
    else:
        _add_repeat(token, scratch, mask, scratch.repeats, 4)


@inner
def _add_repeat(token, scratch, mask, values, which):
    """Add what says that a number or a name occurs once more."""
    for _ in range(_REPEATS_MAX):
        token = mix64(token + _REPEAT)
        if _is_new(token, scratch, mask):
            _insert(values, token, scratch.counts, which)
            return


@inlined
def repeats_of(units, begin):
    """Return how many repeats of numbers, and how many of names, the set has that begins there."""
    unit = np.int64(units[begin + CUT_UNIT])
    return unit >> _REPEATS_SHIFT & _REPEATS_BITS, unit >> _NAMES_SHIFT


@inlined
def _insert(values, token, counts, which):
    """Add the upper half of a hash to values in ascending order; ``counts[which]`` is their number."""
    at = counts[which]
    if at == len(values):
        counts[2] = 1
        return
    value = np.uint32(token >> np.uint64(32))
    while at > 0 and values[at - 1] > value:
        values[at] = values[at - 1]
        at -= 1
    values[at] = value
    counts[which] += 1
