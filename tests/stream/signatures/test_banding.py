"""Banding: sketches and keys as a format, and the comparison of two sketches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples
from reference import keys as reference_keys
from reference import one_permutation
from reference import sketch as reference_sketch

from neardup.schemes.signatures.banding import ROW_TYPES, agreement, estimate, keys, sketch

SIGNATURE = one_permutation([5, 6, 7], 16, 1)


def sketch_of(signature: list[int], bits: int) -> np.ndarray:
    return sketch(np.array([signature], np.uint64), bits)


def test_a_sketch_keeps_the_low_bits_of_each_row() -> None:
    """Little-endian; a sketch is a format."""
    assert sketch_of(SIGNATURE, 8).tobytes().hex() == "d3aadf2f9fbe0a390dc8dc289c117fe9"
    assert (
        sketch_of(SIGNATURE, 16).tobytes().hex() == "d38baadbdf362fee9fd8be100ae039cb0dd9c8c2dc0228619c6011c87f65e91d"
    )
    for bits in ROW_TYPES:
        assert sketch_of(SIGNATURE, bits).tobytes() == reference_sketch(SIGNATURE, bits)


def test_keys_have_a_known_answer() -> None:
    """Two bands of eight rows of 16 bits, seed 1."""
    assert keys(sketch_of(SIGNATURE, 16), 2, 1).tolist() == [[2934180331716519506, 9358766455373980593]]


@examples(200)
@given(st.integers(1, 20), st.integers(4, 20), st.data())
def test_keys_match_the_definition(bands: int, width: int, data: st.DataObject) -> None:
    """Bands are narrower than, as wide as and wider than the eight bytes that are mixed at a time."""
    part = data.draw(st.binary(min_size=bands * width, max_size=bands * width))
    seed = data.draw(st.integers(0, 2**63 - 1))
    found = keys(np.frombuffer(part, np.uint8).reshape(1, -1), bands, seed)
    assert found.tolist() == [reference_keys(part, bands, seed)]


def test_equal_rows_in_two_bands_have_different_keys() -> None:
    """The number of the band is in the key: a bucket belongs to one band."""
    same = np.zeros((1, 126), np.uint8)
    assert len(set(keys(same, 18, 1)[0].tolist())) == 18


@examples(200)
@given(st.integers(1, 8), st.integers(1, 6), st.sampled_from(sorted(ROW_TYPES)), st.integers(0, 2**32))
def test_agreement_counts_equal_rows_and_bands(bands: int, rows: int, bits: int, seed: int) -> None:
    """Compared with a count row by row; a row of many bits is equal only if all its bits are."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, (5, bands * rows)).astype(ROW_TYPES[bits]) << (bits - 1)
    b = np.where(rng.random(a.shape) < 0.2, a ^ ROW_TYPES[bits](1 << (bits - 1)), a)
    found = agreement(a.view(np.uint8), b.view(np.uint8), bands, bits)
    equal = (a == b).reshape(5, bands, rows)
    whole = equal.all(axis=2)
    assert found.rows.tolist() == equal.sum(axis=(1, 2)).tolist()
    assert found.bands.tolist() == whole.sum(axis=1).tolist()


def test_an_estimate_takes_away_the_agreement_by_chance() -> None:
    """All rows give 1; as many rows as chance gives, or fewer, give 0; other numbers give values in proportion."""
    rows = np.array([256, 1, 0, 128], np.int32)
    assert estimate(rows, 256, 8).tolist() == [1.0, 0.0, 0.0, (128 / 256 - 1 / 256) / (255 / 256)]


@pytest.mark.parametrize("bits", sorted(ROW_TYPES))
def test_rows_of_unrelated_sketches_agree_as_often_as_chance_has_it(bits: int) -> None:
    """A row of different shingles agrees with probability 2^-bits, five standard deviations over 10^6 rows."""
    rng = np.random.default_rng(11)
    a, b = rng.integers(0, 1 << bits, (2, 1_000_000)).astype(ROW_TYPES[bits])
    found = agreement(a.reshape(-1, 100).view(np.uint8), b.reshape(-1, 100).view(np.uint8), 10, bits)
    expected = 1e6 * 2.0**-bits
    assert abs(found.rows.sum() - expected) <= 5 * expected**0.5 + 1
