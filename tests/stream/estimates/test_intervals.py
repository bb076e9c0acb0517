"""The intervals of a sample: known answers, and the law that they hold the truth."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from neardup.pairs.estimates.intervals import (
    Stratum,
    clopper_pearson,
    count_bounds,
    effective_units,
    recall_of,
    share_of,
)


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


def test_the_bounds_of_a_part_are_those_of_all_samples_of_it() -> None:
    """Every size up to 9 and every sample of it: a count is within its bounds iff neither tail is too small."""
    for size in range(1, 10):
        for sampled in range(size + 1):
            for units in range(sampled + 1):
                possible = []
                for count in range(size + 1):
                    ways = [math.comb(count, n) * math.comb(size - count, sampled - n) for n in range(sampled + 1)]
                    if min(sum(ways[: units + 1]), sum(ways[units:])) > 0.05 * sum(ways):
                        possible.append(count)
                assert count_bounds(Stratum(units, sampled, size), 0.05) == (possible[0], possible[-1])


@pytest.mark.parametrize(
    ("units", "missed", "false", "others"),
    [(400, 2, 500, 5_000), (20, 0, 2, 3_000), (5_000, 300, 700, 9_000), (300, 90, 300, 300), (60, 40, 0, 20_000)],
)
def test_recall_from_two_parts_holds_the_truth_in_95_of_100_draws(
    units: int, missed: int, false: int, others: int
) -> None:
    """Units that were found and missed, and contents that are none; of the units one in a thousand is not seen. The
    interval holds the truth in 95 % of draws of 1,500 contents at least; the estimate is near it on average."""
    rng, held, values = np.random.default_rng(units), 0, []
    interval = functools.cache(recall_of)
    for _ in range(1_000):
        drawn = []
        for count, rest, most in ((units, false, 500), (missed, others, 1_000)):
            seen = int(rng.binomial(count, 0.999))
            sampled = min(most, count + rest)
            drawn.append(Stratum(int(rng.hypergeometric(seen, count + rest - seen, sampled)), sampled, count + rest))
        value, low, high = interval(*drawn, 0.999)
        held += low <= units / (units + missed) <= high
        values.append(value)
    assert held >= 950
    assert abs(float(np.mean(values)) - units / (units + missed)) < 0.05


def test_few_duplicates_among_many_contents_give_a_narrow_interval() -> None:
    """439 units of 24,552 contents, most of which cannot be units: a sample of all that gave .12 gives below .05."""
    low, high = recall_of(Stratum(311, 667, 916), Stratum(0, 1_333, 5_339), 0.999)[1:]
    assert high - low < 0.04
    assert recall_of(Stratum(20, 20, 20), Stratum(0, 8, 8), 0.999)[1:] == (1, 1)


def test_a_share_of_a_whole_part_has_no_error_but_what_cannot_be_seen() -> None:
    """A sample of a part has one; of nothing, nothing is said."""
    assert share_of(Stratum(90, 100, 100)) == (0.9, 0.9, 0.9)
    assert share_of(Stratum(90, 100, 100), 0.999) == (0.9, 0.9, 0.92)
    low, high = share_of(Stratum(90, 100, 1_000))[1:]
    wider = clopper_pearson(90, 100)
    assert wider.low < low < 0.9 < high < wider.high
    for nothing in (share_of(Stratum(0, 0, 0)), recall_of(Stratum(0, 5, 5), Stratum(0, 0, 0))):
        assert all(math.isnan(x) for x in nothing)
