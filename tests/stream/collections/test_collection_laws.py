"""Laws of collections, for every scheme: a stream of several is decided as one stream for each of them."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from cases import CASES, Case, every_case

from neardup import Config, ConfigError, Deduplicator, Document, Verdict
from neardup.documents.document import CollectionPair
from neardup.pairs.batches import bucket_keys
from neardup.pairs.pipeline import Matcher
from neardup.window.steps import step

COLLECTIONS = ("one", "two", None)
PLACES = "cluster", "related", "previous", "matched"
TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."


class Placed(NamedTuple):
    """A document of a stream of several collections, or the removal of an id, and its place in its own collection."""

    document: Document
    place: int
    removes: bool = False


def mixed(case: Case, seed: int, size: int = 40) -> list[Placed]:
    """The same documents in every collection, with the same ids, some of them versions; each in an order of its own.

    A minute passes from one document to the next.
    """
    rng = random.Random(seed)
    documents = [one._replace(id=f"d{rng.randrange(size)}") for one in case.stream(rng, size)]
    events = [(name, one) for name in COLLECTIONS for one in rng.sample(documents, len(documents))]
    rng.shuffle(events)
    places: Counter[str | None] = Counter()
    out = []
    for n, (name, one) in enumerate(events):
        removes = rng.random() < 0.05
        out.append(Placed(one._replace(collection=name, timestamp=60.0 * n), places[name], removes))
        places[name] += not removes
    return out


def separate(case: Case, **settings: object) -> Config:
    return case.config(collection_field="collection", **settings)


def decided(config: Config, events: list[Placed]) -> list[Verdict]:
    """The verdicts of a stream, in two halves with a saved window between them."""
    dedup, out = Deduplicator(config), []
    for n, (document, _, removes) in enumerate(events):
        if n == len(events) // 2:
            data = dedup.save()
            dedup = Deduplicator(config)
            dedup.load(data)
        if removes:
            dedup.remove(document.id, document.collection)
        else:
            out += dedup.decide([document])
    return out


def alone(events: list[Placed], name: str | None) -> list[Placed]:
    """One collection of a stream, without its name."""
    return [
        one._replace(document=one.document._replace(collection=None))
        for one in events
        if one.document.collection == name
    ]


@every_case
def test_a_stream_of_several_collections_is_decided_as_one_of_each(case: Case) -> None:
    """Verdicts, also of versions with equal ids and after removals and a saved window, are those of each stream."""
    events = mixed(case, 1)
    verdicts = decided(separate(case, window_seconds=3600.0), events)
    documents = [one for one in events if not one.removes]
    for name in COLLECTIONS:
        wanted = decided(case.config(window_seconds=3600.0), alone(events, name))
        own = [n for n, one in enumerate(documents) if one.document.collection == name]
        place = {n: documents[n].place for n in own} | {None: None}
        found = [
            verdicts[n]._replace(
                collection=None,
                **{field: place[getattr(verdicts[n], field)] for field in PLACES},
            )
            for n in own
        ]
        assert found == wanted, name
        assert {verdicts[n].collection for n in own} == {name}


@every_case
def test_pairs_are_those_of_the_collections(case: Case) -> None:
    """``process`` and ``probe`` report the pairs of separate streams, each with its collection."""
    documents = [one.document for one in mixed(case, 2)]
    dedup = Deduplicator(separate(case))
    found = Counter(dedup.process(documents))
    probed = Counter(dedup.probe(documents))
    assert {pair.collection for pair in found} == set(COLLECTIONS)
    for name in COLLECTIONS:
        single = Deduplicator(case.config())
        own = [one._replace(collection=None) for one in documents if one.collection == name]
        for seen, wanted in ((found, single.process(own)), (probed, single.probe(own))):
            assert Counter(CollectionPair(*pair, name) for pair in wanted) == Counter(
                {pair: count for pair, count in seen.items() if pair.collection == name}
            ), name


@every_case
def test_documents_of_two_collections_share_neither_key_nor_content(case: Case) -> None:
    """The keys of a row follow from its evidence and its id alone, so from what travels."""
    config = separate(case)
    one, two = (
        Deduplicator(config).signer.sign([one._replace(collection=name) for one in case.stream(random.Random(3), 40)])
        for name in ("one", "two")
    )
    assert not set(bucket_keys(one.batch, config).values.tolist()) & set(bucket_keys(two.batch, config).values.tolist())
    assert not np.isin(one.batch.contents, two.batch.contents).any()
    assert one.batch.fixed.tolist() == two.batch.fixed.tolist()


def test_documents_whose_keys_are_equal_by_accident_are_no_pair_across_collections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table compares 41 bits of a key, so the collections of a pair are compared as well."""
    monkeypatch.setattr("neardup.pairs.batches.separated_keys", lambda values, starts, salt: values)
    config = Config(collection_field="collection")
    signed = Deduplicator(config).signer.sign(
        [Document("a", TEXT, collection="x"), Document("b", TEXT + "!", collection="y")]
    )
    matcher = Matcher(config)
    with step(matcher.table):
        assert matcher.match(signed.batch).pairs() == []
    assert matcher.table.counts()["candidates"] == 1
    dedup = Deduplicator(config)
    dedup.process([Document("a", TEXT, collection="x")])
    assert dedup.nearest([Document("b", TEXT + "!", collection="y")], 1) == [[]]


