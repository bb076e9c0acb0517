"""Lines in segments: the plane of the textbook, the law in any dimension, and rows that depend on one vector only."""

from __future__ import annotations

import numpy as np
import pytest

from neardup_textbook.signatures.p_stable import agreement, distances, segments, sign

RNG = np.random.default_rng(1)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def pairs_at(distance: float, count: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, and a second point at exactly this distance from each, in random directions."""
    x = RNG.random((count, dimension)) * 10
    return x.astype(np.float32), (x + distance * unit(RNG.standard_normal((count, dimension)))).astype(np.float32)


def measured(distance: float, lines: np.ndarray, width: float, count: int = 40) -> float:
    a, b = pairs_at(distance, count, lines.shape[1])
    offsets = RNG.random(len(lines))
    return float((segments(a, lines, offsets, width) == segments(b, lines, offsets, width)).mean())


@pytest.mark.parametrize("width", [0.5, 1.0, 3.0])
def test_lines_in_the_plane_are_as_sensitive_as_worked_out(width: float) -> None:
    """(a/2, 2a, 1/2, 1/3): at half a segment one half and more, at two segments a third at most."""
    lines = unit(RNG.standard_normal((20_000, 2)))
    assert measured(width / 2, lines, width) >= 1 / 2
    assert measured(0.1 * width, lines, width) >= 1 / 2
    assert measured(2 * width, lines, width) <= 1 / 3
    assert measured(5 * width, lines, width) <= 1 / 3


def test_lines_at_right_angles_see_no_distance() -> None:
    """Points one above the other are always in one segment of a horizontal line."""
    level = np.array([[1, 0]], np.float32)
    points = np.array([[0.3, 0], [0.3, 100]], np.float32)
    first, second = segments(points, level, np.zeros(1), width=1)
    assert first.tolist() == second.tolist() == [0]


def test_axes_cut_three_points_as_worked_by_hand() -> None:
    """Exercise 3.7.5: with segments of 1 the first two share one axis; with 2 more pairs meet."""
    points, axes = np.array([[1, 2, 3], [0, 2, 4], [4, 3, 2]], np.float32), np.eye(3, dtype=np.float32)
    assert segments(points, axes, np.zeros(3), width=1).tolist() == [[1, 2, 3], [0, 2, 4], [4, 3, 2]]
    assert segments(points, axes, np.zeros(3), width=2).tolist() == [[0, 1, 1], [0, 1, 2], [2, 1, 1]]


def test_a_segment_below_zero_is_below() -> None:
    """The interval from -a to 0 is number -1, not another 0."""
    points = np.array([[-0.5], [0.5], [-1.0]], np.float32)
    assert segments(points, np.ones((1, 1), np.float32), np.zeros(1), width=1).ravel().tolist() == [-1, 0, -1]


@pytest.mark.parametrize("dimension", [1, 2, 8, 128])
@pytest.mark.parametrize("distance", [0.1, 0.5, 1.0, 3.0])
def test_a_row_agrees_by_distance_alone(dimension: int, distance: float) -> None:
    """In any dimension with the chance of the formula, over 200 pairs of 2,048 rows; within six deviations."""
    a, b = pairs_at(distance, 200, dimension)
    share = (sign(a, 2048, seed=dimension, width=1.3) == sign(b, 2048, seed=dimension, width=1.3)).mean()
    expected = float(agreement(distance, 1.3))
    # In one dimension all pairs see the same 2,048 slopes.
    independent = 2048 if dimension < 3 else 2048 * 10
    assert abs(share - expected) < 6 * (expected * (1 - expected) / independent) ** 0.5


def test_the_agreement_falls_with_the_distance() -> None:
    """From 1 to 0, over twenty powers of ten, without a step where the formula changes."""
    chances = agreement(np.append(0.0, np.logspace(-10, 10, 4000)), width=2.5)
    assert chances[0] == 1
    assert (np.diff(chances) <= 0).all()
    assert chances[-1] < 1e-9
    assert abs(np.diff(np.log(agreement(np.array([2.4999e4, 2.5001e4]), 2.5)))).max() < 1e-3


def test_distances_invert_the_agreement() -> None:
    """Each fraction of equal rows gives the distance that expects it; without equal rows the distance is infinite."""
    shares = np.arange(101) / 100
    found = distances(shares, width=2.0)
    assert found[0] == np.inf
    assert found[-1] == 0
    assert (np.diff(found) < 0).all()
    assert agreement(found[1:], 2.0) == pytest.approx(shares[1:], abs=1e-9)


def test_segments_far_out_are_the_last() -> None:
    """Numbers beyond 2^31 in both directions become the last segment; they do not wrap."""
    points = np.array([[1e29], [-1e29]], np.float32)
    assert segments(points, np.ones((1, 1), np.float32), np.zeros(1), width=1e-3).ravel().tolist() == [
        2**31 - 1,
        -(2**31) + 1,
    ]
