"""Measures: the worked numbers of Mining of Massive Datasets 3.1, and what every measure keeps to."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.measures import MEASURES, containment, jaccard, jaccard_bag, jaccard_bag_sum

BAG = st.lists(st.integers(0, 12), max_size=20)
BUYERS = {"B1": "AB", "B2": "ABD", "B3": "ACD"}


def items(letters: str) -> np.ndarray:
    return np.frombuffer(letters.encode(), np.uint8).astype(np.uint64)


def similarities(sets: dict[str, str]) -> dict[str, Fraction]:
    pairs = combinations(sets, 2)
    return {a + b: Fraction(jaccard(items(sets[a]), items(sets[b]))).limit_denominator(100) for a, b in pairs}


def test_sets_with_three_in_common_of_eight_are_similar_by_three_eighths() -> None:
    """Figure 3.1."""
    assert jaccard(items("abcde"), items("cdefgh")) == 3 / 8


def test_buyers_are_similar_by_what_they_bought() -> None:
    """B1 bought A and B; B2 A, B and D; B3 A, C and D: 2/3, 1/4, 1/2."""
    assert similarities(BUYERS) == {"B1B2": Fraction(2, 3), "B1B3": Fraction(1, 4), "B2B3": Fraction(1, 2)}


def test_items_are_similar_by_who_bought_them() -> None:
    """The same purchases the other way round: AB 2/3, AC 1/3, AD 2/3, BC 0, BD 1/3."""
    bought_by = {item: "".join(b[1] for b, bought in BUYERS.items() if item in bought) for item in "ABCD"}
    found = similarities(bought_by)
    third = Fraction(1, 3)
    assert {pair: found[pair] for pair in ("AB", "AC", "AD", "BC", "BD")} == {
        "AB": 2 * third,
        "AC": third,
        "AD": 2 * third,
        "BC": 0,
        "BD": third,
    }


def test_exercise_sets_have_their_similarities() -> None:
    """Exercise 3.1.1: {1,2,3,4}, {2,3,5,7} and {2,4,6} give 1/3, 2/5 and 1/6."""
    a, b, c = (np.array(x) for x in ([1, 2, 3, 4], [2, 3, 5, 7], [2, 4, 6]))
    assert [jaccard(a, b), jaccard(a, c), jaccard(b, c)] == [1 / 3, 2 / 5, 1 / 6]


def test_bags_are_similar_by_a_third_with_summed_and_a_half_with_greatest_union() -> None:
    """{a,a,a,b} and {a,a,b,b,c} have 3 in common, of 9 summed or 6 at most."""
    a, b = items("aaab"), items("aabbc")
    assert jaccard_bag_sum(a, b) == 1 / 3
    assert jaccard_bag(a, b) == 1 / 2


def test_ratings_as_bags_count_a_film_once_a_star() -> None:
    """Five stars and one against three and two share 3 + 1 of 5 + 2; only liking or hating them shares less."""
    a, b = np.repeat([1, 2], [5, 1]), np.repeat([1, 2], [3, 2])
    assert jaccard_bag(a, b) == 4 / 7
    liked, hated = 10, 20
    assert jaccard(np.array([1 + liked, 2 + hated]), np.array([1 + liked, 2 + liked])) == 1 / 3


def test_containment_is_the_share_of_the_first() -> None:
    """Half of {1,2} is in {2,3,4}, a third of which is in {1,2}."""
    a, b = np.array([1, 2]), np.array([2, 3, 4])
    assert [containment(a, b), containment(b, a)] == [1 / 2, 1 / 3]


@pytest.mark.parametrize("name", MEASURES)
def test_nothing_is_similar_to_the_empty_set(name: str) -> None:
    """Not even the empty set: two empty texts are not duplicates of each other."""
    empty, full = np.empty(0, np.uint64), items("ab")
    assert [MEASURES[name](a, b) for a, b in ((empty, empty), (empty, full), (full, empty))] == [0, 0, 0]


@pytest.mark.parametrize("name", MEASURES)
@given(a=BAG, b=BAG)
def test_a_measure_is_between_0_and_1_and_leaves_its_arguments_alone(name: str, a: list[int], b: list[int]) -> None:
    """And is 1 for equal sets, one half for equal bags with summed union."""
    x, y = np.array(a, np.uint64), np.array(b, np.uint64)
    assert 0 <= MEASURES[name](x, y) <= 1
    assert x.tolist() == a
    assert y.tolist() == b
    if a:
        assert MEASURES[name](x, x) == (0.5 if name == "jaccard_bag_sum" else 1)


@given(a=BAG, b=BAG)
def test_measures_are_what_python_sets_say(a: list[int], b: list[int]) -> None:
    """Sets against set operators, bags against multiplicities counted one by one."""
    x, y = np.array(a, np.uint64), np.array(b, np.uint64)
    both, either = set(a) & set(b), set(a) | set(b)
    assert jaccard(x, y) == (len(both) / len(either) if either else 0)
    assert containment(x, y) == (len(both) / len(set(a)) if a else 0)
    least = sum(min(a.count(v), b.count(v)) for v in either)
    greatest = sum(max(a.count(v), b.count(v)) for v in either)
    assert jaccard_bag(x, y) == (least / greatest if greatest else 0)
    assert jaccard_bag_sum(x, y) == (least / (len(a) + len(b)) if a or b else 0)
