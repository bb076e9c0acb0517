"""Cascades: the figures of Mining of Massive Datasets 3.6.3, exact fractions, and an exhaustive search."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples

from neardup.errors import ConfigError
from neardup_textbook.theory.cascades import Cascade, Step, amplify, cheapest, fixed_points, members, slope, steepest


def cascade(*steps: int, first: str) -> Cascade:
    """Steps of alternating kinds."""
    kinds = ("and", "or") if first == "and" else ("or", "and")
    return tuple(Step(kinds[i % 2], ways) for i, ways in enumerate(steps))


AND_OR, OR_AND = cascade(4, 4, first="and"), cascade(4, 4, first="or")
CASCADES = st.lists(st.builds(Step, st.sampled_from(["and", "or"]), st.integers(1, 6)), max_size=4).map(tuple)
# Exercise 3.6.1, a to d.
EXERCISE = [
    cascade(2, 3, first="and"),
    cascade(3, 2, first="or"),
    cascade(2, 2, 2, first="and"),
    cascade(2, 2, 2, 2, first="or"),
]


def exact(p: Fraction, steps: Cascade) -> Fraction:
    for kind, ways in steps:
        p = p**ways if kind == "and" else 1 - (1 - p) ** ways
    return p


def test_four_and_then_four_or_is_the_table_of_the_book() -> None:
    """Figure 3.11, chances of .2 to .9."""
    found = amplify(np.arange(2, 10) / 10, AND_OR)
    assert found.round(4).tolist() == [0.0064, 0.0320, 0.0985, 0.2275, 0.4260, 0.6666, 0.8785, 0.9860]


def test_four_or_then_four_and_is_the_other_table_of_the_book() -> None:
    """Figure 3.12, chances of .1 to .8, to the fourth digit as printed there, .3334 for .33345."""
    found = amplify(np.arange(1, 9) / 10, OR_AND)
    assert found.tolist() == pytest.approx(
        [0.0140, 0.1215, 0.3334, 0.5740, 0.7725, 0.9015, 0.9680, 0.9936], abs=0.51e-4
    )


def test_the_one_after_the_other_takes_256_functions() -> None:
    """Example 3.21: .8 and .2 become .9991285 and .0000004."""
    both = (*AND_OR, *OR_AND)
    near, far = amplify([0.8, 0.2], both)
    assert members(both) == 256
    assert (round(float(near), 7), round(float(far), 7)) == (0.9991285, 0.0000004)


@given(CASCADES, st.floats(0.0, 1.0))
def test_a_cascade_is_its_formula(steps: Cascade, p: float) -> None:
    """Compared with exact fractions, within a relative error, also for tiny values."""
    assert float(amplify(p, steps)) == pytest.approx(float(exact(Fraction(p), steps)), rel=1e-9, abs=1e-300)


def test_fixed_points_are_where_the_book_says() -> None:
    """Between .7 and .8 for 4-AND 4-OR, the mirror image of that for the other order; Exercise 3.6.2 to six digits."""
    (low,), (high,) = fixed_points(OR_AND), fixed_points(AND_OR)
    assert (round(high, 6), round(low, 6)) == (0.724492, 0.275508)
    assert high + low == pytest.approx(1)
    assert [round(p, 6) for steps in EXERCISE for p in fixed_points(steps)] == [0.389391, 0.151625, 0.847445, 0.381966]


@given(CASCADES)
def test_a_fixed_point_is_left_as_it_is_and_chances_next_to_it_are_driven_away(steps: Cascade) -> None:
    """A cascade of one kind has no fixed point; a cascade of both kinds has at least one."""
    found = fixed_points(steps)
    assert bool(found) == (len({step.kind for step in steps if step.ways > 1}) == 2)
    for p in found:
        assert float(amplify(p, steps)) == pytest.approx(p, rel=1e-9)
        if len(found) == 1:
            below, above = p * 0.9, 1 - (1 - p) * 0.9
            assert float(amplify(below, steps)) < below
            assert float(amplify(above, steps)) > above


def test_a_fixed_point_near_an_end_is_found() -> None:
    """A thousand-way OR before a two-way AND has a fixed point at a millionth."""
    (p,) = fixed_points(cascade(1000, 2, first="or"))
    assert p == pytest.approx(1.001e-6, rel=1e-3)


@pytest.mark.parametrize(("r", "b"), [(4, 4), (5, 20), (7, 18), (2, 50), (1, 3)])
def test_the_steepest_slope_is_where_the_second_derivative_vanishes(r: int, b: int) -> None:
    """Exercise 3.6.4: AND then OR at p^r = (r - 1)/(r b - 1); OR then AND at its mirror image, as steep."""
    p = ((r - 1) / (r * b - 1)) ** (1 / r)
    rise = b * r * p ** (r - 1) * (1 - p**r) ** (b - 1)
    assert steepest(cascade(r, b, first="and")) == (pytest.approx(p, abs=1e-6), pytest.approx(rise))
    assert steepest(cascade(r, b, first="or")) == (pytest.approx(1 - p, abs=1e-6), pytest.approx(rise))


def test_the_curves_of_the_book_are_nowhere_much_steeper_than_two() -> None:
    """Exercise 3.6.3: 2.45 at .669 and at .331."""
    assert [round(x, 3) for x in (*steepest(AND_OR), *steepest(OR_AND))] == [0.669, 2.45, 0.331, 2.45]


@given(CASCADES, st.floats(0.01, 0.99))
def test_the_slope_is_the_derivative(steps: Cascade, p: float) -> None:
    """The derivative agrees with differences."""
    step = 1e-6
    difference = (amplify(p + step, steps) - amplify(p - step, steps)) / (2 * step)
    assert float(slope(p, steps)) == pytest.approx(float(difference), rel=1e-4, abs=1e-6)


def fewest(given_: tuple[float, float], asked: tuple[float, float], members_max: int) -> int | None:
    """The fewest functions by trying every cascade of up to three steps."""
    counts = []
    for first in ("and", "or"):
        for ways in product(range(1, members_max + 1), repeat=2):
            if math.prod(ways) <= members_max:
                for third in range(1, members_max // math.prod(ways) + 1):
                    steps = cascade(*ways, third, first=first)
                    near, far = amplify(given_, steps)
                    if near >= asked[0] * (1 - 1e-12) and far <= asked[1] * (1 + 1e-12):
                        counts.append(members(steps))
    return min(counts, default=None)


@examples(12)
@given(st.floats(0.3, 0.95), st.floats(0.2, 0.8), st.floats(0.5, 0.99), st.floats(0.01, 0.4))
def test_no_cascade_of_fewer_functions_does_what_is_asked(p1: float, ratio: float, high: float, low: float) -> None:
    """Every cascade of at most 24 functions is tried; the proposal reaches the goal."""
    given_, asked = (p1, p1 * ratio), (high, low)
    least = fewest(given_, asked, 24)
    if least is None:
        with pytest.raises(ConfigError, match="no cascade of 24 functions"):
            cheapest(*given_, *asked, members_max=24)
        return
    found = cheapest(*given_, *asked, members_max=24)
    near, far = amplify(given_, found)
    assert members(found) == least
    assert near >= high * (1 - 1e-9)
    assert far <= low * (1 + 1e-9)


def test_the_proposals_for_the_aims_of_the_book() -> None:
    """16 functions reach what 4 x 4 reaches; three constructions if that is cheaper; none if nothing is needed."""
    assert cheapest(0.8, 0.4, 0.878, 0.0986) == AND_OR
    assert members(cheapest(0.8, 0.4, 0.9936, 0.5741)) == 16
    three = cheapest(0.8, 0.2, 0.9991285, 0.00000041)
    assert len(three) == 3
    assert members(three) <= 256
    assert cheapest(0.8, 0.4, 0.9936, 0.5741, banded=True) != cheapest(0.8, 0.4, 0.9936, 0.5741)
    assert [step.kind for step in cheapest(0.8, 0.2, 0.9991285, 0.00000041, banded=True)] == ["and", "or"]
    assert cheapest(0.8, 0.4, 0.8, 0.4) == cheapest(0.8, 0.4, 0.7, 0.5) == ()
    assert cheapest(0.8, 0.4, 0.6, 0.17) == (Step("and", 2),)
    assert cheapest(0.8, 0.4, 0.95, 0.7) == (Step("or", 2),)


def test_chances_out_of_order_and_aims_out_of_reach_are_refused() -> None:
    """The message has value, rule and remedy."""
    with pytest.raises(ConfigError, match=r"p1 and p2 of the family are 0.4 and 0.8, but must lie between 0 and 1"):
        cheapest(0.4, 0.8, 0.9, 0.1)
    with pytest.raises(ConfigError, match=r"the p1 and p2 asked for are 0.1 and 0.9"):
        cheapest(0.8, 0.4, 0.1, 0.9)
    with pytest.raises(ConfigError, match=r"no cascade of 5000 functions makes chances of 0.81 and 0.8 into"):
        cheapest(0.81, 0.8, 0.999, 0.001, members_max=5000)
