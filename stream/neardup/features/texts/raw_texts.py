"""Texts before normalisation, where they are in memory: kernels read the characters of Python strings in place.

Nothing is joined, encoded or copied. The addresses are valid as long as the strings (or the bytes of a column) exist:
the caller keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inner, kernel
from neardup.machine.memory import bytes_at, halves_at, string_parts, words_at


class RawTexts(NamedTuple):
    """n texts: the addresses of their characters, the numbers of characters, and the bytes of a character: 1, 2 or 4,
    and 0 for a text that is ASCII (``int64[n]`` each)."""

    addresses: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    widths: npt.NDArray[np.int64]


def raw_texts(strings: Sequence[str]) -> RawTexts:
    """Find the characters of Python strings.

    Raises:
        TypeError: if one of them is not a string.
    """
    if not set(map(type, strings)) <= {str} and not all(isinstance(string, str) for string in strings):
        raise TypeError("a text is not a string: give strings only")
    n = len(strings)
    objects = np.frombuffer(np.fromiter(strings, np.object_, n), np.int64) if n else np.empty(0, np.int64)
    raw = RawTexts(*np.empty((3, n), np.int64))
    _find(objects, raw)
    return raw


@kernel("i64[], RawTexts", locked=True, direct=True)
def _find(objects, found):
    """Fill in where the characters of the strings at these addresses are."""
    for i in range(len(objects)):
        address, length, width, is_ascii = string_parts(objects[i])
        found.addresses[i], found.lengths[i] = address, length
        found.widths[i] = 0 if is_ascii else width


@inner
def copy_codes(texts, i, first, end, out):
    """Write the code points of text i from ``first`` to ``end`` to ``out`` (``uint32``); returns how many."""
    width, count = max(texts.widths[i], 1), end - first
    address = texts.addresses[i] + first * width
    if width == 1:
        _copy(bytes_at(address, count), out)
    elif width == 2:
        _copy(halves_at(address, count), out)
    else:
        _copy(words_at(address, count), out)
    return count


@inner
def _copy(codes, out):
    for p in range(len(codes)):
        out[p] = codes[p]
