"""MinHash by permutations: the theorem counted out over a small universe, and a bijection of the large one."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
from oracle import jaccard
from reference import MASK

from neardup.errors import ConfigError
from neardup_textbook.signatures.permutation import halved, halving_orders, orders, sign, sign_ranked

# Figure 3.2, its elements a to e as 0 to 4.
FIGURE = {"S1": "ad", "S2": "c", "S3": "bde", "S4": "acd"}


def ragged(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for one in sets for x in one], np.uint64), np.cumsum([0, *map(len, sets)])


def letters(sets: dict[str, str]) -> tuple[np.ndarray, np.ndarray]:
    return ragged([[ord(x) - ord("a") for x in one] for one in sets.values()])


def ranks_of(order: str) -> np.ndarray:
    return np.array([[order.index(x) for x in sorted(order)]])


def test_the_order_beadc_gives_a_c_b_and_a() -> None:
    """Example 3.7: the first element of each set of Figure 3.2 in that order."""
    positions = sign_ranked(*letters(FIGURE), ranks_of("beadc"))[:, 0]
    assert ["beadc"[position] for position in positions] == ["a", "c", "b", "a"]


def test_of_all_120_permutations_the_fraction_that_agrees_is_the_similarity() -> None:
    """Exercise 3.3.1, for the six pairs of Figure 3.2: 2/3 of them for S1 and S4, and so on."""
    signatures = sign_ranked(*letters(FIGURE), np.array(list(permutations(range(5)))))
    sets = [set(one) for one in FIGURE.values()]
    agreeing = {}
    for i, j in combinations(range(4), 2):
        agreeing[i + 1, j + 1] = int((signatures[i] == signatures[j]).sum())
        assert agreeing[i + 1, j + 1] * len(sets[i] | sets[j]) == 120 * len(sets[i] & sets[j])
    assert agreeing == {(1, 2): 0, (1, 3): 30, (1, 4): 80, (2, 3): 0, (2, 4): 40, (3, 4): 24}


def test_three_permutations_of_seven_rows_give_the_signature_matrix_of_the_slides() -> None:
    """2 1 2 1, 2 1 4 1, 1 2 1 2; columns 1 and 3 agree in .67 for a true .75, columns 2 and 4 in 1 for .75."""
    ranks = np.array([[2, 3, 7, 6, 1, 5, 4], [4, 2, 1, 3, 6, 7, 5], [3, 4, 7, 2, 6, 1, 5]])
    columns = [[0, 1, 5, 6], [2, 3, 4], [0, 5, 6], [1, 2, 3, 4]]
    signatures = sign_ranked(*ragged(columns), ranks)
    assert signatures.T.tolist() == [[2, 1, 2, 1], [2, 1, 4, 1], [1, 2, 1, 2]]

    def both(i: int, j: int) -> tuple[float, float]:
        true = jaccard(*(np.array(columns[c - 1], np.uint64) for c in (i, j)))
        return true, round(float((signatures[i - 1] == signatures[j - 1]).mean()), 2)

    assert both(1, 3) == (0.75, 0.67)
    assert both(2, 4) == (0.75, 1.0)
    assert both(1, 2) == both(3, 4) == (0.0, 0.0)


def test_cyclic_permutations_are_not_enough() -> None:
    """Exercise 3.3.6: {0, 1} and {0, 2} of four agree in 1 of 3 orders by all, but not by the four rotations."""
    sets = ragged([[0, 1], [0, 2]])
    cyclic = np.array([[(x - first) % 4 for x in range(4)] for first in range(4)])
    first, second = sign_ranked(*sets, cyclic)
    assert (first == second).mean() == 1 / 2
    first, second = sign_ranked(*sets, np.array(list(permutations(range(4)))))
    assert (first == second).mean() == 1 / 3


def test_random_orders_are_permutations_and_each_as_likely() -> None:
    """Of three elements the six orders come equally often, within five standard deviations; the seed decides."""
    found = orders(3, 6000, seed=5)
    assert (np.sort(found, axis=1) == np.arange(3)).all()
    _, counts = np.unique(found @ np.array([9, 3, 1]), return_counts=True)
    assert len(counts) == 6
    assert abs(counts - 1000).max() <= 5 * (6000 * 1 / 6 * 5 / 6) ** 0.5
    assert np.array_equal(found, orders(3, 6000, seed=5))
    assert not np.array_equal(found, orders(3, 6000, seed=6))


def test_random_orders_of_a_universe_estimate_the_similarity() -> None:
    """2,000 orders of fifty elements, five standard deviations."""
    sets = ragged([list(range(20)), list(range(5, 25))])
    first, second = sign_ranked(*sets, orders(50, 2000, seed=3))
    assert abs((first == second).mean() - 15 / 25) <= 5 * (0.6 * 0.4 / 2000) ** 0.5


def test_no_two_elements_share_a_place() -> None:
    """The signature of a single element is its position: 200,000 neighbours have 200,000 positions."""
    values = np.arange(200_000, dtype=np.uint64)
    positions = sign(values, np.arange(len(values) + 1), rows=1, seed=9)
    assert len(np.unique(positions)) == len(values)


def test_an_empty_set_has_infinity_in_every_row() -> None:
    """In the small universe and in the large one."""
    starts = np.array([0, 0, 1])
    assert sign(np.array([5], np.uint64), starts, 3, 1)[0].tolist() == [MASK] * 3
    assert sign_ranked(np.array([1], np.uint64), starts, orders(2, 3, 1))[0].tolist() == [MASK] * 3


def balanced(size: int) -> list[list[bool]]:
    """Every string of so many zeros and ones, as many of each."""
    return [[x in ones for x in range(size)] for ones in combinations(range(size), size // 2)]


def family_of_halves(universe: int) -> np.ndarray:
    """Every member of the family, one for each choice of strings."""
    sizes = [universe >> level for level in range(universe.bit_length() - 1)]
    return halved([np.array(strings) for strings in zip(*product(*map(balanced, sizes)), strict=True)], universe)


@pytest.mark.parametrize(("universe", "members"), [(2, 2), (4, 12), (8, 840)])
def test_each_element_of_each_set_comes_first_equally_often_over_the_family_of_halves(universe, members) -> None:
    """The family is exactly min-wise, with C(8,4) C(4,2) C(2,1) = 840 of 40,320 permutations of 8 elements, which is
    below 4^8; each set has a divisor of it as size."""
    family = family_of_halves(universe)
    assert len(family) == members <= 4**universe
    assert (np.sort(family, axis=1) == np.arange(universe)).all()
    for size in range(1, universe + 1):
        for chosen in combinations(range(universe), size):
            first = np.bincount(family[:, chosen].argmin(axis=1), minlength=size)
            assert first.tolist() == [members // size] * size


def test_two_sets_agree_in_the_fraction_j_of_the_family_of_halves() -> None:
    """Of the 840, as of all permutations: {0, 1, 2, 3} and {2, 3, 4} agree in 2/5."""
    signatures = sign_ranked(*ragged([[0, 1, 2, 3], [2, 3, 4]]), family_of_halves(8))
    assert int((signatures[0] == signatures[1]).sum()) * 5 == 840 * 2


def test_linear_functions_are_no_such_family() -> None:
    """All twenty permutations a x + b modulo 5 are only nearly min-wise: some element of a set comes first too often,
    because 3 does not divide 20."""
    linear = np.array([[(a * x + b) % 5 for x in range(5)] for a in range(1, 5) for b in range(5)])
    first = np.bincount(linear[:, [0, 1, 2]].argmin(axis=1), minlength=3)
    assert len(set(first.tolist())) > 1


def test_a_draw_is_a_member_of_the_family_of_halves_and_each_member_is_drawn() -> None:
    """600 draws of 12 members: none is missing, the least likely with one in 10^21; a seed repeats its draw."""
    drawn = halving_orders(4, rows=600, seed=7)
    members = {tuple(member) for member in family_of_halves(4).tolist()}
    assert {tuple(order) for order in drawn.tolist()} == members
    assert (drawn == halving_orders(4, rows=600, seed=7)).all()
    assert halving_orders(1, rows=3, seed=1).tolist() == [[0]] * 3


@pytest.mark.parametrize("universe", [0, 3, 12])
def test_a_universe_without_halves_of_halves_is_refused(universe) -> None:
    """The next power of two holds it."""
    with pytest.raises(ConfigError, match=f"universe is {universe}, but halves of halves need a power of two"):
        halving_orders(universe, rows=1, seed=1)
