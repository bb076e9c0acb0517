"""Projections: the sums are those of the definition to the last bit, in any batch, at any place, on any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neardup_textbook.vectors.projections import BLOCK_VECTORS, panels, project
from neardup_textbook.vectors.tiles import PANEL_LINES, TILE_VECTORS_MAX

RNG = np.random.default_rng(1)


def in_order(vector: np.ndarray, line: np.ndarray) -> np.float32:
    """The definition: fused multiply-adds from the first component to the last, one rounding to ``float32`` each.

    A product of two ``float32`` is exact in ``float64``; adding to it rounds once to 53 bits and once to 24, which is
    one rounding but where the first falls on the middle between two numbers: extended precision makes that rare.
    """
    total = np.float32(0)
    for a, b in zip(vector, line, strict=True):
        total = np.float32(np.longdouble(a) * np.longdouble(b) + np.longdouble(total))
    return total


@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (5, 3, 16), (6, 8, 17), (7, 100, 31), (13, 65, 48)])
def test_a_sum_matches_the_definition(n: int, d: int, k: int) -> None:
    """Sums are equal bit by bit, for full and for partial tiles and panels."""
    vectors, lines = (RNG.standard_normal((rows, d)).astype(np.float32) for rows in (n, k))
    assert project(vectors, lines).tolist() == [[in_order(v, line) for line in lines] for v in vectors]


def test_a_vector_has_the_same_sums_in_any_batch() -> None:
    """Alone, at any place of a tile or a block, and among any others."""
    count = 2 * BLOCK_VECTORS + TILE_VECTORS_MAX + 1
    vectors, lines = (RNG.standard_normal((rows, 50)).astype(np.float32) for rows in (count, 40))
    whole = project(vectors, lines)
    for size in (1, 2, 6, 7, TILE_VECTORS_MAX, TILE_VECTORS_MAX + 1, BLOCK_VECTORS, BLOCK_VECTORS + 1):
        parts = [project(vectors[i : i + size], lines) for i in range(0, count, size)]
        assert np.array_equal(np.concatenate(parts), whole), size


def test_a_line_has_the_same_sums_in_any_panel() -> None:
    """Other lines make no difference."""
    vectors, lines = (RNG.standard_normal((rows, 33)).astype(np.float32) for rows in (9, 2 * PANEL_LINES + 3))
    whole = project(vectors, lines)
    assert np.array_equal(np.concatenate([project(vectors, line[None]) for line in lines], axis=1), whole)


def test_vectors_need_not_be_contiguous() -> None:
    """Columns of a larger array, or every other row, give what their copy gives."""
    wide, lines = (RNG.standard_normal((rows, 20)).astype(np.float32) for rows in (30, 5))
    assert np.array_equal(project(wide[::2, 3:9], lines[:, 3:9]), project(wide[::2, 3:9].copy(), lines[:, 3:9].copy()))


def test_threads_do_not_change_a_sum() -> None:
    """Four threads over the same vectors give what one gives."""
    vectors, lines = (RNG.standard_normal((rows, 64)).astype(np.float32) for rows in (500, 64))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: project(vectors, lines), range(8)))
    assert all(np.array_equal(results[0], result) for result in results)


def test_no_vectors_have_no_sums() -> None:
    """An empty batch has no rows."""
    assert project(np.empty((0, 7), np.float32), np.ones((3, 7), np.float32)).shape == (0, 3)


def test_a_panel_is_filled_up_with_zeros() -> None:
    """17 lines are two panels, and the second holds one."""
    lines = RNG.standard_normal((PANEL_LINES + 1, 5)).astype(np.float32)
    both = panels(lines)
    assert both.shape == (2, 5, PANEL_LINES)
    assert np.array_equal(both[1, :, 0], lines[PANEL_LINES])
    assert not both[1, :, 1:].any()
