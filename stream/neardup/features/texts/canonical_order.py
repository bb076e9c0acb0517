"""Canonical order of marks in time that hardly exceeds the length of a text.

``unicodedata.normalize`` sorts the marks after a letter by insertion, in a time that grows with the square of their
number: 80,000 marks take seconds, and some million never end. What is in order already takes it one pass.

Source: The Unicode Standard, 3.11, D108 and D109 (canonical ordering algorithm).
"""

from __future__ import annotations

import unicodedata

import numpy as np

from neardup.features.texts.unicode_table import code_points_of, text_of


def in_canonical_order(text: str) -> str:
    """Return the form NFKD of a text: decomposed, and the marks after each starter sorted by class, stably.

    >>> in_canonical_order("a\\u0301\\u0323") == "a\\u0323\\u0301"
    True
    """
    decomposed = text.translate({ord(char): unicodedata.normalize("NFKD", char) for char in set(text)})
    codes = code_points_of(decomposed)
    distinct, inverse = np.unique(codes, return_inverse=True)
    classes = np.array([unicodedata.combining(chr(code)) for code in distinct.tolist()], np.uint8)[inverse]
    units = np.cumsum(classes == 0)  # a starter and the marks after it; the starter has the lowest class
    return text_of(codes[np.lexsort((classes, units))])
