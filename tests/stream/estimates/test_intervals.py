"""The intervals of a sample: known answers, and the law that they hold the truth."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from neardup.pairs.estimates.intervals import clopper_pearson, effective_units


@pytest.mark.parametrize(
    ("found", "units", "low", "high"),
    [(8, 10, 0.4439, 0.9748), (0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (285, 300, 0.9189, 0.9717),
     (95_000, 100_000, 0.9486, 0.9513), (1, 1_000_000, 0.0, 0.0)],
)  # fmt: skip
def test_the_interval_has_its_known_ends(found: int, units: int, low: float, high: float) -> None:
    """Clopper and Pearson's tables; the ends of nothing found and of everything are (tail)^(1 / n) away."""
    value = clopper_pearson(found, units)
    assert value.value == found / units
    assert (round(value.low, 4), round(value.high, 4)) == (low, high)


def test_a_sample_of_nothing_says_nothing() -> None:
    """Neither a fraction nor an interval."""
    assert all(math.isnan(x) for x in clopper_pearson(0, 0))


@pytest.mark.parametrize("recall", [0.5, 0.9, 0.99])
def test_intervals_of_contents_hold_the_truth_in_95_of_100_streams(recall: float) -> None:
    """Streams of 2,000 contents in clusters that are found or missed whole, and samples of 200: the draw of contents is
    at random, so lumps do no harm."""
    interval, rng, held = functools.cache(clopper_pearson), np.random.default_rng(5), 0
    for _ in range(1_000):
        sizes = rng.geometric(0.2, 400)
        found = np.repeat(rng.random(400) < recall, sizes)
        drawn = rng.choice(found, 200, replace=False)
        low, high = interval(int(drawn.sum()), 200)[1:]
        held += low <= found.mean() <= high
    assert held >= 950


def test_an_interval_of_300_units_is_narrow_where_recall_is_high() -> None:
    """At most .05 wide from a fraction of .96 on."""
    widths = [high - low for found in range(288, 301) for _, low, high in [clopper_pearson(found, 300)]]
    assert max(widths) <= 0.05


def test_units_of_one_weight_count_whole_and_one_lump_counts_once() -> None:
    """Kish: four pairs each are as good as one each; a lump hides the others."""
    assert effective_units(np.full(50, 4)) == 50
    assert effective_units(np.array([0, 0, 7])) == 1
    assert effective_units(np.empty(0, np.int64)) == 0
    assert 1 < effective_units(np.array([1_000, *[1] * 100])) < 1.3
