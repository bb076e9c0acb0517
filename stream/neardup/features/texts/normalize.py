"""Normalisation: texts -> code points, from which shingles are made.

With the steps of the default, invisible code points are removed (Default_Ignorable_Code_Point), the text is
converted to NFKC, case folded, and converted to NFKC again (folding can undo it): Unicode's toNFKC_Casefold. Then each
run of white space becomes one blank, and blanks at the ends are removed. White space is defined by ``str.isspace``,
0x1C to 0x1F included. One more step removes marks (``neardup.features.texts.marks``). Lone surrogates are refused in
every mode: they have no encoding, so two systems would not agree on their hash.

Two compiled paths normalise. ASCII texts need no table: NFKC does not change them, and case folding adds 32 to A to Z.
All other texts go through a table of every code point (``neardup.features.texts.unicode_fold``). Both paths give the
result of the chain of Python's own functions (``normalize``); property tests compare them. The result is columnar: all
texts of a batch in two buffers, one of bytes (ASCII) and one of 32-bit code points (the rest).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.features.texts.fold_stretches import gather_stretches, splice
from neardup.features.texts.marks import code_ranges, drop_marks, mark_table, without_marks
from neardup.features.texts.raw_texts import RawTexts, raw_texts
from neardup.features.texts.unicode_fold import NO_ROOM, STRETCH_COLUMNS, fold_scratch, fold_texts
from neardup.features.texts.unicode_table import IGNORABLES, FoldTable, code_points_of, fold_table, text_of
from neardup.machine.choice import table
from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.strings import shorten_runs
from neardup.machine.memory import bytes_at

# What decides a normal form, besides its steps: the Unicode version of NFKC and case folding, and our own rules, which
# change with the number. A part of the signing fingerprint.
FOLD_RULES: str = f"{unicodedata.unidata_version}-2"

_BLANK = np.uint8(0x20)
# First and number of the ASCII capitals, and of the two blocks of ASCII white space other than the blank.
_CAPITAL_A, _CAPITALS, _TO_SMALL = np.uint8(0x41), np.uint8(26), np.uint8(0x20)
_TAB, _TABS = np.uint8(0x09), np.uint8(5)
_SEPARATOR, _SEPARATORS = np.uint8(0x1C), np.uint8(4)

_NO_WIDE = np.empty(0, np.uint32)
_MOST = np.iinfo(np.int64).max
# Room for the results, as a multiple of the raw code points: first enough for usual texts, then enough for any text
# (U+FDFA becomes 18 code points). Short texts get a little more, because the kernel copies 64 code points at a time.
_GROWTHS = (1.25, 19.0)
_ROOM = 256
# Longer stretches are sorted before Python normalises them: its time grows with the square of their length. The result
# is the same, because NFKC begins with this order.
_STRETCH_MAX = 256


_IGNORED = re.compile(f"[{code_ranges(IGNORABLES)}]+")

# The steps of normalisation, by their names in the setting ``fold``.
FOLDS = ("nfkc", "case", "space", "marks")


class CodePoints(NamedTuple):
    """Normalised texts of one batch.

    Text ``i`` is ``lengths[i]`` values from ``starts[i]`` of ``wide`` (``uint32`` code points) if ``is_wide[i]``, else
    of ``narrow`` (``uint8``, ASCII). ``starts`` and ``lengths`` are ``int64[n]``, ``is_wide`` is ``bool[n]``.
    ``surrogates`` is ``bool[n]``: the texts refused for a lone surrogate; their length is 0. ``characters``,
    ``longest`` and ``shortest`` are the sum, the greatest and the least of the lengths, 0 for no texts.
    """

    narrow: npt.NDArray[np.uint8]
    wide: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    is_wide: npt.NDArray[np.bool_]
    surrogates: npt.NDArray[np.bool_]
    characters: int
    longest: int
    shortest: int

    def select(self, rows: npt.NDArray[np.bool_]) -> CodePoints:
        """Return some texts (``bool[n]``), which stay where they are."""
        lengths = self.lengths[rows]
        longest = int(lengths.max(initial=0))
        sizes = int(lengths.sum()), longest, int(lengths.min(initial=longest))
        columns = self.starts[rows], lengths, self.is_wide[rows], self.surrogates[rows]
        return CodePoints(self.narrow, self.wide, *columns, *sizes)


class NormalForm(NamedTuple):
    """Which steps of normalisation are on, in the order of ``FOLDS``."""

    nfkc: bool = True
    fold_case: bool = True
    fold_space: bool = True
    fold_marks: bool = False

    @classmethod
    def of(cls, names: Collection[str]) -> NormalForm:
        """Return the form with the steps that are named.

        >>> NormalForm.of(["nfkc", "space"])
        NormalForm(nfkc=True, fold_case=False, fold_space=True, fold_marks=False)
        """
        return cls(*(name in names for name in FOLDS))


def code_points(texts: Sequence[str], form: NormalForm) -> CodePoints:
    """Normalise a batch of texts. One that holds a lone surrogate is marked and has length 0."""
    held = tuple(texts)  # keeps the strings while kernels read them
    raw = raw_texts(held)
    return fold(raw, form, int(raw.lengths.sum()))


def fold(texts: RawTexts, form: NormalForm, characters: int) -> CodePoints:
    """Normalise a batch of texts, of so many characters, where they are; the caller keeps their characters."""
    n = len(texts.widths)
    starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
    is_wide, surrogates = np.empty(n, np.bool_), np.empty(n, np.bool_)
    narrow, wide = np.empty(characters, np.uint8), _NO_WIDE
    wide_characters, wide_longest, *sizes = _fold_ascii(
        texts, form.fold_case, form.fold_space, starts, lengths, is_wide, surrogates, narrow
    )
    if wide_longest:
        wide = _fold_unicode(texts, (wide_characters, wide_longest), is_wide, form, starts, lengths, surrogates)
        if form.fold_marks:
            drop_marks(wide, is_wide, starts, lengths, mark_table(), form.fold_space)
        sizes = _sizes(lengths)
    return CodePoints(narrow, wide, starts, lengths, is_wide, surrogates, *sizes)


def _fold_unicode(
    texts: RawTexts,
    sizes: tuple[int, int],
    is_wide: npt.NDArray[np.bool_],
    form: NormalForm,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    surrogates: npt.NDArray[np.bool_],
) -> npt.NDArray[np.uint32]:
    """Normalise the texts that are not ASCII, one after the other; write their starts, their lengths, and which of them
    hold a surrogate. ``sizes`` are the characters of all and of the longest."""
    table, (total, longest) = _table(form), sizes
    scratch = fold_scratch(longest)
    for growth in _GROWTHS:
        out = np.empty(_ROOM + int(growth * total), np.uint32)
        stretches = np.empty((_ROOM + int((growth - 1) * total), STRETCH_COLUMNS), np.int64)
        count = fold_texts(texts, table, scratch, form.fold_space, out, starts, lengths, stretches, surrogates)
        if count != NO_ROOM:
            break
    assert count != NO_ROOM, "a text grew more than any code point does"
    if not count:
        return out
    gathered = np.empty(int((stretches[:count, 2] - stretches[:count, 1] + 1).sum()), np.uint32)
    gather_stretches(texts, stretches, count, gathered)
    text = _seen(text_of(gathered))  # only NFKC has stretches
    if int((stretches[:count, 2] - stretches[:count, 1]).max()) > _STRETCH_MAX:
        text = in_canonical_order(text)
    results = code_points_of(_UNICODE_STEPS[form.nfkc, form.fold_case](text))
    spliced = np.empty(int(lengths[is_wide].sum()) + len(results), np.uint32)
    splice(out, texts.widths, starts, lengths, stretches, count, results, table.entries, form.fold_space, spliced)
    return spliced


@functools.cache
def _table(form: NormalForm) -> FoldTable:
    return FoldTable(*fold_arrays(form)[1])


def fold_arrays(form: NormalForm) -> tuple[str, list[npt.NDArray[Any]]]:
    """Return the name of the table of a form, and its arrays."""
    make = functools.partial(
        fold_table, _UNICODE_STEPS[form.nfkc, form.fold_case], composes=form.nfkc, fold_space=form.fold_space
    )
    rules = "".join("01"[is_on] for is_on in (form.nfkc, form.fold_case, form.fold_space))
    return f"fold_table_{rules}", table(f"fold_table_{rules}", make, FOLD_RULES)


def normalize(text: str, form: NormalForm) -> str:
    """One text normalised by Python's own functions, as a string; the compiled paths give the same."""
    text = _UNICODE_STEPS[form.nfkc, form.fold_case](_seen(text) if form.nfkc else text)
    text = " ".join(text.split()) if form.fold_space else text
    if not form.fold_marks or text.isascii():
        return text
    text = without_marks(text)
    return " ".join(text.split()) if form.fold_space else text


