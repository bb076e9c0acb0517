"""The tables by which texts are split into words and numbers, and the hash of a word."""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.said.numbers import COUNTER, NO_DIGIT, NO_NUMERAL, POWER, hash_of_digits, next_hash
from neardup.features.said.spoken import (
    ABBREVIATIONS,
    CORRECTIONS,
    HAN_COUNTED,
    HAN_DIGITS,
    HAN_POWERS,
    HANGUL_POWERS,
    NEGATIONS,
    NUMBER_WORDS,
    SILENT,
)
from neardup.features.texts import words as classes_of
from neardup.features.texts.normalize import CodePoints
from neardup.features.texts.unicode_table import code_points_of
from neardup.features.texts.words import HEBREW, INVISIBLE, KATAKANA, LETTER, NUMERIC, WORD_CLASS, word_table
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import mix64

# The kinds of a code point, as bits: a decimal digit; the first letter of a word, and what continues it; the first
# segment of a text without blanks, and what continues it; anything that words are made of.
DIGIT, FIRST_LETTER, IN_WORD, UNSPACED, IN_RUN, WORDLIKE = (np.uint8(1 << bit) for bit in range(6))
# The rules of the cut, the hashes and the weights: a change of any is a new name.
_RULES = "said-6"
SPAN_BITS, NOTHING = 8, -1  # of the length in a span
LETTERS_OF_RUN = 4  # of a word; the hashes of two runs of it are kept
_CORRECTION = "correction"  # as which all words of correction count


class WordTables(NamedTuple):
    """The kinds of code points (``uint8[0x110000]``), the digits and the Han numerals among them (255 for none), and a
    hash table of the words that stand for something else: keys, and hashes of the numbers or of the words that are
    abbreviated, 0 for a negation (``uint64[m]`` each, m a power of 2); of an abbreviation, ``spans`` (``int64[m]``) has
    begin and length of its word in ``letters`` (``uint32``), in one number, of a word that says nothing ``NOTHING``,
    else 0."""

    kinds: npt.NDArray[np.uint8]
    digits: npt.NDArray[np.uint8]
    numerals: npt.NDArray[np.uint8]
    spoken: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.uint64]
    spans: npt.NDArray[np.int64]
    letters: npt.NDArray[np.uint32]


@functools.cache
def word_tables() -> WordTables:
    """Return the tables, built at the first call."""
    entries = word_table()
    classes, wordlike = entries & WORD_CLASS, entries & classes_of.WORDLIKE > 0
    digits = np.full(len(entries), NO_DIGIT, np.uint8)
    for code in np.flatnonzero(classes == NUMERIC).tolist():
        if chr(code).isdecimal():
            digits[code] = int(chr(code))
    numerals = np.full(len(entries), NO_NUMERAL, np.uint8)
    numerals[list(map(ord, HAN_COUNTED))] = COUNTER
    for value, written in enumerate(HAN_DIGITS):
        numerals[list(map(ord, written))] = value
    for power, zeros in (HAN_POWERS | HANGUL_POWERS).items():
        numerals[ord(power)] = POWER + zeros
    letter, invisible = np.isin(classes, (LETTER, HEBREW, KATAKANA)), (INVISIBLE >> classes) & 1 > 0
    kinds = np.where(digits != NO_DIGIT, DIGIT, np.uint8(0))
    for bit, has_bit in (
        (FIRST_LETTER, letter & wordlike), (IN_WORD, letter | invisible), (UNSPACED, wordlike & ~letter),
        (IN_RUN, (classes == 0) & wordlike | invisible), (WORDLIKE, wordlike),
    ):  # fmt: skip
        kinds[has_bit] |= bit
    hashes = {_hash_of_word(word): hash_of_digits(str(number)) for word, number in NUMBER_WORDS.items()}
    hashes |= dict.fromkeys(map(_hash_of_word, CORRECTIONS), _hash_of_word(_CORRECTION))
    hashes |= dict.fromkeys(map(_hash_of_word, NEGATIONS), 0)
    hashes |= dict.fromkeys(map(_hash_of_word, SILENT), 0)
    hashes |= {_hash_of_word(short): _hash_of_word(word) for short, word in ABBREVIATIONS.items()}
    keys = classes_of.hash_set(set(hashes), room=4)
    numbers = np.array([hashes.get(key, 0) for key in keys.tolist()], np.uint64)
    letters, spans_of = "", dict.fromkeys(map(_hash_of_word, SILENT), NOTHING)
    for short, word in ABBREVIATIONS.items():
        spans_of[_hash_of_word(short)] = len(letters) << SPAN_BITS | len(word)
        letters += word
    spans = np.array([spans_of.get(key, 0) for key in keys.tolist()], np.int64)
    tables = WordTables(kinds, digits, numerals, keys, numbers, spans, code_points_of(letters).astype(np.uint32))
    for table in tables:
        table.flags.writeable = False
    return tables


