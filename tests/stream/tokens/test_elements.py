"""Elements given by documents: hashes of strings and numbers, three ways to use ratings, and every refusal."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from oracle import jaccard
from reference import GOLDEN, MASK, mix64, polynomial

from neardup.features.tokens.bags import numbered
from neardup.features.tokens.elements import RATINGS, RatingRule, elements

RATED = {"alien": 5, "jaws": 4, "heat": 3, "cats": 2, "gigli": 1}


def hashed(*given: Any, rule: str = "ignore_low", elements_max: int = 1000, **ratings: float) -> list[list[int]]:
    found = elements(given, RatingRule(rule, **ratings), elements_max)
    assert not found.refused
    return [found.values[a:b].tolist() for a, b in pairwise(found.starts)]


def refusal(given: Any, rule: str = "ignore_low", elements_max: int = 1000) -> str:
    found = elements([["fine"], given, ["too"]], RatingRule(rule), elements_max)
    assert list(found.refused) == [1]
    assert found.starts.tolist() == [0, 1, 1, 2]
    return found.refused[1]


def similarity(a: Any, b: Any, rule: str) -> float:
    first, second = (np.unique(np.array(x, np.uint64)) for x in hashed(a, b, rule=rule))
    return jaccard(first, second)


def test_strings_and_numbers_have_known_hashes() -> None:
    """The polynomial of the bytes from a start of their own, mixed; numbers mixed; "7" is not 7."""
    strings = [mix64(polynomial(token.encode(), 0x73)) for token in ("bread", "7", "Käse", "")]
    numbers = [mix64(((x & MASK) + 0x6E * GOLDEN) & MASK) for x in (7, -1, 2**63 - 1, -(2**63))]
    assert hashed(["bread", "7", "Käse", ""]) == [strings]
    assert hashed([7, -1, 2**63 - 1, -(2**63)]) == [numbers]
    assert hashed(["bread", 7, "7", -1]) == [[strings[0], numbers[0], strings[1], numbers[1]]]
    assert len({*strings, *numbers}) == 8


def test_tokens_keep_their_repetitions() -> None:
    """Tokens are a bag; strings are compared without normalisation."""
    (found,) = hashed(["a", "b", "a", "A"])
    assert found[0] == found[2]
    assert len(set(found)) == 3


def test_low_ratings_are_ignored() -> None:
    """As if the item had no rating; by default 3 and more of 5 is not low."""
    assert hashed(RATED) == hashed(["alien", "jaws", "heat"])
    assert hashed(RATED, high_min=4.5) == hashed(["alien"])
    assert similarity({"alien": 5, "jaws": 1}, {"alien": 4, "cats": 2}, "ignore_low") == 1.0


def test_liked_and_hated_are_two_elements_of_an_item() -> None:
    """Two who hate the same are similar; one who likes it and one who hates it are not."""
    assert similarity({"alien": 5, "jaws": 1}, {"alien": 4, "jaws": 2}, "liked_hated") == 1.0
    assert similarity({"alien": 5, "jaws": 1}, {"alien": 1, "jaws": 5}, "liked_hated") == 0.0
    assert similarity({"alien": 5, "jaws": 1}, {"alien": 4, "jaws": 4}, "liked_hated") == 1 / 3


def test_n_stars_put_an_item_in_the_bag_n_times() -> None:
    """{a: 3, b: 1} and {a: 2, b: 2, c: 1} are the bags aaab and aabbc, similar by a half."""
    a, b = {"a": 3, "b": 1}, {"a": 2, "b": 2, "c": 1}
    assert [sorted(bag) for bag in hashed(a, b, rule="stars")] == [
        sorted(bag) for bag in hashed(list("aaab"), list("aabbc"))
    ]
    bags = [np.array(bag, np.uint64) for bag in hashed(a, b, rule="stars")]
    assert jaccard(*(np.sort(numbered(bag, np.array([0, len(bag)]), 64)) for bag in bags)) == 1 / 2


@pytest.mark.parametrize(("given", "reason"), [(None, "no_tokens"), ([], "tokens_empty"), ({}, "tokens_empty")])
def test_none_and_nothing_are_refused(given: Any, reason: str) -> None:
    """A set without elements has no similar set."""
    assert refusal(given) == reason


def test_only_low_ratings_leave_nothing() -> None:
    """The document is refused like an empty set."""
    assert refusal({"cats": 2.9}) == "tokens_empty"


@pytest.mark.parametrize(
    "given",
    ["text", b"bytes", 7, {"a"}, [1.0], [True], [None], [["a"]], {1.5: 3}, {"a": "5"}, {"a": None}, {"a": True}],
)
def test_other_types_are_refused(given: Any) -> None:
    """A string is one element at most, not its characters; a truth value is no number."""
    assert refusal(given) == "tokens_type"


@pytest.mark.parametrize("given", [[2**63], [-(2**63) - 1], {2**70: 3}])
def test_numbers_beyond_64_bits_are_refused(given: Any) -> None:
    """Different numbers would become equal."""
    assert refusal(given) == "token_range"


def test_a_lone_surrogate_is_refused() -> None:
    """It has no encoding to hash."""
    assert refusal(["fine", "\ud800"]) == "surrogate"


@pytest.mark.parametrize("rule", RATINGS)
@pytest.mark.parametrize("rating", [-0.1, 5.1, float("nan"), float("inf"), float("-inf"), 10**400, -(10**400)])
def test_a_rating_out_of_range_is_refused(rule: str, rating: float) -> None:
    """Ratings from 0 to the greatest allowed, for every way to read them."""
    assert refusal({"a": 4, "b": rating}, rule) == "rating_range"


@pytest.mark.parametrize("stars", [0, 0.5, 2.5])
def test_stars_are_whole_and_at_least_one(stars: float) -> None:
    """A count is a positive integer: half an item and no item are refused; 4.0 is 4."""
    assert refusal({"a": stars}, "stars") == "rating_range"
    assert hashed({"a": 4.0}, rule="stars") == hashed(["a"] * 4)


def test_more_elements_than_allowed_are_refused() -> None:
    """Repetitions in the bag count."""
    assert refusal(["a"] * 4, elements_max=3) == "tokens_too_many"
    assert refusal({"a": 4}, "stars", elements_max=3) == "tokens_too_many"
    assert hashed({"a": 3}, rule="stars", elements_max=3) == hashed(["a"] * 3)
