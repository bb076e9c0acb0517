"""Bit sampling: a row is one bit of a vector of bits, or of the unary code of a vector of whole numbers; or one symbol
of a vector of symbols.

Guarantee: a row of two vectors of n bits at Hamming distance d agrees with probability 1 - d / n. There are only n
different rows; further rows repeat. In unary code, a number x of 0 to C is x ones and C - x zeros; so the L1 distance
of two vectors of whole numbers is the Hamming distance of their codes, which have d C bits. The code is never stored:
bit t of component i is x_i >= t. The row of a symbol is a hash of the symbol and of the number of the row. So two
different symbols whose stored bits agree in one row differ in most other rows.

Source: Indyk, Motwani, "Approximate nearest neighbors: towards removing the curse of dimensionality", STOC 1998;
Gionis, Indyk, Motwani, "Similarity search in high dimensions via hashing", VLDB 1999 (unary code); Mining of Massive
Datasets, 3.7.1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import derive_seed, mix64
from neardup_textbook.vectors import draws, packed_bits

Positions = npt.NDArray[np.int64]


def sign_bits(
    vectors: npt.NDArray[np.uint8], dimension: int, bands: int, rows: int, seed: int
) -> npt.NDArray[np.uint8]:
    """Sketches ``uint8[n, bands * ceil(rows / 8)]`` of packed vectors ``uint8[n, ceil(dimension / 8)]``.

    Bit 0 of a vector is the highest of its first byte, as ``numpy.packbits`` has it. A row is drawn from the
    ``dimension`` bits with replacement; bands of the sketch are whole bytes.

    >>> x = np.packbits(np.array([[1, 0, 1, 0, 1], [1, 1, 1, 1, 0]], np.uint8), axis=1)
    >>> sign_bits(x, dimension=5, bands=2, rows=3, seed=1).shape
    (2, 2)
    """
    return sketch_bits(vectors, positions(dimension, bands * rows, seed), bands)


def sign_unary(
    vectors: npt.NDArray[np.float32], component_max: int, bands: int, rows: int, seed: int
) -> npt.NDArray[np.uint8]:
    """Sketches of vectors ``float32[n, d]`` of whole numbers from 0 to ``component_max`` (to 65,535), as ``sign_bits``.

    >>> sign_unary(np.array([[5, 6, 7], [8, 2, 4]], np.float32), component_max=9, bands=2, rows=3, seed=1).shape
    (2, 2)
    """
    drawn = positions(vectors.shape[1] * component_max, bands * rows, seed)
    return sketch_unary(vectors, component_max, drawn, bands)


def sign_symbols(symbols: npt.NDArray[np.uint32], count: int, seed: int) -> npt.NDArray[np.uint64]:
    """Signatures ``uint64[n, count]`` of vectors of hashed symbols ``uint32[n, d]``: a component is drawn for each row.

    >>> sign_symbols(np.array([[7, 8, 9], [7, 8, 5]], np.uint32), count=4, seed=1).shape
    (2, 4)
    """
    out = np.empty((len(symbols), count), np.uint64)
    _sample_symbols(np.ascontiguousarray(symbols), positions(symbols.shape[1], count, seed), np.uint64(seed), out)
    return out


@lru_cache(maxsize=8)
def positions(bits: int, count: int, seed: int) -> Positions:
    """Draw the bit (or component) of each row, out of ``bits``, with replacement: ``int64[count]``."""
    out = (draws.uniforms(count, seed) * bits).astype(np.int64)
    out.flags.writeable = False
    return out


def sketch_bits(vectors: npt.NDArray[np.uint8], drawn: Positions, bands: int) -> npt.NDArray[np.uint8]:
    """As ``sign_bits``, for given bits ``int64[k]``; ``bands`` divides their number."""
    rows = len(drawn) // bands
    out = np.empty((len(vectors), packed_bits.width(bands, rows)), np.uint8)
    bits, room = packed_bits.scratch(len(drawn), out.shape[1])
    _sample_bits(np.ascontiguousarray(vectors), drawn, bands, rows, bits, room, out)
    return out


def sketch_unary(
    vectors: npt.NDArray[np.float32], component_max: int, drawn: Positions, bands: int
) -> npt.NDArray[np.uint8]:
    """As ``sign_unary``, for given bits of the unary code, component by component, ``int64[k]``."""
    rows = len(drawn) // bands
    out = np.empty((len(vectors), packed_bits.width(bands, rows)), np.uint8)
    components, less_one = np.divmod(drawn, component_max)
    bits, room = packed_bits.scratch(len(drawn), out.shape[1])
    least = (less_one + 1).astype(np.float32)
    _sample_unary(np.ascontiguousarray(vectors), components, least, bands, rows, bits, room, out)
    return out


@kernel("const u8[,], const i64[], i64, i64, u8[], u8[], u8[,]")
def _sample_bits(vectors, positions, bands, rows, bits, room, out):
    for i in range(len(vectors)):
        bits[:] = 0
        for k in range(len(positions)):
            position = positions[k]
            bit = (vectors[i, position >> 3] >> np.uint8(7 - (position & 7))) & np.uint8(1)
            bits[k >> 3] |= bit << np.uint8(k & 7)
        packed_bits.spread_bands(bits, bands, rows, room, out[i])


@kernel("f32[,], i64[], f32[], i64, i64, u8[], u8[], u8[,]")
def _sample_unary(vectors, components, least, bands, rows, bits, room, out):
    for i in range(len(vectors)):
        for first in range(0, len(components), 8):
            byte = 0
            for k in range(first, min(first + 8, len(components))):
                byte |= int(vectors[i, components[k]] >= least[k]) << (k - first)
            bits[first >> 3] = byte
        packed_bits.spread_bands(bits, bands, rows, room, out[i])


@kernel("u32[,], const i64[], u64, u64[,]")
def _sample_symbols(symbols, positions, seed, out):
    for k in range(len(positions)):
        own = derive_seed(seed, np.uint64(k))
        for i in range(len(symbols)):
            out[i, k] = mix64(np.uint64(symbols[i, positions[k]]) + own)
