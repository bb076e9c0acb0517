"""Normalisation: texts -> code points on which the shingles are cut.

With everything on, a text becomes NFKC, case folded, NFKC once more (folding can undo it), each run of white space one
blank, stripped. White space is what ``str.isspace`` says, 0x1C to 0x1F included. Lone surrogates are refused in every
mode: they have no encoding, so no two systems would agree on their hash.

ASCII texts skip the Unicode machinery: NFKC leaves them alone and case folding is 32 added to A to Z, so one kernel
over their bytes does all of it. A property test holds the two paths equal. The result is columnar: all texts of a
batch in two buffers, one of bytes (ASCII results) and one of 32-bit code points (the rest).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kernels.compile import kernel

# The Unicode version of NFKC and case folding: a part of the signing fingerprint.
UNICODE_VERSION: str = unicodedata.unidata_version


_BLANK = np.uint8(0x20)
# First and number of the ASCII capitals, and of the two blocks of ASCII white space other than the blank.
_CAPITAL_A, _CAPITALS, _TO_SMALL = np.uint8(0x41), np.uint8(26), np.uint8(0x20)
_TAB, _TABS = np.uint8(0x09), np.uint8(5)
_SEPARATOR, _SEPARATORS = np.uint8(0x1C), np.uint8(4)


class CodePoints(NamedTuple):
    """Normalised texts of one batch.

    Text ``i`` is ``lengths[i]`` values from ``starts[i]`` of ``wide`` (``uint32`` code points) if ``is_wide[i]``, else
    of
    ``narrow`` (``uint8``, ASCII). ``starts`` and ``lengths`` are ``int64[n]``, ``is_wide`` is ``bool[n]``.
    ``surrogates`` is ``bool[n]``: the texts refused for a lone surrogate; their length is 0.
    """

    narrow: npt.NDArray[np.uint8]
    wide: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    is_wide: npt.NDArray[np.bool_]
    surrogates: npt.NDArray[np.bool_]


class NormalForm(NamedTuple):
    """Which steps of normalisation are on; a field each of ``Config``."""

    nfkc: bool = True
    fold_case: bool = True
    fold_space: bool = True


def code_points(texts: Sequence[str], form: NormalForm) -> CodePoints:
    """Normalise a batch of texts; see ``CodePoints`` for the shapes. Raises nothing: surrogates are marked."""
    n = len(texts)
    unicode_steps = _UNICODE_STEPS[form.nfkc, form.fold_case]
    surrogates = np.zeros(n, np.bool_)
    is_wide = np.zeros(n, np.bool_)
    ascii_parts: list[str] = []
    wide_parts: list[str] = []
    lengths = np.zeros(n, np.int64)
    for i, raw in enumerate(texts):
        text = raw
        if not raw.isascii():
            text = unicode_steps(raw)
            if not text.isascii():
                if not encodable(text):
                    surrogates[i] = True
                    continue
                is_wide[i] = True
                wide_parts.append(text)
                lengths[i] = len(text)
                continue
        ascii_parts.append(text)
        lengths[i] = len(text)
    starts = np.zeros(n, np.int64)
    _place(starts, lengths, is_wide)
    raw_narrow = np.frombuffer("".join(ascii_parts).encode("ascii"), np.uint8)
    raw_wide = np.frombuffer("".join(wide_parts).encode("utf-32-le"), np.uint32)
    narrow, wide = np.empty_like(raw_narrow), np.empty_like(raw_wide)
    _fold(raw_narrow, raw_wide, starts, lengths, is_wide, form.fold_case, form.fold_space, narrow, wide)
    return CodePoints(narrow, wide, starts, lengths, is_wide, surrogates)


def normalize(text: str, form: NormalForm) -> str:
    """One text normalised, as a string: the general path, the same for ASCII and the rest (the tests' oracle)."""
    text = _UNICODE_STEPS[form.nfkc, form.fold_case](text)
    return " ".join(text.split()) if form.fold_space else text


def encodable(text: str) -> bool:
    """Whether the text has a UTF-8 form: none has with a lone surrogate."""
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


@kernel
def _is_space(c):
    """What ``str.isspace`` says of a code point (the tests compare every one)."""
    if c <= 0x20:
        return c == 0x20 or (0x09 <= c <= 0x0D) or (0x1C <= c <= 0x1F)
    if c < 0x1680:
        return c == 0x85 or c == 0xA0
    return c == 0x1680 or (0x2000 <= c <= 0x200A) or c in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@kernel
def _fold_narrow(codes, fold_case, fold_space, out):
    """Fold one ASCII text; returns its new length. What most texts need is loops that compile to vector code."""
    n = len(codes)
    for p in range(n):
        c = codes[p]
        capital = np.uint8(c - _CAPITAL_A) < _CAPITALS
        space = (np.uint8(c - _TAB) < _TABS) | (np.uint8(c - _SEPARATOR) < _SEPARATORS)
        c = c + _TO_SMALL if capital and fold_case else c
        out[p] = _BLANK if space and fold_space else c
    if n == 0 or not fold_space:
        return n
    runs = 0
    here, further = out[: n - 1], out[1:n]
    for p in range(n - 1):
        runs += (here[p] == _BLANK) & (further[p] == _BLANK)
    if runs or out[0] == _BLANK:
        return _fold_runs(out)
    return n - (out[n - 1] == _BLANK)


@kernel
def _fold_runs(codes):
    """Leave one blank of each run, none at the ends, in place; returns the new length."""
    j = 0
    before = _BLANK  # a run at the start is dropped, later ones leave one blank
    for p in range(len(codes)):
        c = codes[p]
        codes[j] = c  # and overwrite it if it is to be dropped: no branch that words would mispredict
        j += (c != _BLANK) | (before != _BLANK)
        before = c
    return j - 1 if j > 0 and before == _BLANK else j


@kernel
def _fold_wide(codes, fold_space, out):
    """Fold the white space of one text of code points; returns its new length."""
    if not fold_space:
        out[: len(codes)] = codes
        return len(codes)
    j = 0
    blank = True
    for p in range(len(codes)):
        space = _is_space(codes[p])
        if not (space and blank):
            out[j] = np.uint32(0x20) if space else codes[p]
            j += 1
        blank = space
    if j > 0 and blank:
        j -= 1
    return j


@kernel
def _fold(raw_narrow, raw_wide, starts, lengths, is_wide, fold_case, fold_space, narrow, wide):
    """Fold case (ASCII) and white space; each text keeps its start and gets its new length."""
    for i in range(len(starts)):
        start, end = starts[i], starts[i] + lengths[i]
        if is_wide[i]:
            lengths[i] = _fold_wide(raw_wide[start:end], fold_space, wide[start:end])
        else:
            lengths[i] = _fold_narrow(raw_narrow[start:end], fold_case, fold_space, narrow[start:end])
