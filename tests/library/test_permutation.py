"""MinHash by permutations: the theorem counted out over a small universe, and a bijection of the large one."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import jaccard, pair_of_sets
from reference import MASK, permutation

from stream.signatures.permutation import orders, sign, sign_ranked

SETS = st.lists(st.integers(0, MASK), min_size=1, max_size=60)
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
    places = sign_ranked(*letters(FIGURE), ranks_of("beadc"))[:, 0]
    assert ["beadc"[place] for place in places] == ["a", "c", "b", "a"]


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
    """Of three elements the six orders come equally often, within five standard deviations; told by the seed."""
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


@settings(max_examples=100)
@given(SETS, st.integers(1, 20), st.integers(0, 2**63 - 1))
def test_a_row_is_the_least_place_in_a_bijection_of_64_bits(shingles: list[int], rows: int, seed: int) -> None:
    """Written out with integers of any size."""
    signature = sign(np.array(shingles, np.uint64), np.array([0, len(shingles)]), rows, seed)[0]
    assert signature.tolist() == permutation(shingles, rows, seed)


def test_no_two_elements_share_a_place() -> None:
    """The signature of a single element is its place: a million neighbours have a million places."""
    values = np.arange(1_000_000, dtype=np.uint64)
    places = sign(values, np.arange(len(values) + 1), rows=1, seed=9)
    assert len(np.unique(places)) == len(values)


def test_an_empty_set_has_infinity_in_every_row() -> None:
    """Over a small universe as over the large one."""
    starts = np.array([0, 0, 1])
    assert sign(np.array([5], np.uint64), starts, 3, 1)[0].tolist() == [MASK] * 3
    assert sign_ranked(np.array([1], np.uint64), starts, orders(2, 3, 1))[0].tolist() == [MASK] * 3


@pytest.mark.parametrize("union", [2, 10, 100, 1000])
@pytest.mark.parametrize("similarity", [0.3, 0.8])
def test_the_estimate_is_unbiased_over_seeds(union: int, similarity: float) -> None:
    """Within five standard deviations of the mean of 100 seeds of 128 rows."""
    seeds, rows = 100, 128
    estimates, exact = [], 0.0
    for seed in range(seeds):
        a, b, exact = pair_of_sets(union, similarity, seed)
        both = sign(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]), rows, seed)
        estimates.append((both[0] == both[1]).mean())
    assert abs(np.mean(estimates) - exact) <= 5 * (exact * (1 - exact) / rows / seeds) ** 0.5, (union, exact)


def test_an_item_is_signed_alike_in_any_batch() -> None:
    """Sets before and after it make no difference."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 100, 20)
    values = rng.integers(0, 2**64, sizes.sum(), np.uint64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    alone = [sign(values[a:b], np.array([0, b - a]), 16, 9)[0].tolist() for a, b in pairwise(starts)]
    assert sign(values, starts, 16, 9).tolist() == alone
