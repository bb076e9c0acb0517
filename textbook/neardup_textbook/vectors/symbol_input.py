"""Sequences of symbols of documents -> rows of one matrix, or the reasons of refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from neardup.features.tokens.elements import Given, RatingRule, elements
from neardup_textbook.vectors.vector_input import VectorRows

# More elements than a document can give.
_ANY_NUMBER = 2**63 - 1
# Bits of a symbol's hash that are left out.
_SYMBOL_SHIFT = np.uint64(32)


def read_symbols(given: Iterable[Given], length: int) -> VectorRows:
    """Hash sequences of ``length`` strings and whole numbers in their order, as ``uint32[n, length]``; of a byte
    string, the bytes.

    >>> values = read_symbols([["G", "A", "T"], ["G", "A", "C"], ["G"]], length=3).values
    >>> (values[0] == values[1]).tolist()
    [True, True, False]
    """
    listed = [list(one) if isinstance(one, bytes) else one for one in given]
    read = elements(listed, RatingRule(), _ANY_NUMBER)
    lengths = np.diff(read.starts)
    ratings = {position: "tokens_type" for position, one in enumerate(listed) if isinstance(one, Mapping)}
    others = dict.fromkeys(np.flatnonzero(lengths != length).tolist(), "vector_length")
    refused = others | read.refused | ratings
    good = np.ones(len(listed), np.bool_)
    good[list(refused)] = False
    values = (read.values[np.repeat(good, lengths)] >> _SYMBOL_SHIFT).astype(np.uint32)
    return VectorRows(values.reshape(-1, length), np.flatnonzero(good), refused)
