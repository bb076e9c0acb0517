"""Measures over rows: the numbers of single pairs, in one fixed order of additions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup_textbook.vectors import pairwise

VECTOR_MEASURES = [pairwise.dot, pairwise.cosine, pairwise.angle, pairwise.euclidean, pairwise.manhattan]


def summed(terms: list[float]) -> float:
    """The fixed order: four sums of every fourth term, the rest into the first sum, then sums of two and two."""
    whole = len(terms) & ~3
    parts = [0.0] * 4
    for j, term in enumerate(terms[:whole]):
        parts[j % 4] += term
    for term in terms[whole:]:
        parts[0] += term
    return (parts[0] + parts[1]) + (parts[2] + parts[3])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(st.integers(1, 19), st.integers(0, 2**32 - 1))
def test_sums_have_the_order_that_is_written_here(kind, dimensions: int, seed: int) -> None:
    """Sums are equal to the last bit, for numbers of two sizes, also for lengths that are no multiple of four."""
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal((3, dimensions)).astype(kind) for _ in range(2))
    for i in range(3):
        x, y = a[i].tolist(), b[i].tolist()
        dot = summed([u * v for u, v in zip(x, y, strict=True)])
        lengths = math.sqrt(summed([u * u for u in x]) * summed([v * v for v in y]))
        assert pairwise.dot(a, b)[i] == dot
        assert pairwise.cosine(a, b)[i] == min(max(dot / lengths, -1), 1)
        assert pairwise.manhattan(a, b)[i] == summed([abs(u - v) for u, v in zip(x, y, strict=True)])
        squares = [(u - v) * (u - v) for u, v in zip(x, y, strict=True)]
        assert pairwise.euclidean(a, b)[i] == math.sqrt(summed(squares))


@pytest.mark.parametrize("measure", VECTOR_MEASURES, ids=lambda measure: measure.__name__)
def test_a_pair_measures_the_same_in_any_batch_and_either_way_round(measure) -> None:
    """50 rows give the same bits in one call, one by one, backwards, and with the sides exchanged."""
    random = np.random.default_rng(7)
    a, b = (random.standard_normal((50, 101)).astype(np.float32) for _ in range(2))
    whole = measure(a, b)
    assert whole.dtype == np.float64
    assert np.array_equal(whole, np.concatenate([measure(a[i : i + 1], b[i : i + 1]) for i in range(50)]))
    assert np.array_equal(whole, measure(np.ascontiguousarray(a[::-1]), np.ascontiguousarray(b[::-1]))[::-1])
    assert np.array_equal(whole, measure(b, a))


@pytest.mark.parametrize("measure", VECTOR_MEASURES, ids=lambda measure: measure.__name__)
def test_a_pair_measures_the_same_however_it_lies_in_memory(measure) -> None:
    """Column by column, with gaps, within a larger array, and of two types of numbers."""
    a, b = np.random.default_rng(8).standard_normal((2, 5, 11)).astype(np.float32)
    whole = measure(a, b)
    assert np.array_equal(whole, measure(np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2]))
    assert np.array_equal(whole, measure(np.hstack([b, a])[:, 11:], b.astype(np.float64)))


@given(st.integers(1, 12), st.floats(1e-30, 1e30), st.integers(0, 2**32 - 1))
def test_equal_rows_have_a_cosine_of_just_one(dimensions: int, size: float, seed: int) -> None:
    """At every size, so that a threshold of 1 finds them; their angle and distances are 0."""
    a = np.random.default_rng(seed).standard_normal((4, dimensions)) * size
    assert (pairwise.cosine(a, a) == 1).all()
    assert (pairwise.cosine(a, -a) == -1).all()
    assert not np.concatenate([measure(a, a) for measure in VECTOR_MEASURES[2:]]).any()


def test_angles_agree_with_arc_cosines() -> None:
    """To a millionth of a degree, away from 0 and 180 where arc cosines lose their digits."""
    random = np.random.default_rng(5)
    a, b = random.standard_normal((2, 200, 16))
    assert pairwise.angle(a, b) == pytest.approx(np.degrees(np.arccos(pairwise.cosine(a, b))), abs=1e-6)


def test_packed_bits_differ_as_bits_do() -> None:
    """Against unpacked arrays, for widths of 1 to 40 bytes; more than 255 differing bits are counted."""
    random = np.random.default_rng(9)
    for width in (1, 7, 8, 40):
        a, b = random.integers(0, 256, (2, 20, width), dtype=np.uint8)
        expected = (np.unpackbits(a, axis=1) != np.unpackbits(b, axis=1)).sum(axis=1)
        assert pairwise.hamming(a, b).tolist() == expected.tolist()
    assert pairwise.hamming(np.zeros((1, 40), np.uint8), np.full((1, 40), 255, np.uint8)).tolist() == [320]


def test_no_pairs_have_no_measures() -> None:
    """Arrays of no rows."""
    none = np.empty((0, 3))
    assert [measure(none, none).shape for measure in VECTOR_MEASURES] == [(0,)] * 5
    assert pairwise.hamming(none.astype(np.uint8), none.astype(np.uint8)).shape == (0,)
