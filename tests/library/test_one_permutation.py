"""One-permutation signatures: known answers, agreement with the definition, unbiased, no worse than MinHash."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import pair_of_sets
from reference import MASK, one_permutation

from stream.signatures.one_permutation import sign

SETS = st.lists(st.integers(0, MASK), min_size=1, max_size=60)
EMPTY = MASK


def signature(shingles: list[int], rows: int, seed: int) -> list[int]:
    return sign(np.array(shingles, np.uint64), np.array([0, len(shingles)]), rows, seed)[0].tolist()


def test_a_signature_has_a_known_answer() -> None:
    """Signatures are a format: these numbers change only with ``SIGNING_VERSION``."""
    assert signature([5, 6, 7], rows=5, seed=1) == [
        153563183858708247,
        7267534899053666369,
        7675335756396315121,
        12966676493058619558,
        17990470373543034925,
    ]


@settings(max_examples=150)
@given(SETS, st.integers(1, 40), st.integers(0, 2**63 - 1))
def test_a_signature_is_that_of_the_definition(shingles: list[int], rows: int, seed: int) -> None:
    """Rounds over random rows, then row by row; an earlier round beats a later one, the least value wins."""
    assert signature(shingles, rows, seed) == one_permutation(shingles, rows, seed)


@pytest.mark.parametrize("size", [1, 2, 5, 20, 127, 128, 129, 1000, 5000])
@pytest.mark.parametrize("rows", [1, 2, 126, 128, 1024])
def test_no_row_is_empty_at_any_set_size_of_1_or_more(size: int, rows: int) -> None:
    """Three cases of infinity there are in partial rows; here there is none left to band on."""
    assert EMPTY not in signature(list(range(1, size + 1)), rows, seed=3)


def test_a_single_shingle_fills_every_row() -> None:
    """Of a set of one, every row is that one's, in hashes of different rounds."""
    assert len(set(signature([42], rows=128, seed=1))) > 100


def test_an_empty_set_has_no_signature() -> None:
    """Its row is all ones, beside signatures of others that are as ever."""
    values = np.array([5, 6, 7], np.uint64)
    both = sign(values, np.array([0, 0, 3]), rows=5, seed=1)
    assert both[0].tolist() == [EMPTY] * 5
    assert both[1].tolist() == signature([5, 6, 7], rows=5, seed=1)


def test_an_item_is_signed_alike_in_any_batch() -> None:
    """Sets before and after it, longer or shorter, make no difference."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 300, 40)
    values = rng.integers(0, 2**64, sizes.sum(), np.uint64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    together = sign(values, starts, 64, seed=9)
    alone = [signature(values[a:b].tolist(), 64, 9) for a, b in pairwise(starts)]
    assert together.tolist() == alone


@pytest.mark.parametrize("union", [1, 2, 3, 10, 100, 1000, 5000])
@pytest.mark.parametrize("similarity", [0.3, 0.8])
def test_the_estimate_is_unbiased_and_no_wider_than_binomial(union: int, similarity: float) -> None:
    """Over seeds with one pair each, of 128 rows; five standard deviations for the mean, the variance with slack."""
    seeds, rows = (400, 128) if union <= 1000 else (150, 128)
    estimates, exact = [], 0.0
    for seed in range(seeds):
        a, b, exact = pair_of_sets(union, similarity, seed)
        both = sign(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]), rows, seed)
        estimates.append((both[0] == both[1]).mean())
    spread = (exact * (1 - exact) / rows) ** 0.5
    assert abs(np.mean(estimates) - exact) <= 5 * spread / seeds**0.5, (union, exact)
    # The variance of a sample varies by sqrt(2 / n) of itself.
    assert np.var(estimates) <= spread**2 * (1 + 5 * (2 / seeds) ** 0.5) + 1e-12, (union, exact)
