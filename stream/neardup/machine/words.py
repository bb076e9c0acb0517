"""Words of eight bytes at any index of a byte array; one instruction reads or writes a word."""

from __future__ import annotations

import numpy as np

from neardup.machine.code import I64, primitive, types

# An array must have so many bytes from the index of its last word on.
WORD_BYTES = 8
_BYTE_BITS = np.uint64(8)


@primitive(lambda code, data, index: code.load(data, index, I64), types.uint64)
def word_at(data, index):
    """The eight bytes of ``data`` (``uint8``) from ``index`` on, the first lowest, as a ``uint64``."""
    word = np.uint64(0)
    for i in range(WORD_BYTES):
        word |= np.uint64(data[index + i]) << np.uint64(8 * i)
    return word


@primitive(lambda code, data, index: code.builder.bswap(code.load(data, index, I64)), types.uint64)
def word_from(data, index):
    """The eight bytes of ``data`` (``uint8``) from ``index`` on, the first highest, as a ``uint64``."""
    word = np.uint64(0)
    for i in range(WORD_BYTES):
        word = (word << _BYTE_BITS) | np.uint64(data[index + i])
    return word


@primitive(lambda code, data, index, word: code.store(word, data, index), types.void, word=types.uint64)
def put_word(data, index, word):
    """Write a ``uint64`` to the eight bytes of ``data`` (``uint8``) from ``index`` on, the lowest first."""
    for i in range(WORD_BYTES):
        data[index + i] = np.uint8(word >> np.uint64(8 * i))
