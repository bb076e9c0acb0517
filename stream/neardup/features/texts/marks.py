"""Marks that writers put or leave out: they are removed from normalised texts, and letters with two forms get one.

- Arabic: vowel signs and the tatweel go; the Persian yeh and kaf become the Arabic ones.
- Hebrew: points and accents go.
- Cyrillic: a stress that composes with no letter goes.
- Turkish: the dotless i and the dot of a folded capital one become i, so that no case of a title matters.
- Chinese and Japanese: blanks between two Han or kana go.

``FOLDED`` says what becomes of each code point. A kernel reads it, and ``without_marks`` does the same with Python's
own functions; tests compare them. ASCII texts have nothing of this.
"""

from __future__ import annotations

import functools
import re

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.strings import shorten_runs

# What becomes of a code point: it goes; it goes behind a Cyrillic letter, behind an i. And which letters those are.
_KEPT, _GOES, _STRESS, _DOT, _CYRILLIC, _HAN = range(6)
_LETTER_I, _BLANK = ord("i"), np.uint32(ord(" "))
# Ranges of code points, by what becomes of them.
_GOING = (
    (0x0610, 0x061A), (0x0640, 0x0640), (0x064B, 0x0652), (0x0656, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06DC),
    (0x06DF, 0x06E4), (0x06E7, 0x06E8), (0x06EA, 0x06ED), (0x08D3, 0x08E1), (0x08E3, 0x08FF), (0x0591, 0x05BD),
    (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5), (0x05C7, 0x05C7),
)  # fmt: skip
_STRESSES, _DOTS, _CYRILLICS = ((0x0300, 0x0301),), ((0x0307, 0x0307),), ((0x0400, 0x052F),)
# Han and kana.
HANS = ((0x3005, 0x3007), (0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFD))
# Letters with two forms.
_ONE_FORM = {0x06CC: 0x064A, 0x06A9: 0x0643, 0x0131: _LETTER_I}

Ranges = tuple[tuple[int, int], ...]


def code_ranges(ranges: Ranges) -> str:
    """Return the inside of a class of a regular expression that has these code points."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


@functools.cache
def _goes_away() -> re.Pattern[str]:
    """Return what finds marks that go. Compiled for the first text that has letters with marks."""
    return re.compile(
        f"[{code_ranges(_GOING)}]+|(?<=[{code_ranges(_CYRILLICS)}])[{code_ranges(_STRESSES)}]+"
        f"|(?<=i)[{code_ranges(_DOTS)}]+"
    )


@functools.cache
def _between_han() -> re.Pattern[str]:
    """Return what finds the blanks between two Han or kana."""
    return re.compile(f"(?<=[{code_ranges(HANS)}]) +(?=[{code_ranges(HANS)}])")


def blanks_between_han(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each run of blanks between two Han or kana."""
    return [found.span() for found in _between_han().finditer(text)]


def without_marks(text: str) -> str:
    """Return a text, normalised otherwise, without the marks. What a mark stood between may be two blanks.

    >>> without_marks("\\u5317 \\u4eac \\u0437\\u0430\\u0301\\u043c\\u043e\\u043a")
    '\\u5317\\u4eac \\u0437\\u0430\\u043c\\u043e\\u043a'
    """
    if text.isascii():
        return text
    # Twice: a mark may stand between a letter and its stress.
    one_form = _goes_away().sub("", _goes_away().sub("", text.translate(_ONE_FORM)))
    return _between_han().sub("", one_form)


@functools.cache
def mark_table() -> npt.NDArray[np.uint32]:
    """What becomes of every code point: ``uint32[0x110000]``, a kind, or the code point that it becomes."""
    table = np.zeros(0x110000, np.uint32)
    rows = ((_GOES, _GOING), (_STRESS, _STRESSES), (_DOT, _DOTS), (_CYRILLIC, _CYRILLICS), (_HAN, HANS))
    for kind, ranges in rows:
        for first, last in ranges:
            table[first : last + 1] = kind
    table[list(_ONE_FORM)] = list(_ONE_FORM.values())
    table.flags.writeable = False
    return table


@inner
def is_han(c):
    """Whether a code point is Han or kana."""
    if c >= HANS[0][0]:
        for first, last in HANS:
            if first <= c <= last:
                return True
    return False


@kernel("u32[], bool[], i64[], i64[], const u32[], bool")
def drop_marks(codes, is_wide, starts, lengths, table, fold_space):
    """Remove the marks of the texts in ``codes`` in place.

    ``starts`` and ``lengths`` (``int64[n]``) describe those with ``is_wide``; the lengths become shorter. ``table`` is
    ``mark_table()``. With ``fold_space``, runs of blanks become short.
    """
    for i in range(len(starts)):
        if not is_wide[i]:
            continue
        text = codes[starts[i] : starts[i] + lengths[i]]
        at = 0
        for p in range(len(text)):
            c = text[p]
            kind = table[c]
            before = text[at - 1] if at else np.uint32(0)
            if (
                kind == _GOES
                or (kind == _STRESS and table[before] == _CYRILLIC)
                or (kind == _DOT and before == _LETTER_I)
            ):
                continue
            if kind == _HAN and before == _BLANK:
                q = at - 1
                while q > 0 and text[q - 1] == _BLANK:
                    q -= 1
                if q > 0 and table[text[q - 1]] == _HAN:
                    at = q
            text[at] = kind if kind > _HAN else c
            at += 1
        lengths[i] = shorten_runs(text[:at], _BLANK) if fold_space else at
