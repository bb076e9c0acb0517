"""One-permutation signatures: known answers, agreement with the definition, unbiased, no worse than MinHash."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import pair_of_sets
from python_calls import from_python
from reference import MASK, derive_seed

from neardup.schemes.signatures.one_permutation import (
    BLOCK,
    first_survivors,
    keep,
    keep_by_mask,
    row_scratch,
    sign,
    sign_set,
)

EMPTY = MASK


def signature(shingles: list[int], rows: int, seed: int) -> list[int]:
    return sign(np.array(shingles, np.uint64), np.array([0, len(shingles)]), rows, seed)[0].tolist()


@pytest.mark.parametrize("size", [1, 2, 5, 20, 127, 128, 129, 1000, 5000])
@pytest.mark.parametrize("rows", [1, 2, 126, 128, 1024])
def test_no_row_is_empty_at_any_set_size_of_1_or_more(size: int, rows: int) -> None:
    """Partial rows have three cases of infinity; these rows are always finite."""
    assert EMPTY not in signature(list(range(1, size + 1)), rows, seed=3)


def test_a_single_shingle_fills_every_row() -> None:
    """Every row of a set of one shingle is a hash of this shingle, in different rounds."""
    assert len(set(signature([42], rows=128, seed=1))) > 100


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
    # The relative standard deviation of a sample variance is sqrt(2 / n).
    assert np.var(estimates) <= spread**2 * (1 + 5 * (2 / seeds) ** 0.5) + 1e-12, (union, exact)


@pytest.mark.parametrize("low", [0, 1, 0xFFFFFFFF, 0x9E3779B9])
def test_rows_and_values_do_not_depend_on_the_low_half_of_shingles(low: int) -> None:
    """In a sample by the low 32 bits, as in any other set, all rows and all values are equally likely."""
    rows, sets = 16, 4000
    high = np.random.default_rng(low).integers(0, 2**32, sets, np.uint64)
    shingles = high << np.uint64(32) | np.uint64(low)
    first = derive_seed(3, 0), derive_seed(3, 1) | 1
    numbers = [((shingle ^ first[0]) * first[1]) & MASK for shingle in shingles.tolist()]
    signed = sign(shingles, np.arange(sets + 1), rows, 3)
    positions = [((number >> 32) * rows) >> 32 for number in numbers]
    assert [int(signed[i, position]) for i, position in enumerate(positions)] == numbers
    spread = 5 * (sets / rows) ** 0.5
    assert abs(np.bincount(positions, minlength=rows) - sets / rows).max() < spread
    values = np.array([((number >> 32) * rows & 0xFFFFFFFF) * rows >> 32 for number in numbers])
    assert abs(np.bincount(values, minlength=rows) - sets / rows).max() < spread


@pytest.mark.parametrize("way", [keep, keep_by_mask])
@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("end", [64, 192, BLOCK])
def test_the_numbers_that_compete_are_those_below_the_bound(way: object, fraction: float, end: int) -> None:
    """On every processor: both ways keep the same numbers, in order, and write within their scratch."""
    rows, scratch = 126, row_scratch(126)
    bound = int(fraction * 0xFFFFFFFF)
    numbers = np.random.default_rng(end).integers(0, 2**64, len(scratch.numbers), np.uint64)
    guarded = np.full(len(scratch.kept) + 1, 7, np.uint64)
    given = np.uint64(end), np.uint32(bound), np.uint64(rows)
    more = (scratch.values,) if way is keep_by_mask else ()
    found = from_python(way)(numbers, *given, *more, guarded[:-1])
    below = [number for number in numbers[:end].tolist() if (number >> 32) * rows & 0xFFFFFFFF < bound]
    assert guarded[:found].tolist() == below
    assert guarded[-1] == 7


def test_the_bound_rises_for_sets_that_repeat_themselves_and_falls_after_them() -> None:
    """It rises to a limit, and falls also by sets that are so short that it spares them nothing."""
    signed_set, survivors, rng = from_python(sign_set), first_survivors(64), np.random.default_rng(3)
    scratch, row, at_first = row_scratch(64, survivors), np.empty(64, np.uint64), survivors[1]
    few = np.tile(rng.integers(0, 1 << 64, 9, np.uint64), 500)
    for _ in range(100):
        signed_set(few, np.uint64(1), scratch, row)
    assert 2.4 * at_first < survivors[0] <= 2.5 * at_first
    for _ in range(1000):
        signed_set(rng.integers(0, 1 << 64, 1000, np.uint64), np.uint64(1), scratch, row)
    assert survivors[0] < 1.3 * at_first < 1000
