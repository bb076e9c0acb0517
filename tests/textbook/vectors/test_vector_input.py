"""Vectors as they come in: lists, arrays, bytes; and every reason to refuse one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples

from neardup_textbook.kinds.vector_options import DIMENSION_MAX
from neardup_textbook.vectors.vector_input import (
    COMPONENT_MAX,
    VectorRows,
    largest,
    read_bits,
    read_numbers,
)

FLOATS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20)


@given(FLOATS)
def test_a_list_an_array_and_its_bytes_are_one_vector(numbers: list[float]) -> None:
    """Of whatever numeric type the array is."""
    array = np.array(numbers, "<f4")
    rows = read_numbers([numbers, tuple(numbers), array, array.astype(np.float64), array.tobytes()], len(numbers))
    assert rows.values.tolist() == [numbers] * 5
    assert rows.values.dtype == np.float32
    assert rows.refused == {}


@given(st.lists(st.integers(0, 1), min_size=1, max_size=40))
def test_a_list_of_bits_and_packed_ones_are_one_vector(bits: list[int]) -> None:
    """The first bit is the highest bit of its byte."""
    packed = np.packbits(bits)
    rows = read_bits([bits, np.array(bits, bool), packed, packed.tobytes(), list(map(float, bits))], len(bits))
    assert rows.values.tolist() == [packed.tolist()] * 5
    assert rows.refused == {}


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (None, "no_vector"),
        ("text", "vector_type"),
        (["1", "2", "3"], "vector_type"),
        ([1, None, 2], "vector_type"),
        ([[1.0, 2.0, 3.0]], "vector_type"),
        ([[1.0], [2.0, 3.0]], "vector_type"),
        (np.array([True, False, True]), "vector_type"),
        (np.array([1j, 2j, 3j]), "vector_type"),
        (7.0, "vector_type"),
        ([], "vector_length"),
        (b"", "vector_length"),
        (b"\0" * 13, "vector_length"),
        ([1.0, 2.0], "vector_length"),
        ([1.0, 2.0, 3.0, 4.0], "vector_length"),
        ([1.0, float("nan"), 3.0], "vector_range"),
        ([1.0, float("inf"), 3.0], "vector_range"),
        ([1.0, -1e31, 3.0], "vector_range"),
        ([1.0, 1e300, 3.0], "vector_range"),
        (np.array([1.0, np.nan, 3.0], "<f4").tobytes(), "vector_range"),
    ],
)
def test_a_vector_that_cannot_be_used_is_refused(vector: Any, reason: str) -> None:
    """The others are read, in their order."""
    rows = read_numbers([[1, 2, 3], vector, np.array([4, 5, 6], np.uint8)], 3)
    assert rows.values.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert rows.positions.tolist() == [0, 2]
    assert rows.refused == {1: reason}


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (None, "no_vector"),
        ("text", "vector_type"),
        (np.array([0.5] * 2), "vector_type"),
        ([[0] * 11], "vector_type"),
        (np.zeros((1, 2), np.uint8), "vector_type"),
        (np.zeros(3, np.uint8), "vector_length"),
        (b"\0", "vector_length"),
        (np.zeros(12, bool), "vector_length"),
        ([0] * 10, "vector_length"),
        ([2] * 11, "vector_bit"),
        ([0.5] * 11, "vector_bit"),
        (b"\0\1", "vector_padding"),
    ],
)
def test_bits_that_cannot_be_used_are_refused(vector: Any, reason: str) -> None:
    """Eleven bits are two bytes, of whose last five none may be set."""
    good = np.array([255, 224], np.uint8)
    rows = read_bits([vector, good], 11)
    assert (rows.values.tolist(), rows.positions.tolist()) == ([good.tolist()], [1])
    assert rows.refused == {0: reason}


ARRAYS = [
    np.array([1.5, -0.0, 3e38]), np.array([np.nan, 0, 1], "f4"), np.array([1e300, 0, 1]), np.array([1, -2, 3], ">f4"),
    np.array([2**63 - 1, 1, 2]), np.array([2**64 - 1, 1, 2], "u8"), np.array([1, 2, 3], "u1"), np.array([1, 2], "f4"),
    np.array([True, False, True]), np.array([1j, 2, 3]), np.array(["1", "2", "3"]), np.array([[1, 2, 3]]),
    np.array(7.0), np.array([1, None, 3]), np.arange(6.0)[::2], np.array([1e30, 0, 1]), np.array([1e31, 0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("read", [read_numbers, read_bits])
@examples(150)
@given(vectors=st.lists(st.sampled_from(ARRAYS)) | st.lists(st.binary(max_size=12) | st.just(bytes(12))))
def test_a_vector_is_read_alike_in_any_company(read: Callable[..., VectorRows], vectors: list[Any]) -> None:
    """With others of its kind, which are read at once, and with a list: read or refused as if it were alone."""
    dimension = 3 if read is read_numbers else 17
    alone = [read([vector, [0] * dimension], dimension) for vector in vectors]
    rows = read(vectors, dimension)
    assert rows.values.tolist() == [values for one in alone for values in one.values[:-1].tolist()]
    assert rows.positions.tolist() == [i for i, one in enumerate(alone) if not one.refused]
    assert rows.refused == {i: one.refused[0] for i, one in enumerate(alone) if one.refused}


@pytest.mark.parametrize("vectors", [[[-0.0, 1.0], [0.0, 1.0]], list(np.array([[-0.0, 1.0], [0.0, 1.0]], "<f4"))])
def test_minus_zero_is_zero(vectors: list[Any]) -> None:
    """They compare equal, so they have one content; the caller's vectors do not change."""
    before = [np.array(vector).tobytes() for vector in vectors]
    for given_ in (vectors, [np.array(vector, "<f4").tobytes() for vector in vectors]):
        rows = read_numbers(given_, 2)
        assert rows.values[0].tobytes() == rows.values[1].tobytes()
    assert [np.array(vector).tobytes() for vector in vectors] == before


def test_the_largest_component_is_found_by_its_size() -> None:
    """Infinity is larger than any number, and NaN gives NaN."""
    vectors = np.array([[1, -3, 2], [0, -0.0, 0], [1e-45, 0, 0], [-np.inf, 1, 1], [np.inf, np.nan, 1]], np.float32)
    assert np.array_equal(largest(vectors), np.array([3, 0, 1e-45, np.inf, np.nan], np.float32), equal_nan=True)


def test_none_at_all_is_an_empty_matrix() -> None:
    """Of no rows, of either kind."""
    assert read_numbers([], 5).values.shape == (0, 5)
    assert read_bits([None], 9).values.shape == (0, 2)


def test_sums_over_the_longest_vector_stay_finite() -> None:
    """Of products of its components with the largest number that the polar method can draw, in ``float32``."""
    assert np.finfo(np.float32).max > COMPONENT_MAX * DIMENSION_MAX * 12
