"""Names: words with a capital in running text, which a copy does not change for others.

Normalised texts have no capitals, so names are found in the texts as they were given. A *name* is a word of three
letters or more whose first letter is a capital and the others are not. The first word of a sentence is one only if the
next word is one too. A sentence without two small words of four letters or more is no running text: in a headline all
words may have capitals. Scripts without capitals have no names, and of languages that write every noun with a capital
the nouns are names.

A name is the hash of its normalised letters, as in a word set. A word whose letters do not normalise one by one is no
name.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.said.numbers import next_hash
from neardup.features.texts.normalize import NormalForm, normalize
from neardup.features.texts.raw_texts import RawTexts
from neardup.features.texts.reading import HeldTexts
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import mix64
from neardup.machine.memory import bytes_at, halves_at, words_at

# Code points below this have nearly all letters with capitals: Latin, Greek, Cyrillic, Armenian, and their extensions.
_CASED = 0x2000
_OTHER, _CAPITAL, _SMALL, _END = (np.uint8(kind) for kind in range(4))
_ENDS = ".!?:;\n\r"
NAME_LETTERS_MIN = 3
# Small words of so many letters in a sentence that is running text.
_SMALL_LETTERS_MIN, _SMALL_WORDS_MIN = 4, 2


class Names(NamedTuple):
    """The hashes of the names of n texts, one after the other (``uint64``), and where those of each begin
    (``int64[n + 1]``)."""

    tokens: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]


class CaseTable(NamedTuple):
    """Of each code point below ``_CASED``: its kind (``uint8``), and of a letter its normalised form (``uint16``)."""

    kinds: npt.NDArray[np.uint8]
    small: npt.NDArray[np.uint16]


@functools.cache
def _case_table(form: NormalForm) -> CaseTable:
    kinds, small = np.zeros(_CASED, np.uint8), np.zeros(_CASED, np.uint16)
    for code in range(_CASED):
        letter = chr(code)
        if letter.isupper() or letter.islower():
            normal = normalize(letter, form)
            if len(normal) == 1 and ord(normal) <= np.iinfo(np.uint16).max:
                kinds[code], small[code] = _CAPITAL if letter.isupper() else _SMALL, ord(normal)
    kinds[[ord(end) for end in _ENDS]] = _END
    return CaseTable(kinds, small)


def names_in(held: HeldTexts, form: NormalForm, refused: Collection[int] = ()) -> Names:
    """Return the names of texts, but of those at the positions ``refused``."""
    raw = held.raw
    if refused:
        rows = np.setdiff1d(np.arange(len(raw.lengths)), np.fromiter(refused, np.int64, len(refused)))
        raw = RawTexts(raw.addresses[rows], raw.lengths[rows], raw.widths[rows])
    n = len(raw.lengths)
    tokens = np.empty(held.characters // (NAME_LETTERS_MIN + 1) + n, np.uint64)
    starts = np.empty(n + 1, np.int64)
    _find(raw, _case_table(form), tokens, starts)
    return Names(tokens[: starts[-1]], starts)


@kernel("RawTexts, CaseTable, u64[], i64[]", direct=True)
def _find(texts, table, tokens, starts):
    at = starts[0] = np.int64(0)
    for i in range(len(texts.lengths)):
        address, length, width = texts.addresses[i], texts.lengths[i], texts.widths[i]
        if width <= 1:
            at = _scan(bytes_at(address, length), table, tokens, at)
        elif width == 2:
            at = _scan(halves_at(address, length), table, tokens, at)
        else:
            at = _scan(words_at(address, length), table, tokens, at)
        starts[i + 1] = at


@inner
def _scan(codes, table, tokens, at):
    """Write the names of a text from ``at`` on; return where they end."""
    i, n = np.int64(0), np.int64(len(codes))
    begin, words, small, first = at, 0, 0, np.uint64(0)
    while i < n:
        kind = _kind(codes[i], table)
        if kind == _END:
            at = at if small >= _SMALL_WORDS_MIN else begin
            begin, words, small, first = at, 0, 0, np.uint64(0)
        if kind in (_OTHER, _END):
            i += 1
            continue
        start, h, is_name = i, np.uint64(0), kind == _CAPITAL
        while i < n:
            letter = _kind(codes[i], table)
            if letter not in (_CAPITAL, _SMALL):
                break
            is_name &= i == start or letter == _SMALL
            h = next_hash(h, table.small[codes[i]])
            i += 1
        small += int(kind == _SMALL and i - start >= _SMALL_LETTERS_MIN)
        if is_name and i - start >= NAME_LETTERS_MIN:
            if words == 0:
                first = mix64(h)
            else:
                if words == 1 and first:
                    tokens[at] = first
                    at += 1
                tokens[at] = mix64(h)
                at += 1
        words += 1
    return at if small >= _SMALL_WORDS_MIN else begin


@inlined
def _kind(code, table):
    return table.kinds[code] if code < _CASED else _OTHER
