"""MinHash by permutations: the theorem counted out over a small universe, and a bijection of the large one."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
from oracle import jaccard
from reference import MASK

from neardup.schemes.signatures.permutation import orders, sign, sign_ranked

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
