"""The exact index of prefixes: the numbers of the textbook, the candidates of the textbook's index, no pair missed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from string import ascii_lowercase

import numpy as np
import numpy.typing as npt
import pytest
import reference
import textbook_index
from oracle import all_pairs, random_sets
from quick_parameters import quick_first

from neardup.features.tokens.token_order import TokenOrder
from neardup.machine.compile import kernel
from neardup.schemes.kinds.prefix import prefix_keys, prefix_lengths, shared
from neardup.window.admit import admits

RATIOS = ["0.05", "0.3", "0.5", "0.55", "0.6", "0.65", "0.7", "0.75", "0.8", "0.85", "0.9", "0.95", "0.98", "0.99",
          "0.999", "1"]  # fmt: skip
ALPHABET = np.frombuffer(ascii_lowercase.encode(), np.uint8).astype(np.uint64)
NO_ORDER = TokenOrder()

Ragged = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]


@kernel()
def admitted(payloads_a, payloads_b, ratio, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = admits(payloads_a[i], payloads_b[i], ratio)


def ragged(parts: Sequence[Sequence[int]]) -> Ragged:
    starts = np.cumsum([0, *(len(part) for part in parts)])
    return np.array([x for part in parts for x in part], np.uint64), starts


def written(letters: str, order: TokenOrder) -> str:
    """A set of letters as a string in an order of letters."""
    values, _ = order.strings(*ragged([letters.encode()]))
    single, _ = order.strings(ALPHABET, np.arange(len(ALPHABET) + 1))
    letter_of = dict(zip(single.tolist(), ascii_lowercase, strict=True))
    return "".join(letter_of[value] for value in values.tolist())


def met(sets: Ragged, ratio: float) -> set[tuple[int, int]]:
    """Pairs (older, newer) that the keys bring together and their payloads admit."""
    keys, starts, payloads, _ = prefix_keys(*sets, ratio, seed=1)
    item = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    buckets: dict[int, list[int]] = {}
    pairs: list[tuple[int, int]] = []
    for newer, key in enumerate(keys.tolist()):
        pairs += [(older, newer) for older in buckets.get(key, ())]
        buckets.setdefault(key, []).append(newer)
    if not pairs:
        return set()
    older, newer = np.array(pairs).T
    out = np.empty(len(older), np.bool_)
    admitted(payloads[newer], payloads[older], ratio, out)
    return set(zip(item[older[out]].tolist(), item[newer[out]].tolist(), strict=True))


def ragged_sets(seed: int, count: int, universe: int, size_max: int) -> Ragged:
    return ragged([sorted(tokens) for tokens in random_sets(np.random.default_rng(seed), count, universe, size_max)])


def parts(sets: Ragged) -> list[npt.NDArray[np.uint64]]:
    return [sets[0][a:b] for a, b in pairwise(sets[1].tolist())]


def test_a_set_is_the_string_of_its_tokens_in_one_order() -> None:
    """{d, a, b} is abd (MMDS, Example 3.25)."""
    assert written("dab", TokenOrder(ALPHABET)) == "abd"


def test_the_order_of_a_string_is_that_which_is_given() -> None:
    """Vowels, then consonants from the end (Exercise 3.9.1)."""
    order = TokenOrder(np.array([ord(c) for c in "aeiou" + "zyxwvtsrqpnmlkjhgfdcb"], np.uint64))
    assert written("qwerty", order) == "eywtrq"
    assert written("asdfghjui", order) == "aiusjhgfd"


def test_a_string_has_each_token_once() -> None:
    """Repetitions in a bag make no difference."""
    assert written("abbabca", TokenOrder(ALPHABET)) == "abc"


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_length_of_a_prefix_equals_that_of_exact_arithmetic(ratio: str) -> None:
    """floor((1 - J) L) + 1 for every L up to 10,000, J being the decimal that was written."""
    lengths = np.arange(1, 10_001)
    expected = [textbook_index.prefix_length(length, Fraction(ratio)) for length in lengths.tolist()]
    assert prefix_lengths(lengths, float(ratio)).tolist() == expected


def test_the_lengths_of_prefixes_match_the_textbook() -> None:
    """Example 3.27: at .9 one token up to length 9, two for 10 to 19, three for 20 to 29; Exercise 3.9.3."""
    assert prefix_lengths(np.arange(1, 30), 0.9).tolist() == [1] * 9 + [2] * 10 + [3] * 10
    fifteen = np.array([15])
    found = [int(prefix_lengths(fifteen, ratio)[0]) for ratio in (0.85, 0.95, 0.73, 11 / 15, 0.74, 0.8, 0.81)]
    assert found == [3, 1, 5, 5, 4, 4, 3]


def test_a_key_is_its_token_and_a_payload_its_place() -> None:
    """Example 3.29: acdefghijk at .9 is indexed under a and c, before suffixes of 9 and 8."""
    sets = ragged([b"acdefghijk", b"ac", b"xc"])
    keys, starts, payloads, _ = prefix_keys(*sets, 0.9, seed=1)
    assert starts.tolist() == [0, 2, 3, 4]
    assert payloads.tolist() == [0 << 32 | 10, 1 << 32 | 9, 0 << 32 | 2, 0 << 32 | 2]
    assert keys[2] == keys[0]
    assert len(set(keys.tolist())) == 3
    assert set(prefix_keys(*sets, 0.9, seed=2).values.tolist()).isdisjoint(keys.tolist())


def test_keys_have_known_answers() -> None:
    """Keys are a format: these numbers change only with ``SIGNING_VERSION``."""
    found = prefix_keys(*ragged([[5, 6, 7]]), 0.5, seed=1).values.tolist()
    assert found == reference.token_keys([5, 6], seed=1) == [12144339947376848440, 13305431171022656033]


def test_the_textbook_index_has_the_marks_of_its_examples() -> None:
    """Example 3.28: (a, 1), (a, 2), (c, 1). Figure 3.16: fourteen marks."""
    assert textbook_index.position_marks(10, Fraction("0.9")) == {(1, 1), (1, 2), (2, 1)}
    figure = {
        1: {7: (1,), 8: (1, 2), 9: (1, 2, 3), 10: (1, 2), 11: (1,)},
        2: {7: (1,), 8: (1, 2), 9: (1,)},
        3: {7: (1,)},
    }
    marks = {(i, j, q) for i, rows in figure.items() for q, js in rows.items() for j in js}
    assert len(marks) == 14
    assert textbook_index.suffix_marks(10, Fraction("0.8")) == marks


def test_strings_that_only_share_what_follows_do_not_meet() -> None:
    """acdefghijk and bcdefghijk at .9: both are indexed under c, but 9 of 11 is too little (3.9.5)."""
    sets = ragged([b"acdefghijk", b"bcdefghijk"])
    keys = prefix_keys(*sets, 0.9, seed=1)
    assert keys.values[1] == keys.values[3]
    assert met(sets, 0.9) == set()
    assert met(sets, 0.8) == {(0, 1)}


@pytest.mark.parametrize("seed", range(12))
def test_payloads_make_the_candidates_of_the_textbook_index(seed: int) -> None:
    """Position and suffix length next to the key or in it: the same pairs meet."""
    sets = ragged_sets(seed, count=120, universe=40, size_max=25)
    ratio = ["0.5", "0.6", "0.75", "0.8", "0.9", "1"][seed % 6]
    expected = textbook_index.candidates([part.tolist() for part in parts(sets)], Fraction(ratio))
    assert met(sets, float(ratio)) == expected


@pytest.mark.parametrize("seed", quick_first(range(40), 4))
def test_no_pair_at_or_above_the_threshold_fails_to_meet(seed: int) -> None:
    """By brute force, in any order of arrival, at thresholds of .5 to 1 of which many are quotients that occur."""
    rng = np.random.default_rng(seed)
    sets = ragged_sets(seed, count=150, universe=int(rng.choice([12, 60, 4000])), size_max=int(rng.choice([6, 20, 60])))
    union = int(rng.integers(2, 40))
    ratio = float(rng.choice([0.5, 0.7, 0.8, 0.9, 1.0, int(rng.integers((union + 1) // 2, union + 1)) / union]))
    expected = all_pairs(parts(sets), ratio)
    found = met(sets, ratio)
    assert expected.keys() <= found, ratio
    compared = shared(
        *ragged([parts(sets)[j] for _, j in expected]), *ragged([parts(sets)[i] for i, _ in expected]), ratio
    )
    assert (compared > 0).all(), "a pair that is true has a common token in both prefixes"


@pytest.mark.parametrize("ratio", quick_first([0.8, 0.5, 0.95], 1))
def test_what_prefixes_share_is_what_their_keys_share(ratio: float) -> None:
    """The number of common keys."""
    sets = ragged_sets(7, count=80, universe=50, size_max=30)
    keys, starts, *_ = prefix_keys(*sets, ratio, seed=3)
    a, b = (side.ravel() for side in np.meshgrid(np.arange(80), np.arange(80)))
    found = shared(*ragged([parts(sets)[i] for i in a]), *ragged([parts(sets)[i] for i in b]), ratio)
    of = [keys[x:y].tolist() for x, y in pairwise(starts.tolist())]
    for i, j, tokens in zip(a, b, found.tolist(), strict=True):
        assert tokens == len(set(of[i]) & set(of[j])), (i, j)


def test_an_item_has_the_same_keys_in_any_batch() -> None:
    """Other sets of the batch, repeated tokens and the order of tokens make no difference."""
    rng = np.random.default_rng(3)
    bags = [rng.integers(0, 2**64, int(size), np.uint64) for size in rng.integers(1, 200, 30)]
    together = prefix_keys(*NO_ORDER.strings(*ragged(bags)), 0.8, seed=5)
    for i, bag in enumerate(bags):
        alone = prefix_keys(*NO_ORDER.strings(*ragged([[*bag[::-1], *bag]])), 0.8, seed=5)
        here = slice(together.starts[i], together.starts[i + 1])
        assert alone.values.tolist() == together.values[here].tolist()
        assert alone.payloads.tolist() == together.payloads[here].tolist()
