"""Measures of vectors over rows of arrays: row i of one with row i of the other, so that many candidates are one call.

Every sum is taken in ``float64``, in one fixed order that depends on the number of dimensions alone: the same two
vectors give the same bits in whatever batch, on whatever machine, and whichever of the two stands first.

Vectors are ``float32[m, d]`` or ``float64[m, d]`` of finite numbers; those of float64 of lengths from 10^-75 to 10^75,
or zero, so that products of squared lengths stay numbers.

Source: Mining of Massive Datasets, 3.5.2, 3.5.4 and 3.5.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stream.kernels import inlined, kernel

Vectors = npt.NDArray[Any]  # float32 or float64
Floats = npt.NDArray[np.float64]


def dot(a: Vectors, b: Vectors) -> Floats:
    """Dot products of rows, ``float64[m]``.

    >>> dot(np.array([[1.0, 2.0, -1.0]]), np.array([[2.0, 1.0, 1.0]])).tolist()
    [3.0]
    """
    out = np.empty(len(a))
    _dot_rows(a, b, out)
    return out


def cosine(a: Vectors, b: Vectors) -> Floats:
    """Cosines of the angles between rows, ``float64[m]`` in -1 to 1; just 1 for equal rows, 0 where one is all zeros.

    >>> cosine(np.array([[1.0, 2.0, -1.0]]), np.array([[2.0, 1.0, 1.0]])).tolist()
    [0.5]
    """
    out = np.empty(len(a))
    _cosine_rows(a, b, out)
    return out


def angle(a: Vectors, b: Vectors) -> Floats:
    """Angles between rows in degrees, ``float64[m]`` in 0 to 180; 90 where one is all zeros.

    Told from the sum and the difference of the directions, so that small angles keep their digits: an arc cosine knows
    none below a millionth of a degree.
    """
    out = np.empty(len(a))
    _angle_rows(a, b, out)
    return out


def euclidean(a: Vectors, b: Vectors) -> Floats:
    """Lengths of the differences of rows (the L2 norm), ``float64[m]``.

    >>> euclidean(np.array([[2.0, 7.0]]), np.array([[6.0, 4.0]])).tolist()
    [5.0]
    """
    out = np.empty(len(a))
    _euclidean_rows(a, b, out)
    return out


def manhattan(a: Vectors, b: Vectors) -> Floats:
    """Sums of the differences of rows, dimension by dimension (the L1 norm), ``float64[m]``.

    >>> manhattan(np.array([[2.0, 7.0]]), np.array([[6.0, 4.0]])).tolist()
    [7.0]
    """
    out = np.empty(len(a))
    _manhattan_rows(a, b, out)
    return out


def hamming(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> Floats:
    """How many bits differ, of rows of packed bits ``uint8[m, w]``: ``float64[m]``.

    >>> hamming(np.array([[0b10101]], np.uint8), np.array([[0b11110]], np.uint8)).tolist()
    [3.0]
    """
    differing = np.bitwise_count(a ^ b)
    return np.asarray(differing.sum(axis=1, dtype=np.int64), np.float64)


@inlined
def _dot(x, y):  # type: ignore[no-untyped-def]
    """The sum of products, in four partial sums: one after another, each addition would wait for the one before."""
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


@kernel
def _dot_rows(a, b, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = _dot(a[i], b[i])


@kernel
def _cosine_rows(a, b, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        # The root of the product, not the product of the roots: for equal rows it is their dot product to the bit.
        lengths = np.sqrt(_dot(a[i], a[i]) * _dot(b[i], b[i]))
        out[i] = min(max(_dot(a[i], b[i]) / lengths, -1.0), 1.0) if lengths > 0.0 else 0.0


@kernel
def _angle_rows(a, b, out):  # type: ignore[no-untyped-def]
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
def _euclidean_rows(a, b, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        x, y = a[i], b[i]
        s0 = s1 = s2 = s3 = 0.0
        whole = len(x) & ~3
        for j in range(0, whole, 4):
            d0, d1 = np.float64(x[j]) - y[j], np.float64(x[j + 1]) - y[j + 1]
            d2, d3 = np.float64(x[j + 2]) - y[j + 2], np.float64(x[j + 3]) - y[j + 3]
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
        for j in range(whole, len(x)):
            d0 = np.float64(x[j]) - y[j]
            s0 += d0 * d0
        out[i] = np.sqrt((s0 + s1) + (s2 + s3))


@kernel
def _manhattan_rows(a, b, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        x, y = a[i], b[i]
        s0 = s1 = s2 = s3 = 0.0
        whole = len(x) & ~3
        for j in range(0, whole, 4):
            s0 += abs(np.float64(x[j]) - y[j])
            s1 += abs(np.float64(x[j + 1]) - y[j + 1])
            s2 += abs(np.float64(x[j + 2]) - y[j + 2])
            s3 += abs(np.float64(x[j + 3]) - y[j + 3])
        for j in range(whole, len(x)):
            s0 += abs(np.float64(x[j]) - y[j])
        out[i] = (s0 + s1) + (s2 + s3)
