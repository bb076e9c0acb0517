"""The index of a sample finds what a comparison of all with all finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup.features.tokens.verify import SET_MEASURES
from neardup.pairs.estimates import sample_index
from neardup.pairs.estimates.key_set import KeySet, short_keys
from neardup.pairs.estimates.sample_index import SampleIndex

SETS = st.lists(st.sets(st.integers(0, 25), max_size=12), max_size=12)


def ragged(sets: list[set[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for one in sets for x in sorted(one)], np.uint64), np.cumsum([0, *map(len, sets)])


def hits(index: SampleIndex, values: np.ndarray, starts: np.ndarray, least: float) -> list[tuple[int, ...]]:
    """The candidates that have something in common: document, set of the sample, common elements, size."""
    documents, sampled = index.candidates(values, starts, least)
    rows = zip(documents, sampled, *index.common(documents, sampled, values, starts), strict=True)
    return [row for row in (tuple(map(int, one)) for one in rows) if row[2]]


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
        rows = [row[:3] for row in hits(index, *ragged(documents), least)]
        assert set(rows) == expected
        assert len(rows) == len(expected)


def test_more_hits_than_a_call_of_the_kernel_holds_are_all_there() -> None:
    """A flood fills the room of a call again and again."""
    rows = sample_index._HITS // 50 + 3
    index = SampleIndex(*ragged([{1, 2}] * 100), 0.5)
    documents, _ = index.candidates(*ragged([{1, 2}] * rows), 0.5)
    assert len(documents) == 100 * rows
    assert np.array_equal(np.bincount(documents), np.full(rows, 100))


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
    assert expected <= set(hits(index, np.repeat(values[::-1], 2)[::-1], 2 * starts, threshold))


KEYS = st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), max_size=30)


@given(KEYS, KEYS)
def test_with_keys_the_candidates_are_those_that_share_one(sample: list[list[int]], documents: list[list[int]]) -> None:
    """Whatever the elements are; each pair once."""
    keys = np.array(sample, np.uint64).reshape(-1, 3)
    index = SampleIndex(*ragged([set(range(50))] * len(sample)), 0.8, keys)
    looked_up = np.array(documents, np.uint64).reshape(-1), np.arange(len(documents) + 1) * 3
    found = list(zip(*(column.tolist() for column in index.candidates(*looked_up, 0.8)), strict=True))
    expected = {
        (i, n) for i, one in enumerate(documents) for n, other in enumerate(sample) if not set(one).isdisjoint(other)
    }
    assert set(found) == expected
    assert len(found) == len(expected)


@given(st.lists(st.tuples(st.lists(st.integers(1, 60), min_size=2, max_size=2), st.booleans()), max_size=60))
def test_a_set_of_keys_knows_what_was_added_before(items: list[tuple[list[int], bool]]) -> None:
    """In one call and in many; an item that was not added leads nowhere."""
    keys = np.array([one for one, _ in items], np.uint32).reshape(-1, 2)
    adds = np.array([is_added for _, is_added in items], np.bool_)
    held: set[int] = set()
    expected = []
    for one, is_added in items:
        expected.append(not held.isdisjoint(one) or (is_added and one[0] == one[1]))
        held.update(one if is_added else ())
    assert KeySet().meet(keys, adds).tolist() == expected
    steps = KeySet()
    assert [bool(steps.meet(keys[n : n + 1], adds[n : n + 1])[0]) for n in range(len(keys))] == expected


def test_a_set_of_keys_grows_and_keeps_all() -> None:
    """A hundred thousand keys are found again, and others are not; 0 is no key."""
    keys = short_keys(np.arange(1, 200_001, dtype=np.uint64) << np.uint64(32)).reshape(-1, 10)
    held, others = keys[:10_000], keys[10_000:]
    every = KeySet()
    for part in np.array_split(held, 20):
        every.meet(part, np.ones(len(part), np.bool_))
    assert every.meet(held, np.zeros(len(held), np.bool_)).all()
    assert not every.meet(others, np.zeros(len(others), np.bool_)).any()
    assert short_keys(np.zeros(1, np.uint64)).tolist() == [1]
