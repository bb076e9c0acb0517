"""Words in order: each word of a text as a code of 16 bits, with its position.

A code has 12 bits of hash and 4 of kind. The kind of a word is its length, from which its weight follows; an
ideograph, a kana and a number of five digits or less are words with kinds of their own. So a code says all that an
alignment needs.

Two in three words of an English wire have at most five letters, and few different ones are most of them. So such words
in ASCII, and such numbers, are ``SHORT`` different codes, with the upper hashes. They weigh least, and are
stored in a byte (``neardup.schemes.signatures.word_units``).

- A *word* is a run of letters, digits and the marks on them. An ideograph or a kana is a word.
- A word has at most ``LETTERS_MAX`` letters: a longer one is cut. In a text without blanks a fixed cut would depend on
  where the text begins, so after ``_FIXED`` letters the letters around a position decide whether it is a cut.
- Historic spelling keeps the first letter and four of the consonants after it, none twice in a row; v is u, j and y
  are i. A code has no length then, and its kind only gives the weight.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.texts.normalize import CodePoints
from neardup.features.texts.words import INVISIBLE, WORD_CLASS, WORDLIKE, word_rules, word_table
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import BASE, mix64

LETTERS_MAX = 10
# Kinds after the lengths: an ideograph, a kana, a number of five digits or less.
IDEOGRAPH, KANA, NUMBER = 11, 12, 13
KIND_BITS = 4
# Short words have the hashes from ``SHORT_HASH`` on: those of a number, and so many of one to five letters.
SHORT_HASH, SHORT_COUNTS = 1536, (18, 16, 24, 48, 40, 38)
SHORT = sum(SHORT_COUNTS)
# The letters of a word whose cuts are counted from its begin.
_FIXED = 3 * LETTERS_MAX
# One position in so many is a cut, by the hash of the letters before it.
_CUT_MASK = np.uint64(3)
_HIGHEST = np.uint64((1 << 64) - 1)
# The rules of the cut, of the code, of a seed and of the evidence: a change of any is a new name.
_RULES = "ordered-7"
# What a code point is: no part of a word, a letter or digit, a digit, an ideograph, a kana, a mark.
_NONE, _LETTER, _DIGIT, _HAN, _KANA, _MARK = (np.uint8(n) for n in range(6))
_HAN_RANGES = ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
_KANA_RANGES = ((0x3041, 0x30FF), (0x31F0, 0x31FF))
POSITION_SHIFT, _CODE = np.uint64(16), np.uint64(0xFFFF)
_HASH_SHIFT, _HASH_BITS, _HASH_FACTOR = np.uint64(48), np.uint64(16), np.uint64(SHORT_HASH)
_SHORT_COUNTS = np.array(SHORT_COUNTS, np.uint64)
_SHORT_FIRSTS = np.uint64(SHORT_HASH) + np.cumsum(_SHORT_COUNTS) - _SHORT_COUNTS
_ASCII_END = 128
_SKELETON_MAX = 5
_SKELETON_TABLE = 128


class WordCodes(NamedTuple):
    """Words of n texts: ``values`` (``uint64[m]``) have the code in the lower 16 bits and above it where the word
    begins, in code points; those of text i are ``values[starts[i]:starts[i + 1]]``."""

    values: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]

    @property
    def codes(self) -> npt.NDArray[np.uint16]:
        """The codes alone, ``uint16[m]``."""
        return (self.values & _CODE).astype(np.uint16)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """Where each word begins, ``int64[m]``."""
        return (self.values >> POSITION_SHIFT).astype(np.int64)


@functools.cache
def _kinds() -> npt.NDArray[np.uint8]:
    """What each code point is, ``uint8[0x110000]``."""
    entries = word_table()
    classes = entries & WORD_CLASS
    kinds = np.where(entries & WORDLIKE > 0, _LETTER, _NONE)
    kinds[(INVISIBLE >> classes) & 1 > 0] = _MARK
    kinds[ord("0") : ord("9") + 1] = _DIGIT
    for ranges, kind in ((_HAN_RANGES, _HAN), (_KANA_RANGES, _KANA)):
        for first, last in ranges:
            part = kinds[first : last + 1]
            part[part == _LETTER] = kind
    kinds.flags.writeable = False
    return kinds


@functools.cache
def _skeleton() -> npt.NDArray[np.uint8]:
    """Of each ASCII letter the one that stands for it in historic spelling, 0 for vowels."""
    table = np.arange(_SKELETON_TABLE, dtype=np.uint8)
    for letter, other in ("vu", "ji", "yi"):
        table[ord(letter)] = ord(other)
    table.flags.writeable = False
    return table


def word_codes(codes: CodePoints, *, historic: bool = False) -> WordCodes:
    """Return the words of each text, in order. ``historic``: spellings of one word before about 1800 have one code."""
    values, starts = np.empty(codes.characters, np.uint64), np.zeros(len(codes.lengths) + 1, np.int64)
    _take(codes, _kinds(), _skeleton(), historic, values, starts)
    return WordCodes(values[: starts[-1]].copy(), starts)


def order_rules() -> str:
    """Return the name of the cut into words and of the codes, for a fingerprint."""
    return f"{_RULES}-{word_rules()}"


@kernel("CodePoints, const u8[], const u8[], bool, u64[], i64[]")
def _take(codes, kinds, skeleton, historic, out, starts):
    at = np.int64(0)
    for i in range(len(codes.lengths)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        if codes.is_wide[i]:
            at = _scan(codes.wide[first:end], kinds, skeleton, historic, out, at)
        else:
            at = _scan(codes.narrow[first:end], kinds, skeleton, historic, out, at)
        starts[i + 1] = at


@inner
def _scan(codes, kinds, skeleton, historic, out, at):
    """Write the words of a text from ``at`` on; return where the next ones begin."""
    i, n = np.int64(0), np.int64(len(codes))
    while i < n:
        kind = kinds[codes[i]]
        if kind in (_HAN, _KANA):
            out[at] = _value(mix64(np.uint64(codes[i])), IDEOGRAPH if kind == _HAN else KANA, i)
            at, i = at + 1, i + 1
        elif kind in (_LETTER, _DIGIT):
            i, at = _take_word(codes, i, kinds, skeleton, historic, out, at)
        else:
            i += 1
    return at


@inner
def _take_word(codes, i, kinds, skeleton, historic, out, at):
    """Write the pieces of the word at i; return where it ends, and where the next word is written."""
    n, begin, piece = np.int64(len(codes)), i, i
    h, recent, kept, last = np.uint64(0), np.uint64(0), 0, np.uint32(0)
    least, cut, cut_h, cut_recent = _HIGHEST, i, h, recent
    while i < n:
        kind = kinds[codes[i]]
        if kind in (_NONE, _HAN, _KANA):
            break
        letter = np.uint32(codes[i])
        i += 1
        if historic and letter < _SKELETON_TABLE:
            letter = np.uint32(skeleton[letter])
            if kept < _SKELETON_MAX and (kept == 0 or not (_is_vowel(letter) or letter == last)):
                h, kept, last = h * BASE + np.uint64(letter) + np.uint64(1), kept + 1, letter
        else:
            h = h * BASE + np.uint64(letter) + np.uint64(1)
        recent = (recent << np.uint64(21)) | np.uint64(codes[i - 1])
        is_cut = i - piece == LETTERS_MAX
        if i - begin > _FIXED:
            around = mix64(recent)
            if around <= least:
                least, cut, cut_h, cut_recent = around, i, h, recent
            if around & _CUT_MASK == 0:
                is_cut = True
            elif is_cut:  # at the last of the least, so that a run that repeats itself is cut alike wherever it begins
                i, h, recent = cut, cut_h, cut_recent
        if is_cut:
            out[at] = _value(mix64(h), i - piece, piece)
            at, piece, h, kept, last, least = at + 1, i, np.uint64(0), 0, np.uint32(0), _HIGHEST
    if i > piece:
        kind = i - piece
        if kind < len(_SHORT_COUNTS) and _is_number(codes[piece:i], kinds):
            out[at] = _short_value(h, 0, NUMBER, piece)
        elif kind < len(_SHORT_COUNTS) and not historic and _is_ascii(codes[piece:i]):
            out[at] = _short_value(mix64(h) >> _HASH_SHIFT, kind, kind, piece)
        else:
            out[at] = _value(mix64(h), kind, piece)
        at += 1
    return i, at


@inlined
def _is_ascii(letters):
    is_ascii = True
    for letter in letters:
        is_ascii &= letter < _ASCII_END
    return is_ascii


@inlined
def _is_number(letters, kinds):
    is_number = True
    for letter in letters:
        is_number &= kinds[letter] == _DIGIT
    return is_number


@inlined
def _is_vowel(letter):
    return letter == 0x61 or letter == 0x65 or letter == 0x69 or letter == 0x6F or letter == 0x75 or letter == 0x77


@inlined
def _value(h, kind, position):
    return _coded((h >> _HASH_SHIFT) * _HASH_FACTOR >> _HASH_BITS, kind, position)


@inlined
def _short_value(h, letters, kind, position):
    return _coded(_SHORT_FIRSTS[letters] + h % _SHORT_COUNTS[letters], kind, position)


@inlined
def _coded(h, kind, position):
    return np.uint64(position) << POSITION_SHIFT | h << np.uint64(KIND_BITS) | np.uint64(kind)
