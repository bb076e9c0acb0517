"""The order of tokens: unknown ones first, known ones by rank, and the frequencies it is learned from."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples

from neardup.errors import ConfigError
from neardup.features.tokens.token_order import (
    KNOWN_MAX,
    NO_FREQUENCIES,
    Frequencies,
    TokenOrder,
    counted,
    most_frequent,
)

# Few high bits and few low ones, so that tokens share places and halves.
TOKEN = st.builds(lambda high, low: high << 32 | low, st.integers(0, 3), st.integers(0, 9)) | st.integers(0, 2**64 - 1)


def tokens(*values: int) -> npt.NDArray[np.uint64]:
    return np.array(values, np.uint64)


def values(order: TokenOrder, some: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The order value of each token: the strings of sets with one token each."""
    return order.strings(some, np.arange(len(some) + 1))[0]


@examples(200)
@given(st.lists(TOKEN, max_size=40, unique=True), st.lists(TOKEN, max_size=40))
def test_an_order_value_matches_the_definition(known: list[int], others: list[int]) -> None:
    """Of known and unknown tokens, those that share a place of the table or half of their hash too."""
    found = values(TokenOrder(tokens(*known)), tokens(*known, *others))
    assert found.tolist() == reference.order_values([*known, *others], known)


@examples(200)
@given(st.lists(TOKEN, max_size=40, unique=True), st.lists(st.lists(TOKEN, max_size=30), max_size=6))
def test_a_string_is_the_sorted_values_of_a_bag_each_once(known: list[int], bags: list[list[int]]) -> None:
    """Also for bags without a known token or without any token, in every batch of the same order."""
    order, starts = TokenOrder(tokens(*known)), np.cumsum([0, *map(len, bags)])
    expected = [sorted(set(reference.order_values(bag, known))) for bag in bags]
    for _ in range(2):
        found, found_starts = order.strings(tokens(*(x for bag in bags for x in bag)), starts)
        assert [found[a:b].tolist() for a, b in pairwise(found_starts.tolist())] == expected


def test_strings_of_a_large_order_equal_a_sort() -> None:
    """Of 5,000 known tokens, in bags that span several blocks, with repetitions and unknown tokens."""
    rng = np.random.default_rng(2)
    universe = np.unique(rng.integers(0, 2**64, 8_000, np.uint64))
    known = rng.permutation(universe)[:5_000]
    bags = [rng.choice(universe, size) for size in (0, 1, 511, 512, 513, 3_000)]
    found, starts = TokenOrder(known).strings(np.concatenate(bags), np.cumsum([0, *map(len, bags)]))
    expected = [sorted(set(reference.order_values(bag.tolist(), known.tolist()))) for bag in bags]
    assert [found[a:b].tolist() for a, b in pairwise(starts.tolist())] == expected


@given(st.lists(st.integers(0, 2**63 - 1), max_size=40, unique=True), st.data())
def test_different_tokens_have_different_values(halves: list[int], data: st.DataObject) -> None:
    """Values differ for known and unknown tokens, if their hashes differ in the upper 63 bits."""
    known = [2 * half for half in halves if data.draw(st.booleans())]
    found = values(TokenOrder(tokens(*known)), tokens(*(2 * half for half in halves)))
    assert len(set(found.tolist())) == len(halves)


def test_unknown_tokens_come_first_then_the_rare_then_the_frequent() -> None:
    """The hashes do not change this order."""
    order = TokenOrder(tokens(9, 2**63, 5))
    found = values(order, tokens(2**64 - 1, 9, 2**63, 5))
    assert (found[1:] > found[:-1]).all()
    assert values(order, tokens(0, 7)).tolist() == [0, 3]


def test_an_order_of_nothing_is_the_order_of_the_hashes() -> None:
    """Each token is unknown."""
    assert values(TokenOrder(), tokens(8, 3, 2**64 - 1)).tolist() == [4, 1, 2**63 - 1]


