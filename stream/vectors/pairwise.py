"""Measures of vectors over rows of arrays. A call compares row i of one array with row i of the other, for all i.

Every sum is in ``float64``, in a fixed order that depends only on the number of dimensions. The same two vectors give
the same bits in any batch, on any machine, in either order.

Vectors are ``float32[m, d]`` or ``float64[m, d]`` of finite numbers. Lengths in float64 are zero or from 10^-75 to
10^75, so that products of squared lengths stay finite.

Source: Mining of Massive Datasets, 3.5.2, 3.5.4 and 3.5.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils

from neardup.stream.kernels.compile import Kernel, inlined, kernel, machine_code

Vectors = npt.NDArray[Any]  # float32 or float64
Floats = npt.NDArray[np.float64]
# Number of partial sums. In a single sum each addition would wait for the addition before it.
_LANES = 4
_LANE_TYPE = ir.VectorType(ir.DoubleType(), _LANES)


def dot(a: Vectors, b: Vectors) -> Floats:
    """Dot products of rows, ``float64[m]``.

    >>> dot(np.array([[1.0, 2.0, -1.0]]), np.array([[2.0, 1.0, 1.0]])).tolist()
    [3.0]
    """
    out = np.empty(len(a))
    _dot_rows(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def cosine(a: Vectors, b: Vectors) -> Floats:
    """Cosines of the angles between rows, ``float64[m]`` in -1 to 1; 1 for equal rows, 0 if one row is all zeros.

    >>> cosine(np.array([[1.0, 2.0, -1.0]]), np.array([[2.0, 1.0, 1.0]])).tolist()
    [0.5]
    """
    out = np.empty(len(a))
    _cosine_rows(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def angle(a: Vectors, b: Vectors) -> Floats:
    """Angles between rows in degrees, ``float64[m]`` in 0 to 180; 90 if one row is all zeros.

    Computed from the sum and the difference of the directions, so small angles keep their digits. An arc cosine has no
    digits below a millionth of a degree.
    """
    out = np.empty(len(a))
    _angle_rows(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def euclidean(a: Vectors, b: Vectors) -> Floats:
    """Lengths of the differences of rows (the L2 norm), ``float64[m]``.

    >>> euclidean(np.array([[2.0, 7.0]]), np.array([[6.0, 4.0]])).tolist()
    [5.0]
    """
    out = np.empty(len(a))
    _euclidean_rows(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def manhattan(a: Vectors, b: Vectors) -> Floats:
    """Sums of the differences of rows, dimension by dimension (the L1 norm), ``float64[m]``.

    >>> manhattan(np.array([[2.0, 7.0]]), np.array([[6.0, 4.0]])).tolist()
    [7.0]
    """
    out = np.empty(len(a))
    _manhattan_rows(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def hamming(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> Floats:
    """Count the bits that differ in rows of packed bits ``uint8[m, w]``: ``float64[m]``.

    >>> hamming(np.array([[0b10101]], np.uint8), np.array([[0b11110]], np.uint8)).tolist()
    [3.0]
    """
    differing = np.bitwise_count(a ^ b)
    return np.asarray(differing.sum(axis=1, dtype=np.int64), np.float64)


def _partial_sums(*terms: Callable[[Any, Any, Any], Any]) -> Kernel:
    """Generate a function of two rows for kernels: four partial sums for each term, over whole fours of components.

    Component i goes to partial sum i % 4. A compiler does not keep the four sums in one register, because it would have
    to change the order of additions. Several terms at a time hide each other's latency.
    """

    def sums(context, x, y):
        return types.UniTuple(types.float64, _LANES * len(terms))(x, y), generate

    def generate(context, builder, signature, arguments):
        x, y = (context.make_array(t)(context, builder, row) for t, row in zip(signature.args, arguments, strict=True))
        totals = [cgutils.alloca_once(builder, _LANE_TYPE) for _ in terms]
        for total in totals:
            builder.store(ir.Constant(_LANE_TYPE, None), total)
        lanes = ir.Constant(ir.IntType(64), _LANES)
        with cgutils.for_range(builder, builder.udiv(builder.extract_value(x.shape, 0), lanes)) as loop:
            at = builder.mul(loop.index, lanes)
            u, v = _lanes(builder, x.data, at), _lanes(builder, y.data, at)
            for total, term in zip(totals, terms, strict=True):
                builder.store(builder.fadd(builder.load(total), term(builder, u, v)), total)
        parts = [builder.extract_element(builder.load(t), ir.IntType(32)(i)) for t in totals for i in range(_LANES)]
        return context.make_tuple(builder, signature.return_type, parts)

    return machine_code(sums)


def _absolute_difference(builder: Any, u: Any, v: Any) -> Any:
    shape = ir.FunctionType(_LANE_TYPE, [_LANE_TYPE])
    absolute = cgutils.get_or_insert_function(builder.module, shape, f"llvm.fabs.v{_LANES}f64")
    return builder.call(absolute, [builder.fsub(u, v)])


def _squared_difference(builder: Any, u: Any, v: Any) -> Any:
    difference = builder.fsub(u, v)
    return builder.fmul(difference, difference)


_products = _partial_sums(lambda builder, u, v: builder.fmul(u, v))
_squares_and_products = _partial_sums(
    lambda builder, u, v: builder.fmul(u, u),
    lambda builder, u, v: builder.fmul(v, v),
    lambda builder, u, v: builder.fmul(u, v),
)
_squared_differences = _partial_sums(_squared_difference)
_absolute_differences = _partial_sums(_absolute_difference)


def _lanes(builder: Any, data: Any, at: Any) -> Any:
    """Four components as ``float64``."""
    number = data.type.pointee
    place = builder.bitcast(builder.gep(data, [at]), ir.VectorType(number, _LANES).as_pointer())
    numbers = builder.load(place, align=4)
    return numbers if number == ir.DoubleType() else builder.fpext(numbers, _LANE_TYPE)


@inlined
def _dot(x, y):
    """The sum of products; the components after the last whole four go to the first partial sum."""
    s0, s1, s2, s3 = _products(x, y)
    for j in range(len(x) & ~3, len(x)):
        s0 += np.float64(x[j]) * np.float64(y[j])
    return (s0 + s1) + (s2 + s3)


@inlined
def _three_dots(x, y):
    """``_dot`` of x and x, y and y, x and y, to the bit."""
    a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3 = _squares_and_products(x, y)
    for j in range(len(x) & ~3, len(x)):
        u, v = np.float64(x[j]), np.float64(y[j])
        a0 += u * u
        b0 += v * v
        c0 += u * v
    return (a0 + a1) + (a2 + a3), (b0 + b1) + (b2 + b3), (c0 + c1) + (c2 + c3)


@kernel
def _dot_rows(a, b, out):
    for i in range(len(out)):
        out[i] = _dot(a[i], b[i])


@kernel
def _cosine_rows(a, b, out):
    for i in range(len(out)):
        square_a, square_b, product = _three_dots(a[i], b[i])
        # The root of the product, not the product of the roots: for equal rows it is their dot product to the bit.
        lengths = np.sqrt(square_a * square_b)
        out[i] = min(max(product / lengths, -1.0), 1.0) if lengths > 0.0 else 0.0


@kernel
def _angle_rows(a, b, out):
    for i in range(len(out)):
        x, y = a[i], b[i]
        length_x, length_y = np.sqrt(_dot(x, x)), np.sqrt(_dot(y, y))
        if length_x == 0.0 or length_y == 0.0:
            out[i] = 90.0
            continue
        apart, together = 0.0, 0.0
        for j in range(len(x)):
            u, v = x[j] / length_x, y[j] / length_y
            apart += (u - v) * (u - v)
            together += (u + v) * (u + v)
        out[i] = np.degrees(2 * np.arctan2(np.sqrt(apart), np.sqrt(together)))


@kernel
def _euclidean_rows(a, b, out):
    for i in range(len(out)):
        x, y = a[i], b[i]
        s0, s1, s2, s3 = _squared_differences(x, y)
        for j in range(len(x) & ~3, len(x)):
            d0 = np.float64(x[j]) - y[j]
            s0 += d0 * d0
        out[i] = np.sqrt((s0 + s1) + (s2 + s3))


@kernel
def _manhattan_rows(a, b, out):
    for i in range(len(out)):
        x, y = a[i], b[i]
        s0, s1, s2, s3 = _absolute_differences(x, y)
        for j in range(len(x) & ~3, len(x)):
            s0 += abs(np.float64(x[j]) - y[j])
        out[i] = (s0 + s1) + (s2 + s3)
