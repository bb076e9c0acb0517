"""MinHash signatures: known answers, agreement with big integers, and the bias of linear functions on small sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import pair_of_sets
from reference import MASK, PRIME, derive_seed, minhash

from stream.signatures.minhash import _multiply, functions, sign, sign_linear

SETS = st.lists(st.integers(0, MASK), min_size=1, max_size=60)
EDGES = [0, 1, 2, PRIME - 2, PRIME - 1, PRIME // 2, (1 << 32) - 1, 1 << 32, (1 << 29) - 1, 1 << 29, 1 << 60]


def signature(shingles: list[int], rows: int, seed: int) -> list[int]:
    return sign(np.array(shingles, np.uint64), np.array([0, len(shingles)]), rows, seed)[0].tolist()


def test_a_signature_has_a_known_answer() -> None:
    """Signatures are a format: these numbers change only with ``SIGNING_VERSION``."""
    assert signature([5, 6, 7], rows=5, seed=1) == [
        687396574017564485,
        1804478723351557072,
        56833455293673630,
        134749216727378695,
        282606144552825951,
    ]


@settings(max_examples=150)
@given(SETS, st.integers(1, 40), st.integers(0, 2**63 - 1))
def test_a_signature_is_the_least_of_a_x_plus_b_modulo_p(shingles: list[int], rows: int, seed: int) -> None:
    """With integers of any size in place of 32-bit halves."""
    assert signature(shingles, rows, seed) == minhash(shingles, rows, seed)


@given(st.integers(0, PRIME - 1) | st.sampled_from(EDGES), st.integers(0, PRIME - 1) | st.sampled_from(EDGES))
def test_products_modulo_the_prime_are_exact(a: int, x: int) -> None:
    """Also at the edges of the halves they are made from."""
    assert int(_multiply(np.uint64(a), np.uint64(x))) == a * x % PRIME


def test_functions_stay_within_the_prime() -> None:
    """Multipliers 1 to p - 1, or a row would be constant; offsets 0 to p - 1; told by the seed alone."""
    a, b = functions(1024, seed=7)
    assert a.min() >= 1
    assert max(a.max(), b.max()) < PRIME
    assert int(a[0]) == derive_seed(7, 0) % (PRIME - 1) + 1
    assert len(set(a.tolist()) | set(b.tolist())) == 2048


def test_an_empty_set_has_no_signature() -> None:
    """Its row is all ones, which no hash below the prime is."""
    both = sign(np.array([5, 6, 7], np.uint64), np.array([0, 0, 3]), rows=5, seed=1)
    assert both[0].tolist() == [MASK] * 5
    assert both[1].tolist() == signature([5, 6, 7], rows=5, seed=1)


@pytest.mark.parametrize("union", [1, 2, 3, 10, 100, 1000])
@pytest.mark.parametrize("similarity", [0.3, 0.8])
def test_the_estimate_is_unbiased_over_seeds(union: int, similarity: float) -> None:
    """Linear functions over hashed shingles come close enough to min-wise ones; five standard deviations."""
    seeds, rows = 200, 128
    estimates, exact = [], 0.0
    for seed in range(seeds):
        a, b, exact = pair_of_sets(union, similarity, seed)
        both = sign(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]), rows, seed)
        estimates.append((both[0] == both[1]).mean())
    assert abs(np.mean(estimates) - exact) <= 5 * (exact * (1 - exact) / rows / seeds) ** 0.5, (union, exact)


def matrix(sets: list[list[int]], functions: list[tuple[int, int]], modulus: int) -> list[list[int]]:
    """A row a function, a column a set."""
    a, b = (np.array(x, np.uint64) for x in zip(*functions, strict=True))
    values = np.array([x for one in sets for x in one], np.uint64)
    return sign_linear(values, np.cumsum([0, *map(len, sets)]), a, b, modulus).T.tolist()


def agreement(rows: list[list[int]], i: int, j: int) -> float:
    return float(np.mean([row[i - 1] == row[j - 1] for row in rows]))


def test_two_hash_functions_give_the_signature_matrix_of_the_example() -> None:
    """Example 3.8: x + 1 and 3 x + 1 modulo 5 give 1 3 0 1 and 0 2 0 0; S1 and S4 seem equal, S1 and S3 by half."""
    rows = matrix([[0, 3], [2], [1, 3, 4], [0, 2, 3]], [(1, 1), (3, 1)], 5)
    assert rows == [[1, 3, 0, 1], [0, 2, 0, 0]]
    assert [agreement(rows, 1, other) for other in (4, 3, 2)] == [1.0, 0.5, 0.0]


def test_two_more_hash_functions_add_two_rows() -> None:
    """Exercise 3.3.2: 2 x + 4 and 3 x - 1 modulo 5."""
    assert matrix([[0, 3], [2], [1, 3, 4], [0, 2, 3]], [(2, 4), (3, 4)], 5) == [[0, 3, 0, 0], [3, 0, 1, 0]]


def test_six_rows_and_three_functions_of_which_one_is_a_permutation() -> None:
    """Exercise 3.3.3: the signatures, the permutation, and estimates of 1/3 or 2/3 where the truth is 0 or 1/4."""
    functions = [(2, 1), (3, 2), (5, 2)]
    rows = matrix([[2, 5], [0, 1], [3, 4], [0, 2, 4]], functions, 6)
    assert rows == [[5, 1, 1, 1], [2, 2, 2, 2], [0, 1, 4, 0]]
    images = matrix([[x] for x in range(6)], functions, 6)
    assert [sorted(image) == list(range(6)) for image in images] == [False, False, True]
    pairs = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]
    assert [round(3 * agreement(rows, *pair)) for pair in pairs] == [1, 1, 2, 2, 2, 2]


def test_linear_functions_are_exact_up_to_a_modulus_of_32_bits() -> None:
    """The greatest product and sum still fit."""
    top = (1 << 32) - 1
    assert matrix([[top]], [(top, top)], 1 << 32) == [[(top * top + top) % (1 << 32)]]
    assert matrix([[]], [(1, 1)], 5) == [[MASK]]
