"""The threshold that judged pairs propose."""

import numpy as np
import pytest

from neardup.errors import ConfigError
from neardup.pairs.evaluation import thresholds
from neardup.pairs.evaluation.thresholds import calibrated, interval_of, propose


def test_a_threshold_between_the_two_kinds_makes_no_error():
    """It is the middle of the gap, with the fewest digits that lie in it."""
    found = propose(np.array([0.9, 0.2, 0.61, 0.45]), np.array([True, False, True, False]))
    assert found == (0.5, 0.45, 0.61, 2, 2, 0, 0)
    assert propose(np.array([0.552, 0.551]), np.array([True, False])).threshold == 0.552
    assert propose(np.array([0.5516, 0.551]), np.array([True, False])).threshold == 0.5513


def test_the_fewest_errors_decide_and_a_weight_moves_them():
    """Same pairs at .3, .6, .7, .8 and different ones at .2, .4, .65: above .4 one is missed and one is false. If false
    pairs cost much, two are missed and none is false; if missed ones do, none is missed."""
    similarity = np.array([0.3, 0.6, 0.7, 0.8, 0.2, 0.4, 0.65])
    same = np.array([True] * 4 + [False] * 3)
    assert propose(similarity, same) == (0.5, 0.4, 0.6, 4, 3, 1, 1)
    assert propose(similarity, same, false_weight=0.9)[:3] == (0.7, 0.65, 0.7)
    assert propose(similarity, same, false_weight=0.1)[:3] == (0.25, 0.2, 0.3)


def test_no_threshold_has_fewer_errors_than_the_proposed_one():
    """Against every threshold of a grid, on random judgements."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        similarity, same = rng.random(12).round(2), rng.random(12) < 0.5
        if not 0 < same.sum() < 12:
            continue
        found = propose(similarity, same)
        errors = [int(np.sum((similarity >= t) != same)) for t in np.linspace(0.005, 0.995, 100)]
        assert found.missed + found.false == int(np.sum((similarity >= found.threshold) != same)) <= min(errors)


def test_a_side_without_judged_pairs_is_left_alone():
    """If every threshold up to the least pair is best, it is that pair; beyond the greatest, it is next to it."""
    assert propose(np.array([0.45, 0.6, 0.7]), np.array([True, False, True]))[:3] == (0.45, 0.0, 0.45)
    assert propose(np.array([0.87, 0.6, 0.3]), np.array([False, False, True]))[:3] == (0.9, 0.87, 1.0)


def test_pairs_that_are_judged_alike_propose_nothing():
    """A threshold has two sides."""
    with pytest.raises(ConfigError, match="2 of 2 judged pairs are the same, but a threshold needs"):
        propose(np.array([0.4, 0.5]), np.array([True, True]))
    with pytest.raises(ConfigError, match="judge more pairs"):
        propose(np.empty(0), np.empty(0, np.bool_))


def test_the_interval_is_the_same_in_parts_and_holds_the_change_of_the_answers(monkeypatch):
    """Whatever part of the resamples is in memory at once."""
    rng = np.random.default_rng(1)
    similarity = rng.random(200)
    same = rng.random(200) < similarity
    whole = interval_of(similarity, same)
    monkeypatch.setattr(thresholds, "_CELLS", 600)
    assert interval_of(similarity, same) == whole
    assert whole[0] < 0.5 < whole[1]


def test_each_signal_is_calibrated_by_the_pairs_that_have_it():
    """One of too few pairs, or of pairs judged alike, has no threshold, and says how many it has."""
    same = np.array([True, False, True, False])
    by_signal = {"text": np.array([0.9, 0.1, 0.8, 0.2]), "title": np.array([0.7, np.nan, 1.5, np.nan])}
    found = calibrated(by_signal, same)
    assert found["text"][:1] + found["text"][3:] == (0.5, 2, 2, 0, 0)
    assert (found["text"].low, found["text"].high) == (0.2, 0.8)
    assert found["title"] == (None, None, None, 2, 0, None, None)
    assert calibrated(by_signal, same, pairs_min=5)["text"] == (None, None, None, 2, 2, None, None)
