"""Sketches with infinite rows: what is stored, which bands have a key, and the three cases of the estimate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from oracle import pair_of_sets

from neardup.schemes.signatures import INFINITY, banding
from neardup_textbook.signatures import partial_banding
from neardup_textbook.signatures.partial import sign

INF = int(INFINITY)


def sketches(rows: list[list[int]], bits: int = 8) -> np.ndarray:
    return partial_banding.sketch(np.array(rows, np.uint64), bits)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_row_is_zero_exactly_where_it_is_infinite(bits: int) -> None:
    """Values are spread over 1 to 2^bits - 1, also values that end in zeros."""
    top = (1 << bits) - 1
    rows = np.array([[0, 1, top - 1, top, top + 1, 1 << bits, INF - 1, INF]], np.uint64)
    stored = partial_banding.sketch(rows, bits).view(np.dtype(banding.ROW_TYPES[bits]))[0].tolist()
    assert stored == [1, 2, top, 1, 2, 2, (INF - 1) % top + 1, 0]


def test_three_cases_of_infinity() -> None:
    """Both infinite: left out; one: unequal; neither: compared. Two of five rows that tell something agree."""
    a = sketches([[7, INF, INF, 3, 4, 9]])
    b = sketches([[7, INF, 5, INF, 4, 8]])
    found = partial_banding.agreement(a, b, bands=2, bits=8)
    assert [int(x[0]) for x in found] == [0, 2, 3, 5]
    estimate = partial_banding.estimate(found.equal, found.finite, found.compared, 8)[0]
    assert estimate == pytest.approx((2 - 3 / 255) / (1 - 1 / 255) / 5)


def test_nothing_known_is_no_similarity() -> None:
    """Two sets without an element in any compared part have similarity 0."""
    nothing = sketches([[INF] * 4])
    found = partial_banding.agreement(nothing, nothing, bands=2, bits=8)
    assert [int(x[0]) for x in found] == [0, 0, 0, 0]
    assert partial_banding.estimate(found.equal, found.finite, found.compared, 8).tolist() == [0.0]


def test_equal_sketches_have_similarity_one_for_any_infinite_rows() -> None:
    """Rows that are left out have no weight."""
    same = sketches([[1, 2, INF, 4], [INF, INF, INF, 4]])
    found = partial_banding.agreement(same, same, bands=2, bits=8)
    assert partial_banding.estimate(found.equal, found.finite, found.compared, 8).tolist() == [1.0, 1.0]


def test_a_band_with_an_infinite_row_has_no_key() -> None:
    """The other bands have the same keys as in a whole sketch, in the order of the bands."""
    rows = sketches([[1, 2, 3, 4, 5, 6], [1, 2, INF, 4, 5, 6], [INF] * 6, [INF, 2, 3, 4, 5, INF]])
    values, starts = partial_banding.keys(rows, 3, 8, seed=1)
    every = banding.keys(rows, 3, 1)
    assert starts.tolist() == [0, 3, 5, 5, 6]
    assert values.tolist() == [*every[0].tolist(), every[1, 0], every[1, 2], every[3, 1]]


def test_no_items_have_no_keys() -> None:
    """An empty comparison has empty columns."""
    none = np.empty((0, 6), np.uint8)
    values, starts = partial_banding.keys(none, 3, 8, seed=1)
    assert (len(values), starts.tolist()) == (0, [0])
    assert [len(x) for x in partial_banding.agreement(none, none, 3, 8)] == [0] * 4


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("groups", [8, 54])
def test_keys_in_common_follow_from_the_sketches_alone(bits: int, groups: int) -> None:
    """How many, and the position of the first among the keys of the first item, over sets of 1 to 300 elements."""
    rows, bands = 54, 9
    pairs = [pair_of_sets(1 + 3 * seed, 0.5 + seed % 50 / 100, seed)[:2] for seed in range(100)]
    parts = [part for pair in pairs for part in pair]
    signatures = sign(np.concatenate(parts), np.cumsum([0, *map(len, parts)]), rows, groups, 1)
    evidence = partial_banding.sketch(signatures, bits)
    values, starts = partial_banding.keys(evidence, bands, bits, 1)
    own = [values[first:end].tolist() for first, end in pairwise(starts)]
    found = partial_banding.agreement(evidence[::2], evidence[1::2], bands, bits)
    for pair in range(len(pairs)):
        a, b = own[2 * pair], own[2 * pair + 1]
        assert found.bands[pair] == len(set(a) & set(b))
    assert 0 < (found.bands > 0).sum() < len(pairs)
    assert any(len(keys) < bands for keys in own)


def test_a_sketch_without_infinity_is_banded_as_any_other() -> None:
    """Counts and keys are the same as for whole sketches."""
    rng = np.random.default_rng(3)
    a = rng.integers(1, 256, (200, 12), np.uint8)
    b = np.where(rng.random((200, 12)) < 0.7, a, rng.integers(1, 256, (200, 12), np.uint8))
    whole, partial = banding.agreement(a, b, 4, 8), partial_banding.agreement(a, b, 4, 8)
    assert partial.bands.tolist() == whole.bands.tolist()
    assert partial.equal.tolist() == whole.rows.tolist()
    assert (partial.finite == 12).all()
    assert (partial.compared == 12).all()
    values, starts = partial_banding.keys(a, 4, 8, seed=2)
    assert values.tolist() == banding.keys(a, 4, 2).ravel().tolist()
    assert starts.tolist() == list(range(0, 801, 4))


@pytest.mark.parametrize("union", [10, 100, 1000])
@pytest.mark.parametrize("groups", [8, 126])
def test_the_estimate_is_unbiased_in_eight_bits(groups: int, union: int) -> None:
    """The estimate is corrected for chance; weights are the compared rows; the bound is five standard deviations."""
    total, compared, exact = 0.0, 0, 0.0
    for seed in range(150):
        a, b, exact = pair_of_sets(union, 0.6, seed)
        signatures = sign(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]), 126, groups, seed)
        evidence = partial_banding.sketch(signatures, 8)
        found = partial_banding.agreement(evidence[:1], evidence[1:], 18, 8)
        total += float(partial_banding.estimate(found.equal, found.finite, found.compared, 8)[0]) * int(
            found.compared[0]
        )
        compared += int(found.compared[0])
    assert abs(total / compared - exact) <= 5 * (exact * (1 - exact) / compared) ** 0.5
