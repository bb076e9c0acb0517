"""Projections of vectors on lines: dot products with every bit fixed, at the rate of a matrix product.

x . v is a sum of fused multiply-adds in ``float32``, from the first component to the last, with one rounding for each
addition. So a dot product depends only on its two vectors. In a library's matrix product the batch, the number of
threads and the width of registers change the last digits. Here a vector has the same bits and segments on every
machine.

The sums stay in registers: 6 or 8 vectors, a tile, against ``PANEL_LINES`` lines at a time. The lines are stored
interleaved in panels. Compilers do not produce this form of the loop, so this module generates its code. A machine
without fused multiply-add computes the same sums, slowly.

Source: Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils

from neardup.stream.kernels.compile import has_avx512, kernel, machine_code
from neardup.stream.kernels.vector_code import address_of, all_lanes

# 8 x 16 sums take 8 of AVX-512's 32 registers of 16 numbers, and 6 x 16 sums take 12 of AVX2's 16 registers of 8
# numbers. In measurements no other tile is faster by 5%, on vectors of 128 and of 784 components.
TILE_VECTORS_MAX, _TILE_VECTORS_AVX2 = 8, 6
PANEL_LINES = 16
_BYTE_BITS = 8
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


@kernel
def project_block(vectors, first, count, panels, edge, sums):
    """Sums of ``vectors[first:first + count]``, at most ``BLOCK_VECTORS``, into ``sums``; ``edge`` is scratch."""
    tile = _tile_vectors()
    whole = count - count % tile
    for i in range(whole, count):
        edge[i - whole] = vectors[first + i]
    for p in range(len(panels)):
        for i in range(0, whole, tile):
            _tile(vectors, first + i, panels[p], sums, i, p * PANEL_LINES)
        if whole < count:
            _tile(edge, 0, panels[p], sums, whole, p * PANEL_LINES)


@machine_code
def above_zero(context, numbers, start):
    """Which of ``numbers[start:start + 8]`` (``float32``) are above zero, as the bits of a ``uint8``, lowest first."""
    signature = types.uint8(numbers, start)

    def generate(context, builder, signature, args):
        eight = ir.VectorType(ir.FloatType(), _BYTE_BITS)
        place = address_of(context, builder, signature, args, 0, 1, eight)
        above = builder.fcmp_ordered(">", builder.load(place, align=4), ir.Constant(eight, None))
        return builder.bitcast(above, ir.IntType(8))

    return signature, generate


@machine_code
def _tile_vectors(context):
    """The vectors of a tile, a constant of the machine code."""

    def generate(context, builder, signature, args):
        return ir.Constant(ir.IntType(64), _tile_vectors_of(context))

    return types.int64(), generate


def _tile_vectors_of(context: Any) -> int:
    return TILE_VECTORS_MAX if has_avx512(context) else _TILE_VECTORS_AVX2


@machine_code
def _tile(context, vectors, first, panel, sums, row, column):
    """Write the sums of a tile of vectors from ``first`` on and a panel to ``sums[row:, column:]``."""
    signature = types.void(vectors, first, panel, sums, row, column)

    def generate(context, builder, signature, args):
        arrays = [context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 2, 3)]
        source, lines, target = (array.data for array in arrays)
        dimension, width = (builder.extract_value(arrays[i].shape, 1) for i in (0, 2))
        tile = range(_tile_vectors_of(context))
        rows = [_row(builder, source, args[1], v, dimension) for v in tile]
        out = [builder.gep(_row(builder, target, args[4], v, width), [args[5]]) for v in tile]
        _tile_loop(builder, rows, lines, out, dimension)
        return context.get_dummy_value()

    return signature, generate


# The sums of a vector and a panel. Without AVX-512 the compiler makes two registers of it.
_PANEL_TYPE = ir.VectorType(ir.FloatType(), PANEL_LINES)


def _row(builder: Any, base: Any, first: Any, number: int, length: Any) -> Any:
    """The address of row ``first + number`` of a matrix whose rows have ``length`` numbers."""
    return builder.gep(base, [builder.mul(builder.add(first, ir.Constant(first.type, number)), length)])


def _tile_loop(builder: Any, rows: list[Any], lines: Any, out: list[Any], dimension: Any) -> None:
    """Zero the sums, add to them component by component, and write them."""
    fused = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_PANEL_TYPE, [_PANEL_TYPE] * 3), f"llvm.fma.v{PANEL_LINES}f32"
    )
    sums = [cgutils.alloca_once_value(builder, ir.Constant(_PANEL_TYPE, None)) for _ in rows]
    with cgutils.for_range(builder, dimension) as loop:
        base = builder.gep(lines, [builder.mul(loop.index, ir.Constant(loop.index.type, PANEL_LINES))])
        components = builder.load(builder.bitcast(base, _PANEL_TYPE.as_pointer()), align=4)
        for row, total in zip(rows, sums, strict=True):
            number = builder.load(builder.gep(row, [loop.index]))
            every = all_lanes(builder, number, PANEL_LINES)
            builder.store(builder.call(fused, [every, components, builder.load(total)]), total)
    for place, total in zip(out, sums, strict=True):
        builder.store(builder.load(total), builder.bitcast(place, _PANEL_TYPE.as_pointer()), align=4)
