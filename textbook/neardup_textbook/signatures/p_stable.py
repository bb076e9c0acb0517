"""Random lines in segments: a row is the segment that holds the projection of a vector.

Guarantee: on a line of normal components, the projections of two vectors at Euclidean distance d differ by d times a
standard normal number, in any dimension. So the probability that a row agrees depends only on d and the width of a
segment, and falls as d grows (``agreement``). In the plane, lines of length one with segments of width a are
(a/2, 2a, 1/2, 1/3)-sensitive, and the lines here are at least as good at the near end.

Source: Datar, Immorlica, Indyk, Mirrokni, "Locality-sensitive hashing scheme based on p-stable distributions", SCG
2004; Mining of Massive Datasets, 3.7.4 (the plane) and 3.7.5 (any dimension).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup_textbook.vectors import draws, projections

Floats = npt.NDArray[np.float64]
# Separates the seed of the offsets from the seed of the lines.
_OFFSET_PURPOSE = 0x0FF5E7
# Segments with greater numbers count as the last segment.
_SEGMENT_MAX = 2.0**31 - 1
# At distances of more widths, a row agrees less than once in a million.
_FAR = 4e5
# So many bisections find a distance to the precision of a float64.
_HALVINGS = 60


def sign(vectors: npt.NDArray[np.float32], rows: int, seed: int, width: float) -> npt.NDArray[np.int32]:
    """Return segment numbers ``int32[n, rows]`` of vectors ``float32[n, d]``: floor((a . x + b) / width), b in [0,
    width).

    Components are finite, and below 1e30 in size; ``width`` is above 0. The numbers of a vector are the same in any
    batch and on any machine. The error of a projection in ``float32`` is at most 1 / 100,000 of the vector's length.

    >>> sign(np.array([[1, 2], [1, 2]], np.float32), rows=4, seed=1, width=1.0).shape
    (2, 4)
    """
    panels, offsets = _lines(vectors.shape[1], rows, seed)
    return _cut(vectors, panels, offsets, width)


def segments(
    vectors: npt.NDArray[np.float32], lines: npt.NDArray[np.float32], offsets: Floats, width: float
) -> npt.NDArray[np.int32]:
    """As ``sign``, with given lines ``float32[k, d]`` and offsets ``float64[k]`` in widths (0 to 1).

    >>> axes = np.eye(3, dtype=np.float32)
    >>> segments(np.array([[1, 2, 3], [4, 3, 2]], np.float32), axes, np.zeros(3), width=2).tolist()
    [[0, 1, 1], [2, 1, 1]]
    """
    return _cut(vectors, projections.panels(lines), offsets, width)


def agreement(distance: npt.ArrayLike, width: float) -> Floats:
    """Return the probability that a row of two vectors agrees, from their distance (0 or more, any shape).

    >>> [round(float(agreement(distance, width=1)), 3) for distance in (0, 0.25, 0.5, 1, 2)]
    [1.0, 0.801, 0.61, 0.369, 0.195]
    """
    distance = np.asarray(distance, np.float64)
    # At greater distances the two terms would cancel; the probability is width times a density, width / (sqrt(2 pi) d).
    far = distance > 1e4 * width
    with np.errstate(divide="ignore", over="ignore"):  # an overflow gives infinity, which is correct here
        ratio = np.where(far, 1.0, width / np.where(far, 1.0, distance))
        beyond = np.vectorize(math.erfc, otypes=[np.float64])(ratio / math.sqrt(2))
        lost = math.sqrt(2 / math.pi) / ratio * -np.expm1(-ratio * ratio / 2)
        density = width / distance / math.sqrt(2 * math.pi)
    return np.asarray(np.where(far, density, 1 - beyond - lost))


def distances(shares: npt.ArrayLike, width: float) -> Floats:
    """Return the distances at which rows agree with probabilities ``shares`` (0 to 1, any shape), the inverse of
    ``agreement``.

    The distance is infinite for 0. Probabilities below one in a million count as one in a million.
    """
    shares = np.asarray(shares, np.float64)
    low, high = np.zeros(shares.shape), np.full(shares.shape, _FAR * width)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        near = agreement(middle, width) > shares
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    return np.where(shares <= 0, np.inf, np.where(shares >= 1, 0.0, low))


@lru_cache(maxsize=8)
def _lines(dimension: int, rows: int, seed: int) -> tuple[npt.NDArray[np.float32], Floats]:
    lines = projections.panels(draws.normals(rows, dimension, seed))
    offsets = draws.uniforms(rows, seed ^ _OFFSET_PURPOSE)
    offsets.flags.writeable = False
    return lines, offsets


def _cut(
    vectors: npt.NDArray[np.float32], panels: npt.NDArray[np.float32], offsets: Floats, width: float
) -> npt.NDArray[np.int32]:
    out = np.empty((len(vectors), len(offsets)), np.int32)
    edge, sums = projections.edge_like(panels), projections.sums_like(panels, len(vectors))
    offsets = np.asarray(offsets, np.float64).view()
    offsets.flags.writeable = False
    _sign(projections.read_only(vectors), panels, offsets, float(width), edge, sums, out)
    return out


@kernel("const f32[,], const f32[,,], const f64[], f64, f32[,], f32[,], i32[,]")
def _sign(vectors, panels, offsets, width, edge, sums, out):
    for first in range(0, len(vectors), projections.BLOCK_VECTORS):
        count = min(projections.BLOCK_VECTORS, len(vectors) - first)
        projections.project_block(vectors, first, count, panels, edge, sums)
        for i in range(count):
            for r in range(len(offsets)):
                segment = np.floor(np.float64(sums[i, r]) / width + offsets[r])
                out[first + i, r] = np.int32(min(max(segment, -_SEGMENT_MAX), _SEGMENT_MAX))
