"""Measures of vectors over rows of arrays. A call compares row i of one array with row i of the other, for all i.

Every sum is in ``float64``, in a fixed order that depends only on the number of dimensions. The same two vectors give
the same bits in any batch, on any machine, in either order.

Vectors are ``float32[m, d]`` or ``float64[m, d]`` of finite numbers. Lengths in float64 are zero or from 10^-75 to
10^75, so that products of squared lengths stay finite.

Source: Mining of Massive Datasets, 3.5.2, 3.5.4 and 3.5.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.machine.compile import inlined, kernel

Vectors = npt.NDArray[Any]  # float32 or float64
Floats = npt.NDArray[np.float64]


def dot(a: Vectors, b: Vectors) -> Floats:
    """Dot products of rows, ``float64[m]``.

    >>> dot(np.array([[1.0, 2.0, -1.0]]), np.array([[2.0, 1.0, 1.0]])).tolist()
    [3.0]
    """
    out = np.empty(len(a))
    _dot_rows(_laid_out(a), _laid_out(b), out)
    return out


def cosine(a: Vectors, b: Vectors) -> Floats:
    """Cosines of the angles between rows, ``float64[m]`` in -1 to 1; 1 for equal rows, 0 if one row is all zeros.

    >>> cosine(np.array([[1.0, 2.0, -1.0]]), np.array([[2.0, 1.0, 1.0]])).tolist()
    [0.5]
    """
    out = np.empty(len(a))
    _cosine_rows(_laid_out(a), _laid_out(b), out)
    return out


def angle(a: Vectors, b: Vectors) -> Floats:
    """Angles between rows in degrees, ``float64[m]`` in 0 to 180; 90 if one row is all zeros.

    Computed from the sum and the difference of the directions, so small angles keep their digits. An arc cosine has no
    digits below a millionth of a degree.
    """
    out = np.empty(len(a))
    _angle_rows(_laid_out(a), _laid_out(b), out)
    return out


def euclidean(a: Vectors, b: Vectors) -> Floats:
    """Lengths of the differences of rows (the L2 norm), ``float64[m]``.

    >>> euclidean(np.array([[2.0, 7.0]]), np.array([[6.0, 4.0]])).tolist()
    [5.0]
    """
    out = np.empty(len(a))
    _euclidean_rows(_laid_out(a), _laid_out(b), out)
    return out


def manhattan(a: Vectors, b: Vectors) -> Floats:
    """Sums of the differences of rows, dimension by dimension (the L1 norm), ``float64[m]``.

    >>> manhattan(np.array([[2.0, 7.0]]), np.array([[6.0, 4.0]])).tolist()
    [7.0]
    """
    out = np.empty(len(a))
    _manhattan_rows(_laid_out(a), _laid_out(b), out)
    return out


def hamming(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> Floats:
    """Count the bits that differ in rows of packed bits ``uint8[m, w]``: ``float64[m]``.

    >>> hamming(np.array([[0b10101]], np.uint8), np.array([[0b11110]], np.uint8)).tolist()
    [3.0]
    """
    differing = np.bitwise_count(a ^ b)
    return np.asarray(differing.sum(axis=1, dtype=np.int64), np.float64)


@inlined
def _dot(x, y):
    """The sum of products. Term j goes to partial sum j % 4, and those after the last whole four to the first one."""
    s0 = s1 = s2 = s3 = 0.0
    whole = len(x) & ~3
    for j in range(0, whole, 4):
        s0 += np.float64(x[j]) * np.float64(y[j])
        s1 += np.float64(x[j + 1]) * np.float64(y[j + 1])
        s2 += np.float64(x[j + 2]) * np.float64(y[j + 2])
        s3 += np.float64(x[j + 3]) * np.float64(y[j + 3])
    for j in range(whole, len(x)):
        s0 += np.float64(x[j]) * np.float64(y[j])
    return (s0 + s1) + (s2 + s3)


def _laid_out(vectors: Vectors) -> Vectors:
    """Vectors as kernels read them: contiguous, and at addresses that are multiples of a number's size."""
    return np.require(vectors, requirements=["C", "A"])


@kernel("f32[,], f32[,], f64[]", "f32[,], f64[,], f64[]", "f64[,], f64[,], f64[]")
def _dot_rows(a, b, out):
    for i in range(len(out)):
        out[i] = _dot(a[i], b[i])


@kernel("const f32[,], const f32[,], f64[]", "const f32[,], const f64[,], f64[]", "const f64[,], const f64[,], f64[]")
def _cosine_rows(a, b, out):
    for i in range(len(out)):
        square_a, square_b, product = _dot(a[i], a[i]), _dot(b[i], b[i]), _dot(a[i], b[i])
        # The root of the product, not the product of the roots: for equal rows it is their dot product to the bit.
        lengths = np.sqrt(square_a * square_b)
        out[i] = min(max(product / lengths, -1.0), 1.0) if lengths > 0.0 else 0.0


@kernel("f32[,], f32[,], f64[]", "f32[,], f64[,], f64[]", "f64[,], f64[,], f64[]")
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


@kernel("const f32[,], const f32[,], f64[]", "const f32[,], const f64[,], f64[]", "const f64[,], const f64[,], f64[]")
def _euclidean_rows(a, b, out):
    for i in range(len(out)):
        x, y = a[i], b[i]
        s0 = s1 = s2 = s3 = 0.0
        whole = len(x) & ~3
        for j in range(0, whole, 4):
            s0 += (np.float64(x[j]) - np.float64(y[j])) ** 2
            s1 += (np.float64(x[j + 1]) - np.float64(y[j + 1])) ** 2
            s2 += (np.float64(x[j + 2]) - np.float64(y[j + 2])) ** 2
            s3 += (np.float64(x[j + 3]) - np.float64(y[j + 3])) ** 2
        for j in range(whole, len(x)):
            s0 += (np.float64(x[j]) - np.float64(y[j])) ** 2
        out[i] = np.sqrt((s0 + s1) + (s2 + s3))


@kernel("f32[,], f32[,], f64[]", "f32[,], f64[,], f64[]", "f64[,], f64[,], f64[]")
def _manhattan_rows(a, b, out):
    for i in range(len(out)):
        x, y = a[i], b[i]
        s0 = s1 = s2 = s3 = 0.0
        whole = len(x) & ~3
        for j in range(0, whole, 4):
            s0 += abs(np.float64(x[j]) - np.float64(y[j]))
            s1 += abs(np.float64(x[j + 1]) - np.float64(y[j + 1]))
            s2 += abs(np.float64(x[j + 2]) - np.float64(y[j + 2]))
            s3 += abs(np.float64(x[j + 3]) - np.float64(y[j + 3]))
        for j in range(whole, len(x)):
            s0 += abs(np.float64(x[j]) - np.float64(y[j]))
        out[i] = (s0 + s1) + (s2 + s3)
