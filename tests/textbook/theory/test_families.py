"""Families: the figures of Mining of Massive Datasets 3.6 and 3.7, simulated functions, and the tables of a probe."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from neardup.errors import ConfigError
from neardup_textbook.theory.cascades import Step, members
from neardup_textbook.theory.families import FAMILIES, Sensitivity, amplified, collision, probing, propose, sensitivity
from neardup_textbook.theory.measures import MEASURES

AND_OR, OR_AND = (Step("and", 4), Step("or", 4)), (Step("or", 4), Step("and", 4))
# family -> a scale that fits, and a distance up to which its chance is above 0
SCALES = {name: (None if row.scale else 8.0) for name, row in FAMILIES.items()}


def test_every_family_is_for_a_distance() -> None:
    """Each names a row of the measures that obeys the axioms."""
    assert all(MEASURES[row.measure].distance for row in FAMILIES.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_chance_falls_from_one_as_the_distance_grows(family: str) -> None:
    """Equal items always agree; more distant items agree less."""
    row, scale = FAMILIES[family], SCALES[family]
    distances = np.linspace(0, row.scale or scale, 200)
    chances = collision(family, distances, scale)
    assert chances[0] == 1
    assert (np.diff(chances) < 0).all()
    assert ((chances >= 0) & (chances <= 1)).all()


def test_the_sensitivities_of_the_book() -> None:
    """Minhash (.3,.6,.7,.4) and (.2,.6,.8,.4); hyperplanes (180-d)/180; sampled bits 1-d/dim."""
    assert sensitivity("minhash", 0.3, 0.6) == (0.3, 0.6, pytest.approx(0.7), pytest.approx(0.4))
    assert sensitivity("cosine", 45, 120) == (45, 120, 0.75, pytest.approx(1 / 3))
    assert sensitivity("hamming", 2, 5, scale=10) == (2, 5, 0.8, 0.5)
    base = sensitivity("minhash", 0.2, 0.6)
    assert np.round(amplified(base, AND_OR), 4).tolist() == [0.2, 0.6, 0.8785, 0.0985]
    assert np.round(amplified(base, OR_AND), 4).tolist() == [0.2, 0.6, 0.9936, 0.5740]
    last = amplified(sensitivity("minhash", 0.2, 0.8), AND_OR + OR_AND)
    assert np.round(last, 7).tolist() == [0.2, 0.8, 0.9991285, 0.0000004]


@pytest.mark.parametrize(("family", "draw"), [("euclid", "standard_normal"), ("l1", "standard_cauchy")])
def test_random_lines_agree_as_often_as_the_formula_says(family: str, draw: str) -> None:
    """200,000 lines in five dimensions, segments of width 1, at six distances: within four standard errors."""
    random = np.random.default_rng(17)
    lines, start = getattr(random, draw)((200_000, 5)), random.random(200_000)
    direction = np.array([0.5, -0.3, 0.2, 0.7, -0.1])
    size = np.linalg.norm(direction, 2 if family == "euclid" else 1)
    for distance in (0.1, 0.5, 1.0, 2.0, 5.0, 20.0):
        other = direction * distance / size
        share = float((np.floor(start) == np.floor(lines @ other + start)).mean())
        p = float(collision(family, distance, 1.0))
        assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / 200_000)


def test_segments_do_what_the_book_asks_of_a_line_in_the_plane() -> None:
    """(a/2, 2a, 1/2, 1/3)-sensitive; and any two distances make a statement."""
    near, far = collision("euclid", [0.5, 2.0], 1.0)
    assert near >= 1 / 2
    assert far <= 1 / 3
    assert sensitivity("euclid", 3.0, 3.001, 1.0).p1 > sensitivity("euclid", 3.0, 3.001, 1.0).p2


def test_a_proposal_makes_the_family_what_was_asked() -> None:
    """16 functions for the book's aim; angles of 30 and 60 degrees for .95 and .01 take 1,242 in three steps."""
    assert propose("minhash", 0.2, 0.6, 0.87, 0.1) == AND_OR
    steps = propose("cosine", 30, 60, 0.95, 0.01)
    made = amplified(sensitivity("cosine", 30, 60), steps)
    assert (members(steps), len(steps)) == (1242, 3)
    assert made.p1 >= 0.95
    assert made.p2 <= 0.01


