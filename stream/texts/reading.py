"""Texts of documents as code points, and the reasons why some cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stream.documents import TEXT, Column, Document, DocumentColumns
from stream.kernels.compile import kernel
from stream.texts.normalize import CodePoints, NormalForm, fold
from stream.texts.raw_texts import RawTexts, raw_texts

_CONTINUATION_MASK, _CONTINUATION = np.uint8(0xC0), np.uint8(0x80)


def read_texts(
    documents: Sequence[Document], form: NormalForm, characters_max: int
) -> tuple[CodePoints, dict[int, str]]:
    """Return the normalised texts, and by place the reason (a key of ``REASONS``) of each refused text.

    A text is refused and has no code point if it is longer than ``characters_max`` code points, holds a lone surrogate
    or is empty. Columns are read without a Python object for each document.
    """
    if isinstance(documents, DocumentColumns):
        codes, refused = _column_codes(documents.texts, form, characters_max)
    else:
        codes, refused = _document_codes(documents, form, characters_max)
    for i in np.flatnonzero(codes.lengths == 0).tolist():
        refused.setdefault(i, "surrogate" if codes.surrogates[i] else "empty")
    return codes, refused


def _document_codes(
    documents: Sequence[Document], form: NormalForm, characters_max: int
) -> tuple[CodePoints, dict[int, str]]:
    texts = list(map(TEXT, documents))  # keeps the strings while kernels read them
    raw = raw_texts(texts)
    too_long = np.flatnonzero(raw.lengths > characters_max)
    raw.lengths[too_long] = 0
    return fold(raw, form), dict.fromkeys(too_long.tolist(), "text_too_long")


def _column_codes(texts: Column, form: NormalForm, characters_max: int) -> tuple[CodePoints, dict[int, str]]:
    n = len(texts.starts) - 1
    lengths, is_wide = np.empty(n, np.int64), np.empty(n, np.bool_)
    _measure(texts.data, texts.starts, lengths, is_wide)
    refused = dict.fromkeys(np.flatnonzero(lengths > characters_max).tolist(), "text_too_long")
    lengths[lengths > characters_max] = 0
    wide = _decoded(_gathered(texts, is_wide, lengths))
    if wide is None or (lengths < 0).any():  # some text is not UTF-8: find which
        for i in np.flatnonzero(is_wide & (lengths != 0)).tolist():
            if _decoded(np.frombuffer(texts.at(i), np.uint8)) is None:
                refused[i] = "text_not_utf8"
                lengths[i] = 0
        wide = _decoded(_gathered(texts, is_wide, lengths))
        assert wide is not None, "texts that are UTF-8 one by one are UTF-8 together"
    data = np.ascontiguousarray(texts.data)
    raw = RawTexts(data.ctypes.data + texts.starts[:-1], lengths, np.zeros(n, np.int64))
    _place(raw_texts([wide]), is_wide, raw)
    return fold(raw, form), refused


def _decoded(data: npt.NDArray[np.uint8]) -> str | None:
    """The string, or ``None`` if the bytes are not UTF-8."""
    try:
        return str(data.data, "utf-8")
    except UnicodeDecodeError:
        return None


def _gathered(texts: Column, chosen: npt.NDArray[np.bool_], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The bytes of the chosen texts that have code points, one after the other; not copied if all texts are chosen."""
    chosen = chosen & (lengths != 0)
    sizes = np.diff(texts.starts)
    if bool(chosen[sizes > 0].all()):
        return np.ascontiguousarray(texts.data[texts.starts[0] : texts.starts[-1]])
    out = np.empty(int(sizes[chosen].sum()), np.uint8)
    _gather(texts.data, texts.starts, chosen, out)
    return out


@kernel
def _measure(data, starts, lengths, is_wide):
    """Count the code points of each text, -1 if it begins inside a code point; mark the texts that are not ASCII."""
    for i in range(len(lengths)):
        text = data[starts[i] : starts[i + 1]]
        continuations, high = 0, np.uint8(0)
        for p in range(len(text)):
            continuations += (text[p] & _CONTINUATION_MASK) == _CONTINUATION
            high |= text[p]
        lengths[i] = len(text) - continuations
        is_wide[i] = high >= _CONTINUATION
        if len(text) and (text[0] & _CONTINUATION_MASK) == _CONTINUATION:
            lengths[i] = -1


@kernel
def _gather(data, starts, chosen, out):
    at = 0
    for i in range(len(chosen)):
        if chosen[i]:
            for p in range(starts[i], starts[i + 1]):
                out[at] = data[p]
                at += 1


@kernel
def _place(joined, is_wide, texts):
    """Place the texts that are not ASCII one after the other in the characters of a string."""
    at, width = joined.addresses[0], max(joined.widths[0], 1)
    for i in range(len(is_wide)):
        if is_wide[i]:
            texts.addresses[i], texts.widths[i] = at, width
            at += width * texts.lengths[i]
