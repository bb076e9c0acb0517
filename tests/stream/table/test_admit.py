"""The bounds of payloads: the marks of the textbook are admitted, and no true pair is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from neardup.machine.compile import kernel
from neardup.schemes.kinds.prefix import prefix_lengths
from neardup.window.admit import admits, common_min, may_reach, payload_of


@kernel()
def admitted(positions_a, suffixes_a, positions_b, suffixes_b, ratios, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        a, b = payload_of(positions_a[i], suffixes_a[i]), payload_of(positions_b[i], suffixes_b[i])
        out[i] = admits(a, b, ratios[i])


def admit_all(rows: np.ndarray, ratios: float | np.ndarray) -> np.ndarray:
    """Whether rows ``int64[m, 4]`` are admitted: position and suffix of a, of b; one ratio, or one for each row."""
    out = np.empty(len(rows), np.bool_)
    admitted(*np.ascontiguousarray(rows.T), np.broadcast_to(ratios, len(rows)).astype(np.float64), out)
    return out


def marks(length: int, prefix: int, ratio: float) -> set[tuple[int, int, int]]:
    """(i, j, q) as the textbook counts them: positions from 1, q the tokens that follow; j and q up to 40."""
    grid = np.array([(i, j, q) for i in range(1, prefix + 1) for j in range(1, 40) for q in range(40)])
    i, j, q = grid.T
    chosen = admit_all(np.column_stack([i - 1, length - i + 1, j - 1, q + 1]), ratio)
    return set(map(tuple, grid[chosen].tolist()))


def test_the_fourteen_marks_of_figure_3_16_are_admitted_and_no_more() -> None:
    """acdefghijk at .8: MMDS 3.9.6."""
    figure = {
        1: {7: (1,), 8: (1, 2), 9: (1, 2, 3), 10: (1, 2), 11: (1,)},
        2: {7: (1,), 8: (1, 2), 9: (1,)},
        3: {7: (1,)},
    }
    expected = {(i, j, q) for i, rows in figure.items() for q, js in rows.items() for j in js}
    assert len(expected) == 14
    assert marks(10, 3, 0.8) == expected


def test_suffixes_of_one_length_leave_the_position_index() -> None:
    """acdefghijk at .9 looks up (a, 1), (a, 2) and (c, 1): MMDS 3.9.5, which assumes that the rest is equal."""
    assert {(i, j) for i, j, q in marks(10, 2, 0.9) if q == 10 - i} == {(1, 1), (1, 2), (2, 1)}


def test_first_tokens_leave_the_length_filter() -> None:
    """At .9 a set of 9 is compared with sets of 9 and 10, and a set of 8 only with sets of 8: MMDS 3.9.3."""
    lengths = np.arange(1, 40)
    for length, meets in ((9, {9, 10}), (8, {8})):
        rows = np.column_stack([np.zeros_like(lengths), np.full_like(lengths, length), np.zeros_like(lengths), lengths])
        assert set(lengths[admit_all(rows, 0.9)].tolist()) == meets


@pytest.mark.parametrize("ratio", ["0.5", "0.55", "0.7", "0.8", "0.9", "0.95", "0.99", "1"])
def test_the_bound_equals_that_of_exact_arithmetic(ratio: str) -> None:
    """Refused if and only if the best similarity there can be is below the ratio, as fractions."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([
        np.column_stack([rng.integers(0, 30, 4000), rng.integers(1, 60, 4000)] * 2),
        np.column_stack([rng.integers(0, 9, 4000), rng.integers(1, 12, 4000), rng.integers(0, 9, 4000),
                         rng.integers(1, 12, 4000)]),
    ])  # fmt: skip
    best = [Fraction(min(a, b), i + j + max(a, b)) for i, a, j, b in rows.tolist()]
    expected = [fraction >= Fraction(ratio) for fraction in best]
    assert any(expected)
    assert not all(expected)
    assert admit_all(rows, float(ratio)).tolist() == expected


