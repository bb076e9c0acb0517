"""The pair rule: which candidates are pairs, and which document of a pair is older."""

from __future__ import annotations

import numpy as np
import pytest

from neardup.pairs.pair_rule import NO_MATCHES, Matches, judge, nearest_pairs, orient
from neardup.schemes.interface import Common
from neardup.window import NO_TIME

# Number of common keys, conditions, similarity, identical -> is it a pair (score_min 0.5, shared_min 2)?
CANDIDATES = [
    ((2, True, 0.5, False), True),  # at both bounds
    ((9, True, 0.49, False), False),  # similarity below score_min
    ((1, True, 0.9, False), False),  # too few common keys
    ((0, True, 0.9, False), False),  # no common key: two keys shared a chain by accident
    ((9, False, 0.9, False), False),  # a condition of the scheme fails
    ((0, False, 0.0, True), True),  # identical content is a pair whatever the scheme says
]


def common(rows: list[tuple[int, bool, float, bool]]) -> tuple[Common, np.ndarray]:
    keys, conditions, similarity, identical = zip(*rows, strict=True)
    found = Common(np.array(keys, np.int32), np.array(conditions), np.array(similarity, np.float64))
    return found, np.array(identical)


@pytest.mark.parametrize(("row", "expected"), CANDIDATES)
def test_a_candidate_is_a_pair_when_score_keys_and_conditions_suffice(row: tuple, expected: bool) -> None:
    """Identical content is a pair without them."""
    assert judge(*common([row]), 0.5, 2, exact_score=True).is_pair.tolist() == [expected]


def test_identical_content_has_similarity_1_and_a_common_key() -> None:
    """So the similarity of the scheme does not lower it."""
    judged = judge(*common([row for row, _ in CANDIDATES]), 0.5, 2, exact_score=True)
    assert judged.similarity.tolist() == [0.5, 0.49, 0.9, 0.9, 0.9, 1.0]
    assert judged.keys.tolist() == [2, 9, 1, 0, 9, 1]
    assert judged.is_pair.tolist() == [expected for _, expected in CANDIDATES]


def arrived(*rows: tuple[str, str, int, int]) -> Matches:
    """Pairs in order of arrival; the similarity of pair i is i / 10."""
    older, newer, older_times, newer_times = zip(*rows, strict=True)
    numbers = np.arange(len(rows))
    times = np.array(older_times, np.int64), np.array(newer_times, np.int64)
    return Matches(list(older), list(newer), *times, numbers / 10, numbers.astype(np.int32))


UNTIMED = int(NO_TIME)
ROWS = [("a", "b", 1, 2), ("c", "d", 2, 1), ("f", "e", 3, 3), ("h", "g", UNTIMED, 9), ("j", "i", 9, UNTIMED)]


def test_the_document_with_the_earlier_time_is_the_older_one() -> None:
    """Equal and missing times keep the order of arrival; the columns of a pair move together."""
    turned = orient(arrived(*ROWS))
    assert list(zip(turned.older, turned.newer, strict=True)) == [
        ("a", "b"), ("d", "c"), ("f", "e"), ("h", "g"), ("j", "i"),
    ]  # fmt: skip
    assert turned.older_times.tolist() == [1, 1, 3, UNTIMED, 9]
    assert turned.newer_times.tolist() == [2, 2, 3, 9, UNTIMED]
    assert turned.similarity.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4]


def test_pairs_keep_their_values_when_both_arrive_the_other_way_round() -> None:
    """With different times the result does not depend on which of the two arrived first."""
    one, other = arrived(("a", "b", 1, 2)), arrived(("b", "a", 2, 1))
    assert orient(one).pairs() == orient(other).pairs()
    assert orient(NO_MATCHES).pairs() == []


def test_the_nearest_pairs_of_each_item_are_those_of_a_sort() -> None:
    """By similarity, of equal ones by arrival, for any number of pairs and items."""
    chance = np.random.default_rng(5)
    for _ in range(300):
        count, most = (int(n) for n in chance.integers(0, 60, 2))
        items, slots = np.sort(chance.integers(0, 8, count)).astype(np.int32), chance.permutation(200)[:count]
        similarity = chance.integers(0, 5, count) / 5
        order = sorted(range(count), key=lambda n: (items[n], -similarity[n], slots[n]))
        best = [n for rank, n in enumerate(order) if rank - int(np.searchsorted(items, items[n])) < most % 9]
        assert nearest_pairs(items, slots, similarity, most % 9).tolist() == sorted(best)
