"""Random hyperplanes: each gives one bit, the side on which a vector lies.

Guarantee: two vectors at an angle of t degrees lie on the same side of a hyperplane with probability (180 - t) / 180.
So the fraction of equal bits estimates the angle without bias for planes of normal components. Planes of plus and minus
ones are as good in many dimensions, but not in four (an example in the source). The length of a vector has no
influence.

Source: Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002; Mining of Massive Datasets,
3.7.2 (hyperplanes) and 3.7.3 (sketches).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup_textbook.vectors import draws, packed_bits, pairwise, projections
from neardup_textbook.vectors.vector_input import largest

Floats = npt.NDArray[np.float64]
# name -> how the components of the planes' normal vectors are drawn
PLANES: dict[str, Callable[[int, int, int], npt.NDArray[np.float32]]] = {"normal": draws.normals, "signs": draws.signs}
# Least components of one size in which the length of a vector lies, for planes of signs (``components_min``).
SIGNS_COMPONENTS_MIN = 16.0


def sign(
    vectors: npt.NDArray[np.float32], bands: int, rows: int, seed: int, planes: str = "normal"
) -> npt.NDArray[np.uint8]:
    """Sketches ``uint8[n, bands * ceil(rows / 8)]`` of vectors ``float32[n, d]``: a bit a plane, bands of whole bytes.

    Components are finite, and below 1e30 in size. A zero vector has no direction: its bits are all zero, and callers
    refuse it earlier. The sketch of a vector is the same in any batch and on any machine.

    >>> x = np.array([[1, 2, -1], [-1, -2, 1]], np.float32)
    >>> a, b = sign(x, bands=2, rows=8, seed=1)
    >>> bool((a ^ b == 255).all())
    True
    """
    return _sketch(vectors, _panels(vectors.shape[1], bands * rows, seed, planes), bands, rows)


def sketch(vectors: npt.NDArray[np.float32], normals: npt.NDArray[np.float32], bands: int = 1) -> npt.NDArray[np.uint8]:
    """As ``sign``, with given planes: normal vectors ``float32[k, d]``; ``bands`` divides k.

    The bit is 1 if the dot product is above zero, else 0.
    """
    return _sketch(vectors, projections.panels(normals), bands, len(normals) // bands)


def agreement(cosine: npt.ArrayLike) -> Floats:
    """The probability that a bit of two vectors agrees, from their cosine (-1 to 1, any shape).

    >>> float(agreement(0.0))
    0.5
    """
    return np.asarray(1 - np.arccos(np.clip(cosine, -1, 1)) / np.pi)


def degrees(equal_fraction: npt.ArrayLike) -> Floats:
    """The angle in degrees at which this fraction of bits (0 to 1, any shape) is expected to be equal.

    >>> float(degrees(1 / 3))
    120.0
    """
    return np.asarray(180 - 180 * np.asarray(equal_fraction, np.float64))


def cosine(equal_fraction: npt.ArrayLike) -> Floats:
    """The cosine of the angle of ``degrees``: the inverse of ``agreement``."""
    return np.asarray(np.cos(np.radians(degrees(equal_fraction))))


def components_min(threshold: float) -> float:
    """In how many components of one size the length of a vector for planes of signs lies at least.

    A sum of k components of one size with random signs takes values that are 2 / sqrt(k) of its length apart. Steps
    that are wider than the angle of the threshold lose pairs: of .95 promised candidates at a cosine of .99 16
    components of one size leave .31, 64 .85, 200 .92. Few components lose as much at any angle.

    >>> components_min(0.5), round(components_min(0.9), 1), round(components_min(0.99), 1)
    (16.0, 19.7, 199.7)
    """
    angle = math.acos(threshold)  # equal directions, with an angle of 0, have equal sketches
    return max(SIGNS_COMPONENTS_MIN, 4 / angle**2) if angle else SIGNS_COMPONENTS_MIN


def components(vectors: npt.NDArray[np.float32]) -> Floats:
    """In how many components of one size the length of a vector lies: its participation ratio, (sum x^2)^2 / sum x^4.

    >>> components(np.array([[1, -1, 1, 0], [5, 0, 0, 0], [0, 0, 0, 0]], np.float32)).tolist()
    [3.0, 1.0, 0.0]
    """
    scaled = vectors / np.maximum(largest(vectors), np.finfo(np.float32).tiny)[:, None]
    squares = scaled * scaled
    return np.asarray(pairwise.dot(scaled, scaled) ** 2 / np.maximum(pairwise.dot(squares, squares), 1.0))


def lift(vectors: npt.NDArray[np.float32], squares: Floats, norm_max: float) -> npt.NDArray[np.float32]:
    """Vectors ``float32[n, d + 1]`` of length one, [x, sqrt(M^2 - |x|^2)] / M: dot products become cosines.

    ``squares`` are the squared lengths, ``float64[n]``, none above M^2 with M = ``norm_max``. The cosine of a lifted
    vector and a lifted query is q . x / (|q| M). The cosine of two lifted vectors is x . y / M^2 plus the product of
    their new coordinates, which is 0 or more. So a bit of two lifted vectors agrees with probability
    ``agreement(x . y / M^2)`` or more.

    Source: Bachrach et al., "Speeding up the Xbox recommender system using a Euclidean transformation for inner-product
    spaces", RecSys 2014; Neyshabur, Srebro, "On symmetric and asymmetric LSHs for inner product search", ICML 2015.

    >>> lift(np.array([[3, 0]], np.float32), np.array([9.0]), norm_max=5).round(6).tolist()
    [[0.6000000238418579, 0.0, 0.800000011920929]]
    """
    added = np.sqrt(np.maximum(norm_max * norm_max - squares, 0.0)) / norm_max
    return np.hstack([vectors.astype(np.float64) / norm_max, added[:, None]]).astype(np.float32)


@lru_cache(maxsize=8)
def _panels(dimension: int, count: int, seed: int, planes: str) -> npt.NDArray[np.float32]:
    return projections.panels(PLANES[planes](count, dimension, seed))


def _sketch(
    vectors: npt.NDArray[np.float32], panels: npt.NDArray[np.float32], bands: int, rows: int
) -> npt.NDArray[np.uint8]:
    out = np.empty((len(vectors), packed_bits.width(bands, rows)), np.uint8)
    edge, sums = projections.edge_like(panels), projections.sums_like(panels, len(vectors))
    bits, room = packed_bits.scratch(sums.shape[1], out.shape[1])
    _sign(projections.read_only(vectors), panels, bands, rows, edge, sums, bits, room, out)
    return out


@kernel("const f32[,], const f32[,,], i64, i64, f32[,], f32[,], u8[], u8[], u8[,]")
def _sign(vectors, panels, bands, rows, edge, sums, bits, room, out):
    size = sums.shape[1] // 8
    for first in range(0, len(vectors), projections.BLOCK_VECTORS):
        count = min(projections.BLOCK_VECTORS, len(vectors) - first)
        projections.project_block(vectors, first, count, panels, edge, sums)
        for i in range(count):
            for byte in range(size):
                bits[byte] = 0
                for bit in range(8):
                    bits[byte] |= (sums[i, byte * 8 + bit] > 0) << bit
            packed_bits.spread_bands(bits, bands, rows, room, out[first + i])