def normalize_any(text: str, form: NormalForm) -> str:
    """The same for a text of any length, in time that hardly exceeds it."""
    if form.nfkc and len(text) > _STRETCH_MAX and not text.isascii():
        text = in_canonical_order(_seen(text))
    return normalize(text, form)


def _seen(text: str) -> str:
    return text if text.isascii() else _IGNORED.sub("", text)


_nfkc = functools.partial(unicodedata.normalize, "NFKC")
# (nfkc, fold_case) -> the steps that need the Unicode tables.
_UNICODE_STEPS: dict[tuple[bool, bool], Callable[[str], str]] = {
    (True, True): lambda text: _nfkc(_nfkc(text).casefold()),
    (True, False): _nfkc,
    (False, True): str.casefold,
    (False, False): lambda text: text,
}


@inner
def fold_narrow(codes, fold_case, fold_space, out):
    """Fold one ASCII text; returns its new length. The loops that run on most texts compile to vector code."""
    for p in range(len(codes)):
        c = codes[p]
        capital = np.uint8(c - _CAPITAL_A) < _CAPITALS
        space = (np.uint8(c - _TAB) < _TABS) | (np.uint8(c - _SEPARATOR) < _SEPARATORS)
        c = c + _TO_SMALL if capital and fold_case else c
        out[p] = _BLANK if space and fold_space else c
    return shorten_runs(out, _BLANK) if fold_space else len(codes)


