"""Signatures from parts of the universe: the worked example, infinite rows, and unbiased estimates from the rest."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from oracle import pair_of_sets

from neardup.schemes.signatures import INFINITY
from neardup_textbook.signatures.partial import sign, sign_ranked
from neardup_textbook.signatures.permutation import sign_ranked as sign_whole

# Figure 3.5: three sets in a universe of eight.
FIGURE = [[4, 5, 6], [3, 4, 5], [2, 3, 4]]


def ragged(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for one in sets for x in one], np.uint64), np.cumsum([0, *map(len, sets)])


def test_two_groups_of_four_agree_as_often_as_expected() -> None:
    """Example 3.9: over all hash functions 1/3, 1/6 and 1/2, where the similarities are 1/2, 1/5 and 1/2.

    Every order of the eight, so every order of each half as often.
    """
    ranks = np.array(list(permutations(range(8))))
    signatures = sign_ranked(*ragged(FIGURE), ranks, 4)
    assert (signatures[0, 0::2] == INFINITY).all()
    assert (signatures[1:] != INFINITY).all()
    expected = []
    for i, j in combinations(range(3), 2):
        agree = (signatures[i] == signatures[j]) & (signatures[i] != INFINITY)
        expected.append(Fraction(int(agree.sum()), signatures.shape[1]))
    assert expected == [Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)]


def test_parts_may_also_be_more_similar_than_the_whole() -> None:
    """Exercise 3.3.9: {0} and {0, 2, 3} are similar by 1/3, their halves by 1 and 0, so by 1/2 in the mean."""
    ranks = np.array(list(permutations(range(4))))
    sets = ragged([[0], [0, 2, 3]])
    first, second = sign_ranked(*sets, ranks, 2)
    assert (first == second).mean() == 1 / 2
    first, second = sign_whole(*sets, ranks)
    assert (first == second).mean() == 1 / 3


def test_one_group_is_the_whole_universe() -> None:
    """Then nothing is infinite, and the rows are those of a signature by the same orders."""
    ranks = np.array(list(permutations(range(8))))[::100]
    assert np.array_equal(sign_ranked(*ragged(FIGURE), ranks, 8), sign_whole(*ragged(FIGURE), ranks))


def test_the_first_places_of_all_orders_agree_in_the_fraction_of_the_similarity() -> None:
    """With rows left out where both are infinite, and unequal where one is: exactly J, for any number of positions."""
    a, b = [0, 1, 2], [1, 2, 3, 4]
    whole = sign_whole(*ragged([a, b]), np.array(list(permutations(range(6)))))
    for positions in range(1, 7):
        first, second = np.where(whole < positions, whole, INFINITY)  # what is known without the later positions
        compared = (first != INFINITY) | (second != INFINITY)
        assert Fraction(int((first == second)[compared].sum()), int(compared.sum())) == Fraction(2, 5), positions


@pytest.mark.parametrize("groups", [8, 126])
def test_a_row_is_infinite_as_often_as_no_element_falls_in_its_group(groups: int) -> None:
    """(1 - 1 / groups)^n for sets of n, five standard deviations."""
    rng = np.random.default_rng(1)
    for n in (1, 5, 30, 200):
        values = rng.integers(0, 2**64, 400 * n, np.uint64)
        infinite = sign(values, np.arange(0, 400 * n + 1, n), 126, groups, seed=n) == INFINITY
        chance = (1 - 1 / groups) ** n
        # Rows of one function are not independent: there the groups of one set take their elements from each other.
        assert abs(infinite.mean() - chance) <= 5 * (chance * (1 - chance) / 400) ** 0.5, n


@pytest.mark.parametrize("groups", [1, 8, 126])
@pytest.mark.parametrize("union", [3, 20, 100, 1000])
def test_rows_that_tell_something_agree_in_the_fraction_of_the_similarity(groups: int, union: int) -> None:
    """The share of agreeing rows over many seeds, pooled so that each compared row counts alike; five deviations."""
    agree, compared, exact = 0, 0, 0.0
    for seed in range(200):
        a, b, exact = pair_of_sets(union, 0.7, seed)
        both = sign(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]), 126, groups, seed)
        finite = (both != INFINITY).any(axis=0)
        agree += int((both[0] == both[1])[finite].sum())
        compared += int(finite.sum())
    assert abs(agree / compared - exact) <= 5 * (exact * (1 - exact) / compared) ** 0.5
