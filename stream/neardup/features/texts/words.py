"""Words: text cut at the word boundaries of Unicode (UAX #29), each word a 64-bit hash; and stop words.

The cut is the default one of UAX #29, rules WB3 to WB16, with nothing tailored. It needs no dictionary and no
language. "don't" and "3.14" are one token each. Of the segments it gives, only words are kept: those with a
code point that is *word-like*, which is ``\\p{Alphabetic}``, ``\\p{N}`` or ``\\p{Ideographic}`` but not a
mark, a format character or a joiner. Blanks, punctuation, emoji, flags, a lone underscore and lone marks are
dropped.

Scripts written without blanks: UAX #29 knows no words there. An ideograph, a Hiragana and a letter of Thai,
Lao, Khmer or Myanmar is one segment each, with its marks, while a run of Katakana stays whole. That is the
cut wanted here: shingles of three tokens are shingles of three characters in these scripts, which is what
near-duplicates in them are compared by, and no dictionary can change the keys. Hangul has blanks and is cut
at them.

One automaton runs over the code points, the same for bytes of ASCII (``uint8``) and for code points
(``uint32``). Its state is the class of the last code point that rule WB4 leaves visible. A class that only
bridges two letters or two digits (the apostrophe of "don't", the point of "3.14") is taken on trial: the
automaton remembers where the segment ends without it, and falls back there if the code point that must follow
does not. No code point is read more than twice, whatever the text.

Everything here decides keys: the classes, the rules, the hash and the stop lists. ``word_rules`` and
``stop_rules`` are their short names for a fingerprint.

Source: Unicode Standard Annex #29, "Unicode Text Segmentation", section 4.1; the classes are those of the
Unicode version that the ``regex`` library carries.
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import stop_words

from neardup.errors import ConfigError
from neardup.features.texts.unicode_table import code_points_of
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import BASE, mix64

Codes: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.uint32]
Hashes: TypeAlias = npt.NDArray[np.uint64]

# The rules that the automaton below follows and the meaning of word-like. A change of either is a new name,
# because the digest in ``word_rules`` sees the property table and not the code.
WORD_RULES = "uax29-words-1"

# The values of Word_Break as they stand in the low bits of the table; a row's index is its number.
_CLASSES = (
    "Other", "CR", "LF", "Newline", "Extend", "Format", "ZWJ", "WSegSpace", "ALetter", "Hebrew_Letter",
    "Numeric", "Katakana", "ExtendNumLet", "Regional_Indicator", "Single_Quote", "Double_Quote", "MidNumLet",
    "MidLetter", "MidNum",
)  # fmt: skip
_CR, _LF, _NEWLINE, _EXTEND, _FORMAT, _ZWJ, _SPACE, _LETTER, _HEBREW = range(1, 10)
_NUMERIC, _KATAKANA, _EXTENDNUM, _FLAG, _SINGLE, _DOUBLE, _MIDNUMLET, _MIDLETTER, _MIDNUM = range(10, 19)
# Two states that are not classes: a Hebrew letter with its apostrophe (WB7a), and a whole flag (WB15, WB16).
_HEBREW_QUOTE, _FLAG_WHOLE = 19, 20

_CLASS_MASK, _PICTOGRAPHIC, _WORDLIKE = 0x1F, 0x20, 0x40  # the bits of a table entry
WORD_CLASS, WORDLIKE, NUMERIC = _CLASS_MASK, _WORDLIKE, _NUMERIC  # the same for other cuts of text
LETTER, HEBREW, KATAKANA = _LETTER, _HEBREW, _KATAKANA
PLAIN_LETTER = _LETTER | _WORDLIKE  # the entry of nearly every letter, so of the inner loop
# For ``neardup.features.texts.plain_words``: the entries of digits, of code points between which words stand, and of
# bridges between two letters or two digits.
PLAIN_DIGIT = _NUMERIC | _WORDLIKE
HARD_ENTRIES = (0, _CR, _LF, _NEWLINE, _SPACE)
LETTER_BRIDGES, NUMBER_BRIDGES = (_SINGLE, _MIDNUMLET, _MIDLETTER), (_SINGLE, _MIDNUMLET, _MIDNUM)
DOUBLE_QUOTE = _DOUBLE  # joins Hebrew letters only


def _bits(*classes: int) -> int:
    return sum(1 << number for number in classes)


_BREAKS = _bits(_CR, _LF, _NEWLINE)
INVISIBLE = _INVISIBLE = _bits(_EXTEND, _FORMAT, _ZWJ)
_AHLETTER = _bits(_LETTER, _HEBREW)
_WORD_PARTS = _bits(_LETTER, _HEBREW, _NUMERIC, _EXTENDNUM)

# state -> the classes it joins with at once. The rules, in the order of the rows: WB5, WB9, WB13a; the same
# and WB7a; WB8, WB10, WB13a; WB13, WB13a; WB13a, WB13b; WB15 and WB16; WB7.
_JOINS = np.zeros(32, np.uint32)
_JOINS[_LETTER] = _WORD_PARTS
_JOINS[_HEBREW] = _WORD_PARTS | _bits(_SINGLE)
_JOINS[_NUMERIC] = _WORD_PARTS
_JOINS[_KATAKANA] = _bits(_KATAKANA, _EXTENDNUM)
_JOINS[_EXTENDNUM] = _WORD_PARTS | _bits(_KATAKANA)
_JOINS[_FLAG] = _bits(_FLAG)
_JOINS[_HEBREW_QUOTE] = _AHLETTER

# state -> the classes that may bridge from it, on trial: WB6 with WB7; the same and WB7b with WB7c; WB12 with
# WB11.
_BRIDGES = np.zeros(32, np.uint32)
_BRIDGES[_LETTER] = _bits(_MIDLETTER, _MIDNUMLET, _SINGLE)
_BRIDGES[_HEBREW] = _bits(_MIDLETTER, _MIDNUMLET, _DOUBLE)
_BRIDGES[_NUMERIC] = _bits(_MIDNUM, _MIDNUMLET, _SINGLE)

# state -> the classes before which a boundary is not certain, so that the automaton has to look: what WB4
# hides, and WB3, WB3c and WB3d. After a line end everything else breaks (WB3a), before one everything does
# (WB3b).
_STICKS = _JOINS | _BRIDGES | np.uint32(_INVISIBLE)
_STICKS[[_LF, _NEWLINE]] = 0
_STICKS[_CR] = _bits(_LF)
_STICKS[_ZWJ] |= np.uint32(0xFFFFFFFF ^ _BREAKS)
_STICKS[_SPACE] |= np.uint32(_bits(_SPACE))


@functools.cache
def word_table() -> npt.NDArray[np.uint8]:
    """The properties of every code point: ``uint8[0x110000]``, read-only, built at the first call.

    The low five bits are the Word_Break class, bit 5 says Extended_Pictographic, bit 6 says word-like.
    """
    import regex

    everything = np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")

    def spans(pattern: str) -> list[tuple[int, int]]:
        return [match.span() for match in regex.finditer(pattern, everything)]

    table = np.zeros(len(everything), np.uint8)
    for number, name in enumerate(_CLASSES):
        for start, stop in spans(rf"\p{{WB={name}}}+"):
            table[start:stop] = number
    wordlike = np.zeros(len(everything), np.bool_)
    for start, stop in spans(r"[\p{Alphabetic}\p{N}\p{Ideographic}]+"):
        wordlike[start:stop] = True
    for start, stop in spans(r"[\p{M}\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]+"):
        wordlike[start:stop] = False
    for start, stop in spans(r"\p{Extended_Pictographic}+"):
        table[start:stop] |= _PICTOGRAPHIC
    table[wordlike] |= _WORDLIKE
    # The automaton drops a bridge that failed without a look at it, so a bridge must never make a word.
    assert not np.any(wordlike & ((table & _CLASS_MASK) >= _SINGLE)), "a word-like bridge"
    table.flags.writeable = False
    return table


@functools.cache
def word_rules() -> str:
    """The name of the segmentation for a fingerprint: the rules, then a 64-bit digest of the property table.

    The digest stands for the Unicode version: it changes exactly when some code point changes its properties.
    """
    return f"{WORD_RULES}-{hashlib.blake2b(word_table().tobytes(), digest_size=8).hexdigest()}"


@inlined
def _next_state(h: np.uint64, code: np.uint32) -> np.uint64:
    return h * BASE + np.uint64(code) + np.uint64(1)


@kernel("const u32[], const u8[], u64[]", "const u8[], const u8[], u64[]")
def token_hashes(codes: Codes, table: npt.NDArray[np.uint8], out: Hashes) -> int:
    """Write the hash of each word of one document into ``out``, in order, and return how many there are.

    ``codes`` is ``uint8[n]`` (ASCII, each below 128) or ``uint32[n]`` (code points, each below 0x110000),
    ``table`` is ``word_table()``, ``out`` is ``uint64[m]`` with m >= n. A hash is the polynomial of
    (code point + 1) with base ``BASE`` modulo 2^64, highest power first, through ``mix64``. The same word has
    the same hash from either dtype. Nothing is normalised here: the caller folds case. No allocation, time
    linear in n, raises nothing.

    >>> codes = np.frombuffer(b"don't pay $3.14", np.uint8)
    >>> out = np.empty(len(codes), np.uint64)
    >>> token_hashes(codes, word_table(), out)
    3
    >>> hex(out[0])
    '0x6ca6a28a7200106b'
    """
    n = len(codes)
    count = 0
    i = 0
    while i < n:
        entry = table[codes[i]]
        state = entry & _CLASS_MASK
        word = entry & _WORDLIKE
        h = _next_state(np.uint64(0), codes[i])
        i += 1
        if entry == PLAIN_LETTER:  # WB5, the common case kept short
            while i < n and table[codes[i]] == PLAIN_LETTER:
                h = _next_state(h, codes[i])
                i += 1
        if i < n and (_STICKS[state] >> (table[codes[i]] & _CLASS_MASK)) & 1:
            i, h, word = _rest_of_segment(codes, table, i, state, h, word)
        if word:
            out[count] = mix64(h)
            count += 1
    return count


@inner
def _rest_of_segment(
    codes: Codes, table: npt.NDArray[np.uint8], i: int, state: int, h: np.uint64, word: int
) -> tuple[int, np.uint64, int]:
    """Finish the segment that so far ends before ``i``, in ``state``, with this polynomial and word-like bit.

    Returns its end (exclusive), its polynomial and the bit.
    """
    if state == _CR:
        return i + 1, h, word  # WB3; the line feed is no word, so its share of the hash is of no use
    n = len(codes)
    last = state  # the class just before i, visible or not
    trial = -1  # where the segment ends if the bridge fails, its polynomial there, and what must follow
    trial_h = h
    needed = 0
    while i < n:
        entry = table[codes[i]]
        kind = entry & _CLASS_MASK
        if not (_INVISIBLE >> kind) & 1:  # else WB4: joins and leaves the state alone
            entered = kind
            if trial >= 0:
                if not (needed >> kind) & 1:
                    break
                trial = -1
            elif (_JOINS[state] >> kind) & 1:
                if kind == _FLAG:
                    entered = _FLAG_WHOLE
                elif kind == _SINGLE:
                    entered = _HEBREW_QUOTE
            elif (_BRIDGES[state] >> kind) & 1:
                trial = i
                trial_h = h
                needed = _AHLETTER
                if kind == _DOUBLE:
                    needed = 1 << _HEBREW
                elif state == _NUMERIC:
                    needed = 1 << _NUMERIC
            elif not (last == _ZWJ and entry & _PICTOGRAPHIC) and not (last == _SPACE and kind == _SPACE):
                break  # WB999, unless WB3c or WB3d
            state = entered
        h = _next_state(h, codes[i])
        word |= entry & _WORDLIKE
        last = kind
        i += 1
    if trial >= 0:
        return trial, trial_h, word
    return i, h, word


def _hashes_of(text: str) -> Hashes:
    """The hashes of the words of ``text``: ``uint64[k]``."""
    codes = code_points_of(text)
    out = np.empty(len(codes), np.uint64)
    return out[: token_hashes(codes, word_table(), out)]


def stop_languages() -> tuple[str, ...]:
    """The languages with a stop list, by their codes in alphabetical order."""
    return tuple(sorted(stop_words.LANGUAGE_MAPPING))


class StopList(NamedTuple):
    """Which words are stop words: ``words``, or the built-in ones of the shingling if ``words`` is ``None``."""

    languages: tuple[str, ...] = ("en",)
    words: tuple[str, ...] | None = None


def folded(entry: str) -> str:
    """An entry of a stop list, normalised as text is by default: NFKC, case folded, NFKC."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", entry).casefold())


