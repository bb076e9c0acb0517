"""Vectors of documents -> checked rows of one matrix, or the reasons of refusals.

A vector of numbers is a sequence or array of real numbers, or the bytes of its ``float32``, little-endian. A vector of
bits is a list of zeros and ones, an array of ``bool``, or the bits packed eight to a byte, the first of them highest
(``numpy.packbits``), as bytes or an array of ``uint8``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import Reason
from neardup.machine.compile import kernel

# The greatest size of a component: sums of ``DIMENSION_MAX`` squares or products with drawn numbers stay finite.
COMPONENT_MAX = 1e30
# All bits of a float32 except its sign.
_UNSIGNED = np.uint32(0x7FFFFFFF)

Vector = npt.NDArray[Any]


class VectorRows(NamedTuple):
    """Usable vectors as rows of ``values``, in order, with their positions in the input; and by position the reasons
    (keys of ``REASONS``) of refused vectors."""

    values: Vector
    positions: npt.NDArray[np.int64]
    refused: dict[int, str]


def read_numbers(vectors: Sequence[Any], dimension: int) -> VectorRows:
    """Vectors of numbers as ``float32[n, dimension]``: finite, at most 1e30 in size, minus zero as zero.

    >>> read_numbers([[1, 2.5], b"\\0\\0\\0\\0\\0\\0\\x80?", [1], None], dimension=2).values.tolist()
    [[1.0, 2.5], [0.0, 1.0]]
    """
    with np.errstate(over="ignore"):  # numbers that are too large become infinite, and are refused
        rows = _stacked(vectors, dimension, np.float32, _are_numbers, _numbers)
    values = rows.values
    values += np.float32(0)  # minus zero becomes zero: both have the same content
    return keep(rows, largest(values) <= COMPONENT_MAX, "vector_range")


def read_bits(vectors: Sequence[Any], dimension: int) -> VectorRows:
    """Vectors of bits as ``uint8[n, ceil(dimension / 8)]``, packed; bits after the last one are zero.

    >>> read_bits([[1, 0, 1], b"\\xa0", b"\\x01"], dimension=3).values.tolist()
    [[160], [160]]
    """
    width = -(-dimension // 8)
    rows = _stacked(vectors, width, np.uint8, _are_packed, lambda vector: _bits(vector, dimension))
    beyond = np.uint8((1 << (width * 8 - dimension)) - 1)
    return keep(rows, (rows.values[:, -1] & beyond) == 0, "vector_padding")


def keep(rows: VectorRows, good: npt.NDArray[np.bool_], reason: str) -> VectorRows:
    """Keep the ``good`` rows; refuse the others for a reason."""
    if good.all():
        return rows
    refused = rows.refused | dict.fromkeys(rows.positions[~good].tolist(), reason)
    return VectorRows(rows.values[good], rows.positions[good], refused)


def largest(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the greatest absolute component of each vector, ``float32[n]``; NaN if a component is NaN.

    >>> largest(np.array([[1, -2.5], [0, 0]], np.float32)).tolist()
    [2.5, 0.0]
    """
    out = np.empty(len(vectors), np.uint32)
    _largest(vectors.view(np.uint32), out)
    return out.view(np.float32)


@kernel("u32[,], u32[]")
def _largest(vectors, out):
    # Without the sign, the bits of floats sort as the floats do; infinity and NaN come last.
    for i in range(len(vectors)):
        most = np.uint32(0)
        for j in range(vectors.shape[1]):
            most = max(most, vectors[i, j] & _UNSIGNED)
        out[i] = most


def _stacked(
    vectors: Sequence[Any],
    width: int,
    dtype: Any,
    as_is: Callable[[np.dtype[Any]], bool],
    read: Callable[[Any], Vector | Reason],
) -> VectorRows:
    """Return the vectors that ``read`` accepts and that have this width as one matrix.

    ``read`` does not change bytes, nor arrays whose type ``as_is`` accepts: if all vectors are such, they are read at
    once.
    """
    whole = _at_once(vectors, width, np.dtype(dtype), as_is)
    if whole is not None:
        return VectorRows(whole, np.arange(len(vectors)), {})
    refused: dict[int, str] = {}
    values = np.empty((len(vectors), width), dtype)
    positions: list[int] = []
    for position, vector in enumerate(vectors):
        numbers = Reason("no_vector") if vector is None else read(vector)
        if isinstance(numbers, Reason) or len(numbers) != width:
            refused[position] = numbers if isinstance(numbers, Reason) else "vector_length"
            continue
        values[len(positions)] = numbers
        positions.append(position)
    return VectorRows(values[: len(positions)], np.array(positions, np.int64), refused)


def _at_once(
    vectors: Sequence[Any], width: int, dtype: np.dtype[Any], as_is: Callable[[np.dtype[Any]], bool]
) -> Vector | None:
    """All vectors as one matrix if they have one type, this width, and need no conversion; else ``None``."""
    kinds = set(map(type, vectors))
    if kinds == {bytes} and set(map(len, vectors)) == {width * dtype.itemsize}:
        joined = np.frombuffer(bytearray().join(vectors), dtype.newbyteorder("<"))
    elif kinds == {np.ndarray} and {vector.shape for vector in vectors} == {(width,)}:
        if not all(map(as_is, {vector.dtype for vector in vectors})):
            return None
        joined = np.concatenate(vectors, dtype=dtype, casting="unsafe")
    else:
        return None
    return joined.reshape(len(vectors), width)


def _are_numbers(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fiu"


def _are_packed(dtype: np.dtype[Any]) -> bool:
    return dtype == np.uint8


def _array(vector: Any) -> Vector:
    """A vector as an array; a value that is no vector gives an array without one dimension or of another type."""
    try:
        return np.asarray(vector)
    except ValueError:  # sequences of different lengths
        return np.empty((0, 0))


def _numbers(vector: Any) -> Vector | Reason:
    """A vector of numbers as an array of any numeric type, or the reason why it is refused."""
    if isinstance(vector, bytes):
        return Reason("vector_length") if len(vector) % 4 else np.frombuffer(vector, "<f4")
    numbers = _array(vector)
    return numbers if numbers.ndim == 1 and _are_numbers(numbers.dtype) else Reason("vector_type")


def _bits(vector: Any, dimension: int) -> Vector | Reason:
    """A vector of bits as packed bytes, or the reason why it is refused."""
    if isinstance(vector, bytes):
        return np.frombuffer(vector, np.uint8)
    array = _array(vector)
    if isinstance(vector, list | tuple) and array.ndim == 1 and array.dtype.kind in "fiub":
        if not np.isin(array, (0, 1)).all():
            return Reason("vector_bit")
        array = array.astype(np.bool_)
    if array.dtype == np.bool_ and array.ndim == 1:
        return np.packbits(array) if len(array) == dimension else Reason("vector_length")
    return array if array.ndim == 1 and _are_packed(array.dtype) else Reason("vector_type")
