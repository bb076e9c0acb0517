"""Draws: known answers, the laws of the numbers, and their independence of other draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from python_calls import from_python

from neardup_textbook.vectors.draws import _log, normals, signs, uniforms

_log_of = from_python(_log)
SIGNS = [[1, -1, 1, -1, 1, -1, 1, 1], [1, -1, -1, -1, 1, -1, 1, -1]]


def test_draws_have_known_answers() -> None:
    """They decide bucket keys: these numbers change only with ``SIGNING_VERSION``."""
    assert normals(2, 3, seed=1).tolist() == [
        [0.9559886455535889, -0.34727075695991516, 0.6830952763557434],
        [0.34671181440353394, -0.02366340346634388, 1.2706400156021118],
    ]
    assert signs(2, 8, seed=1).tolist() == SIGNS
    assert uniforms(3, seed=1).tolist() == [0.5665615751722809, 0.7457817572627011, 0.9710027535867962]


def test_the_logarithm_equals_that_of_the_library() -> None:
    """Within two units of the last digit, over all sizes that squares of uniform numbers take."""
    rng = np.random.default_rng(1)
    for x in [*rng.random(2000), *(2.0 ** -rng.integers(1, 106, 500)), 1.0, 0.5**0.5, np.nextafter(1.0, 0.0)]:
        assert math.isclose(_log_of(float(x)), math.log(x), rel_tol=5e-16, abs_tol=1e-16), x


def test_normals_are_normal() -> None:
    """Mean, variance, fourth moment and the tail beyond 3, within five standard deviations of a sample of 400,000."""
    x = normals(400, 1000, seed=2).ravel().astype(np.float64)
    assert abs(x.mean()) < 5 / math.sqrt(x.size)
    assert abs((x**2).mean() - 1) < 5 * math.sqrt(2 / x.size)
    assert abs((x**4).mean() - 3) < 5 * math.sqrt(96 / x.size)
    tail = math.erfc(3 / math.sqrt(2))
    assert abs((abs(x) > 3).mean() - tail) < 5 * math.sqrt(tail / x.size)


def test_neighbours_are_not_correlated() -> None:
    """Independent: the two numbers of one point of the polar method, rows, and consecutive seeds."""
    x, other = normals(500, 1000, seed=3).astype(np.float64), normals(500, 1000, seed=4).astype(np.float64)
    bound = 5 / math.sqrt(x.size)
    assert abs((x[:, :-1] * x[:, 1:]).mean()) < bound
    assert abs((x[:-1] * x[1:]).mean()) < bound
    assert abs((x * other).mean()) < bound


def test_signs_are_even() -> None:
    """As many plus as minus ones, within five standard deviations, and neighbours independent."""
    x = signs(300, 1000, seed=5).astype(np.float64)
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert abs(x.mean()) < 5 / math.sqrt(x.size)
    assert abs((x[:, :-1] * x[:, 1:]).mean()) < 5 / math.sqrt(x.size)


def test_uniforms_fill_the_unit_interval() -> None:
    """Each tenth of the interval has a tenth of the numbers."""
    counts = np.histogram(uniforms(100_000, seed=6), bins=10, range=(0, 1))[0]
    assert counts.sum() == 100_000
    assert abs(counts - 10_000).max() < 5 * math.sqrt(9000)


@pytest.mark.parametrize("draw", [normals, signs])
def test_a_row_does_not_depend_on_the_number_of_rows(draw) -> None:  # type: ignore[no-untyped-def]
    """With more planes, the first planes are the same."""
    assert np.array_equal(draw(3, 17, 7), draw(90, 17, 7)[:3])
    assert not np.array_equal(draw(3, 17, 7), draw(3, 17, 8))
