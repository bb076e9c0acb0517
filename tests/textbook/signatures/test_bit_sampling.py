"""Bit sampling: each bit is a function, the law of Hamming and L1 distance, and the unary code never written out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from neardup_textbook.signatures.bit_sampling import positions, sign_bits, sign_unary, sketch_bits, sketch_unary
from neardup_textbook.vectors.packed_bits import agreement

RNG = np.random.default_rng(1)


def packed(*words: str) -> np.ndarray:
    return np.packbits([[int(bit) for bit in word] for word in words], axis=1)


def equal(sketches: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """Equal rows of sketches 2i and 2i + 1, as a share."""
    return agreement(sketches[::2], sketches[1::2], bands, rows).bits / (bands * rows)


def unary(vectors: np.ndarray, component_max: int) -> np.ndarray:
    """The code written out: x ones and then zeros, component by component."""
    return (vectors[:, :, None] > np.arange(component_max)).reshape(len(vectors), -1)


def test_each_of_six_bits_is_a_function() -> None:
    """Exercise 3.7.1: which of the six make a pair a candidate."""
    words = ["000000", "110011", "010101", "011100"]
    rows = np.unpackbits(sketch_bits(packed(*words), np.arange(6), bands=1), axis=1, count=6, bitorder="little")
    assert ["".join(map(str, row)) for row in rows.tolist()] == words
    candidates = {(a, b): [i + 1 for i in range(6) if rows[a, i] == rows[b, i]] for a, b in combinations(range(4), 2)}
    assert candidates == {
        (0, 1): [3, 4], (0, 2): [1, 3, 5], (0, 3): [1, 5, 6],
        (1, 2): [2, 3, 6], (1, 3): [2], (2, 3): [1, 2, 4, 5],
    }  # fmt: skip


@pytest.mark.parametrize("dimension", [1, 7, 64, 1001])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_row_agrees_with_one_less_the_distance(dimension: int, share: float) -> None:
    """1 - d / dim, over 40 pairs of 4,096 rows, within six standard deviations."""
    distance = round(share * dimension)
    bits = RNG.integers(0, 2, (80, dimension), np.uint8)
    bits[1::2] = bits[::2]
    for row in bits[1::2]:
        row[RNG.permutation(dimension)[:distance]] ^= 1
    found = equal(sign_bits(np.packbits(bits, axis=1), dimension, bands=64, rows=64, seed=3), 64, 64).mean()
    expected = 1 - distance / dimension
    assert abs(found - expected) <= 6 * (expected * (1 - expected) / (4096 * min(40, dimension))) ** 0.5


def test_l1_is_the_hamming_distance_of_the_codes() -> None:
    """A sampled bit of the code follows from the number; the code is never written out."""
    vectors = RNG.integers(0, 10, (50, 12)).astype(np.float32)
    codes = unary(vectors, component_max=9)
    assert (codes[0] != codes[1]).sum() == abs(vectors[0] - vectors[1]).sum()
    drawn = np.arange(12 * 9)
    direct = sketch_unary(vectors, 9, drawn, bands=9)
    assert np.array_equal(direct, sketch_bits(np.packbits(codes, axis=1), drawn, bands=9))
    assert np.array_equal(sign_unary(vectors, 9, 7, 13, seed=5), sign_bits(np.packbits(codes, axis=1), 108, 7, 13, 5))


def test_a_row_agrees_by_l1_distance() -> None:
    """The two points of the textbook at distance 10, in numbers to 9: 1 - 10 / 27."""
    points = np.array([[5, 6, 7], [8, 2, 4]], np.float32)
    found = float(equal(sign_unary(points, 9, bands=512, rows=64, seed=7), 512, 64)[0])
    expected = 1 - 10 / 27
    assert abs(found - expected) <= 6 * (expected * (1 - expected) / (512 * 64)) ** 0.5


def test_ends_of_the_range_are_all_zeros_and_all_ones() -> None:
    """Nothing and the greatest number, up to 65,535."""
    ends = np.array([[0, 0], [65535, 65535]], np.float32)
    sketches = sign_unary(ends, 65535, bands=3, rows=5, seed=1)
    assert sketches.tolist() == [[0, 0, 0], [31, 31, 31]]


def test_places_are_even_over_all_bits() -> None:
    """Each of 50 is drawn as often as the others, within six standard deviations."""
    counts = np.bincount(positions(50, 50_000, seed=2), minlength=50)
    assert len(counts) == 50
    assert abs(counts - 1000).max() < 6 * 1000**0.5