@kernel("RawTexts, bool, bool, i64[], i64[], bool[], bool[], u8[]", direct=True)
def _fold_ascii(texts, fold_case, fold_space, starts, lengths, is_wide, surrogates, out):
    """Fold case and white space of the ASCII texts to ``out``, one after the other; write starts and lengths. Mark the
    others, which have none yet, and none as a surrogate.

    Returns the characters of the marked texts and of the longest of them; the ``_sizes`` of the others.
    """
    at, wide, wide_longest = 0, 0, 0
    for i in range(len(starts)):
        starts[i], lengths[i], is_wide[i], surrogates[i] = at, 0, texts.widths[i] != 0, False
        if is_wide[i]:
            wide, wide_longest = wide + texts.lengths[i], max(wide_longest, texts.lengths[i])
        else:
            codes = bytes_at(texts.addresses[i], texts.lengths[i])
            lengths[i] = fold_narrow(codes, fold_case, fold_space, out[at : at + len(codes)])
            at += lengths[i]
    characters, longest, shortest = _sums(lengths)
    return wide, wide_longest, characters, longest, shortest


@kernel("i64[]", direct=True)
def _sizes(lengths):
    """Return the sum, the greatest and the least of the lengths of texts."""
    return _sums(lengths)


@inner
def _sums(lengths):
    characters, longest, shortest = 0, 0, _MOST
    for i in range(len(lengths)):
        characters += lengths[i]
        longest, shortest = max(longest, lengths[i]), min(shortest, lengths[i])
    return characters, longest, min(shortest, longest)


def in_canonical_order(text: str) -> str:
    """Return the form NFKD of a text: decomposed, and the marks after each starter sorted by class, stably.

    ``unicodedata.normalize`` sorts the marks after a letter by insertion, in a time that grows with the square of their
    number: 80,000 marks take seconds. What is in order already takes it one pass, and this sort hardly more time than
    the length of the text. Source: The Unicode Standard, 3.11, D108 and D109 (canonical ordering algorithm).

    >>> in_canonical_order("a\\u0301\\u0323") == "a\\u0323\\u0301"
    True
    """
    decomposed = text.translate({ord(char): unicodedata.normalize("NFKD", char) for char in set(text)})
    codes = code_points_of(decomposed)
    distinct, inverse = np.unique(codes, return_inverse=True)
    classes = np.array([unicodedata.combining(chr(code)) for code in distinct.tolist()], np.uint8)[inverse]
    units = np.cumsum(classes == 0)  # a starter and the marks after it; the starter has the lowest class
    return text_of(codes[np.lexsort((classes, units))])
