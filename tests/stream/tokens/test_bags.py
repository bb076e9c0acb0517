"""Ragged sets and bags: sorted as NumPy sorts, for all elements; and bags numbered into sets."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import jaccard
from quick_parameters import examples
from reference import GOLDEN, MASK, mix64

from neardup.features.tokens.bags import numbered, sorted_bags, sorted_sets
from neardup_textbook.theory.measures import jaccard_bag

ELEMENT = st.integers(0, MASK) | st.integers(0, 5) | st.sampled_from([MASK, MASK - 1, 1 << 63, 1 << 32])
BAGS = st.lists(st.lists(ELEMENT, max_size=70), max_size=5)


def ragged(bags: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for bag in bags for x in bag], np.uint64), np.cumsum([0, *map(len, bags)])


@examples(200)
@given(BAGS)
def test_bags_are_sorted_and_sets_without_repetitions(bags: list[list[int]]) -> None:
    """Each bag is sorted separately, also an empty one; the input does not change."""
    values, starts = ragged(bags)
    before = values.copy()
    assert sorted_bags(values, starts).tolist() == [x for bag in bags for x in sorted(bag)]
    found, found_starts = sorted_sets(values, starts)
    assert [found[a:b].tolist() for a, b in pairwise(found_starts)] == [sorted(set(bag)) for bag in bags]
    assert np.array_equal(values, before)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(5000)[::-1],
        np.full(5000, MASK, np.uint64),
        np.append(np.arange(4999, dtype=np.uint64), np.uint64(MASK)),
        np.random.default_rng(1).integers(0, 2**32, 5000),
        np.random.default_rng(1).integers(0, 2**64, 5000, np.uint64),
        np.random.default_rng(1).zipf(1.5, 5000),
    ],
    ids=["reversed", "all equal", "crowded", "32 bits", "64 bits", "few frequent"],
)
def test_elements_of_any_spread_are_sorted(values: np.ndarray) -> None:
    """Elements may crowd into one bucket, or spread over fewer bits than 64."""
    values = values.astype(np.uint64)
    assert np.array_equal(sorted_bags(values, np.array([0, len(values)])), np.sort(values))


def test_the_second_copy_of_an_element_is_an_element_of_its_own() -> None:
    """The first copy does not change; new elements of 32 bits have 32 bits."""
    values, starts = np.array([9, 7, 9, 9], np.uint64), np.array([0, 4])
    copies = [mix64((9 + j * GOLDEN) & MASK) for j in (1, 2)]
    assert numbered(values, starts, 64).tolist() == [7, 9, *copies]
    assert numbered(values, starts, 32).tolist() == [7, 9, *(x & 0xFFFFFFFF for x in copies)]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_numbered_bags_are_similar_as_sets_by_what_the_bags_are(a: list[int], b: list[int]) -> None:
    """The Jaccard similarity of bags, with the greatest multiplicities as union."""
    values, starts = ragged([a, b])
    both, both_starts = sorted_sets(numbered(values, starts, 64), starts)
    assert len(both) == len(values)
    first, second = (both[x:y] for x, y in pairwise(both_starts))
    assert jaccard(first, second) == jaccard_bag(np.array(a), np.array(b))
    assert Counter(a) == Counter(b) or jaccard(first, second) < 1
