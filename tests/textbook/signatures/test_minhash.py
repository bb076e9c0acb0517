"""MinHash signatures: known answers, agreement with big integers, the bias of linear functions on small sets,
and the signature of a set from those of its parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_calls import from_python
from reference import MASK, PRIME, derive_seed

from neardup.errors import ConfigError
from neardup.schemes.signatures import INFINITY, one_permutation
from neardup_textbook.signatures import merge, minhash, partial, permutation
from neardup_textbook.signatures.minhash import _multiply, functions, sign_linear

_product = from_python(_multiply)
EDGES = [0, 1, 2, PRIME - 2, PRIME - 1, PRIME // 2, (1 << 32) - 1, 1 << 32, (1 << 29) - 1, 1 << 29, 1 << 60]
SIGN = {
    "minhash": minhash.sign,
    "permutation": permutation.sign,
    "partial": lambda values, starts, rows, seed: partial.sign(values, starts, rows, 8, seed),
}
# Figure 3.4: the sets S1 to S4, and the functions x + 1 and 3 x + 1 modulo 5.
FIGURE = [[0, 3], [2], [1, 3, 4], [0, 2, 3]]
FUNCTIONS = np.array([1, 3], np.uint64), np.array([1, 1], np.uint64)


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


def ragged(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for one in sets for x in one], np.uint64), np.cumsum([0, *map(len, sets)])


def test_rows_of_the_figure_that_two_processes_read_give_its_signature_matrix() -> None:
    """Exercise 3.3.7: one process has rows 0 to 2, one rows 3 and 4. Their matrices joined are 1 3 0 1 and 0 2 0 0."""
    parts = [
        sign_linear(*ragged([[x for x in one if x in rows] for one in FIGURE]), *FUNCTIONS, modulus=5)
        for rows in ({0, 1, 2}, {3, 4})
    ]
    assert parts[0][1].tolist() == [3, 2]
    assert parts[1][1].tolist() == [INFINITY, INFINITY]
    assert merge(parts).T.tolist() == [[1, 3, 0, 1], [0, 2, 0, 0]]


@pytest.mark.parametrize("name", SIGN)
def test_the_least_values_of_parts_are_the_signature_of_the_whole(name) -> None:
    """However a set is divided, with common elements and empty parts too."""
    rng = np.random.default_rng(3)
    sets = [rng.integers(0, 1 << 63, size).tolist() for size in (1, 2, 30, 400)]
    parts = [[[x for x in one if rng.random() < 0.5] for one in sets] for _ in range(2)]
    rest = [[x for x in one if x not in parts[0][i] and x not in parts[1][i]] for i, one in enumerate(sets)]
    signed = [SIGN[name](*ragged(part), 64, 9) for part in (*parts, rest, [[]] * 4)]
    assert (merge(signed) == SIGN[name](*ragged(sets), 64, 9)).all()
    assert (merge(signed[:1]) == signed[0]).all()
    assert merge(signed[:1]) is not signed[0]


def test_rows_that_are_filled_from_others_cannot_be_merged() -> None:
    """A row of one permutation without an element has a value of another row: the docstring says so."""
    parts = [one_permutation.sign(*ragged([[x]]), 64, 9) for x in (3, 5)]
    assert (merge(parts) != one_permutation.sign(*ragged([[3, 5]]), 64, 9)).any()


def test_parts_of_different_shapes_are_refused() -> None:
    """So are no parts."""
    with pytest.raises(ConfigError, match=r"2 parts have the shapes \[\(1, 3\), \(1, 4\)\]"):
        merge([np.zeros((1, 3), np.uint64), np.zeros((1, 4), np.uint64)])
    with pytest.raises(ConfigError, match="0 parts"):
        merge([])
