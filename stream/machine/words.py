"""Words of eight bytes at any place of a byte array; one instruction reads or writes a word."""

from __future__ import annotations

import numpy as np
from numba import types

from neardup.stream.machine.code import I64, primitive

# An array must have so many bytes from the place of its last word on.
WORD_BYTES = 8
_BYTE_BITS = np.uint64(8)


@primitive(lambda code, data, place: code.load(data, place, I64), types.uint64)
def word_at(data, place):
    """The eight bytes of ``data`` (``uint8``) from ``place`` on, the first lowest, as a ``uint64``."""
    word = np.uint64(0)
    for i in range(WORD_BYTES):
        word |= np.uint64(data[place + i]) << np.uint64(8 * i)
    return word


@primitive(lambda code, data, place: code.builder.bswap(code.load(data, place, I64)), types.uint64)
def word_from(data, place):
    """The eight bytes of ``data`` (``uint8``) from ``place`` on, the first highest, as a ``uint64``."""
    word = np.uint64(0)
    for i in range(WORD_BYTES):
        word = (word << _BYTE_BITS) | np.uint64(data[place + i])
    return word


@primitive(lambda code, data, place, word: code.store(word, data, place), types.void, word=types.uint64)
def put_word(data, place, word):
    """Write a ``uint64`` to the eight bytes of ``data`` (``uint8``) from ``place`` on, the lowest first."""
    for i in range(WORD_BYTES):
        data[place + i] = np.uint8(word >> np.uint64(8 * i))
