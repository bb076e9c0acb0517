"""Vectors as they come in: lists, base64, arrays; and every reason to refuse one."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.vector_input import VECTOR_REASONS, decode_vector, kept_places, stack_bits, stack_numbers

FLOATS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20)


def b64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


@settings(max_examples=100)
@given(FLOATS)
def test_a_list_and_its_base64_are_one_vector(numbers: list[float]) -> None:
    """Little-endian ``float32``, or the numbers themselves."""
    from_list = decode_vector(json.loads(json.dumps(numbers)), bits=False)
    from_bytes = decode_vector(b64(np.array(numbers, "<f4")), bits=False)
    assert from_list.tolist() == from_bytes.tolist() == numbers


@settings(max_examples=100)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=40))
def test_a_list_of_bits_and_its_base64_are_one_vector(bits: list[int]) -> None:
    """Packed, the first bit highest."""
    packed = np.packbits(bits)
    assert decode_vector(bits, bits=True).tolist() == decode_vector(b64(packed), bits=True).tolist() == packed.tolist()
    assert stack_bits([packed, np.array(bits, bool)], len(bits)).values.tolist() == [packed.tolist()] * 2


@pytest.mark.parametrize(
    ("value", "bits", "reason"),
    [
        (None, False, "vector_type"),
        (7, False, "vector_type"),
        ({"0": 1}, False, "vector_type"),
        ([1, None], False, "vector_type"),
        ([1, True], False, "vector_type"),
        ([[1, 2]], False, "vector_type"),
        (["1"], True, "vector_type"),
        ("AACA", False, "vector_base64"),
        ("AACAPw", False, "vector_base64"),
        ("AACAPw=\n=", False, "vector_base64"),
        ("é", True, "vector_base64"),
        ("\ud800", True, "vector_base64"),
        ([0, 1, 2], True, "vector_component"),
        ([0, 0.5], True, "vector_component"),
    ],
)
def test_a_value_that_is_no_vector_is_refused(value: Any, bits: bool, reason: str) -> None:
    """With a reason, never an exception."""
    assert decode_vector(value, bits) == reason
    assert reason in VECTOR_REASONS


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (None, "no_vector"),
        ("text", "vector_type"),
        ([[1.0, 2.0, 3.0]], "vector_type"),
        ([[1.0], [2.0, 3.0]], "vector_type"),
        ([True, False, True], "vector_type"),
        ([1j, 2j, 3j], "vector_type"),
        ([], "vector_length"),
        ([1.0, 2.0], "vector_length"),
        ([1.0, 2.0, 3.0, 4.0], "vector_length"),
        ([1.0, float("nan"), 3.0], "vector_range"),
        ([1.0, float("inf"), 3.0], "vector_range"),
        ([1.0, -1e31, 3.0], "vector_range"),
        ([1.0, 1e300, 3.0], "vector_range"),
    ],
)
def test_a_vector_that_cannot_be_used_is_refused(vector: Any, reason: str) -> None:
    """And those beside it are taken, in their order."""
    rows = stack_numbers([[1, 2, 3], vector, np.array([4, 5, 6], np.uint8)], 3)
    assert rows.values.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert rows.refused == {1: reason}
    assert reason in VECTOR_REASONS
    assert kept_places(rows, 3) == [0, 2]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (None, "no_vector"),
        ([0.5] * 2, "vector_type"),
        (np.zeros(3, np.uint8), "vector_length"),
        (np.zeros(12, bool), "vector_length"),
        (np.zeros((1, 2), np.uint8), "vector_length"),
        (np.array([0, 1], np.uint8), "vector_padding"),
    ],
)
def test_bits_that_cannot_be_used_are_refused(vector: Any, reason: str) -> None:
    """Eleven bits are two bytes, of whose last five none may be set."""
    good = np.array([255, 224], np.uint8)
    rows = stack_bits([vector, good], 11)
    assert (rows.values.tolist(), rows.refused) == ([good.tolist()], {0: reason})
    assert reason in VECTOR_REASONS


def test_minus_zero_is_zero() -> None:
    """They compare equal, so they are one content."""
    rows = stack_numbers([[-0.0, 1.0], [0.0, 1.0]], 2)
    assert rows.values[0].tobytes() == rows.values[1].tobytes()


def test_none_at_all_is_an_empty_matrix() -> None:
    """Of no rows, of either kind."""
    assert stack_numbers([], 5).values.shape == (0, 5)
    assert stack_bits([None], 9).values.shape == (0, 2)
