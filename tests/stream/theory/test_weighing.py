"""Weights of false pairs against missed ones: the choice has the least error of all, by a plain computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quick_parameters import quick_first

from neardup import Config
from neardup.errors import ConfigError
from neardup.schemes.theory.curves import error_areas
from neardup.schemes.theory.shapes import shapes
from neardup.schemes.theory.tuning import Tuning, choose, probabilities
from neardup.schemes.theory.weighing import weigh

S = (np.arange(4000) + 0.5) / 4000  # middles of equal steps


def plain(tuning: Tuning, weight: float, *, emitted: bool) -> float:
    """The weighted error of a tuning as a sum over similarities, of candidates or of emitted pairs."""
    chances = probabilities(tuning, S)[emitted]
    costs = np.where(tuning.threshold > S, weight * chances, (1 - weight) * (1 - chances))
    return float(costs.mean())


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("bands_min", [1, 2])
@pytest.mark.parametrize("weight", quick_first([0.5, 0.1, 0.9], 1))
def test_no_other_bands_and_rows_have_less_error(weight: float, bands_min: int, exact: bool) -> None:
    """Of all shapes of up to 40 rows, by the areas either side of the threshold."""
    law: dict[str, Any] = {"bands_min": bands_min, "exact_score": exact}
    found = weigh(weight, 0.7, 40, 16, **law)
    errors = {
        shape: plain(choose(0.7, 0.5, 40, 16, *shape, 0.5, **law), weight, emitted=False)
        for shape in shapes(40, 16, bands_min=bands_min)
    }
    assert errors[found.bands, found.rows] <= min(errors.values()) + 1e-6
    assert len({round(error, 4) for error in errors.values()}) > 10


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_no_other_cut_has_less_error(weight: float) -> None:
    """Of all counts of equal rows, by the areas of emitted pairs."""
    found = weigh(weight, 0.7, 40, 16)
    total = found.bands * found.rows
    errors = [plain(found._replace(agreements_min=least), weight, emitted=True) for least in range(total + 2)]
    assert errors[found.agreements_min] <= min(errors) + 1e-6
    assert errors[found.agreements_min] < 0.98 * errors[0]


def test_the_areas_are_those_that_a_tuning_shows() -> None:
    """The sum of both areas with equal weights is half of what ``error_areas`` adds up to, and the least of all."""
    found = weigh(0.5, 0.8, exact_score=True)
    best = sum(error_areas(found.bands, found.rows, 0.8, 8))
    assert best == min(sum(error_areas(*shape, 0.8, 8)) for shape in shapes(128, 8))
    assert plain(found, 0.5, emitted=False) == pytest.approx(best / 2, abs=1e-4)


def test_a_greater_weight_misses_more_and_finds_less_that_is_false() -> None:
    """Over weights from .05 to .95 neither area turns back."""
    areas = []
    for weight in np.linspace(0.05, 0.95, 10):
        found = weigh(float(weight), 0.8, exact_score=True)
        areas.append(error_areas(found.bands, found.rows, 0.8, 8))
    false, missed = zip(*areas, strict=True)
    assert list(false) == sorted(false, reverse=True)
    assert list(missed) == sorted(missed)
    assert false[0] > 2 * false[-1]


def test_an_exact_score_has_the_threshold_as_its_least() -> None:
    """No emitted pair is false, so that the weight chooses candidates only; the recall is what results."""
    found = weigh(0.3, 0.8, exact_score=True)
    assert (found.score_min, found.margin, found.pass_probability) == (0.8, 0.0, 1.0)
    assert found.recall == found.candidate_probability


def test_given_bands_rows_and_cut_are_kept() -> None:
    """The weight chooses what is left open."""
    assert weigh(0.5, 0.8, bands=18, rows=7)[:2] == (18, 7)
    assert weigh(0.5, 0.8, rows=6).rows == 6
    assert weigh(0.5, 0.8, min_similarity=0.0).agreements_min == 0
    assert weigh(0.5, 0.8, min_similarity=0.5)[:2] == weigh(0.5, 0.8)[:2]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"verify": "exact"},
        {"scheme": "partial_minhash"},
        {"scheme": "hyperplane:dimension=8"},
        {"scheme": "p_stable:dimension=8,distance_scale=10.0,evidence=sketch"},
    ],
)
def test_a_weight_decides_instead_of_the_recall(settings: dict[str, Any]) -> None:
    """In every scheme that has bands; without a weight the recall decides as before."""
    low, high = (Config(false_weight=weight, **settings) for weight in (0.1, 0.9))
    assert high.tuning.recall < low.tuning.recall
    assert low.recall_promised == low.tuning.recall
    assert Config(**settings).recall_promised == 0.95 <= Config(**settings).tuning.recall


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recall": 0.9}, "recall=0.9 with false_weight=0.5.*leave one of them out"),
        ({"scheme": "prefix"}, "false_weight has no meaning with scheme prefix"),
        ({"scheme": "identical"}, "false_weight has no meaning with scheme identical"),
    ],
)
def test_a_weight_without_effect_is_refused(settings: dict[str, Any], message: str) -> None:
    """Where a recall is asked for at the same time, and where no pair is missed."""
    with pytest.raises(ConfigError, match=message):
        Config(false_weight=0.5, **settings)


@pytest.mark.parametrize("weight", [0.0, 1.0, -0.5, float("nan")])
def test_a_weight_lies_between_0_and_1(weight: float) -> None:
    """At either end one of the errors would cost nothing."""
    with pytest.raises(ConfigError, match="false_weight is"):
        weigh(weight, 0.8)
