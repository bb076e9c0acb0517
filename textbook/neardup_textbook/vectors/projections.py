"""Projections of vectors on lines: dot products with every bit fixed, at the rate of a matrix product.

x . v is a sum of fused multiply-adds in ``float32``, from the first component to the last, with one rounding for each
addition. So a dot product depends only on its two vectors. In a library's matrix product the batch, the number of
threads and the width of registers change the last digits. Here a vector has the same bits and segments on every
machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import kernel
from neardup_textbook.vectors.tiles import PANEL_LINES, TILE_VECTORS_MAX, put_tile, tile_vectors

# Vectors multiplied by a panel while it is in the cache: 384 kB if they have 1,024 components.
BLOCK_VECTORS = 96


def panels(lines: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Lines ``float32[k, d]`` as panels ``float32[ceil(k / 16), d, 16]``, the last filled up with zeros."""
    count, dimension = lines.shape
    number = -(-count // PANEL_LINES)
    padded = np.zeros((number * PANEL_LINES, dimension), np.float32)
    padded[:count] = lines
    out = np.ascontiguousarray(padded.reshape(number, PANEL_LINES, dimension).transpose(0, 2, 1))
    out.flags.writeable = False
    return out


def project(vectors: npt.NDArray[np.float32], lines: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Dot products ``float32[n, k]`` of vectors ``float32[n, d]`` and lines ``float32[k, d]``.

    >>> project(np.array([[3, 4, 5, 6]], np.float32), np.array([[1, -1, 1, 1]], np.float32)).tolist()
    [[10.0]]
    """
    out = np.empty((len(vectors), len(lines)), np.float32)
    vectors, panels_ = read_only(vectors), panels(lines)
    edge, sums = edge_like(panels_), sums_like(panels_, len(vectors))
    for first in range(0, len(vectors), BLOCK_VECTORS):
        count = min(BLOCK_VECTORS, len(vectors) - first)
        project_block(vectors, first, count, panels_, edge, sums)
        out[first : first + count] = sums[:count, : len(lines)]
    return out


def read_only(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the vectors as the kernels read them: contiguous and read-only."""
    out = np.ascontiguousarray(vectors, np.float32).view()
    out.flags.writeable = False
    return out


def sums_like(panels: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.float32]:
    """Room for the sums of a block of ``count`` vectors, ``float32[m, lines]``, in whole tiles and panels."""
    rows = min(count, BLOCK_VECTORS) + TILE_VECTORS_MAX - 1
    return np.empty((rows, len(panels) * PANEL_LINES), np.float32)


def edge_like(panels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Room for the vectors of a partial tile, ``float32[TILE_VECTORS_MAX, d]``."""
    return np.zeros((TILE_VECTORS_MAX, panels.shape[1]), np.float32)


@kernel("const f32[,], i64, i64, const f32[,,], f32[,], f32[,]")
def project_block(vectors, first, count, panels, edge, sums):
    """Sums of ``vectors[first:first + count]``, at most ``BLOCK_VECTORS``, into ``sums``; ``edge`` is scratch."""
    tile = tile_vectors()
    whole = count - count % tile
    for i in range(whole, count):
        for j in range(edge.shape[1]):
            edge[i - whole, j] = vectors[first + i, j]
    for p in range(len(panels)):
        for i in range(0, whole, tile):
            put_tile(vectors, first + i, panels[p], sums, i, p * PANEL_LINES)
        if whole < count:
            put_tile(edge, 0, panels[p], sums, whole, p * PANEL_LINES)
