"""Measures: the worked numbers of Mining of Massive Datasets 3.1 and 3.5, and the laws of every measure."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ConfigError
from neardup_textbook.theory import measures
from neardup_textbook.theory.measures import MEASURES, containment, jaccard, jaccard_bag, jaccard_bag_sum

BAG_SIMILARITIES = [name for name, row in MEASURES.items() if row.kind in ("sets", "bags") and not row.distance]
DISTANCES = [name for name, row in MEASURES.items() if row.distance]
BAG = st.lists(st.integers(0, 12), max_size=20)
VECTOR = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=4, max_size=4)
BUYERS = {"B1": "AB", "B2": "ABD", "B3": "ACD"}


def items(letters: str) -> np.ndarray:
    return np.frombuffer(letters.encode(), np.uint8).astype(np.uint64)


def similarities(sets: dict[str, str]) -> dict[str, Fraction]:
    pairs = combinations(sets, 2)
    return {a + b: Fraction(jaccard(items(sets[a]), items(sets[b]))).limit_denominator(100) for a, b in pairs}


def test_sets_with_three_in_common_of_eight_are_similar_by_three_eighths() -> None:
    """Figure 3.1."""
    assert jaccard(items("abcde"), items("cdefgh")) == 3 / 8


def test_buyers_are_similar_by_what_they_bought() -> None:
    """B1 bought A and B; B2 A, B and D; B3 A, C and D: 2/3, 1/4, 1/2."""
    assert similarities(BUYERS) == {"B1B2": Fraction(2, 3), "B1B3": Fraction(1, 4), "B2B3": Fraction(1, 2)}


def test_items_are_similar_by_who_bought_them() -> None:
    """The same purchases the other way round: AB 2/3, AC 1/3, AD 2/3, BC 0, BD 1/3."""
    bought_by = {item: "".join(b[1] for b, bought in BUYERS.items() if item in bought) for item in "ABCD"}
    found = similarities(bought_by)
    third = Fraction(1, 3)
    assert {pair: found[pair] for pair in ("AB", "AC", "AD", "BC", "BD")} == {
        "AB": 2 * third,
        "AC": third,
        "AD": 2 * third,
        "BC": 0,
        "BD": third,
    }


def test_exercise_sets_have_their_similarities() -> None:
    """Exercise 3.1.1: {1,2,3,4}, {2,3,5,7} and {2,4,6} give 1/3, 2/5 and 1/6."""
    a, b, c = (np.array(x) for x in ([1, 2, 3, 4], [2, 3, 5, 7], [2, 4, 6]))
    assert [jaccard(a, b), jaccard(a, c), jaccard(b, c)] == [1 / 3, 2 / 5, 1 / 6]


def test_bags_are_similar_by_a_third_with_summed_and_a_half_with_greatest_union() -> None:
    """{a,a,a,b} and {a,a,b,b,c} have 3 in common, of 9 summed or 6 at most."""
    a, b = items("aaab"), items("aabbc")
    assert jaccard_bag_sum(a, b) == 1 / 3
    assert jaccard_bag(a, b) == 1 / 2


def test_ratings_as_bags_count_a_film_once_a_star() -> None:
    """Five stars and one against three and two have 3 + 1 of 5 + 2 in common; only liked or hated have less."""
    a, b = np.repeat([1, 2], [5, 1]), np.repeat([1, 2], [3, 2])
    assert jaccard_bag(a, b) == 4 / 7
    liked, hated = 10, 20
    assert jaccard(np.array([1 + liked, 2 + hated]), np.array([1 + liked, 2 + liked])) == 1 / 3


def test_containment_is_the_share_of_the_first() -> None:
    """Half of {1,2} is in {2,3,4}, a third of which is in {1,2}."""
    a, b = np.array([1, 2]), np.array([2, 3, 4])
    assert [containment(a, b), containment(b, a)] == [1 / 2, 1 / 3]


@pytest.mark.parametrize("name", BAG_SIMILARITIES)
def test_nothing_is_similar_to_the_empty_set(name: str) -> None:
    """The empty set is not similar to itself: two empty texts are not duplicates of each other."""
    empty, full = np.empty(0, np.uint64), items("ab")
    assert [MEASURES[name].function(a, b) for a, b in ((empty, empty), (empty, full), (full, empty))] == [0, 0, 0]


@pytest.mark.parametrize("name", BAG_SIMILARITIES)
@given(a=BAG, b=BAG)
def test_a_measure_is_between_0_and_1_and_leaves_its_arguments_alone(name: str, a: list[int], b: list[int]) -> None:
    """And is 1 for equal sets, one half for equal bags with summed union."""
    x, y = np.array(a, np.uint64), np.array(b, np.uint64)
    assert 0 <= MEASURES[name].function(x, y) <= 1
    assert x.tolist() == a
    assert y.tolist() == b
    if a:
        assert MEASURES[name].function(x, x) == (0.5 if name == "jaccard_bag_sum" else 1)


@given(a=BAG, b=BAG)
def test_measures_are_what_python_sets_say(a: list[int], b: list[int]) -> None:
    """Sets against set operators, bags against multiplicities counted one by one."""
    x, y = np.array(a, np.uint64), np.array(b, np.uint64)
    both, either = set(a) & set(b), set(a) | set(b)
    assert jaccard(x, y) == (len(both) / len(either) if either else 0)
    assert containment(x, y) == (len(both) / len(set(a)) if a else 0)
    least = sum(min(a.count(v), b.count(v)) for v in either)
    greatest = sum(max(a.count(v), b.count(v)) for v in either)
    assert jaccard_bag(x, y) == (least / greatest if greatest else 0)
    assert jaccard_bag_sum(x, y) == (least / (len(a) + len(b)) if a or b else 0)


def measured(name: str, a, b) -> float:
    return MEASURES[name].function(a, b)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [((2, 7), (6, 4), {"l2": 5, "l1": 7, "linf": 4}), ((5, 6, 7), (8, 2, 4), {"l1": 10, "l2": math.sqrt(34)})],
)
def test_points_have_the_distances_of_the_book(a: tuple[int, ...], b: tuple[int, ...], expected) -> None:
    """Example 3.13 and Exercise 3.5.2, exactly."""
    assert {name: measured(name, np.array(a), np.array(b)) for name in expected} == expected


@given(VECTOR, VECTOR)
def test_the_greater_r_the_less_the_distance(a: list[float], b: list[float]) -> None:
    """L_r falls from L1 by way of L2 to Linf, which are its values at 1, 2 and infinity."""
    x, y = np.array(a), np.array(b)
    found = [measures.lr(x, y, r) for r in (1, 1.5, 2, 3, 40, math.inf)]
    assert all(more >= less * (1 - 1e-12) for more, less in pairwise(found))
    assert [found[0], found[2], found[-1]] == pytest.approx([measured(name, x, y) for name in ("l1", "l2", "linf")])


def test_an_r_below_one_and_vectors_of_different_shapes_are_refused() -> None:
    """The triangle inequality fails for such r; the message has value, rule and remedy."""
    a, b, c = (np.array(x) for x in ([0, 0], [1, 0], [1, 1]))
    with pytest.raises(ConfigError, match=r"r is 0.5, but an L_r distance needs an r of 1 or more"):
        measures.lr(a, b, 0.5)
    with pytest.raises(ConfigError, match=r"vectors of shapes \(2,\) and \(3,\) cannot be compared"):
        measures.l1(a, np.array([1, 2, 3]))
    assert measures.lr(a, c, 1) == measures.lr(a, b, 1) + measures.lr(b, c, 1)


def test_the_angle_of_the_book_is_60_degrees() -> None:
    """Example 3.14: [1,2,-1] and [2,1,1] have cosine one half; Exercise 3.5.5 has -1/2, 1 and 1/2 besides."""
    a, b = np.array([1, 2, -1]), np.array([2, 1, 1])
    assert measures.cosine(a, b) == 0.5
    assert measures.angle(a, b) == pytest.approx(60, abs=1e-12)
    pairs = [([3, -1, 2], [-2, 3, 1]), ([1, 2, 3], [2, 4, 6]), ([0, 1, 1, 0, 1, 1], [0, 0, 1, 0, 0, 0])]
    assert [measures.cosine(np.array(x), np.array(y)) for x, y in pairs] == pytest.approx([-0.5, 1, 0.5])
    assert measures.cosine(np.array([5, 0, -4]), np.array([-1, -6, 2])) == pytest.approx(-13 / 41)


def test_a_tiny_angle_keeps_its_digits_and_a_vector_of_zeros_has_a_right_angle() -> None:
    """A ten-millionth of a degree is found, where an arc cosine gives 0; multiples are one direction."""
    tiny = math.radians(1e-7)
    assert measures.angle(np.array([1.0, 0.0]), np.array([math.cos(tiny), math.sin(tiny)])) == pytest.approx(1e-7)
    assert measures.angle(np.array([1, 2]), np.array([-3, -6])) == 180
    zeros = np.zeros(2)
    assert (measures.angle(zeros, np.array([1, 2])), measures.cosine(zeros, zeros)) == (90, 0)


@pytest.mark.parametrize(
    ("a", "b", "least", "with_swaps"),
    [
        ("abcde", "acfdeg", 3, 3),
        ("aba", "bab", 2, 2),
        ("abcdef", "bdaefc", 4, 4),
        ("abccdabc", "acbdcab", 5, 3),
        ("abcdef", "baedfc", 6, 4),
        ("ca", "abc", 3, 2),
        ("", "abc", 3, 3),
        ("naïve", "naive", 2, 1),
    ],
)
def test_strings_have_the_edit_distances_of_the_book(a: str, b: str, least: int, with_swaps: int) -> None:
    """Examples 3.15 and 3.16, Exercises 3.5.7 and 3.5.8; and a swap with an insertion between, which is two edits."""
    assert (measures.edit(a, b), measures.edit_swaps(a, b)) == (least, with_swaps)


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_edit_distance_is_both_lengths_less_twice_the_longest_common_subsequence(a: str, b: str) -> None:
    """Against the table of longest common subsequences; with replacements and swaps it is at most as much."""
    longest = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, j in product(range(len(a)), range(len(b))):
        longest[i + 1, j + 1] = longest[i, j] + 1 if a[i] == b[j] else max(longest[i, j + 1], longest[i + 1, j])
    assert measures.edit(a, b) == len(a) + len(b) - 2 * longest[-1, -1]
    assert measures.edit(a, b) / 2 <= measures.edit_swaps(a, b) <= measures.edit(a, b)


def test_strings_of_bits_differ_in_the_places_of_the_book() -> None:
    """10101 and 11110 in three; the four vectors of Exercise 3.5.10, as text and as packed bits."""
    assert measures.hamming("10101", "11110") == 3
    texts = ["000000", "110011", "010101", "011100"]
    packed = [np.packbits([int(bit) for bit in text]) for text in texts]
    expected = [4, 3, 3, 3, 5, 2]
    assert [measures.hamming(a, b) for a, b in combinations(texts, 2)] == expected
    assert [measures.hamming_bits(a, b) for a, b in combinations(packed, 2)] == expected
    with pytest.raises(ConfigError, match="strings of 2 and 3 characters have no Hamming distance: take edit instead"):
        measures.hamming("01", "010")


def test_jaccard_distances_match_the_book() -> None:
    """Exercise 3.5.4: 2/5 and 1; two empty sets have distance 0."""
    pairs = [([1, 2, 3, 4], [2, 3, 4, 5]), ([1, 2, 3], [4, 5, 6]), ([], [])]
    found = [measures.jaccard_distance(np.array(a, int), np.array(b, int)) for a, b in pairs]
    assert found == [pytest.approx(2 / 5), 1, 0]


# kind -> three items of it, of equal length where that is asked for
TRIPLES = {
    "sets": st.tuples(*[st.lists(st.integers(0, 6), max_size=6).map(lambda x: np.array(x, np.int64))] * 3),
    "vectors": st.tuples(*[st.lists(st.integers(-4, 4), min_size=3, max_size=3).map(np.array)] * 3),
    "strings": st.tuples(*[st.text("ab", min_size=5, max_size=5)] * 3),
    "bits": st.tuples(
        *[st.lists(st.integers(0, 255), min_size=2, max_size=2).map(lambda x: np.array(x, np.uint8))] * 3
    ),
}


@pytest.mark.parametrize("name", DISTANCES)
@given(data=st.data())
def test_a_distance_obeys_the_axioms(name: str, data) -> None:
    """It is 0 from an item to itself, above 0 to another item, symmetric, and no detour is shorter."""
    x, y, z = data.draw(TRIPLES[MEASURES[name].kind])
    between = measured(name, x, y)
    assert between == measured(name, y, x) >= 0
    assert measured(name, x, x) == 0 or (name == "angle" and not x.any())
    assert between <= measured(name, x, z) + measured(name, z, y) + 1e-9 or (name == "angle" and not z.any())
    if name not in ("angle", "jaccard_distance"):
        assert (between > 0) == (np.array_equal(x, y) is False)


@given(st.lists(st.text("abc", max_size=5), min_size=3, max_size=3))
def test_edits_of_strings_of_different_lengths_obey_the_triangle_inequality(texts: list[str]) -> None:
    """Both kinds of edits: what was swapped may be edited again."""
    x, y, z = texts
    for name in ("edit", "edit_swaps"):
        assert measured(name, x, y) <= measured(name, x, z) + measured(name, z, y)


@given(a=BAG, b=BAG)
def test_different_sets_are_apart(a: list[int], b: list[int]) -> None:
    """Repetitions of an element make no difference."""
    assert (measured("jaccard_distance", np.array(a, int), np.array(b, int)) > 0) == (set(a) != set(b))
