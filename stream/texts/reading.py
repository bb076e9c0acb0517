"""Texts of documents as code points, and which of them hold none that could be used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream.documents import Document
from stream.texts.normalize import CodePoints, NormalForm, code_points


def read_texts(
    documents: Sequence[Document], form: NormalForm, characters_max: int
) -> tuple[CodePoints, dict[int, str]]:
    """The normalised texts, and by place the reason (a key of ``REASONS``) why one has no code point: it is longer than
    ``characters_max``, holds a lone surrogate, or is empty."""
    refused: dict[int, str] = {}
    texts = []
    for i, document in enumerate(documents):
        too_long = len(document.text) > characters_max
        if too_long:
            refused[i] = "text_too_long"
        texts.append("" if too_long else document.text)
    codes = code_points(texts, form)
    for i in np.flatnonzero(codes.lengths == 0).tolist():
        refused.setdefault(i, "surrogate" if codes.surrogates[i] else "empty")
    return codes, refused
