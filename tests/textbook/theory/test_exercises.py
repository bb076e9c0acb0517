"""Exercises of Mining of Massive Datasets, chapter 3, that no other test works out, by the functions of the library."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
import textbook_index

from neardup import Config, Deduplicator, Document, Signer
from neardup.schemes.kinds.prefix import prefix_keys
from neardup.schemes.theory.curves import candidate_probability, half_point, threshold_step
from neardup_textbook.kinds.grid_functions import candidate_probability as grid_chance
from neardup_textbook.signatures.hyperplanes import degrees, sketch
from neardup_textbook.signatures.permutation import sign_ranked
from neardup_textbook.theory.measures import angle, jaccard, jaccard_bag_sum, l1

# Chances that a function of three grid squares says yes to two prints: of one finger, and of two fingers.
ONE_FINGER, TWO_FINGERS = 0.2 * 0.8, 0.2 * 0.2
# The vectors of Exercise 3.7.2.
A, B, C = (2, 3, 4, 5), (-2, 3, -4, 5), (2, -3, 4, -5)


def test_bags_with_summed_union_have_the_similarities_of_the_exercise() -> None:
    """Exercise 3.1.2: {1,1,1,2}, {1,1,2,2,3} and {1,2,3,4} give 1/3, 1/4 and 1/3."""
    bags = [np.array(bag) for bag in ([1, 1, 1, 2], [1, 1, 2, 2, 3], [1, 2, 3, 4])]
    assert [jaccard_bag_sum(a, b) for a, b in combinations(bags, 2)] == pytest.approx([1 / 3, 1 / 4, 1 / 3])


def test_random_sets_have_the_expected_similarity_and_minhash_agrees_as_often() -> None:
    """Exercises 3.1.3 and 3.3.4: over all pairs of three of six elements the mean similarity is the sum over the common
    elements, 0.45 - and two such sets minhash alike in that fraction of all orders."""
    n, m = 6, 3
    subsets = list(combinations(range(n), m))
    mean = np.mean([jaccard(np.array(s), np.array(t)) for s, t in product(subsets, repeat=2)])
    expected = sum(
        Fraction(math.comb(m, i) * math.comb(n - m, m - i), math.comb(n, m)) * Fraction(i, 2 * m - i)
        for i in range(m + 1)
    )
    assert mean == pytest.approx(float(expected))
    values = np.array(subsets, np.uint64).reshape(-1)
    signatures = sign_ranked(values, np.arange(len(subsets) + 1) * m, np.array(list(permutations(range(n)))))
    agreeing = np.mean([(signatures == one).mean() for one in signatures])
    assert agreeing == pytest.approx(float(expected))


def test_a_text_of_n_characters_has_n_less_k_and_one_shingles_at_most() -> None:
    """Exercise 3.2.3: different letters give so many, repeated ones fewer different ones. So the ten first ones of
    three characters of Exercise 3.2.1 are those of twelve characters."""
    config = Config(k=3, fold="nfkc,space", verify="exact")

    def shingles(text: str) -> int:
        evidence = Signer(config).sign([Document("a", text)]).batch.evidence
        return evidence.ragged.size // config.scheme_options.shingle_bytes

    assert shingles("abcdefghijkl") == shingles("The most eff") == 12 - 3 + 1
    assert shingles("ababababab") == 2


def test_an_empty_set_is_refused_before_it_is_signed() -> None:
    """Exercise 3.3.8: a column of zeros has no minhash value, so it would equal every other such column."""
    dedup = Deduplicator()
    assert dedup.process([Document("a", ""), Document("b", " ")]) == []
    assert [refusal.reason for refusal in dedup.refusals] == ["empty", "empty"]


def test_the_s_curves_of_the_exercises_have_their_values_and_thresholds() -> None:
    """Exercises 3.4.1 and 3.4.2: the exact half points are .406, .569 and .424; (1/b)^(1/r) is .464, .607 and .457, so
    the estimate is a little high each time."""
    s = np.arange(1, 10) / 10
    expected = {
        (3, 10): [0.0100, 0.0772, 0.2394, 0.4839, 0.7369, 0.9123, 0.9850, 0.9992, 1.0000],
        (6, 20): [0.0000, 0.0013, 0.0145, 0.0788, 0.2702, 0.6154, 0.9182, 0.9977, 1.0000],
        (5, 50): [0.0005, 0.0159, 0.1145, 0.4023, 0.7956, 0.9825, 0.9999, 1.0000, 1.0000],
    }
    for (rows, bands), curve in expected.items():
        assert candidate_probability(s, bands, rows) == pytest.approx(curve, abs=5e-5)
        exact = [1 - (1 - Fraction(i, 10) ** rows) ** bands for i in range(1, 10)]
        assert candidate_probability(s, bands, rows) == pytest.approx(list(map(float, exact)))
        assert float(candidate_probability(half_point(bands, rows), bands, rows)) == pytest.approx(0.5)
    assert [round(half_point(bands, rows), 3) for rows, bands in expected] == [0.406, 0.569, 0.424]
    assert [round(threshold_step(bands, rows), 3) for rows, bands in expected] == [0.464, 0.607, 0.457]


def test_the_s_curve_of_little_similarity_is_nearly_an_exponential() -> None:
    """Exercise 3.4.3: 1 - exp(-b s^r) for small s^r, and b s^r where that is small, too."""
    for s in (0.01, 0.05, 0.1):
        curve = float(candidate_probability(s, 20, 5))
        assert curve == pytest.approx(-math.expm1(-20 * s**5), rel=1e-4)
        assert curve == pytest.approx(20 * s**5, rel=1e-3)


def test_the_difference_is_a_distance_and_the_greater_number_and_the_sum_are_none() -> None:
    """Exercise 3.5.1: |x - y| is L1 in one dimension; max(3, 3) and 3 + 3 are not 0."""
    assert l1(np.array([3]), np.array([7])) == 4
    for x, y, z in product(range(5), repeat=3):
        direct, first, second = (l1(np.array([a]), np.array([b])) for a, b in ((x, z), (x, y), (y, z)))
        assert direct <= first + second
        assert (direct == 0) == (x == z)
    assert max(3, 3) > 0 < 3 + 3


def test_vectors_of_zeros_and_ones_are_at_a_right_angle_at_most() -> None:
    """Exercise 3.5.6: their products are never negative."""
    vectors = [np.array(v) for v in product([0, 1], repeat=4) if any(v)]
    assert max(angle(a, b) for a, b in product(vectors, repeat=2)) == pytest.approx(90)


def sketched_angle(a: tuple[int, ...], b: tuple[int, ...], normals: np.ndarray) -> float:
    one, other = (sketch(np.array([v], np.float32), normals) for v in (a, b))
    return float(degrees(1 - np.bitwise_count(one ^ other).sum(axis=1) / len(normals))[0])


def test_all_sixteen_planes_sketch_the_three_vectors_of_the_exercise() -> None:
    """Exercise 3.7.3: 67.5, 112.5 and 157.5 degrees for true ones of 75, 105 and 180. The last is less than 180,
    because two of the planes hold both vectors, and a product of 0 is on one side for both."""
    sixteen = np.array(list(product([1, -1], repeat=4)), np.float32)
    assert [sketched_angle(*pair, sixteen) for pair in combinations((A, B, C), 2)] == [67.5, 112.5, 157.5]
    true = [round(angle(np.array(a), np.array(b))) for a, b in combinations((A, B, C), 2)]
    assert true == [75, 105, 180]


def test_a_sketch_is_all_plus_if_each_component_is_below_the_sum_of_the_others() -> None:
    """Exercise 3.7.4: and two vectors have one sketch if each of these four sums has one sign in both."""
    four = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]], np.float32)
    vectors = np.random.default_rng(1).integers(-9, 10, (400, 4)).astype(np.float32)
    rests = vectors.sum(axis=1, keepdims=True) - 2 * vectors  # the others less the component
    kept = vectors[(rests != 0).all(axis=1)]
    signs = (kept.sum(axis=1, keepdims=True) - 2 * kept)[:, ::-1] > 0
    bits = np.unpackbits(sketch(kept, four), axis=1, count=4, bitorder="little").astype(bool)
    assert len(kept) > 300
    assert (bits == signs).all()


def test_2048_functions_of_a_grid_miss_fewer_and_compare_more_than_two_groups_of_1024() -> None:
    """Exercises 3.8.2 and 3.8.4: an OR of 2,048 misses .0002 and compares .123; two groups ANDed miss .030 and compare
    .0040; one group of 1,024 misses .015 and compares .063, whether one print is sought or all are compared."""
    rates = {}
    for name, groups, functions in (("or", 1, 2048), ("and", 2, 1024), ("one", 1, 1024)):
        one, two = (grid_chance(p, None, groups, functions, 3) for p in (ONE_FINGER, TWO_FINGERS))
        rates[name] = round(1 - one, 4), round(two, 4)
    assert rates == {"or": (0.0002, 0.1228), "and": (0.0297, 0.0040), "one": (0.0150, 0.0634)}


def test_functions_of_two_squares_have_their_rates() -> None:
    """Exercise 3.8.3: n of them miss (1 - .0256)^n and compare 1 - (1 - .0016)^n."""
    for n in (1, 100, 300):
        assert 1 - grid_chance(ONE_FINGER, None, 1, n, 2) == pytest.approx((1 - 0.0256) ** n)
        assert grid_chance(TWO_FINGERS, None, 1, n, 2) == pytest.approx(1 - (1 - 0.0016) ** n)


def test_1030_functions_have_the_least_sum_of_both_errors() -> None:
    """Exercise 3.8.5."""
    sums = {
        n: 1 - grid_chance(ONE_FINGER, None, 1, n, 3) + grid_chance(TWO_FINGERS, None, 1, n, 3)
        for n in range(900, 1200)
    }
    assert min(sums, key=sums.__getitem__) == 1030


@pytest.mark.parametrize(("ratio", "lengths"), [(0.85, [17, 18, 19, 21, 22, 23]), (0.95, [19, 21]), (0.98, [])])
def test_a_set_of_20_meets_sets_of_near_lengths_alone(ratio: float, lengths: list[int]) -> None:
    """Exercise 3.9.2: 17 to 23 at .85, 19 to 21 at .95, only its own length at .98. Each other set is a part of it, or
    has it as part: then the quotient of the lengths is the similarity."""
    dedup = Deduplicator(Config(scheme="prefix", shingles="tokens", threshold=ratio))
    dedup.process([Document(str(n), tokens=list(range(n))) for n in range(10, 31) if n != 20])
    pairs = dedup.probe([Document("twenty", tokens=list(range(20)))])
    assert sorted(int(pair.older) for pair in pairs) == lengths


def test_a_string_of_12_is_sought_at_the_positions_of_the_exercise() -> None:
    """Exercise 3.9.4: at .75 the first symbol at 1 to 5, the second at 1 to 3, the third at 1 and 2, the fourth at 1;
    at .95 the first at 1."""
    expected = {(1, j) for j in range(1, 6)} | {(2, j) for j in range(1, 4)} | {(3, 1), (3, 2), (4, 1)}
    assert textbook_index.position_marks(12, Fraction("0.75")) == expected
    assert textbook_index.position_marks(12, Fraction("0.95")) == {(1, 1)}


def test_a_string_of_20_is_sought_at_the_triples_of_the_exercise() -> None:
    """Exercise 3.9.6: 61 triples at .8, 31, 16, 9, 4 and 1 by symbol; 14 at .9."""
    at_8, at_9 = (textbook_index.suffix_marks(20, Fraction(ratio)) for ratio in ("0.8", "0.9"))
    assert [sum(symbol == i for symbol, _, _ in at_8) for i in range(1, 6)] == [31, 16, 9, 4, 1]
    assert len(at_8) == 61
    rows = {
        (1, 1): range(17, 22), (1, 2): range(18, 21), (1, 3): [19], (2, 1): range(17, 20), (2, 2): [18], (3, 1): [17],
    }  # fmt: skip
    assert at_9 == {(i, j, q) for (i, j), suffixes in rows.items() for q in suffixes}


@pytest.mark.parametrize(("length", "chance"), [(9, 0.0496), (10, 0.1073)])
def test_random_strings_are_compared_as_often_as_the_exercise_asks(length: int, chance: float) -> None:
    """Exercise 3.9.5, at .9: with 9 symbols of 100 if the first ones are equal, .0496; with 10 also if the first of one
    is the second of the other, .1073. Of 1,500 sets as many pairs meet, within .015."""
    first = [math.comb(100 - x, length - 1) / math.comb(100, length) for x in range(1, 101)]
    second = [(x - 1) * math.comb(100 - x, length - 2) / math.comb(100, length) for x in range(1, 101)]
    crossed = sum(p * q for p, q in zip(first, second, strict=True)) if length == 10 else 0.0
    assert sum(p * p for p in first) + 2 * crossed == pytest.approx(chance, abs=5e-5)
    rng = np.random.default_rng(5)
    sets = np.concatenate([np.sort(rng.choice(100, length, replace=False)) for _ in range(1_500)]).astype(np.uint64)
    keys = prefix_keys(sets, np.arange(1_501) * length, 0.9, seed=1).values.reshape(1_500, -1)
    meets = keys[:, None, 0] == keys[None, :, 0]
    if length == 10:
        meets |= (keys[:, None, 0] == keys[None, :, 1]) | (keys[:, None, 1] == keys[None, :, 0])
    assert meets[np.triu_indices(1_500, 1)].mean() == pytest.approx(chance, abs=0.015)