def test_the_nearest_are_of_the_same_collection() -> None:
    """A ranking names no document of another collection."""
    dedup = Deduplicator(Config(collection_field="collection", threshold=0.6))
    dedup.process([Document("a", TEXT, collection="x"), Document("b", TEXT + "!", collection="y")])
    found = dedup.nearest([Document("q", TEXT + "?", collection=name) for name in ("x", "y", "z", None)], 3)
    assert [[one.id for one in nearest] for nearest in found] == [["a"], ["b"], [], []]


def test_an_explanation_says_that_collections_differ() -> None:
    """Ids are of the collection that is named; documents bring their own."""
    dedup = Deduplicator(Config(collection_field="collection", threshold=0.6))
    dedup.process([Document("a", TEXT, collection="x"), Document("b", TEXT + "!", collection="x"), Document("a", TEXT)])
    assert dedup.explain("a", "b", "x").reason == "pair"
    assert dedup.explain("a", "b").reason == "unknown"
    assert dedup.explain("a", Document("b", TEXT, collection="y"), "x").reason == "collection"


def test_a_collection_that_cannot_be_used_is_refused() -> None:
    """A collection ends with U+001F, and needs the setting; an empty one is none."""
    with_them, without = Deduplicator(Config(collection_field="c")), Deduplicator(Config())
    documents = [Document("a", TEXT, collection=name) for name in ("x\x1fy", "", None, "\ud800")]
    documents.append(Document("a", TEXT, collection=3))  # type: ignore[arg-type]
    assert [one.status for one in with_them.decide(documents)][1:3] == ["original", "unchanged"]
    assert [(r.position, r.reason) for r in with_them.refusals] == [
        (0, "collection"),
        (3, "id_surrogate"),
        (4, "collection"),
    ]
    listed = Document("a", TEXT, collection=["x"])  # type: ignore[arg-type]
    without.decide([*documents[1:3], listed])
    assert [(r.position, r.reason) for r in without.refusals] == [(0, "collection_off"), (2, "collection_off")]
    with pytest.raises(ConfigError, match="collection_field is not set"):
        without.remove("a", "x")
    long = Deduplicator(Config(collection_field="c"))
    long.decide([Document("i" * 1_023, TEXT), Document("i" * 1_023, TEXT, collection="x")])
    assert [(r.position, r.reason) for r in long.refusals] == [(1, "id_too_long")]


def test_every_scheme_takes_collections() -> None:
    """The setting has a meaning for all of them."""
    assert all(separate(case).separate for case in CASES.values())
