"""Banding of signatures with infinite rows: sketches, keys, and the comparison of two sketches.

A sketch stores ``bits`` of each row: 0 is infinity, and a value v is 1 + v mod (2^bits - 1). A band with an infinite
row has no key: two sets that are both empty in some part of the universe have nothing in common there. A *whole* band
has no infinite row. An item has one key for each whole band, in the order of the bands. A set that is too small has no
key.

Two infinite rows are left out; an infinite and a finite row are unequal; two finite rows are compared. Rows of
different elements agree by chance with probability 1 / (2^bits - 1).

Source: Mining of Massive Datasets, 3.3.6 (the three cases), 3.4.1-3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup.schemes.signatures import INFINITY, banding

Bytes = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int32]


class PartialAgreement(NamedTuple):
    """What two sketches have in common, ``int32[m]`` each.

    ``bands``: equal whole bands; ``equal``: rows that agree; ``finite``: rows where neither is infinite; ``compared``:
    rows where at most one is infinite.
    """

    bands: Counts
    equal: Counts
    finite: Counts
    compared: Counts


def sketch(signatures: npt.NDArray[np.uint64], bits: int) -> Bytes:
    """Rows in ``bits`` (8, 16 or 32) each, as bytes: ``uint64[n, k]`` -> ``uint8[n, k * bits / 8]``."""
    stored = np.where(signatures == INFINITY, np.uint64(0), signatures % np.uint64((1 << bits) - 1) + np.uint64(1))
    return banding.sketch(stored, bits)


def keys(sketches: Bytes, bands: int, bits: int, seed: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Ragged bucket keys of sketches ``uint8[n, width]``: values and ``int64[n + 1]`` starts, a key a whole band."""
    rows = _rows(sketches, bits)
    whole = (rows.reshape(len(rows), bands, rows.shape[1] // bands) != 0).all(axis=2)
    starts = np.zeros(len(sketches) + 1, np.int64)
    np.cumsum(whole.sum(axis=1), out=starts[1:])
    return banding.keys(sketches, bands, seed)[whole], starts


def agreement(a: Bytes, b: Bytes, bands: int, bits: int) -> PartialAgreement:
    """Compare sketches pairwise: ``uint8[m, width]`` each, rows of ``bits``; ``bands`` divides the width."""
    out = PartialAgreement(*(np.empty(len(a), np.int32) for _ in range(4)))
    _agreement(_rows(a, bits), _rows(b, bits), bands, *out)
    return out


def estimate(equal: Counts, finite: Counts, compared: Counts, bits: int) -> npt.NDArray[np.float64]:
    """Similarity in [0, 1] from the counts of ``agreement``, corrected for chance; 0 if no row is compared.

    >>> import numpy as np
    >>> estimate(*(np.array([x], np.int32) for x in (4, 6, 8)), bits=32).round(6).tolist()
    [0.5]
    """
    chance = 1 / ((1 << bits) - 1)
    same = (equal - chance * finite) / (1 - chance)
    return np.asarray(np.clip(same / np.maximum(compared, 1), 0.0, 1.0))


def _rows(sketches: Bytes, bits: int) -> npt.NDArray[np.unsignedinteger]:
    return np.ascontiguousarray(sketches).view(np.dtype(banding.ROW_TYPES[bits]).newbyteorder("<"))


@kernel(
    "const u16[,], const u16[,], i64, i32[], i32[], i32[], i32[]",
    "const u32[,], const u32[,], i64, i32[], i32[], i32[], i32[]",
    "const u8[,], const u8[,], i64, i32[], i32[], i32[], i32[]",
)
def _agreement(a, b, bands, bands_equal, rows_equal, rows_finite, rows_compared):
    width = a.shape[1] // bands
    for i in range(len(a)):
        together, equal, finite, compared = 0, 0, 0, 0
        for band in range(bands):
            same = 0
            for j in range(band * width, (band + 1) * width):
                x, y = a[i, j], b[i, j]
                same += (x == y) & (x != 0)
                finite += (x != 0) & (y != 0)
                compared += (x != 0) | (y != 0)
            equal += same
            if same == width:
                together += 1
        bands_equal[i] = together
        rows_equal[i] = equal
        rows_finite[i] = finite
        rows_compared[i] = compared
