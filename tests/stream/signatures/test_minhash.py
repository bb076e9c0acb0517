"""MinHash signatures: known answers, agreement with big integers, and the bias of linear functions on small sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from python_calls import from_python
from reference import MASK, PRIME, derive_seed

from neardup.schemes.signatures.minhash import _multiply, functions, sign_linear

_product = from_python(_multiply)
EDGES = [0, 1, 2, PRIME - 2, PRIME - 1, PRIME // 2, (1 << 32) - 1, 1 << 32, (1 << 29) - 1, 1 << 29, 1 << 60]


@given(st.integers(0, PRIME - 1) | st.sampled_from(EDGES), st.integers(0, PRIME - 1) | st.sampled_from(EDGES))
def test_products_modulo_the_prime_are_exact(a: int, x: int) -> None:
    """Also at the edges of the halves they are made from."""
    assert int(_product(np.uint64(a), np.uint64(x))) == a * x % PRIME


def test_functions_stay_within_the_prime() -> None:
    """Multipliers 1 to p - 1, or a row would be constant; offsets 0 to p - 1; the seed decides both."""
    a, b = functions(1024, seed=7)
    assert a.min() >= 1
    assert max(a.max(), b.max()) < PRIME
    assert int(a[0]) == derive_seed(7, 0) % (PRIME - 1) + 1
    assert len(set(a.tolist()) | set(b.tolist())) == 2048


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
