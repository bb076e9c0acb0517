"""Clusters against labels and against pairs: the definitions, written plainly, and intervals that cover."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.pairs.evaluation.clusters import (
    Quality,
    components,
    counts_of_labels,
    counts_of_pairs,
    lowest_similarities,
    purity_by_size,
    quality,
)

PARTITION = st.integers(1, 14).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 4), min_size=n, max_size=n) for _ in range(2)))
)


def plain(clusters: list[int], related: set[tuple[int, int]]) -> list[float]:
    """The measures by their definitions, over all pairs of documents."""
    n = len(clusters)
    pairs = list(combinations(range(n), 2))
    together = {(i, j) for i, j in pairs if clusters[i] == clusters[j]}
    hits = len(together & related)

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else math.nan

    def among(i: int, pairs: set[tuple[int, int]]) -> set[int]:
        return {i} | {j for j in range(n) if (min(i, j), max(i, j)) in pairs}

    precisions = [len(among(i, together) & among(i, related)) / len(among(i, together)) for i in range(n)]
    recalls = [len(among(i, together) & among(i, related)) / len(among(i, related)) for i in range(n)]
    b3_precision, b3_recall = sum(precisions) / n, sum(recalls) / n
    classes = components(n, *(np.array([pair[side] for pair in sorted(related)], np.int64) for side in (0, 1)))
    classed = {(i, j) for i, j in pairs if classes[i] == classes[j]}

    def above_chance(together: set[tuple[int, int]], true: set[tuple[int, int]]) -> float:
        chance = ratio(len(together) * len(true), len(pairs))
        return ratio(len(together & true) - chance, (len(together) + len(true)) / 2 - chance)

    return [
        ratio(hits, len(together)),
        ratio(hits, len(related)),
        ratio(2 * hits, len(together) + len(related)),
        b3_precision,
        b3_recall,
        2 * b3_precision * b3_recall / (b3_precision + b3_recall),
        *(above_chance(together, true) for true in (classed, related)),
    ]


def values(found: Quality) -> list[float]:
    return [measure.value for measure in found]


@given(PARTITION)
def test_measures_against_labels_match_the_definitions(partitions: tuple[list[int], list[int]]) -> None:
    """For any two partitions of the same documents."""
    clusters, labels = partitions
    related = {(i, j) for i, j in combinations(range(len(labels)), 2) if labels[i] == labels[j]}
    found = quality(counts_of_labels(np.array(clusters), np.array(labels)))
    assert values(found) == pytest.approx(plain(clusters, related), nan_ok=True)


@given(PARTITION, st.data())
def test_measures_against_pairs_match_the_definitions(
    partitions: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    """Also for pairs that form no partition; then the adjusted Rand index counts what they join."""
    clusters, _ = partitions
    related = data.draw(st.sets(st.sampled_from([(-1, -1), *combinations(range(len(clusters)), 2)]))) - {(-1, -1)}
    a, b = (np.array([pair[side] for pair in sorted(related)], np.int64) for side in (0, 1))
    found = quality(counts_of_pairs(np.array(clusters), a, b))
    assert values(found) == pytest.approx(plain(clusters, related), nan_ok=True)


def test_the_textbook_example_of_the_adjusted_rand_index() -> None:
    """Hubert and Arabie's formula on the contingency table ((1, 1, 0), (1, 2, 1), (0, 0, 4)) gives .313."""
    table = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 1), (1, 2), (2, 2), (2, 2), (2, 2), (2, 2)]
    clusters, labels = (np.array(column) for column in zip(*table, strict=True))
    assert quality(counts_of_labels(clusters, labels)).adjusted_rand.value == pytest.approx(0.313, abs=5e-4)


def test_intervals_cover_the_truth() -> None:
    """Of 100 samples of clusters that are split or joined at random, nine in ten intervals hold the true value."""
    rng = np.random.default_rng(3)

    def sample(groups: int) -> Quality:
        labels = np.repeat(np.arange(groups), 4)
        clusters = labels * 10 + (rng.random(len(labels)) < 0.3)
        joined = np.where(labels % 5 == 1, labels - 1, labels)
        return quality(counts_of_labels(clusters, joined))

    truth = values(sample(40_000))
    samples = [sample(100) for _ in range(100)]
    for measure in range(len(truth)):
        held = sum(s[measure].low <= truth[measure] <= s[measure].high for s in samples)
        assert held >= 90, Quality._fields[measure]


@given(PARTITION)
def test_purity_by_size_matches_its_definition(partitions: tuple[list[int], list[int]]) -> None:
    """Each cluster of two documents or more is in one row; its commonest class counts."""
    clusters, labels = partitions
    expected: dict[int, list[int]] = {}
    for cluster in set(clusters):
        members = [label for one, label in zip(clusters, labels, strict=True) if one == cluster]
        if len(members) > 1:
            row = expected.setdefault((len(members) - 1).bit_length(), [0, 0, 0])
            for n, count in enumerate((1, len(members), max(map(members.count, members)))):
                row[n] += count
    found = {
        (row.size_max - 1).bit_length(): [row.clusters, row.documents, round(row.purity.value * row.documents)]
        for row in purity_by_size(np.array(clusters), np.array(labels))
    }
    assert found == expected


def test_the_interval_of_a_purity_is_that_of_its_clusters() -> None:
    """Forty clusters of three, a fifth of which have a stranger: the documents of one cluster are not independent."""
    labels = np.repeat(np.arange(40), 3)
    labels[:24:3] = 99
    (row,) = purity_by_size(np.repeat(np.arange(40), 3), labels)
    deviation = math.sqrt(0.2 * 0.8 / 40) / 3
    assert row.purity.value == pytest.approx(112 / 120)
    assert row.purity.high - row.purity.low == pytest.approx(2 * 1.96 * deviation, rel=0.15)


def test_one_unit_has_no_interval() -> None:
    """One unit gives no information on the variation between samples."""
    found = quality(counts_of_labels(np.zeros(5, np.int64), np.arange(5)))
    assert found.precision.value == 0.0
    assert math.isnan(found.precision.low)
    assert math.isnan(quality(counts_of_labels(np.empty(0, np.int64), np.empty(0, np.int64))).b3_f1.value)


def test_the_lowest_similarity_inside_a_cluster_is_unknown_where_a_pair_is_missing() -> None:
    """It is below every listed similarity."""
    a, b, similarity = np.array([0, 0, 1, 3]), np.array([1, 2, 2, 4]), np.array([0.9, 0.7, 0.8, 0.6])
    lowest = lowest_similarities(np.array([0, 0, 0, 1, 1, 2]), a, b, similarity)
    assert lowest.tolist() == [0.7, 0.6, 1.0]
    assert np.isnan(lowest_similarities(np.array([0, 0, 0, 0]), a[:3], b[:3], similarity[:3])[0])


def test_components_are_named_by_their_first_document() -> None:
    """The order of the pairs makes no difference."""
    assert components(6, np.array([4, 1, 3]), np.array([1, 3, 5])).tolist() == [0, 1, 2, 1, 1, 1]
