"""Exact verification: the kernels give what the measures give, pair by pair, and the worked numbers of 3.1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples

from neardup.features.tokens import verify
from neardup.features.tokens.bags import sorted_bags, sorted_sets
from neardup_textbook.theory import measures

BAG = st.lists(st.integers(0, 12), max_size=20)
PAIRS = st.lists(st.tuples(BAG, BAG), max_size=6)


def ragged(bags: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for bag in bags for x in bag], np.uint64), np.cumsum([0, *map(len, bags)])


def bags_of(bags: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    values, starts = ragged(bags)
    return sorted_bags(values, starts), starts


def letters(*bags: str) -> list[list[int]]:
    return [list(bag.encode()) for bag in bags]


def one(measure: str, a: str, b: str) -> float:
    return float(verify.SET_MEASURES[measure].similarity(*bags_of(letters(a)), *bags_of(letters(b)))[0])


def test_sets_and_bags_have_their_worked_similarities() -> None:
    """3/8 of Figure 3.1; {a,a,a,b} and {a,a,b,b,c}: 1/2 with the greatest union, 1/3 with the summed."""
    assert one("jaccard", "abcde", "cdefgh") == 3 / 8
    assert one("jaccard_bag", "aaab", "aabbc") == 1 / 2
    assert one("jaccard_bag_sum", "aaab", "aabbc") == 1 / 3
    assert one("containment", "bcd", "ab") == one("containment", "ab", "bcd") == 1 / 2


@examples(200)
@given(PAIRS)
@pytest.mark.parametrize("name", ["jaccard", "jaccard_bag", "jaccard_bag_sum"])
def test_many_pairs_at_once_are_measured_as_each_alone(name: str, pairs: list[tuple[list[int], list[int]]]) -> None:
    """By the definition over unsorted arrays; two empty ones are similar by 0."""
    firsts, seconds = [a for a, _ in pairs], [b for _, b in pairs]
    measure, defined = verify.SET_MEASURES[name], measures.MEASURES[name].function
    sort = bags_of if measure.of_bags else lambda bags: sorted_sets(*ragged(bags))
    expected = [defined(np.array(a, np.int64), np.array(b, np.int64)) for a, b in pairs]
    assert measure.similarity(*sort(firsts), *sort(seconds)).tolist() == expected


@given(PAIRS)
def test_the_containment_of_a_pair_is_the_greater_one(pairs: list[tuple[list[int], list[int]]]) -> None:
    """Of the smaller in the larger."""
    a, b = (sorted_sets(*ragged([pair[side] for pair in pairs])) for side in (0, 1))
    both = [(np.array(x, np.int64), np.array(y, np.int64)) for x, y in pairs]
    expected = [max(measures.containment(x, y), measures.containment(y, x)) for x, y in both]
    either = verify.SET_MEASURES["containment"].similarity
    assert either(*a, *b).tolist() == either(*b, *a).tolist() == expected


@pytest.mark.parametrize("measure", verify.SET_MEASURES)
def test_equal_items_are_similar_by_the_most_and_disjoint_ones_by_nothing(measure: str) -> None:
    """The most is one, and one half where the union of bags is their sum."""
    row, most = verify.SET_MEASURES[measure], 0.5 if measure == "jaccard_bag_sum" else 1.0
    assert row.similarity_max == most
    rng = np.random.default_rng(1)
    values, starts = rng.permutation(3000).astype(np.uint64), np.array([0, 1, 10, 500, 3000])
    values = sorted_bags(values, starts)
    assert row.similarity(values, starts, values, starts).tolist() == [most] * 4
    assert row.similarity(values, starts, values + np.uint64(3000), starts).tolist() == [0.0] * 4


@given(PAIRS)
def test_rows_of_bags_agree_with_their_greatest_union_whichever_union_is_meant(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    """Rows agree with s / (1 - s) at a similarity s by the summed union, the Jaccard similarity of the bags."""
    a, b = (bags_of([pair[side] for pair in pairs]) for side in (0, 1))
    agreement = np.asarray(verify.summed_agreement(verify.SET_MEASURES["jaccard_bag_sum"].similarity(*a, *b)))
    assert agreement == pytest.approx(verify.SET_MEASURES["jaccard_bag"].similarity(*a, *b), abs=1e-12)
    assert np.asarray(verify.summed_agreement(np.array([0.0, 0.5, 0.75, 1.0]))).tolist() == [0.0, 1.0, 1.0, 1.0]


def test_a_similarity_at_the_threshold_is_not_below_it() -> None:
    """The quotient of two counts is the nearest number to it, as the threshold is: 4 of 5 are .8, in any multiple."""
    for times in range(1, 300):
        a = np.arange(5 * times, dtype=np.uint64)
        found = verify.SET_MEASURES["jaccard"].similarity(
            a, np.array([0, len(a)]), a[: 4 * times], np.array([0, 4 * times])
        )
        assert found[0] >= 0.8
