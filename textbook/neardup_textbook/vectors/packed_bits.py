"""Packed bits: each band of bits in whole bytes; and the comparison of two sketches of bits.

A band of r bits takes ceil(r / 8) bytes, the first bit lowest; the bits above the r-th are zero. So ``banding.keys``
gives the bucket keys of the bits for every r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.bits import bit_count
from neardup.machine.compile import inlined, kernel
from neardup.machine.words import WORD_BYTES, put_word, word_at

# Usable bits of a word, in whole bytes: the first bit may be any bit of the first byte.
_USABLE_BITS = 56
_ALL = np.uint64(2**64 - 1)


class BitAgreement(NamedTuple):
    """What two sketches have in common, ``int32[m]`` each: equal bands, equal bits."""

    bands: npt.NDArray[np.int32]
    bits: npt.NDArray[np.int32]


def width(bands: int, rows: int) -> int:
    """Bytes of a sketch of ``bands`` bands of ``rows`` bits.

    >>> width(bands=3, rows=9)
    6
    """
    return bands * -(-rows // 8)


def agreement(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], bands: int, rows: int) -> BitAgreement:
    """Compare sketches pairwise: ``uint8[m, width(bands, rows)]`` each. Padding counts for nothing.

    >>> a, b = np.array([[0b101, 0b111]], np.uint8), np.array([[0b100, 0b111]], np.uint8)
    >>> [int(column[0]) for column in agreement(a, b, bands=2, rows=3)]
    [1, 5]
    """
    out = BitAgreement(*(np.empty(len(a), np.int32) for _ in range(2)))
    _agreement(_with_a_word(a), _with_a_word(b), bands, rows, *out)
    return out


def _with_a_word(sketches: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Sketches that are contiguous and at least a word wide: shorter ones are padded with zeros."""
    if sketches.shape[1] >= WORD_BYTES:
        return np.ascontiguousarray(sketches)
    filled = np.zeros((len(sketches), WORD_BYTES), np.uint8)
    filled[:, : sketches.shape[1]] = sketches
    return filled


def scratch(bits: int, width: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """``bits`` and ``room`` for ``spread_bands``: so many bits in all, into bands of ``width`` bytes in all."""
    return np.zeros(-(-bits // 8) + WORD_BYTES, np.uint8), np.empty(width + WORD_BYTES, np.uint8)


@inlined
def spread_bands(bits, bands, rows, room, out):
    """Spread bands * rows bits without gaps to bands of whole bytes in ``out``, ``uint8[width(bands, rows)]``.

    ``bits`` and ``room``, which is scratch, have ``WORD_BYTES`` more bytes than the bits and ``out`` need, because they
    are read and written by words. From any bit on, a word gives seven whole bytes. A write may exceed its band; the
    next write overwrites the excess.
    """
    size = (rows + 7) // 8
    for band in range(bands):
        for first in range(0, rows, _USABLE_BITS):
            bit = band * rows + first
            taken = word_at(bits, bit >> 3) >> np.uint64(bit & 7)
            count = min(_USABLE_BITS, rows - first)
            put_word(room, band * size + (first >> 3), taken & (_ALL >> np.uint64(64 - count)))
    for byte in range(len(out)):
        out[byte] = room[byte]


@kernel("const u8[,], const u8[,], i64, i64, i32[], i32[]")
def _agreement(a, b, bands, rows, bands_equal, bits_equal):
    size = (rows + 7) // 8
    head = min(size, WORD_BYTES)
    usable = _ALL >> np.uint64(64 - 8 * head)
    last = a.shape[1] - WORD_BYTES  # where the last word of a sketch begins
    for i in range(len(a)):
        x, y = a[i], b[i]
        together, unequal = 0, np.int64(0)
        for band in range(bands):
            at = band * size
            start = min(at, last)
            apart = (word_at(x, start) ^ word_at(y, start)) >> np.uint64(8 * (at - start))
            differing = np.int64(bit_count(apart & usable))
            for j in range(at + head, at + size):
                differing += np.int64(bit_count(np.uint64(x[j] ^ y[j])))
            unequal += differing
            if differing == 0:
                together += 1
        bands_equal[i] = together
        bits_equal[i] = bands * rows - unequal
