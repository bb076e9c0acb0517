"""Texts of documents as code points, and the reasons why some cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np

from neardup.documents.document import TEXT, Column, Document, DocumentColumns
from neardup.features.texts.normalize import CodePoints, NormalForm, fold
from neardup.features.texts.raw_texts import RawTexts, raw_texts
from neardup.machine.compile import kernel
from neardup.machine.kernels.utf8 import DECODED_SPARE, NOT_UTF8, TAIL_BYTES, decode_utf8

_CONTINUATION_MASK, _CONTINUATION = np.uint8(0xC0), np.uint8(0x80)


class HeldTexts(NamedTuple):
    """Where texts are, by position the reason of each that is refused already (its length is 0), the sum of their
    characters, and what holds these as long as they are read."""

    raw: RawTexts
    refused: dict[int, str]
    characters: int
    holder: object


class ReadTexts(NamedTuple):
    """Normalised texts, by position the reason (a key of ``REASONS``) of each refused text, and the raw texts."""

    codes: CodePoints
    refused: dict[int, str]
    held: HeldTexts


def read_texts(documents: Sequence[Document], form: NormalForm, characters_max: int) -> ReadTexts:
    """Return the texts of documents, normalised.

    A text is refused and has no code point if it, or its normalised form, is longer than ``characters_max`` code
    points, if it holds a lone surrogate, or if it is empty. Columns are read without a Python object for each document.
    """
    held = raw_texts_of(documents, characters_max)
    return ReadTexts(*read_held(held, form, characters_max), held)


def read_held(held: HeldTexts, form: NormalForm, characters_max: int) -> tuple[CodePoints, dict[int, str]]:
    """Return texts normalised, and the reasons of the refused ones."""
    codes, refused = fold(held.raw, form, held.characters), dict(held.refused)
    if codes.shortest and codes.longest <= characters_max:
        return codes, refused
    for i in np.flatnonzero((codes.lengths < 1) | (codes.lengths > characters_max)).tolist():
        if codes.lengths[i]:  # it grew: one code point can become 18
            codes.lengths[i], refused[i] = 0, "text_too_long"
        else:
            refused.setdefault(i, "surrogate" if codes.surrogates[i] else "empty")
    return codes.select(np.ones(len(codes.lengths), np.bool_)), refused


class HeldDocuments(Sequence[Document]):
    """Documents whose texts are found already."""

    def __init__(self, documents: Sequence[Document], held: HeldTexts) -> None:
        self._documents, self.held = documents, held

    def __len__(self) -> int:
        return len(self._documents)

    @overload
    def __getitem__(self, i: int) -> Document: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Document]: ...
    def __getitem__(self, i: int | slice) -> Document | Sequence[Document]:
        """One document, or some."""
        return self._documents[i]


def raw_texts_of(documents: Sequence[Document], characters_max: int) -> HeldTexts:
    """Return where the texts of documents are. Texts of columns that are not ASCII are decoded."""
    if type(documents) is HeldDocuments:
        return documents.held
    if isinstance(documents, DocumentColumns):
        return _of_column(documents.texts, characters_max)
    texts = list(map(TEXT, documents))
    raw = raw_texts(texts)
    return without_longer(raw, characters_max, texts)


def without_longer(raw: RawTexts, characters_max: int, holder: object) -> HeldTexts:
    """Return texts; those of more characters are refused."""
    too_long = np.flatnonzero(raw.lengths > characters_max).tolist()
    raw.lengths[too_long] = 0
    return HeldTexts(raw, dict.fromkeys(too_long, "text_too_long"), int(raw.lengths.sum()), holder)


def _of_column(texts: Column, characters_max: int) -> HeldTexts:
    n = len(texts.starts) - 1
    lengths, is_wide = np.empty(n, np.int64), np.empty(n, np.bool_)
    data = np.ascontiguousarray(texts.data)
    _measure(data, texts.starts, lengths, is_wide)
    refused = dict.fromkeys(np.flatnonzero(lengths > characters_max).tolist(), "text_too_long")
    lengths[lengths > characters_max] = 0
    raw = RawTexts(data.ctypes.data + texts.starts[:-1], lengths, np.zeros(n, np.int64))
    codes = np.empty(int(lengths[is_wide].sum()) + DECODED_SPARE, np.uint32)
    _decode(data, texts.starts, is_wide, np.empty(TAIL_BYTES, np.uint8), codes, codes.ctypes.data, raw)
    for i in np.flatnonzero(lengths == NOT_UTF8).tolist():
        refused[i] = "text_not_utf8"
        lengths[i] = 0
    return HeldTexts(raw, refused, int(lengths.sum()), (data, codes))


@kernel("const u8[], i64[], i64[], bool[]")
def _measure(data, starts, lengths, is_wide):
    """Count the code points of each text, by their first bytes; mark the texts that are not ASCII."""
    for i in range(len(lengths)):
        text = data[starts[i] : starts[i + 1]]
        continuations, high = 0, np.uint8(0)
        for p in range(len(text)):
            continuations += (text[p] & _CONTINUATION_MASK) == _CONTINUATION
            high |= text[p]
        lengths[i] = len(text) - continuations
        is_wide[i] = high >= _CONTINUATION


@kernel("const u8[], i64[], bool[], u8[], u32[], i64, RawTexts")
def _decode(data, starts, is_wide, tail, codes, address, texts):
    """Decode the texts that are not ASCII to ``codes``, one after the other; the length of a text that is not UTF-8
    becomes ``NOT_UTF8``. ``address`` is that of ``codes``."""
    at = np.int64(0)
    for i in range(len(is_wide)):
        if is_wide[i] and texts.lengths[i]:
            texts.addresses[i], texts.widths[i] = address + at * codes.itemsize, codes.itemsize
            texts.lengths[i] = decode_utf8(data, starts[i], starts[i + 1], tail, codes[at:])
            at += max(texts.lengths[i], 0)
