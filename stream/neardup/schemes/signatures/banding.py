"""Banding: signatures -> sketches -> bucket keys; and the comparison of two sketches.

A sketch stores ``bits`` of each row. It is the evidence in the table, and the keys follow from the sketch alone. The
key of band i is a hash of (seed, i, the rows of the band as the sketch stores them). So two sketches agree on a band if
and only if the keys are equal (except with probability 2^-64). The number of common bands, and the first of them,
follow from the two sketches.

Rows of different shingles agree by chance with probability 2^-bits. So at similarity s a row agrees with probability
s + (1 - s) 2^-bits.

Source: Mining of Massive Datasets, 3.4.1-3; Li, Koenig, "b-bit minwise hashing", WWW 2010.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import derive_seed, mix64
from neardup.machine.words import WORD_BYTES, word_from

# Separates the seeds of bands from the seeds of signature rows, which count from 0.
_BAND_PURPOSE = 1 << 32
# bits -> how a row is stored
ROW_TYPES: dict[int, type[np.unsignedinteger]] = {8: np.uint8, 16: np.uint16, 32: np.uint32}

_STORED = {bits: np.dtype(kind).newbyteorder("<") for bits, kind in ROW_TYPES.items()}


class Agreement(NamedTuple):
    """What two sketches have in common, ``int32[m]`` each: equal bands, equal rows."""

    bands: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]


def sketch(signatures: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint8]:
    """Return the low ``bits`` (8, 16 or 32) of each row, as bytes: ``uint64[n, k]`` -> ``uint8[n, k * bits / 8]``."""
    rows = signatures.astype(_STORED[bits])
    return rows.view(np.uint8).reshape(len(signatures), signatures.shape[1] * bits // 8)


def keys(sketches: npt.NDArray[np.uint8], bands: int, seed: int) -> npt.NDArray[np.uint64]:
    """Return bucket keys ``uint64[n, bands]`` of sketches ``uint8[n, width]``; ``bands`` divides the width."""
    n, width = sketches.shape
    out = np.empty((n, bands), np.uint64)
    _keys(sketches.reshape(-1), np.uint64(seed), np.empty(bands, np.uint64), width // bands, out)
    return out


def agreement(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], bands: int, bits: int) -> Agreement:
    """Compare sketches pairwise: ``uint8[m, width]`` each, rows of ``bits``; ``bands`` divides the width."""
    out = Agreement(*(np.empty(len(a), np.int32) for _ in range(2)))
    row_type = np.dtype(ROW_TYPES[bits])
    _agreement(np.ascontiguousarray(a).view(row_type), np.ascontiguousarray(b).view(row_type), bands, *out)
    return out


def estimate(rows_equal: npt.NDArray[np.int32], rows: int, bits: int) -> npt.NDArray[np.float64]:
    """Return the similarity in [0, 1] from the number of equal rows among ``rows``, corrected for agreement by
    chance."""
    chance = 2.0**-bits
    return np.clip((rows_equal / rows - chance) / (1 - chance), 0.0, 1.0)


@kernel("const u8[], u64, u64[], i64, u64[,]", direct=True)
def _keys(flat, seed, seeds, width, out):
    """Keys of consecutive sketches in ``flat``. A band is hashed eight bytes at a time, the first byte highest."""
    for band in range(len(seeds)):
        seeds[band] = derive_seed(seed, np.uint64(_BAND_PURPOSE + band))
    at = 0
    for i in range(len(out)):
        for band in range(len(seeds)):
            key = seeds[band]
            for first in range(at, at + width, WORD_BYTES):
                count = min(WORD_BYTES, at + width - first)
                if first + WORD_BYTES <= len(flat):  # bytes of the next band are shifted out
                    word = word_from(flat, first) >> np.uint64(64 - 8 * count)
                else:
                    word = np.uint64(0)
                    for j in range(first, first + count):
                        word = (word << np.uint64(8)) | np.uint64(flat[j])
                key = mix64(key ^ word)
            out[i, band] = key
            at += width


@kernel(
    "const u16[,], const u16[,], i64, i32[], i32[]",
    "const u32[,], const u32[,], i64, i32[], i32[]",
    "const u8[,], const u8[,], i64, i32[], i32[]",
)
def _agreement(a, b, bands, bands_equal, rows_equal):
    width = a.shape[1] // bands
    for i in range(len(a)):
        together, total = 0, 0
        for band in range(bands):
            equal = 0
            for j in range(band * width, (band + 1) * width):
                equal += a[i, j] == b[i, j]
            total += equal
            if equal == width:
                together += 1
        bands_equal[i] = together
        rows_equal[i] = total
