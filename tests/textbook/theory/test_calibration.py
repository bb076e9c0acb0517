"""Calibration: the fraction of true pairs at a score, from a field that was not scored."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ConfigError
from neardup_textbook.theory import calibration
from neardup_textbook.theory.calibration import KINDS, Mean


@pytest.mark.parametrize("delay", [10, 17, 31, 45])
def test_the_fraction_of_the_book_is_45_less_the_delay_over_35(delay):
    """True pairs were 10 days apart, pairs at random 45."""
    assert calibration.true_share(delay, matched=10, random=45) == (45 - delay) / 35


def test_a_publication_year_of_the_last_ten_gives_the_fraction():
    """Exercise 3.8.1: two years of ten at random are 3.3 apart; .1 for sure pairs and 2 for these make 13/32."""
    years = np.repeat(np.arange(2000, 2010), 2000)
    random = calibration.random_difference(years).value
    assert random == pytest.approx(3.3, abs=0.001)
    assert calibration.true_share(2, matched=0.1, random=3.3) == pytest.approx(13 / 32)


def test_a_delay_at_random_within_90_days_is_45_on_average():
    """Pairs further apart than 90 days are left out."""
    days = np.arange(20_000) / 10
    assert calibration.random_difference(days, difference_max=90).value == pytest.approx(45, rel=0.01)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12), st.sampled_from([0.0, 2.0, math.inf]))
def test_the_difference_at_random_equals_that_of_all_pairs(values, most):
    """It is equal to the mean difference over all pairs."""
    differences = [abs(x - y) for x, y in combinations(values, 2) if abs(x - y) <= most]
    found = calibration.random_difference(values, most)
    assert found.pairs == len(differences)
    if differences:
        assert found.value == pytest.approx(sum(differences) / len(differences))
    else:
        assert math.isnan(found.value)


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12))
def test_the_disagreement_at_random_equals_that_of_all_pairs(values):
    """It is equal to the fraction of all pairs that disagree."""
    found = calibration.random_disagreement(values)
    assert found.value == pytest.approx(np.mean([x != y for x, y in combinations(values, 2)]))
    assert found.pairs == math.comb(len(values), 2)


def test_the_error_of_a_mean_at_random_is_its_spread_over_samples():
    """The spread over repeated samples of 200 records."""
    rng = np.random.default_rng(1)
    samples = [calibration.random_difference(rng.random(200)) for _ in range(400)]
    spread = np.std([sample.value for sample in samples])
    assert np.mean([sample.error for sample in samples]) == pytest.approx(spread, rel=0.1)


def test_the_interval_holds_the_true_fraction_in_95_of_100_cases():
    """For mixtures with a known fraction, with all three means measured on samples."""
    rng = np.random.default_rng(2)
    held, tries, true, n = 0, 600, 0.7, 200
    for _ in range(tries):
        matched = calibration.mean_difference(rng.exponential(1, n))
        random = calibration.mean_difference(rng.exponential(5, n))
        mixed = np.where(rng.random(n) < true, rng.exponential(1, n), rng.exponential(5, n))
        (found,) = calibration.bins(np.full(n, 0.5), mixed, matched, random, [0.0, 1.0])
        held += found.least <= true <= found.most
    assert abs(held / tries - 0.95) < 4 * (0.95 * 0.05 / tries) ** 0.5


def test_a_bin_holds_its_lower_edge_and_the_last_one_both():
    """Bins without pairs are left out."""
    similarity = np.array([0.2, 0.4, 0.4, 1.0])
    found = calibration.bins(
        similarity, np.array([4.0, 2, 4, 0]), Mean(0, 0, 9), Mean(4, 0, 9), [0.2, 0.4, 0.6, 0.8, 1]
    )
    assert [(one.low, one.high, one.pairs, one.true_share) for one in found] == [
        (0.2, 0.4, 1, 0.0), (0.4, 0.6, 2, 0.25), (0.8, 1, 1, 1.0),
    ]  # fmt: skip
    assert math.isnan(found[0].least)
    assert 0 <= found[1].least < 0.25 < found[1].most <= 1


def test_shares_stay_within_nothing_and_all():
    """A bin may differ by more than records at random do, by chance."""
    (found,) = calibration.bins(np.full(3, 0.5), np.array([6.0, 7, 8]), Mean(0, 0, 9), Mean(4, 0, 9), [0, 1])
    assert (found.true_share, found.least) == (0, 0)


def test_the_interval_of_clusters_is_that_of_a_bootstrap():
    """It holds the true fraction in some 95 of 100 sets of clusters of which a few are wrong as a whole, and is longer
    on the side of more such clusters; a bin with one cluster has none."""
    rng = np.random.default_rng(6)
    held, lengths = 0, []
    for _ in range(100):
        clusters = np.repeat(np.arange(60), 10)
        wrong = (rng.random(60) < 0.1)[clusters]
        differences = np.where(wrong, rng.exponential(5, 600), rng.exponential(1, 600))
        sure = ~wrong & (clusters % 2 == 0)
        matched, random = calibration.mean_difference(differences[sure], clusters[sure]), Mean(5, 0.2, 400)
        clustered = calibration.Clustered(clusters, sure)
        (found,) = calibration.bins(np.full(600, 0.5), differences, matched, random, [0.0, 1.0], clustered)
        held += found.least <= 0.9 <= found.most
        lengths.append((found.true_share - found.least, found.most - found.true_share))
    assert 88 <= held <= 99
    below, above = np.mean(lengths, axis=0)
    assert below > 1.1 * above
    alone = np.where(clusters == 7, 0.9, 0.1)
    low, high = calibration.bins(alone, differences, matched, random, [0.0, 0.5, 1.0], clustered)
    assert low.least < low.true_share < low.most
    assert math.isnan(high.least)
    assert math.isnan(high.most)


def test_a_field_in_which_true_pairs_differ_no_less_is_refused():
    """Such a field says nothing about pairs."""
    with pytest.raises(ConfigError, match="does not separate them"):
        calibration.true_share(3, matched=4, random=4)
    with pytest.raises(ConfigError, match="does not separate them"):
        calibration.true_share(3, matched=4, random=math.nan)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("number", "1.5", 1.5), ("number", 10**400, None), ("number", "nan", None), ("number", None, None),
        ("date", "1970-01-02", 1.0), ("date", "1969-12-31T00:00:00+00:00", -1.0), ("date", "soon", None),
        ("date", 3, None), ("text", "qld", "qld"), ("text", "", None), ("text", 3, None),
    ],
)  # fmt: skip
def test_values_are_read_by_kind(kind, value, read):
    """A text that cannot be read gives no value."""
    assert KINDS[kind].read(value) == read


def test_texts_differ_or_not():
    """The difference is 1 or 0, in pairs and at random."""
    row = KINDS["text"]
    assert row.differ(["a", "b"], ["a", "c"]).tolist() == [0, 1]
    assert row.at_random(["a", "b"], math.inf).value == 1
    assert KINDS["number"].differ([1.0, 5.0], [4.0, 5.0]).tolist() == [3, 0]
    assert KINDS["date"].at_random([1.0, 5.0, 90.0], 10.0).value == 4
