"""Normalisation: texts -> code points, from which shingles are made.

With all steps on, a text is converted to NFKC, case folded, and converted to NFKC again (folding can undo it). Then
each run of white space becomes one blank, and blanks at the ends are removed. White space is defined by
``str.isspace``, 0x1C to 0x1F included. Lone surrogates are refused in every mode: they have no encoding, so two systems
would not agree on their hash.

Two compiled paths normalise. ASCII texts need no table: NFKC does not change them, and case folding adds 32 to A to Z.
All other texts go through a table of every code point (``stream.texts.unicode_fold``). Both paths give the result of
the chain of Python's own functions (``normalize``); property tests compare them. The result is columnar: all texts of a
batch in two buffers, one of bytes (ASCII) and one of 32-bit code points (the rest).
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kernels.compile import inner, kernel
from stream.texts.fold_stretches import gather_stretches, splice
from stream.texts.unicode_fold import NO_ROOM, STRETCH_COLUMNS, fold_scratch, fold_texts
from stream.texts.unicode_table import FoldTable, code_points_of, fold_table, text_of

# The Unicode version of NFKC and case folding: a part of the signing fingerprint.
UNICODE_VERSION: str = unicodedata.unidata_version


_BLANK = np.uint8(0x20)
# First and number of the ASCII capitals, and of the two blocks of ASCII white space other than the blank.
_CAPITAL_A, _CAPITALS, _TO_SMALL = np.uint8(0x41), np.uint8(26), np.uint8(0x20)
_TAB, _TABS = np.uint8(0x09), np.uint8(5)
_SEPARATOR, _SEPARATORS = np.uint8(0x1C), np.uint8(4)

_NO_WIDE = np.empty(0, np.uint32)
# Room for the results, as a multiple of the raw code points: first enough for usual texts, then enough for any text
# (U+FDFA becomes 18 code points). Short texts get a little more, because the kernel copies 64 code points at a time.
_GROWTHS = (1.25, 19.0)
_ROOM = 256


class CodePoints(NamedTuple):
    """Normalised texts of one batch.

    Text ``i`` is ``lengths[i]`` values from ``starts[i]`` of ``wide`` (``uint32`` code points) if ``is_wide[i]``, else
    of ``narrow`` (``uint8``, ASCII). ``starts`` and ``lengths`` are ``int64[n]``, ``is_wide`` is ``bool[n]``.
    ``surrogates`` is ``bool[n]``: the texts refused for a lone surrogate; their length is 0.
    """

    narrow: npt.NDArray[np.uint8]
    wide: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    is_wide: npt.NDArray[np.bool_]
    surrogates: npt.NDArray[np.bool_]


class NormalForm(NamedTuple):
    """Which steps of normalisation are on; each is a field of ``Config``."""

    nfkc: bool = True
    fold_case: bool = True
    fold_space: bool = True


def code_points(texts: Sequence[str], form: NormalForm) -> CodePoints:
    """Normalise a batch of texts.

    Args:
        texts: any strings.
        form: the steps that are on.

    Returns:
        The columns that ``CodePoints`` describes. A text that holds a lone surrogate is marked and has length 0.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    joined = "".join(texts)
    if joined.isascii():
        is_wide = np.zeros(len(texts), np.bool_)
        return fold(np.frombuffer(joined.encode("ascii"), np.uint8), _NO_WIDE, lengths, is_wide, form)
    is_wide = ~np.fromiter(map(str.isascii, texts), np.bool_, len(texts))
    narrow = "".join(compress(texts, ~is_wide)).encode("ascii")
    wide = code_points_of("".join(compress(texts, is_wide)))
    return fold(np.frombuffer(narrow, np.uint8), wide, lengths, is_wide, form)


def fold(
    raw_narrow: npt.NDArray[np.uint8],
    raw_wide: npt.NDArray[np.uint32],
    lengths: npt.NDArray[np.int64],
    is_wide: npt.NDArray[np.bool_],
    form: NormalForm,
) -> CodePoints:
    """Normalise a batch of texts in two buffers.

    Args:
        raw_narrow: the ASCII texts, one after the other.
        raw_wide: the code points of the other texts, one after the other.
        lengths: the length of each text, ``int64[n]``; overwritten with the length of its result.
        is_wide: which texts stand in ``raw_wide``, ``bool[n]``.
        form: the steps that are on.
    """
    n = len(lengths)
    starts = np.zeros(n, np.int64)
    surrogates = np.zeros(n, np.bool_)
    _place(starts, lengths, is_wide)
    narrow = np.empty_like(raw_narrow)
    _fold_ascii(raw_narrow, starts, lengths, is_wide, form.fold_case, form.fold_space, narrow)
    wide = raw_wide
    if len(raw_wide):
        at = np.flatnonzero(is_wide)
        wide, starts[at], lengths[at], surrogates[at] = _fold_unicode(raw_wide, starts[at], lengths[at], form)
    return CodePoints(narrow, wide, starts, lengths, is_wide, surrogates)


