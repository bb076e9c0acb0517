"""Pairs across collections are the pairs of documents of different ones, by brute force."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from neardup import Config, ConfigError, Document, Signer
from neardup.pairs.across import bare_batch, matcher_across, pairs_across
from neardup.pairs.pipeline import match_steps

WORDS = [f"w{n}" for n in range(12)]
Named = tuple[str | None, str]


def found(config: Config, documents: list[Document], step: int) -> dict[frozenset[Named], float]:
    """The pairs with their similarities, as sets of (collection, id), of documents that come so many at a time."""
    matcher, signer, out = matcher_across(config), Signer(config), {}
    for first in range(0, len(documents), step):
        batch = bare_batch(signer.sign(documents[first : first + step]).batch)
        for part in match_steps(matcher, batch):
            matches, older = pairs_across(matcher, batch, part)
            for number, pair in enumerate(matches.pairs()):
                assert pair.collection != older[number]
                out[frozenset([(older[number], pair.older), (pair.collection, pair.newer)])] = pair.similarity
    return out


def stream(seed: int) -> list[Document]:
    """120 texts of few words in three collections; ids repeat between collections, and copies are frequent."""
    rng = random.Random(seed)
    texts = [" ".join(rng.sample(WORDS, 6)) for _ in range(30)]
    return [Document(f"d{n // 3}", rng.choice(texts), collection="abc"[n % 3]) for n in range(120)]


@pytest.mark.parametrize(("seed", "step"), [(1, 1), (2, 7), (3, 1000)])
def test_they_are_all_similar_pairs_of_different_collections(seed: int, step: int) -> None:
    """Also of equal ids, and also where a copy stands between them; none is within a collection. The scheme is exact,
    so the pairs and their similarities are those of brute force, however the documents are divided."""
    config = Config(scheme="prefix", shingles="words", k=1, threshold=0.5, collection_field="set")
    documents, expected = stream(seed), {}
    for a, b in combinations(documents, 2):
        one, other = set(a.text.split()), set(b.text.split())
        similarity = len(one & other) / len(one | other)
        if a.collection != b.collection and similarity >= 0.5:
            expected[frozenset([(a.collection, a.id), (b.collection, b.id)])] = similarity
    pairs = found(config, documents, step)
    assert len(expected) > 500
    assert pairs == {pair: pytest.approx(similarity) for pair, similarity in expected.items()}


def test_copies_of_different_collections_have_similarity_one() -> None:
    """An estimate would be below 1. Copies within a collection are no pair, and hide none of their partners."""
    config = Config(collection_field="set")
    text = "The ferry leaves at seven in the morning from the old pier of the harbour."
    documents = [
        Document("1", text, collection="a"), Document("2", text, collection="a"), Document("3", text + "!"),
        Document("1", text, collection="b"),
    ]  # fmt: skip
    pairs = found(config, documents, 2)
    assert {pair for pair, similarity in pairs.items() if similarity == 1} == {
        frozenset([("a", "1"), ("b", "1")]), frozenset([("a", "2"), ("b", "1")]),
    }  # fmt: skip
    assert pairs.keys() - {pair for pair, similarity in pairs.items() if similarity == 1} == {
        frozenset([(None, "3"), other]) for other in (("a", "1"), ("a", "2"), ("b", "1"))
    }


def test_the_window_bounds_them_as_it_bounds_other_pairs() -> None:
    """Documents that lie further apart in time are no pair; a new version replaces the one before it."""
    config = Config(collection_field="set", window_seconds=10)
    text = "The ferry leaves at seven in the morning from the old pier of the harbour."
    documents = [
        Document("1", text, 0.0, collection="a"), Document("1", text + "!", 5.0, collection="a"),
        Document("1", text, 11.0, collection="b"),
    ]  # fmt: skip
    (similarity,) = found(config, documents, 1).values()
    assert 0.8 < similarity < 1


def test_without_collections_there_is_nothing_to_compare() -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match="pairs across collections need collection_field"):
        matcher_across(Config())
