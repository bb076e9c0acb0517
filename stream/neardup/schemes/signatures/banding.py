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

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import derive_seed, mix64
from neardup.machine.words import WORD_BYTES, word_at, word_from
from neardup.window import BandTable
from neardup.window.heads import NONE
from neardup.window.views import fixed_at, table_at

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
    out = np.empty((len(sketches), bands), np.uint64)
    _keys(np.ascontiguousarray(sketches), band_seeds(bands, seed), out)
    return out


@functools.lru_cache(maxsize=64)
def band_seeds(bands: int, seed: int) -> npt.NDArray[np.uint64]:
    """Return the seed of each band, ``uint64[bands]``."""
    seeds = np.empty(bands, np.uint64)
    _derive(np.uint64(seed), seeds)
    return seeds


def agreement(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], bands: int, bits: int) -> Agreement:
    """Compare sketches pairwise: ``uint8[m, width]`` each, rows of ``bits``; ``bands`` divides the width."""
    out = Agreement(*(np.empty(len(a), np.int32) for _ in range(2)))
    one, other = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    _agreement(one, other, a.shape[1], bands, bits, *out)
    return out


def estimate_in(
    table: BandTable, slots: npt.NDArray[np.int64], sketches: npt.NDArray[np.uint8], items: npt.NDArray[np.int32],
    bands: int, bits: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_], npt.NDArray[np.float64]]:  # fmt: skip
    """Compare documents of a table, whose evidence begins with a sketch, with some of ``sketches``, where they are:
    return how many bands are equal, that no condition fails, and the estimates of similarity."""
    m = len(slots)
    equal, conditions, estimates = np.empty(m, np.int32), np.empty(m, np.bool_), np.empty(m)
    _estimate_in(table.at(), slots, sketches, items, bands, bits, table.room, equal, conditions, estimates)
    return equal, conditions, estimates


def estimate(rows_equal: npt.NDArray[np.int32], rows: int, bits: int) -> npt.NDArray[np.float64]:
    """Return the similarity in [0, 1] from the number of equal rows among ``rows``, corrected for agreement by
    chance."""
    out = np.empty(len(rows_equal))
    _estimate(rows_equal, float(rows), 2.0**-bits, out)
    return out


@kernel("const u8[,], u64[], u64[,]", direct=True)
def _keys(sketches, seeds, out):
    for i in range(len(out)):
        put_keys(sketches[i], seeds, out[i])


@kernel("u64, u64[]")
def _derive(seed, seeds):
    for band in range(len(seeds)):
        seeds[band] = derive_seed(seed, np.uint64(_BAND_PURPOSE + band))


@inlined
def put_keys(flat, seeds, out):
    """Write the keys of one sketch. A band is hashed eight bytes at a time, the first byte highest."""
    at, width = 0, len(flat) // len(seeds)
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
        out[band] = key
        at += width


@kernel("const u8[], const u8[], i64, i64, i64, i32[], i32[]", direct=True)
def _agreement(a, b, width, bands, bits, bands_equal, rows_equal):
    for i in range(len(bands_equal)):
        one, other = a[i * width : (i + 1) * width], b[i * width : (i + 1) * width]
        bands_equal[i], rows_equal[i] = _equal(one, other, bands, bits)


@kernel("i64, i64[], const u8[,], i32[], i64, i64, u8[], i32[], bool[], f64[]", direct=True)
def _estimate_in(table, slots, sketches, items, bands, bits, room, equal, conditions, estimates):
    store = table_at(table).store
    for i in range(len(slots)):
        conditions[i] = True
        equal[i], estimates[i] = estimate_of(store, slots[i], sketches[items[i]], bands, bits, room)


@inlined
def estimate_of(store, slot, sketch, bands, bits, room):
    """Return how many bands of a sketch are equal to those of a document of a table, and the estimate of their
    similarity; ``room`` is for a sketch that lies on two pages."""
    at = fixed_at(store, slot, room)
    older = room if at == NONE else store.bytes[at : at + len(room)]
    equal, rows_equal = _equal(sketch, older, bands, bits)
    return equal, _corrected(rows_equal, 8 * len(room) / bits, 1.0 / (1 << bits))


@kernel("const i32[], f64, f64, f64[]", direct=True)
def _estimate(equal, rows, chance, out):
    for i in range(len(out)):
        out[i] = _corrected(equal[i], rows, chance)


@inlined
def _corrected(equal, rows, chance):
    """Return a similarity from the number of equal rows: agreement by chance is taken off."""
    return min(max((equal / rows - chance) / (1 - chance), 0.0), 1.0)


@inner
def _equal(a, b, bands, bits):
    """Return how many bands and rows of two sketches are equal. Rows are compared eight bytes at a time, and so is a
    band."""
    width, band_width = len(a), len(a) // bands
    ones = ~np.uint64(0) // np.uint64((1 << bits) - 1)  # 1 in each row of a word
    low = ones * np.uint64((1 << (bits - 1)) - 1)
    total, together = np.uint64(0), 0
    for at in range(0, width, WORD_BYTES):
        differ = difference(a, b, at, min(WORD_BYTES, width - at))
        # The highest bit of a row is 0 only if no bit of the row differs.
        some = ((differ & low) + low) | differ | low
        total += (~some >> np.uint64(bits - 1)) * ones >> np.uint64(64 - bits)
    padding = -width % WORD_BYTES // (bits // 8)
    for at in range(0, width, band_width):
        is_equal = True
        for first in range(at, at + band_width, WORD_BYTES):
            is_equal &= difference(a, b, first, min(WORD_BYTES, at + band_width - first)) == 0
        together += is_equal
    return together, np.int64(total) - padding


@inlined
def difference(a, b, at, count):
    """Return what differs in ``count`` bytes from ``at`` on, at most eight, as a word; its other bytes are 0."""
    if at + WORD_BYTES <= len(a):
        return (word_at(a, at) ^ word_at(b, at)) << np.uint64(64 - 8 * count)
    differ = np.uint64(0)
    for j in range(count):
        differ |= np.uint64(a[at + j] ^ b[at + j]) << np.uint64(8 * j)
    return differ