def test_a_probe_of_whole_numbers_is_the_textbook_one() -> None:
    """A thousand and 24 items, p2 one half: 10 rows; p1 the root of one half: rho one half, 32 tables, stop at 64."""
    found = probing(1024, 0.5**0.5, 0.5)
    assert (found.rows, found.tables, found.items_max) == (10, 32, 64)
    assert found.rho == pytest.approx(0.5)


@pytest.mark.parametrize("documents", [2, 1000, 10**6, 10**9])
@pytest.mark.parametrize(("p1", "p2"), [(0.8, 0.4), (0.9, 0.5), (0.99, 0.98), (0.5, 0.01)])
def test_the_tables_find_a_near_item_and_meet_few_far_ones(documents: int, p1: float, p2: float) -> None:
    """With at least 1 - 1/e; in one table one far item is expected at most; about n^rho tables, for k is rounded up."""
    found = probing(documents, p1, p2)
    assert found.rho == pytest.approx(math.log(1 / p1) / math.log(1 / p2))
    assert documents * Fraction(p2) ** found.rows <= 1 + 1e-9
    assert 1 - 1 / math.e <= found.found == pytest.approx(1 - (1 - p1**found.rows) ** found.tables)
    assert documents**found.rho * (1 - 1e-9) <= found.tables <= documents**found.rho / p1 + 1
    assert found.items_max == 2 * found.tables


def test_a_simulated_probe_stops_early_at_most_half_the_time() -> None:
    """400 probes for bits at distance .1 among 256 items, all others at .5: found at the computed rate, with few far
    candidates."""
    near, far, items = 0.9, 0.5, 256
    plan = probing(items, near, far)
    random = np.random.default_rng(23)
    found = (random.random((400, plan.tables, plan.rows)) < near).all(axis=2).any(axis=1).mean()
    met = random.binomial(items, far**plan.rows, (400, plan.tables)).sum(axis=1)
    assert abs(found - plan.found) < 4 * math.sqrt(plan.found * (1 - plan.found) / 400)
    assert (met <= plan.items_max).mean() >= 0.5


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: collision("simhash", 1.0), "family is 'simhash', but must be one of minhash, hamming, cosine"),
        (lambda: collision("euclid", 1.0), "scale is None, but the family euclid needs one above 0: the width"),
        (lambda: collision("hamming", 1.0, -8.0), "scale is -8.0, but the family hamming needs one above 0: the bits"),
        (lambda: collision("cosine", 1.0, 90.0), "scale is 90, but the family cosine has one of its own"),
        (lambda: sensitivity("minhash", 0.6, 0.3), "d1 is 0.6 and d2 is 0.3, but d1 must be 0 or more"),
        (lambda: propose("minhash", 0.0, 0.3, 0.9, 0.1), "at d1 of 0 every function says the same of a pair"),
        (lambda: propose("minhash", 0.3, 1.0, 0.9, 0.1), "at d2 of 1 every function says the same of a pair"),
        (lambda: probing(1, 0.9, 0.5), "documents is 1, but must be 2 or more"),
        (lambda: probing(10, 0.5, 0.9), "p1 is 0.5 and p2 is 0.9, but they must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, message: str) -> None:
    """The message has value, rule and remedy."""
    with pytest.raises(ConfigError, match=message):
        ask()


def test_a_sensitivity_says_its_four_numbers_by_name() -> None:
    """As the book writes them."""
    assert Sensitivity(0.2, 0.6, 0.8, 0.4)._asdict() == {"d1": 0.2, "d2": 0.6, "p1": 0.8, "p2": 0.4}
