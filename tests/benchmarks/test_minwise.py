"""Families of permutations: exact shares counted out, and the bias of linear functions on small sets."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from benchmarks.recall.minwise import bias, first_fractions, linear_family

from neardup.schemes.signatures import one_permutation
from neardup_textbook.signatures import minhash, permutation

# Small and regular sets, on which linear functions do worst.
SETS = {"1 to 5": range(1, 6), "0 to 9": range(10), "every 7th": range(0, 70, 7), "squares": [x * x for x in range(10)]}


def linear_shares(elements: list[int], prime: int) -> np.ndarray:
    """The bias over every a x + b mod p."""
    a, b = linear_family(prime)
    return first_fractions(np.array(elements, np.uint64), lambda v, s: minhash.sign_linear(v, s, a, b, prime))


def test_all_permutations_are_min_wise() -> None:
    """Every element of every set comes first equally often: no bias at all."""
    ranks = np.array(list(permutations(range(5))))
    for elements in ([0], [0, 4], [1, 2, 3], [0, 1, 3, 4], range(5)):
        fractions = first_fractions(np.array(elements, np.uint64), lambda v, s: permutation.sign_ranked(v, s, ranks))
        assert fractions.tolist() == [1 / len(elements)] * len(elements)


def test_linear_functions_are_all_there_and_permutations() -> None:
    """p (p - 1) of them for a prime p, each one to one."""
    a, b = linear_family(7)
    assert len({*zip(a.tolist(), b.tolist(), strict=True)}) == 42
    images = (a[:, None] * np.arange(7, dtype=np.uint64) + b[:, None]) % np.uint64(7)
    assert (np.sort(images, axis=1) == np.arange(7)).all()


@pytest.mark.parametrize("prime", [11, 101, 257])
def test_linear_functions_are_only_approximately_min_wise(prime: int) -> None:
    """Two elements are never biased; of k no fraction is below 1 / (2 (k - 1)); 1, 2, 3 is biased."""
    assert linear_shares([3, 8], prime).tolist() == [0.5, 0.5]
    for name, elements in SETS.items():
        reduced = sorted({x % prime for x in elements})
        fractions = linear_shares(reduced, prime)
        assert fractions.sum() == pytest.approx(1)
        assert fractions.min() >= 1 / (2 * (len(reduced) - 1)), name
    # Of 1, 2, 3 the middle one comes first less often than its neighbours.
    three = linear_shares([1, 2, 3], prime)
    assert three[1] < 1 / 3 < three[0]


def test_the_bias_of_linear_functions_is_gone_where_elements_are_hashed() -> None:
    """By 40,000 functions modulo 2^61 - 1: the ends of 0 to 9 come first too often; no hashed element does."""
    rows = 4000

    def fractions(elements: np.ndarray, family: object) -> np.ndarray:
        signs = [first_fractions(elements, lambda v, s, n=seed: family(v, s, rows, n)) for seed in range(10)]  # type: ignore
        return np.mean(signs, axis=0)

    regular, hashed = np.arange(10, dtype=np.uint64), np.random.default_rng(2).integers(0, 2**64, 10, np.uint64)
    chance = 5 * (0.1 * 0.9 / (10 * rows)) ** 0.5
    for name, elements in (("0 to 9", regular), ("hashed", hashed)):
        found = {family.__name__.split(".")[-1]: fractions(elements, family.sign) for family in (minhash, permutation)}
        assert abs(found["permutation"] - 0.1).max() <= chance
        biased = abs(found["minhash"] - 0.1).max() > 2 * chance
        assert biased == (name == "0 to 9")


def test_shares_of_a_completed_permutation_are_even_too() -> None:
    """The family of the default scheme, on a small regular set; five standard deviations of independent rows."""
    elements = np.arange(10, dtype=np.uint64)
    fractions = first_fractions(elements, lambda v, s: one_permutation.sign(v, s, 4000, 3))
    assert abs(fractions - 0.1).max() <= 5 * (0.1 * 0.9 / 4000) ** 0.5


def test_bias_is_the_largest_relative_deviation() -> None:
    """Shares of a quarter and three quarters of two elements are off by half."""
    assert bias(np.array([0.25, 0.75])) == 0.5
    assert bias(np.array([1.0])) == 0.0
