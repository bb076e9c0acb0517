"""Grid functions: squares, functions of three of them, groups, and how often fingerprints become candidates."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import quick_first

from neardup.errors import ConfigError
from neardup_textbook.kinds import grid_functions

SETS = st.lists(st.sets(st.integers(0, 29)), min_size=2, max_size=6)


def fingerprints_of(sets, squares=30):
    values = np.array([square for one in sets for square in sorted(one)], np.int64)
    return grid_functions.bitmaps(values, np.cumsum([0, *map(len, sets)]), squares)


def generated(rng, pairs, squares, shared):
    """Return fingerprints with a minutia in a square with probability .2, and others that share each with
    ``shared``."""
    first = rng.random((pairs, squares)) < 0.2
    repeated = rng.random((pairs, squares))
    # Of the squares that the first has not, as many as leave the second print a chance of .2 altogether.
    other = np.where(first, repeated < shared, repeated < 0.2 * (1 - shared) / 0.8)
    return (np.packbits(side, axis=1, bitorder="little") for side in (first, other))


def test_one_function_meets_as_often_as_the_book_says():
    """.2 x .8 for each of three squares is .004096, .2 x .2 is .000064."""
    assert grid_functions.candidate_probability(0.16, None, groups=1, count=1, size=3) == pytest.approx(0.004096)
    assert grid_functions.candidate_probability(0.04, None, groups=1, count=1, size=3) == pytest.approx(0.000064)


def test_a_thousand_functions_and_two_groups_meet_as_often_as_the_book_says():
    """An OR of 1024: .985 and .063; two of them ANDed: .970 and .00397, which is .063 squared."""
    same, other = (
        grid_functions.candidate_probability(share, None, groups=1, count=1024, size=3) for share in (0.16, 0.04)
    )
    assert (round(same, 3), round(other, 3)) == (0.985, 0.063)
    same, other = (
        grid_functions.candidate_probability(share, None, groups=2, count=1024, size=3) for share in (0.16, 0.04)
    )
    assert round(same, 3) == 0.970
    assert other == pytest.approx(0.00397, abs=0.00006)


@pytest.mark.parametrize("squares", quick_first([1000, 50_000], 1))
def test_generated_fingerprints_are_candidates_as_often_as_they_should(squares):
    """An OR of 1024 functions and an AND of two groups, on pairs of one finger and of two, over several seeds.

    With 50,000 squares, functions are almost independent, so the fractions agree with the book.
    """
    rng = np.random.default_rng(squares)
    law = squares if squares == 1000 else None
    seeds, pairs = (40, 250) if squares == 1000 else (8, 125)
    for shared, share in ((0.8, 0.16), (0.2, 0.04)):
        met = []
        for seed in range(seeds):
            chosen = grid_functions.functions(squares, 2, 1024, 3, seed)
            met.append(grid_functions.shared_functions(*generated(rng, pairs, squares, shared), chosen))
        counts = np.concatenate(met)
        n = len(counts)
        for found, groups, tries in (((counts[:, 0] > 0), 1, n), ((counts > 0).all(axis=1), 2, n)):
            expected = grid_functions.candidate_probability(share, law, groups, 1024, 3)
            assert abs(found.mean() - expected) < 4 * (expected * (1 - expected) / tries) ** 0.5 + 1e-4, (share, groups)
        deviation = counts[:, 0].std() / 1024 / n**0.5
        assert abs(counts[:, 0].mean() / 1024 - share**3) < 4 * deviation


def test_functions_are_of_different_squares_and_follow_the_seed():
    """Three each, all within the grid; another seed or group has others."""
    chosen, again, other = (grid_functions.functions(10, 2, 200, 3, seed).squares for seed in (1, 1, 2))
    assert chosen.shape == (2, 200, 3)
    assert set(chosen.ravel().tolist()) == set(range(10))
    assert all(len(set(function)) == 3 for function in chosen.reshape(-1, 3).tolist())
    assert np.array_equal(chosen, again)
    assert not np.array_equal(chosen, other)
    assert not np.array_equal(chosen[0], chosen[1])


def test_functions_are_found_by_their_first_square():
    """Each function is listed under its first square."""
    chosen = grid_functions.functions(10, 2, 200, 3, seed=1)
    for squares, starts in zip(*chosen, strict=True):
        assert (starts[0], starts[-1]) == (0, 200)
        for square in range(10):
            assert set(squares[starts[square] : starts[square + 1], 0].tolist()) <= {square}


@given(SETS, st.integers(1, 3), st.integers(1, 3))
def test_keys_are_the_functions_all_of_whose_squares_are_there(sets, groups, size):
    """Compared with Python sets: keys, the groups that a pair shares, the similarity."""
    chosen = grid_functions.functions(30, groups, 40, size, seed=7)
    fingerprints = fingerprints_of(sets)
    found, starts = grid_functions.keys(fingerprints, chosen, seed=7)
    whole, _ = grid_functions.keys(fingerprints_of([set(range(30))]), chosen, seed=7)
    assert len(set(whole.tolist())) == 40
    members = [
        [[f for f, function in enumerate(group) if set(function) <= one] for group in chosen.squares.tolist()]
        for one in sets
    ]
    for i, own in enumerate(members):
        assert found[starts[i] : starts[i + 1]].tolist() == whole[own[0]].tolist()
    a, b = fingerprints[:-1], fingerprints[1:]
    both = [[len(set(x) & set(y)) for x, y in zip(*pair, strict=True)] for pair in pairwise(members)]
    shared = grid_functions.shared_functions(a, b, chosen)
    assert shared.tolist() == both
    exact = [len(x & y) / len(x | y) if x | y else 0.0 for x, y in pairwise(sets)]
    assert grid_functions.jaccard(a, b).tolist() == exact


def test_a_bitmap_has_a_bit_for_each_square():
    """Square q is bit q % 8 of byte q // 8; repeated squares make no difference."""
    made = grid_functions.bitmaps(np.array([0, 9, 9, 12]), np.array([0, 3, 4]), 13)
    assert made.tolist() == [[1, 2], [0, 16]]
    assert grid_functions.width(13) == 2


def test_functions_of_more_squares_than_the_grid_are_refused():
    """They could not be different."""
    with pytest.raises(ConfigError, match="grid:function_squares=3"):
        grid_functions.functions(2, 1, 4, 3, seed=1)