def said_rules() -> str:
    """Return the name of the cut into words and numbers for a fingerprint: the rules, the lists, the properties."""
    lists = repr((sorted(NUMBER_WORDS.items()), CORRECTIONS, sorted(NEGATIONS), ABBREVIATIONS, sorted(SILENT))).encode()
    return f"{_RULES}-{hashlib.blake2b(lists, digest_size=8).hexdigest()}-{classes_of.word_rules()}"


def _hash_of_word(word: str) -> int:
    return int(_hash_of(code_points_of(word).astype(np.uint32)))


@kernel("u32[]")
def _hash_of(codes):
    return hash_between(codes, 0, len(codes))


@inlined
def hash_between(codes, begin, end):
    """Return the hash of some code points in a row."""
    h = np.uint64(0)
    for i in range(begin, end):
        h = next_hash(h, codes[i])
    return mix64(h)


@inlined
def one_stem(token):
    """Return the unit of a word that is one run: its hash as both of its hashes."""
    half = np.uint32(token & np.uint64(0xFFFF))
    return half | half << np.uint32(16)


@inlined
def stems_of(codes, begin, end, token):
    """Return the two hashes of a word: those of its two least runs, in one unit."""
    if end - begin <= LETTERS_OF_RUN:
        return one_stem(token)
    least, second = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)
    for at in range(begin, end - LETTERS_OF_RUN + 1):
        h = hash_between(codes, at, at + LETTERS_OF_RUN)
        if h < least:
            least, second = h, least
        elif h < second and h != least:
            second = h
    low, high = np.uint32(least & np.uint64(0xFFFF)), np.uint32(second & np.uint64(0xFFFF))
    return low | high << np.uint32(16)


@functools.cache
def abbreviated() -> npt.NDArray[np.uint32]:
    """Return the words that abbreviations stand for, as units of a set."""
    words = list(ABBREVIATIONS.values())
    letters, ends = code_points_of("".join(words)).astype(np.uint32), np.cumsum([*map(len, words)])
    out = np.empty(len(words), np.uint32)
    _put_words(letters, ends, out)
    return out


@kernel("const u32[], const i64[], u32[]")
def _put_words(letters, ends, out):
    begin = np.int64(0)
    for n in range(len(out)):
        out[n] = stems_of(letters, begin, ends[n], hash_between(letters, begin, ends[n]))
        begin = ends[n]


def leading_hashes(codes: CodePoints) -> npt.NDArray[np.uint64]:
    """Return the hash of the word that each of n normalised texts begins with, ``uint64[n]``."""
    out = np.empty(len(codes.lengths), np.uint64)
    _lead(codes, word_tables().kinds, out)
    return out


@kernel("CodePoints, const u8[], u64[]")
def _lead(codes, kinds, out):
    for i in range(len(out)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        if codes.is_wide[i]:
            out[i] = _hash_ahead(codes.wide[first:end], kinds)
        else:
            out[i] = _hash_ahead(codes.narrow[first:end], kinds)


@inlined
def _hash_ahead(codes, kinds):
    end = np.int64(0)
    while end < len(codes) and kinds[codes[end]] & IN_WORD:
        end += 1
    return hash_between(codes, 0, end)
