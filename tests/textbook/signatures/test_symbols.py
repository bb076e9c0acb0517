"""Hamming similarity over any symbols: the share of equal positions, against a plain count over all pairs."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from neardup import Config, Deduplicator, Document, Signer
from neardup_textbook.signatures.bit_sampling import sign_symbols
from neardup_textbook.theory.measures import MEASURES
from neardup_textbook.vectors.symbol_input import read_symbols

LENGTH = 30
ALPHABETS: dict[str, list[Any]] = {
    "bits": [0, 1],
    "bases": list("GATC"),
    "words": ["Straße", "", "a b", "7", 7, -1, 2**63 - 1],
}


def settings(length: int) -> dict[str, Any]:
    """Vectors of so many symbols."""
    return {"scheme": f"bit_sampling:dimension={length}", "measure": "hamming_symbols"}


def sequences(rng: random.Random, alphabet: list[Any], count: int) -> list[list[Any]]:
    """New sequences, and ones of which up to eight positions are drawn again."""
    out = [rng.choices(alphabet, k=LENGTH)]
    while len(out) < count:
        one = list(rng.choice(out)) if rng.random() < 0.7 else rng.choices(alphabet, k=LENGTH)
        for position in rng.sample(range(LENGTH), rng.randint(0, 8)):
            one[position] = rng.choice(alphabet)
        out.append(one)
    return out


def share(a: Any, b: Any) -> float:
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a)


@pytest.mark.parametrize("name", ALPHABETS)
def test_emitted_pairs_are_those_that_a_count_of_positions_finds(name: str) -> None:
    """Every pair with its true similarity, none below the threshold, and of those that there are, 95 of 100."""
    given = sequences(random.Random(1), ALPHABETS[name], 300)
    distinct = [list(one) for one in dict.fromkeys(map(tuple, given))]
    true = {
        frozenset((str(i), str(j))): share(a, b)
        for (i, a), (j, b) in combinations(enumerate(distinct), 2)
        if share(a, b) >= 0.8
    }
    config = Config(**settings(LENGTH), threshold=0.8)
    pairs = Deduplicator(config).process([Document(str(n), tokens=one) for n, one in enumerate(distinct)])
    found = {frozenset(pair[:2]): pair.similarity for pair in pairs}
    assert found.items() <= true.items()
    assert len(true) > 100
    assert len(found) >= 0.95 * len(true)


def test_the_worked_example_has_distance_3() -> None:
    """10101 and 11110 differ in three of five positions, as symbols, as byte strings, and by the measure of strings."""
    config = Config(**settings(5), threshold=0.4, bands=128, rows=4)
    for a, b in ((list("10101"), list("11110")), ([1, 0, 1, 0, 1], [1, 1, 1, 1, 0])):
        (pair,) = Deduplicator(config).process([Document("a", tokens=a), Document("b", tokens=b)])
        assert pair.similarity == 1 - 3 / 5
    values = read_symbols([b"10101", b"11110"], 5).values
    assert (values[0] != values[1]).sum() == MEASURES["hamming"].function(b"10101", b"11110") == 3


def test_symbols_are_equal_only_as_they_are() -> None:
    """A string and a number are two symbols, and so are two forms of a letter."""
    values = read_symbols([["7", "a", "é"], [7, "A", "e\u0301"], [7, "a", "é"]], 3).values
    assert (values[0] == values[1]).tolist() == [False] * 3
    assert (values[0] == values[2]).tolist() == [False, True, True]


@pytest.mark.parametrize("distance", [0, 1, 7, 20])
@pytest.mark.parametrize("letters", [2, 4, 1000])
def test_a_row_agrees_with_the_share_of_equal_positions(letters: int, distance: int) -> None:
    """And by chance with 2^-8 of the others, however few symbols there are: over 4,096 rows, and 40 pairs."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, letters, (40, 20)).astype(np.uint32)
    differing = rng.permuted(np.tile(np.arange(20) < distance, (40, 1)), axis=1)
    y = np.where(differing, (x + rng.integers(1, letters, x.shape)) % letters, x).astype(np.uint32)
    a, b = (sign_symbols(side, 4096, seed=5).astype(np.uint8) for side in (x, y))
    agree = 1 - distance / 20
    expected = agree + (1 - agree) / 256
    assert abs((a == b).mean() - expected) <= 6 * (expected * (1 - expected) / (4096 * 20)) ** 0.5


def test_a_signature_of_symbols_has_a_known_answer() -> None:
    """It is a format: another answer is another generation."""
    known = [15333058136415520566, 17512285356604218396, 18332359124344194141]
    assert sign_symbols(np.array([[7, 8, 9]], np.uint32), 3, seed=1).tolist() == [known]


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (None, "no_tokens"),
        ([], "tokens_empty"),
        (["a", "b"], "vector_length"),
        (["a", "b", "c", "d"], "vector_length"),
        ({"a": 5, "b": 4, "c": 3}, "tokens_type"),
        ("abc", "tokens_type"),
        ([True, "b", "c"], "tokens_type"),
        ([2**63, 1, 2], "token_range"),
    ],
)
def test_a_list_that_is_no_vector_of_symbols_is_refused(tokens: Any, reason: str) -> None:
    """The others are signed, in their order."""
    good = ["a", "b", "c"]
    documents = [Document("a", tokens=good), Document("bad", tokens=tokens), Document("b", tokens=good)]
    signed = Signer(Config(**settings(3))).sign(documents)
    assert [(r.position, r.id, r.reason) for r in signed.refusals] == [(1, "bad", reason)]
    assert signed.batch.ids_at(np.arange(signed.batch.size)) == ["a", "b"]
