"""Vectors as they come in: a JSON value or an array -> checked rows of a matrix, or the reason why not.

A vector in JSON is a list of numbers, or a string: its bytes in base64 (RFC 4648), which are ``float32`` in
little-endian order or, where vectors are of bits, the bits packed eight to a byte, the first of them highest. Bits may
be a list of zeros and ones as well.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Components beyond are refused: sums of 65,536 of their squares, and of their products with numbers drawn, stay finite.
COMPONENT_MAX = 1e30
DIMENSION_MAX = 65_536

Vector = npt.NDArray[Any]
# Every reason to refuse a vector, with the sentence a user reads.
VECTOR_REASONS: dict[str, str] = {
    "no_vector": "the vector field is missing",
    "vector_type": "the vector is neither a list of numbers nor a string of base64",
    "vector_base64": "the vector is a string that is not base64 of whole components",
    "vector_length": "the vector does not have the configured dimension",
    "vector_range": "a component of the vector is not finite, or beyond 1e30 in size",
    "vector_zero": "every component of the vector is zero, so it has no direction",
    "vector_norm": "the vector is longer than norm_max",
    "vector_component": "a component of the vector is not a whole number from 0 to component_max",
    "vector_half": "a component of the vector is beyond 65,504, the greatest number of float16",
    "vector_padding": "a bit of the vector beyond its dimension is set",
}


class Rows(NamedTuple):
    """Vectors that could be read, as rows of ``values`` in their order; the others by place, with the reason."""

    values: Vector
    refused: dict[int, str]


def decode_vector(value: Any, bits: bool) -> Vector | str:
    """The vector of a JSON value, ``float32[d]`` or, for ``bits``, packed ``uint8``; or the reason why there is none.

    >>> decode_vector([1, 2.5], bits=False).tolist(), decode_vector("AACAPwAAIEA=", bits=False).tolist()
    ([1.0, 2.5], [1.0, 2.5])
    >>> decode_vector([1, 0, 1], bits=True).tolist(), decode_vector("oA==", bits=True).tolist()
    ([160], [160])
    >>> decode_vector([1, "2"], bits=False)
    'vector_type'
    """
    if type(value) is str:
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return "vector_base64"
        if bits:
            return np.frombuffer(data, np.uint8)
        return "vector_base64" if len(data) % 4 else np.frombuffer(data, "<f4")
    if type(value) is not list or not set(map(type, value)) <= {int, float}:
        return "vector_type"
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        numbers = np.array(value, np.float64).astype(np.float32)
    if not bits:
        return numbers
    return np.packbits(numbers != 0) if np.isin(numbers, (0, 1)).all() else "vector_component"


def stack_numbers(vectors: Sequence[Any], dimension: int) -> Rows:
    """Vectors of numbers as ``float32[n, dimension]``: finite, at most 1e30 in size, minus zero as zero.

    A vector is a sequence of real numbers, of any numeric type.
    """
    refused: dict[int, str] = {}
    kept: list[Vector] = []
    places: list[int] = []
    for place, vector in enumerate(vectors):
        numbers = _numbers(vector)
        if isinstance(numbers, str) or len(numbers) != dimension:
            refused[place] = numbers if isinstance(numbers, str) else "vector_length"
            continue
        kept.append(numbers)
        places.append(place)
    values = np.empty((len(kept), dimension), np.float32)
    with np.errstate(over="ignore"):
        for row, numbers in zip(values, kept, strict=True):
            row[:] = numbers
    values += np.float32(0)  # minus zero and zero are one content
    return keep(Rows(values, refused), places, np.abs(values).max(axis=1, initial=0) <= COMPONENT_MAX, "vector_range")


def stack_bits(vectors: Sequence[Any], dimension: int) -> Rows:
    """Vectors of bits as ``uint8[n, ceil(dimension / 8)]``: packed ones as they are, arrays of ``bool`` packed."""
    refused: dict[int, str] = {}
    kept: list[Vector] = []
    places: list[int] = []
    width = -(-dimension // 8)
    for place, vector in enumerate(vectors):
        array = None if vector is None else np.asarray(vector)
        if array is not None and array.dtype == np.bool_ and array.shape == (dimension,):
            array = np.packbits(array)
        if array is None or array.dtype != np.uint8 or array.shape != (width,):
            wrong = "vector_length" if array is not None and array.dtype in (np.uint8, np.bool_) else "vector_type"
            refused[place] = "no_vector" if vector is None else wrong
            continue
        kept.append(array)
        places.append(place)
    values = np.array(kept, np.uint8).reshape(len(kept), width)
    beyond = np.uint8((1 << (width * 8 - dimension)) - 1)
    return keep(Rows(values, refused), places, (values[:, -1] & beyond) == 0, "vector_padding")


def keep(rows: Rows, places: list[int], good: npt.NDArray[np.bool_], reason: str) -> Rows:
    """The good rows of several; the others are refused, at their places in the input."""
    if good.all():
        return rows
    refused = rows.refused | dict.fromkeys((places[i] for i in np.flatnonzero(~good)), reason)
    return Rows(rows.values[good], refused)


def kept_places(rows: Rows, count: int) -> list[int]:
    """Where in an input of ``count`` the rows were."""
    return [place for place in range(count) if place not in rows.refused]


def _numbers(vector: Any) -> Vector | str:
    if vector is None:
        return "no_vector"
    try:
        numbers = np.asarray(vector)
    except ValueError:  # rows of different lengths
        return "vector_type"
    return numbers if numbers.ndim == 1 and numbers.dtype.kind in "fiu" else "vector_type"
