"""Tiles of a matrix product: the sums of a few vectors and 16 lines stay in registers, and each sum rounds once a step.

Compilers do not produce this form of the loop. A machine without fused multiply-add computes the same sums, slowly.

Source: Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 2008.
"""

from __future__ import annotations

from neardup.machine.code import (
    F32,
    I64,
    Code,
    Value,
    alloca_once_value,
    for_range,
    types,
    vector,
    without_model,
)

# 8 x 16 sums take 8 of AVX-512's 32 registers of 16 numbers, and 6 x 16 sums take 12 of AVX2's 16 registers of 8
# numbers. In measurements no other tile is faster by 5%, on vectors of 128 and of 784 components.
TILE_VECTORS_MAX, _TILE_VECTORS_AVX2 = 8, 6
PANEL_LINES = 16
# The sums of a vector and a panel. Without AVX-512 the compiler makes two registers of it.
_PANEL = vector(F32, PANEL_LINES)


def _vectors_of(code: Code) -> int:
    return TILE_VECTORS_MAX if code.has_avx512 else _TILE_VECTORS_AVX2


@without_model(lambda code: I64(_vectors_of(code)), types.int64)
def tile_vectors():
    """The vectors of a tile: a constant of the processor."""


def _put_tile(code: Code, vectors: Value, first: Value, panel: Value, sums: Value, row: Value, column: Value) -> None:
    builder, dimension = code.builder, code.builder.extract_value(vectors.shape, 1)
    width = builder.extract_value(sums.shape, 1)
    tile = range(_vectors_of(code))
    rows = [_row(code, vectors, first, n, dimension) for n in tile]
    out = [builder.gep(_row(code, sums, row, n, width), [column]) for n in tile]
    totals = [alloca_once_value(builder, code.full(_PANEL, None)) for _ in tile]
    with for_range(builder, dimension) as loop:
        components = code.load(panel, builder.mul(loop.index, I64(PANEL_LINES)), _PANEL)
        for one, total in zip(rows, totals, strict=True):
            every = code.spread(builder.load(builder.gep(one, [loop.index])), PANEL_LINES)
            fused = code.call(f"llvm.fma.v{PANEL_LINES}f32", _PANEL, every, components, builder.load(total))
            builder.store(fused, total)
    for target, total in zip(out, totals, strict=True):
        builder.store(builder.load(total), builder.bitcast(target, _PANEL.as_pointer()), align=4)


def _row(code: Code, matrix: Value, first: Value, number: int, length: Value) -> Value:
    """The address of row ``first + number`` of a matrix whose rows have ``length`` numbers."""
    row = code.builder.add(first, first.type(number))
    return code.builder.gep(matrix.data, [code.builder.mul(row, length)])


@without_model(_put_tile, types.void, first=types.int64, row=types.int64, column=types.int64)
def put_tile(vectors, first, panel, sums, row, column):
    """Write the sums of ``tile_vectors()`` vectors (``float32[n, d]``) from ``first`` on and a panel
    (``float32[d, 16]``) to ``sums[row:, column:]``.

    A sum is one of fused multiply-adds, from the first component to the last.
    """
