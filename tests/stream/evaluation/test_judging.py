"""Judging: the confusion matrix, intervals that hold the truth, contents, the found fraction by similarity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import ConfigError
from neardup.pairs.evaluation.judging import Confusion, Contents, CurveBin, Proportion, bins, confusion, proportion

NAMES = st.sampled_from("abcdefgh")
PAIRS = st.lists(st.tuples(NAMES, NAMES).filter(lambda pair: pair[0] != pair[1]))


@given(PAIRS, PAIRS)
def test_every_pair_of_documents_is_in_one_place_of_the_matrix(emitted: list, true: list) -> None:
    """The order of the two ids and repetitions make no difference."""
    found = confusion(emitted, true, documents=8)
    said, is_true = ({frozenset(pair) for pair in pairs} for pairs in (emitted, true))
    assert found == (len(said & is_true), len(said - is_true), len(is_true - said), 28 - len(said | is_true))
    assert sum(found) == 28
    assert confusion([pair[::-1] for pair in emitted] * 2, true, 8) == found


def test_fractions_follow_from_the_matrix() -> None:
    """Precision, recall and their harmonic mean, in numbers that can be checked by hand."""
    matrix = Confusion(true_positives=6, false_positives=2, false_negatives=4, true_negatives=None)
    assert matrix.precision().value == 6 / 8
    assert matrix.recall().value == 6 / 10
    assert matrix.f1().value == pytest.approx(2 * 0.75 * 0.6 / (0.75 + 0.6))
    assert matrix.f1().low < matrix.f1().value < matrix.f1().high


def test_a_fraction_of_nothing_is_no_number() -> None:
    """A fraction of nothing is NaN."""
    assert all(math.isnan(x) for x in Confusion(0, 0, 0, None).precision())


def test_fewer_documents_than_the_pairs_name_are_refused() -> None:
    """The message says how many are named, with the copies that no pair names."""
    with pytest.raises(ConfigError, match="documents is 2, but the pairs name 3"):
        confusion([("a", "b")], [("b", "c")], documents=2)
    with pytest.raises(ConfigError, match="documents is 3, but the pairs name 4"):
        confusion([("a", "b")], [], documents=3, copies=2)


@pytest.mark.parametrize(("part", "whole"), [(0, 5), (5, 5), (1, 2), (97, 100), (2, 1000)])
def test_an_interval_holds_just_the_fractions_that_would_not_be_surprising(part: int, whole: int) -> None:
    """At each end that is not 0 or 1 the observed fraction lies 1.96 standard deviations away: Wilson's definition."""
    value, low, high = proportion(part, whole)
    assert 0 <= low <= value <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(value - end) / math.sqrt(end * (1 - end) / whole) == pytest.approx(1.96, abs=1e-3)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """19 of 20 samples of a known chance, by exact binomial weights: never far less."""
    for whole in (10, 50, 400):
        intervals = [proportion(part, whole) for part in range(whole + 1)]
        for p in (0.05, 0.3, 0.5, 0.9):
            weights = [math.comb(whole, m) * p**m * (1 - p) ** (whole - m) for m in range(whole + 1)]
            held = sum(w for w, x in zip(weights, intervals, strict=True) if x.low <= p <= x.high)
            assert 0.9 < held <= 1.0, (whole, p)


@given(PAIRS, PAIRS)
def test_contents_are_what_links_join(links: list, pairs: list) -> None:
    """A search through the links finds the same contents."""
    contents = Contents(links)
    reach = {name: {name} for name in "abcdefgh"}
    for _ in "abcdefgh":
        for a, b in links:
            joined = reach[a] | reach[b]
            for name in joined:
                reach[name] = reach[name] | joined
    assert all((contents.of(a) == contents.of(b)) == (b in reach[a]) for a in reach for b in reach)
    assert contents.copies == 8 - len({frozenset(x) for x in reach.values()})
    between = {frozenset((contents.of(a), contents.of(b))) for a, b in pairs if b not in reach[a]}
    assert {frozenset(pair) for pair in contents.pairs(pairs)} == between


def test_bins_hold_every_pair_once_and_expect_the_mean_of_the_curve() -> None:
    """A bin includes its lower end; its upper end belongs to the next bin, except in the last bin."""
    similarity = np.array([0.5, 0.59, 0.6, 0.8, 1.0])
    found = np.array([False, True, True, True, True])
    got = bins(similarity, found, [0.5, 0.6, 0.7, 1.0], lambda s: s**2)
    assert [(b.low, b.high, b.pairs, b.found) for b in got] == [(0.5, 0.6, 2, 1), (0.6, 0.7, 1, 1), (0.7, 1.0, 2, 2)]
    assert got[0].expected == pytest.approx((0.25 + 0.59**2) / 2)
    assert isinstance(got[0], CurveBin)
    assert got[0].share == proportion(1, 2)
    assert bins(similarity[:0], found[:0], [0.0, 1.0], lambda s: s) == []
    assert Proportion(1.0, proportion(2, 2).low, 1.0) == got[2].share
