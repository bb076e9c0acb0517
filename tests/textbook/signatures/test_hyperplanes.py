"""Random hyperplanes: the worked examples, the law of angles, and a sketch that depends on its vector only."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from neardup.schemes.signatures.banding import keys
from neardup_textbook.signatures.hyperplanes import PLANES, agreement, cosine, degrees, lift, sign, sketch
from neardup_textbook.vectors.packed_bits import agreement as bits_of_pairs
from neardup_textbook.vectors.packed_bits import width
from neardup_textbook.vectors.pairwise import dot
from neardup_textbook.vectors.projections import project

# Mining of Massive Datasets, example 3.22.
X, Y = [3, 4, 5, 6], [4, 3, 2, 1]
THREE = np.array([[1, -1, 1, 1], [-1, 1, -1, 1], [1, 1, -1, -1]], np.float32)
SIXTEEN = np.array(list(product([1, -1], repeat=4)), np.float32)


def array(*vectors: list[int]) -> np.ndarray:
    return np.array(vectors, np.float32)


def bits(vectors: np.ndarray, normals: np.ndarray) -> list[list[int]]:
    return np.unpackbits(sketch(vectors, normals), axis=1, count=len(normals), bitorder="little").tolist()


def angle(a: np.ndarray, b: np.ndarray, normals: np.ndarray) -> float:
    """The angle estimated from two sketches."""
    first, second = sketch(array(a), normals), sketch(array(b), normals)
    return float(degrees(1 - np.bitwise_count(first ^ second).sum(axis=1) / len(normals))[0])


def test_a_sketch_of_three_planes_is_the_worked_one() -> None:
    """x on the sides + + -, y on + - +; they agree in a third, so the estimated angle is 120 degrees."""
    assert bits(array(X, Y), THREE) == [[1, 1, 0], [1, 0, 1]]
    assert angle(X, Y, THREE) == pytest.approx(120)


def test_all_sixteen_planes_of_signs_tell_45_degrees() -> None:
    """The true angle is 38: in four dimensions plus and minus ones are no match for normal components."""
    assert angle(X, Y, SIXTEEN) == pytest.approx(45)
    true = np.dot(X, Y) / (np.linalg.norm(X) * np.linalg.norm(Y))
    assert round(float(np.degrees(np.arccos(true)))) == 38


def test_four_planes_sketch_three_vectors_as_worked_by_hand() -> None:
    """Exercise 3.7.2: right angles between the first and the others, and the others opposite each other."""
    four = array([1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1])
    a, b, c = [2, 3, 4, 5], [-2, 3, -4, 5], [2, -3, 4, -5]
    assert bits(array(a, b, c), four) == [[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 1, 0]]
    assert [angle(a, b, four), angle(a, c, four), angle(b, c, four)] == [90, 90, 180]


@pytest.mark.parametrize("planes", PLANES)
@pytest.mark.parametrize("true_degrees", [5, 30, 60, 90, 150])
def test_a_bit_agrees_with_the_share_of_the_angle(planes: str, true_degrees: float) -> None:
    """(180 - t) / 180, in 128 dimensions, over 60 pairs of 4,096 planes; within six standard deviations."""
    rng, t = np.random.default_rng(1), np.radians(true_degrees)
    x, y = rng.standard_normal((2, 60, 128))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y -= (x * y).sum(axis=1, keepdims=True) * x
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    other = np.cos(t) * x + np.sin(t) * y
    a, b = (sign(v.astype(np.float32), bands=64, rows=64, seed=2, planes=planes) for v in (x, other))
    share = 1 - np.bitwise_count(a ^ b).sum(axis=1).mean() / 4096
    expected = 1 - true_degrees / 180
    # All pairs use the same planes, so they are not quite independent; a few hundred bits are.
    assert abs(share - expected) < 6 * (expected * (1 - expected) / (60 * 4096)) ** 0.5
    assert float(agreement(np.cos(t))) == pytest.approx(expected)


def test_the_cosine_is_the_inverse_of_the_agreement() -> None:
    """At every fraction of equal bits, including 0 and 1."""
    cosines = np.linspace(-1, 1, 41)
    assert cosine(agreement(cosines)) == pytest.approx(cosines, abs=1e-12)


def test_the_length_of_a_vector_makes_no_difference() -> None:
    """The factors are 2 and 1/1024: powers of two change no rounding."""
    x = np.random.default_rng(3).standard_normal((20, 50)).astype(np.float32)
    for factor in (2.0, 2.0**-10):
        assert np.array_equal(sign(x, 8, 8, seed=1), sign(x * np.float32(factor), 8, 8, seed=1))


@pytest.mark.parametrize(("bands", "rows"), [(16, 8), (18, 7), (5, 13), (1, 1)])
def test_a_band_is_its_planes_in_whole_bytes(bands: int, rows: int) -> None:
    """Band i is the sides of planes i r to (i + 1) r - 1; so its key is equal exactly when they are."""
    x = np.random.default_rng(4).standard_normal((60, 20)).astype(np.float32)
    x[1::2] = x[::2] + 0.1 * x[1::2]
    got = sign(x, bands, rows, seed=5)
    above = project(x, PLANES["normal"](bands * rows, 20, 5)) > 0
    by_band = np.packbits(above.reshape(60, bands, rows), axis=2, bitorder="little")
    assert got.shape == (60, width(bands, rows))
    assert np.array_equal(got, by_band.reshape(60, -1))
    found = bits_of_pairs(got[::2], got[1::2], bands, rows)
    key = keys(got, bands, seed=9)
    assert found.bands.tolist() == (key[::2] == key[1::2]).sum(axis=1).tolist()
    assert found.bits.tolist() == (above[::2] == above[1::2]).sum(axis=1).tolist()


def test_a_lifted_query_meets_a_lifted_vector_at_its_dot_product() -> None:
    """Their dot product, which is their cosine, is q . x / (|q| M); both are of length one."""
    rng = np.random.default_rng(8)
    x, q = (rng.standard_normal((200, 12)).astype(np.float32) for _ in range(2))
    norm_max = float(np.sqrt(dot(x, x).max()))
    lifted = lift(x, dot(x, x), norm_max)
    query = np.hstack([q / np.sqrt(dot(q, q))[:, None], np.zeros((200, 1))]).astype(np.float32)
    expected = (x.astype(float) * q).sum(axis=1) / (np.linalg.norm(q.astype(float), axis=1) * norm_max)
    assert (lifted.astype(float) * query).sum(axis=1) == pytest.approx(expected, abs=1e-6)
    for unit in (lifted, query):
        assert dot(unit, unit) == pytest.approx(np.ones(200), abs=1e-6)


def test_two_lifted_vectors_are_never_further_than_their_dot_product() -> None:
    """So they agree at least as often as the cosine x . y / M^2 promises."""
    x, y = (np.random.default_rng(9).standard_normal((2, 500, 6))).astype(np.float32)
    both = np.concatenate([dot(x, x), dot(y, y)])
    norm_max = float(np.sqrt(both.max()))
    lifted = [lift(v, dot(v, v), norm_max).astype(float) for v in (x, y)]
    dots = (x.astype(float) * y).sum(axis=1) / norm_max**2
    assert ((lifted[0] * lifted[1]).sum(axis=1) >= dots - 1e-6).all()