def test_a_large_order_gives_each_token_its_rank() -> None:
    """Of 100,000 known tokens and as many unknown ones."""
    rng = np.random.default_rng(1)
    all_tokens = rng.permutation(np.unique(rng.integers(0, 2**64, 200_000, np.uint64)))
    known, unknown = all_tokens[:100_000], all_tokens[100_000:]
    order = TokenOrder(known)
    ranks = values(order, known)
    assert (ranks[1:] > ranks[:-1]).all()
    assert ranks[0] == 1 << 63
    assert (values(order, unknown) == unknown >> 1).all()


def test_an_order_has_a_digest_of_its_own() -> None:
    """Equal for equal orders, which are equal; another for another order of the same tokens."""
    orders = [TokenOrder(tokens(*known)) for known in ([1, 2], [2, 1], [1, 2, 3], [])]
    assert len({order.digest for order in orders}) == len(set(orders)) == 4
    same = TokenOrder(np.array([1, 2], ">u8"))
    assert (same.digest, same, hash(same)) == (orders[0].digest, orders[0], hash(orders[0]))
    assert same.digest in repr(same)


@pytest.mark.parametrize(
    ("given_tokens", "message"),
    [
        (np.array([1, 2]), "of int64"),
        (np.array([1.0]), "of float64"),
        (np.array([[1]], np.uint64), "2 dimensions"),
        (np.array([7, 8, 7], np.uint64), "twice"),
        (np.broadcast_to(np.uint64(1), KNOWN_MAX + 1), "above 16,777,216"),
    ],
)
def test_an_order_that_cannot_be_is_refused(given_tokens: npt.NDArray[np.generic], message: str) -> None:
    """The message has the value, the rule and the remedy."""
    with pytest.raises(ConfigError, match=message):
        TokenOrder(given_tokens)


def sample(seed: int, batches: int, size: int, universe: int) -> list[npt.NDArray[np.uint64]]:
    """Tokens by Zipf's law, with a distinct one now and then."""
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.zipf(1.3, size), universe).astype(np.uint64) for _ in range(batches)]


def count_all(batches: list[npt.NDArray[np.uint64]], counters_max: int) -> Frequencies:
    frequencies = NO_FREQUENCIES
    for batch in batches:
        frequencies = counted(frequencies, batch, counters_max)
    return frequencies


def test_counts_are_exact_while_there_are_counters() -> None:
    """Over any number of batches."""
    batches = sample(1, batches=7, size=400, universe=10_000)
    exact = Counter(np.concatenate(batches).tolist())
    frequencies = count_all(batches, counters_max=10_000)
    assert dict(zip(frequencies.tokens.tolist(), frequencies.counts.tolist(), strict=True)) == exact
    assert (np.diff(frequencies.tokens) > 0).all()


@pytest.mark.parametrize("counters", [1, 10, 100])
@pytest.mark.parametrize("seed", range(5))
def test_counts_are_too_low_by_a_bounded_amount_and_never_too_high(seed: int, counters: int) -> None:
    """By at most all tokens over the counters; memory stays within the counters."""
    batches = sample(seed, batches=20, size=500, universe=100_000)
    exact = Counter(np.concatenate(batches).tolist())
    frequencies = count_all(batches, counters)
    assert len(frequencies.tokens) <= counters
    kept = dict(zip(frequencies.tokens.tolist(), frequencies.counts.tolist(), strict=True))
    for token, count in exact.items():
        assert count - exact.total() / counters <= kept.get(token, 0) <= count, (token, count)


def test_the_most_frequent_come_last_and_the_rarest_are_left_out() -> None:
    """Of those that stood in two sets or more; ties by hash."""
    frequencies = Frequencies(tokens(2, 3, 5, 7, 11), np.array([4, 1, 9, 4, 2]))
    assert most_frequent(frequencies, 10).tolist() == [11, 2, 7, 5]
    assert most_frequent(frequencies, 2).tolist() == [7, 5]
    assert most_frequent(frequencies, 0).tolist() == []
    assert most_frequent(NO_FREQUENCIES, 5).tolist() == []