def _fold_unicode(
    raw: npt.NDArray[np.uint32], raw_starts: npt.NDArray[np.int64], raw_lengths: npt.NDArray[np.int64], form: NormalForm
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Normalise texts of code points: the results, one after the other; starts; lengths; which hold a surrogate."""
    table = _table(form)
    surrogates, scratch = np.zeros(len(raw_starts), np.bool_), fold_scratch()
    for growth in _GROWTHS:
        starts, lengths = raw_starts.copy(), raw_lengths.copy()
        out = np.empty(_ROOM + int(growth * len(raw)), np.uint32)
        stretches = np.empty((_ROOM + int((growth - 1) * len(raw)), STRETCH_COLUMNS), np.int64)
        count = fold_texts(raw, starts, lengths, table, scratch, out, stretches, surrogates)
        if count != NO_ROOM:
            break
    assert count != NO_ROOM, "a text grew more than any code point does"
    if count:
        gathered = np.empty(int((stretches[:count, 2] - stretches[:count, 1] + 1).sum()), np.uint32)
        gather_stretches(raw, raw_starts, stretches, count, gathered)
        results = code_points_of(_UNICODE_STEPS[form.nfkc, form.fold_case](text_of(gathered)))
        spliced = np.empty(int(lengths.sum()) + len(results), np.uint32)
        splice(out, starts, lengths, stretches, count, results, table.entries, spliced)
        out = spliced
    if form.fold_space:
        _fold_blanks(out, starts, lengths)
    return out, starts, lengths, surrogates


@functools.cache
def _table(form: NormalForm) -> FoldTable:
    steps = _UNICODE_STEPS[form.nfkc, form.fold_case]
    return fold_table(steps, composes=form.nfkc, fold_space=form.fold_space)


def normalize(text: str, form: NormalForm) -> str:
    """One text normalised by Python's own functions, as a string; the compiled paths give the same."""
    text = _UNICODE_STEPS[form.nfkc, form.fold_case](text)
    return " ".join(text.split()) if form.fold_space else text


def encodable(text: str) -> bool:
    """Whether the text has a UTF-8 form; a text with a lone surrogate has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nfkc_fold(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _same(text: str) -> str:
    return text


# (nfkc, fold_case) -> the steps that need the Unicode tables.
_UNICODE_STEPS: dict[tuple[bool, bool], Callable[[str], str]] = {
    (True, True): _nfkc_fold,
    (True, False): _nfkc,
    (False, True): str.casefold,
    (False, False): _same,
}


@kernel
def _place(starts, lengths, is_wide):
    """Starts of the texts in their two buffers."""
    narrow = 0
    wide = 0
    for i in range(len(starts)):
        if is_wide[i]:
            starts[i] = wide
            wide += lengths[i]
        else:
            starts[i] = narrow
            narrow += lengths[i]


@inner
def _fold_narrow(codes, fold_case, fold_space, out):
    """Fold one ASCII text; returns its new length. The loops that run on most texts compile to vector code."""
    n = len(codes)
    for p in range(n):
        c = codes[p]
        capital = np.uint8(c - _CAPITAL_A) < _CAPITALS
        space = (np.uint8(c - _TAB) < _TABS) | (np.uint8(c - _SEPARATOR) < _SEPARATORS)
        c = c + _TO_SMALL if capital and fold_case else c
        out[p] = _BLANK if space and fold_space else c
    return _fold_blanks_of(out) if fold_space else n


@inner
def _fold_blanks_of(codes):
    """Leave one blank of each run, none at the ends, in place; returns the new length. Most texts have no run."""
    n = len(codes)
    if n == 0:
        return n
    runs = 0
    here, further = codes[: n - 1], codes[1:n]
    for p in range(n - 1):
        runs += (here[p] == _BLANK) & (further[p] == _BLANK)
    if runs or codes[0] == _BLANK:
        return _fold_runs(codes)
    return n - (codes[n - 1] == _BLANK)


@inner
def _fold_runs(codes):
    """Leave one blank of each run, none at the ends, in place; returns the new length."""
    j = 0
    before = _BLANK  # a run at the start is dropped, later ones leave one blank
    for p in range(len(codes)):
        c = codes[p]
        codes[j] = c  # the next one overwrites it if it must be dropped: no branch to mispredict at each word
        j += (c != _BLANK) | (before != _BLANK)
        before = c
    return j - 1 if j > 0 and before == _BLANK else j


@kernel
def _fold_ascii(raw, starts, lengths, is_wide, fold_case, fold_space, out):
    """Fold case and white space of the ASCII texts; each keeps its start and gets its new length."""
    for i in range(len(starts)):
        if not is_wide[i]:
            start, end = starts[i], starts[i] + lengths[i]
            lengths[i] = _fold_narrow(raw[start:end], fold_case, fold_space, out[start:end])


@kernel
def _fold_blanks(codes, starts, lengths):
    """Fold runs of blanks of texts of code points; each keeps its start and gets its new length."""
    for i in range(len(starts)):
        lengths[i] = _fold_blanks_of(codes[starts[i] : starts[i] + lengths[i]])