@functools.cache
def stop_table(languages: tuple[str, ...], words: tuple[str, ...] | None = None) -> Hashes:
    """The stop words as a read-only hash set: ``uint64[m]``, m a power of two.

    They are ``words``, or those of the languages if ``words`` is ``None``.

    Made for ``is_stop``: open addressing with linear probes, at most half full, 0 for an empty slot. The
    order of the languages or words does not matter, and none at all is the set without members. Entries are
    normalised as text is (NFKC, case folded, NFKC) and then cut. An entry of a language that is not exactly one
    token can never equal a token and is left out. So in Vietnamese the phrases are left out.
    An entry with an apostrophe also stands with the typographic one (U+2019), which
    normalisation keeps apart.

    Raises ``ConfigError`` for a language without a list, and for an entry of ``words`` that is not one word.
    """
    return hash_set(_language_tokens(languages) if words is None else _own_tokens(words))


def _language_tokens(languages: tuple[str, ...]) -> set[int]:
    tokens: set[int] = set()
    for language in languages:
        if language not in stop_languages():
            known = ", ".join(stop_languages())
            raise ConfigError(f"stop-word language {language!r} has no list; choose among: {known}.")
        for entry in stop_words.get_stop_words(language):
            of_entry = _entry_hashes(entry)
            tokens |= {int(hashes[0]) for hashes in of_entry if len(hashes) == 1}
    return tokens


