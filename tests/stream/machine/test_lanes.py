"""Vector operations: the same results as loops over Python numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_calls import from_python

from neardup.machine.compile import inner
from neardup.machine.lanes import LANES, SUM_LANES, changes, copy_range, running_sums

_FULL = (1 << 64) - 1


@inner
def _changes(data, first, out, at):  # type: ignore[no-untyped-def]
    return changes(data, first, out, at)


@inner
def _running_sums(codes, factors, first, total, out):  # type: ignore[no-untyped-def]
    return running_sums(codes, factors, first, total, out)


@inner
def _copy_range(data, first, out, at, count):  # type: ignore[no-untyped-def]
    copy_range(data, first, out, at, count)


@given(st.integers(0, 3 * LANES), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_a_range_is_copied_and_nothing_else(count: int, first: int, at: int, behind: int) -> None:
    """Of any length, from and to any place; the bytes before and behind it stay."""
    data = np.arange(1, first + count + behind + 1).astype(np.uint8)
    out = np.zeros(at + count + behind, np.uint8)
    from_python(_copy_range)(data, first, out, at, count)
    assert out.tolist() == [0] * at + data[first : first + count].tolist() + [0] * behind


@given(st.integers(0, 300), st.integers(0, 9), st.integers(1, 255), st.integers(0, (1 << 65) - 1))
def test_changes_are_the_places_before_another_number(first: int, at: int, high: int, bits: int) -> None:
    """From none to all 64, written one after the other; the numbers before ``at`` stay."""
    data = np.zeros(first + LANES + 1, np.uint8)
    data[first:] = [high if bits >> i & 1 else 0 for i in range(LANES + 1)]
    out = np.full(at + LANES, 7, np.uint16)
    found = from_python(_changes)(data, np.uint64(first), out, np.uint64(at))
    assert out[at : at + found].tolist() == [p for p in range(first, first + LANES) if data[p] != data[p + 1]]
    assert out[:at].tolist() == [7] * at


@pytest.mark.parametrize("kind", [np.uint8, np.uint32])
def test_running_sums_are_modulo_two_to_the_64(kind: type[np.unsignedinteger]) -> None:
    """Of bytes and of code points; the sum so far counts, and the number before stays."""
    rng, count, first = np.random.default_rng(1), int(SUM_LANES), 3
    codes = rng.integers(0, 256 if kind is np.uint8 else 0x110000, first + count).astype(kind)
    factors = rng.integers(0, 1 << 64, first + count, np.uint64)
    out, total = np.full(first + count + 1, 7, np.uint64), _FULL - 5
    last = from_python(_running_sums)(codes, factors, np.uint64(first), np.uint64(total), out)
    sums = []
    for code, factor in zip(codes[first:].tolist(), factors[first:].tolist(), strict=True):
        total = (total + (code + 1) * factor) & _FULL
        sums.append(total)
    assert out[first + 1 :].tolist() == sums
    assert last == total
    assert out[: first + 1].tolist() == [7] * (first + 1)