def test_a_quotient_is_never_refused_at_its_own_value() -> None:
    """Rounding excludes no pair: for all sizes up to 300, with their quotient in ``float64`` as the ratio."""
    shorter, longer = (sizes + 1 for sizes in np.triu_indices(300))
    none, quotients = np.zeros_like(shorter), shorter / longer
    assert admit_all(np.column_stack([none, shorter, none, longer]), quotients).all()
    assert admit_all(np.column_stack([none, longer, none, shorter]), quotients).all()


@kernel()
def least_common(sizes_a, sizes_b, ratios, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = common_min(payload_of(0, sizes_a[i]), payload_of(1, sizes_b[i] - 1), ratios[i])


def test_no_pair_shares_fewer_tokens_of_its_prefixes_than_demanded() -> None:
    """For sets of any sizes and any common tokens, also where the similarity is equal to the ratio."""
    rng = np.random.default_rng(3)
    sizes, shared, ratios = [], [], []
    for _ in range(3000):
        a, b = rng.integers(2, 60, 2).tolist()
        common = int(rng.integers(1, min(a, b) + 1))
        ratio = common / (a + b - common) * (1.0 if rng.random() < 0.5 else float(rng.uniform(0.7, 1.0)))
        own = rng.permutation(a + b - common)
        sets = np.sort(own[:a]), np.sort(np.concatenate([own[:common], own[a:]]))
        ends = prefix_lengths(np.array([a, b]), ratio).tolist()
        prefixes = [set(one[:end].tolist()) for one, end in zip(sets, ends, strict=True)]
        sizes.append((a, b))
        shared.append(len(prefixes[0] & prefixes[1]))
        ratios.append(ratio)
    out = np.empty(len(sizes), np.int64)
    least_common(*np.array(sizes).T.copy(), np.array(ratios), out)
    assert (out <= np.array(shared)).all()
    assert (out == np.array(shared)).sum() > 300


def test_two_sets_of_a_thousand_tokens_must_share_ninety_of_their_prefixes_at_eight_tenths() -> None:
    """Of the 201 tokens that are keys; sets of 1,000 and 1,250 need one."""
    out = np.empty(2, np.int64)
    least_common(np.array([1000, 1000]), np.array([1000, 1250]), np.array([0.8, 0.8]), out)
    assert abs(int(out[0]) - 90) <= 1
    assert out[1] == 1


@kernel()
def reaching(positions_a, suffixes_a, positions_b, suffixes_b, ratios, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        a, b = payload_of(positions_a[i], suffixes_a[i]), payload_of(positions_b[i], suffixes_b[i])
        out[i] = may_reach(a, b, ratios[i])


def test_no_common_token_refuses_a_pair_that_reaches_the_ratio() -> None:
    """For every common token of sets of any sizes, also where the similarity is equal to the ratio; others are refused
    if no pair with this token can reach the ratio."""
    rng = np.random.default_rng(5)
    rows, expected = [], []
    for _ in range(1500):
        a, b = rng.integers(1, 40, 2).tolist()
        common = int(rng.integers(1, min(a, b) + 1))
        ratio = common / (a + b - common) * float(rng.choice([1.0, 1.0, 0.9, 1.2, 1.5]))
        own = rng.permutation(a + b - common)
        sets = np.sort(own[:a]), np.sort(np.concatenate([own[:common], own[a:]]))
        for token in own[:common].tolist():
            at = [int(np.searchsorted(one, token)) for one in sets]
            rows.append((at[0], a - at[0], at[1], b - at[1], ratio))
            most = min(at) + min(a - at[0], b - at[1])
            expected.append(ratio <= most / (a + b - most))
            assert expected[-1] or ratio > common / (a + b - common)
    columns = np.array(rows).T
    out = np.empty(len(rows), np.bool_)
    reaching(*columns[:4].astype(np.int64), columns[4].copy(), out)
    assert out.tolist() == expected
    assert 0 < out.sum() < len(rows)