def _own_tokens(words: tuple[str, ...]) -> set[int]:
    tokens: set[int] = set()
    for entry in words:
        of_entry = _entry_hashes(entry)
        if any(len(hashes) != 1 for hashes in of_entry):
            raise ConfigError(
                f"stop_words has {entry!r}, which is {len(of_entry[0])} words by UAX #29: give each word an entry or a "
                "line of its own"
            )
        tokens |= {int(hashes[0]) for hashes in of_entry}
    return tokens


def _entry_hashes(entry: str) -> list[Hashes]:
    """The hashes of the words of an entry: as it is, and with typographic apostrophes."""
    text = folded(entry)
    return [_hashes_of(variant) for variant in dict.fromkeys((text, text.replace("'", "\u2019")))]


def hash_set(tokens: set[int], room: int = 2) -> Hashes:
    """Return a read-only hash set, ``uint64[m]``: m is a power of 2, at least ``room`` entries a token; 0 is empty."""
    tokens.discard(0)  # the mark of an empty slot; one word in 2^64 pays for it by not being a stop word
    table = np.zeros(1 << max(1, (room * len(tokens) - 1).bit_length()), np.uint64)
    mask = len(table) - 1
    for token in sorted(tokens):  # sorted, so that equal sets are equal tables
        slot = token & mask
        while table[slot]:
            slot = (slot + 1) & mask
        table[slot] = token
    table.flags.writeable = False
    return table


@functools.cache
def stop_rules(languages: tuple[str, ...], words: tuple[str, ...] | None = None) -> str:
    """The name of a set of stop words for a fingerprint: 64 bits of a digest of its ``stop_table``."""
    table = stop_table(languages, words).astype("<u8")
    return f"stop-{hashlib.blake2b(table.tobytes(), digest_size=8).hexdigest()}"


@inner
def is_stop(table: Hashes, token: np.uint64) -> bool:
    """Whether ``token``, a hash from ``token_hashes``, is in the set ``table`` from ``stop_table``."""
    mask = np.uint64(len(table) - 1)
    slot = token & mask
    while table[slot] != np.uint64(0):
        if table[slot] == token:
            return True
        slot = (slot + np.uint64(1)) & mask
    return False
