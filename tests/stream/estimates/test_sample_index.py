"""The index of a sample finds what a comparison of all with all finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup.features.tokens.verify import SET_MEASURES
from neardup.pairs.estimates import sample_index
from neardup.pairs.estimates.sample_index import SampleIndex

SETS = st.lists(st.sets(st.integers(0, 25), max_size=12), max_size=12)


def ragged(sets: list[set[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for one in sets for x in sorted(one)], np.uint64), np.cumsum([0, *map(len, sets)])


@given(SETS, SETS, st.sampled_from([0.1, 0.5, 1.0]))
def test_it_counts_what_each_two_sets_have_in_common(
    sample: list[set[int]], documents: list[set[int]], least: float
) -> None:
    """Empty sets included; nothing below the least fraction of the smaller set, and nothing twice."""
    expected = {
        (i, n, len(one & other))
        for i, one in enumerate(documents)
        for n, other in enumerate(sample)
        if one & other and len(one & other) >= least * min(len(one), len(other))
    }
    index = SampleIndex(*ragged(sample), 0.0)
    for _ in range(2):  # a call leaves nothing for the next one
        found = index.hits(*ragged(documents), least)
        rows = list(zip(*(column.tolist() for column in found[:3]), strict=True))
        assert set(rows) == expected
        assert len(rows) == len(expected)


def test_more_hits_than_a_call_of_the_kernel_holds_are_all_there() -> None:
    """A flood fills the room of a call again and again."""
    rows = sample_index._HITS // 50 + 3
    index = SampleIndex(*ragged([{1, 2}] * 100), 0.5)
    found = index.hits(*ragged([{1, 2}] * rows), 0.5)
    assert len(found.documents) == 100 * rows
    assert np.array_equal(np.bincount(found.documents), np.full(rows, 100))


@given(SETS, SETS, st.sampled_from(sorted(SET_MEASURES)), st.sampled_from([0.1, 0.3, 0.45, 0.5]))
def test_an_index_of_rare_elements_loses_no_pair_of_any_measure(
    sample: list[set[int]], documents: list[set[int]], measure: str, threshold: float
) -> None:
    """Every pair that reaches the threshold is there with its counts, though documents repeat elements."""
    row = SET_MEASURES[measure]
    expected = {
        (i, n, len(one & other), len(one))
        for i, one in enumerate(documents)
        for n, other in enumerate(sample)
        if one & other
        and row.of_counts(*(np.array([count]) for count in (len(one & other), len(one), len(other))))[0] >= threshold
    }
    index = SampleIndex(*ragged(sample), row.share_min(threshold))
    values, starts = ragged(documents)
    found = index.hits(np.repeat(values[::-1], 2)[::-1], 2 * starts, threshold)
    assert expected <= set(zip(*(column.tolist() for column in found), strict=True))
