"""Similarity by rarity: a stream gives what a plain program gives, however it is divided, saved or undone."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document
from neardup.errors import ConfigError
from neardup.features.texts.normalize import CodePoints, NormalForm, code_points
from neardup.features.texts.shingles import with_joined_numbers
from neardup.features.tokens import rarity
from neardup.pairs.explanations.explain import explain
from neardup.window.steps import step

SETTINGS: dict[str, Any] = {
    "measure": "jaccard_idf", "shingles": "tokens", "verify": "exact", "threshold": 0.3, "bands": 32, "rows": 2,
}  # fmt: skip
SEEDS = quick_first([1, 2, 3, 4], 1)


def offers(seed: int, size: int) -> list[Document]:
    """Sets of a few frequent tokens and one or two rare ones, some of them near an earlier set; two are no sets."""
    rng, documents = random.Random(seed), list[Document]()
    for n in range(size):
        tokens = {min(int(rng.paretovariate(0.7)), 300) for _ in range(8)} | {1_000 + rng.randrange(200)}
        if n and rng.random() < 0.5:
            earlier = sorted(set(documents[rng.randrange(n)].tokens or []) | {1})
            tokens = {*rng.sample(earlier, min(len(earlier), rng.randint(3, 9))), *rng.sample(range(2, 40), 2)}
        documents.append(Document(str(n), tokens=[] if n in (70, 71) else sorted(tokens)))
    return documents


@cache
def weight(count: int, documents: int) -> int:
    """The cube of one and sixteen logarithms of the ratio, downwards, in whole numbers."""
    ratio, steps = ((documents + 1) << 32) // (count + 1), 0
    while (ratio + 1) ** 16 > 1 << (16 * 32 + steps + 1):
        steps += 1
    return (steps + 1) ** 3


def plain_pairs(
    documents: Sequence[Document], threshold: float, first: int
) -> dict[tuple[str, str], tuple[float, float]]:
    """Every pair of sets whose newer one is not among the first ones: similarity by rarity, and without."""
    earlier, counted = Counter[int](), Counter[int]()  # half of the block before, and this one
    frozen, size, seen, pairs = Counter[int](), 0, list[tuple[str, set[int]]](), {}
    for document in documents:
        tokens = set(document.tokens or [])
        if not tokens:
            continue
        if seen and len(seen) % 64 == 0:
            if len(seen) % 1024 == 0:
                earlier, counted = Counter({one: n // 2 for one, n in counted.items()}), Counter()
            frozen, size = earlier + counted, min(len(seen) // 1024, 1) * 512 + len(seen) % 1024
        for id_, other in seen if len(seen) >= first else []:
            if not tokens & other:
                continue
            common, whole = (sum(weight(frozen[one], size) for one in x) for x in (tokens & other, tokens | other))
            if common / whole >= threshold:
                pairs[id_, document.id] = common / whole, len(tokens & other) / len(tokens | other)
        seen.append((document.id, tokens))
        counted.update(tokens)
    return pairs


def in_parts(documents: Sequence[Document], rng: random.Random) -> Iterator[list[Document]]:
    """The documents in batches of any sizes, some of them empty."""
    at = 0
    while at < len(documents):
        size = rng.choice([0, 1, 2, 63, 64, 65, rng.randrange(300)])
        yield list(documents[at : at + size])
        at += size


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_has_the_pairs_of_a_plain_program(seed: int) -> None:
    """Each pair with its similarity to the last bit, none that is below the threshold, and nearly all that share half:
    as many as the keys find. Of equal sets the newest one stands for all."""
    documents, first = offers(seed, 1_200), 1_000
    sets = Counter(tuple(document.tokens or []) for document in documents)
    lone = {document.id for document in documents if sets[tuple(document.tokens or [])] == 1}
    expected = plain_pairs(documents, 0.3, first)
    dedup = Deduplicator(Config(**SETTINGS))
    dedup.process(documents[: first + 2])  # two are no sets
    found = {(pair.older, pair.newer): pair.similarity for pair in dedup.process(documents[first + 2 :])}
    assert all(similarity in (1.0, expected[pair][0]) for pair, similarity in found.items())
    near = {pair for pair, (_, plain) in expected.items() if plain >= 0.5 and {*pair} <= lone}
    assert len(near) > 100
    assert len(near - found.keys()) < len(near) / 20


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("decides", [False, True])
def test_pairs_and_verdicts_do_not_depend_on_batches(seed: int, *, decides: bool) -> None:
    """Batches that end within an epoch, at its end, and after it; in a window from which documents leave."""
    documents = offers(seed, 1_300)
    config = Config(**SETTINGS, window_documents=random.Random(seed).choice([200, 10_000]))
    whole, divided = Deduplicator(config), Deduplicator(config)
    answer: Callable[[Deduplicator, list[Document]], list[Any]] = (
        Deduplicator.decide if decides else Deduplicator.process
    )
    expected = answer(whole, documents)
    assert [one for part in in_parts(documents, random.Random(seed)) for one in answer(divided, part)] == expected
    assert divided.save() == whole.save()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restored_window_goes_on_as_the_saved_one_does(seed: int) -> None:
    """Its counts come with it, also those of documents that have left, and of the epoch that is not complete."""
    documents, at = offers(seed, 700), random.Random(seed).choice([64, 333, 384])
    config = Config(**SETTINGS, window_documents=100)
    saved, loaded = Deduplicator(config), Deduplicator(config)
    saved.decide(documents[:at])
    loaded.load(saved.save())
    assert loaded.nearest(documents[-1:], 3) == saved.nearest(documents[-1:], 3)
    assert loaded.decide(documents[at:]) == saved.decide(documents[at:])
    assert loaded.save() == saved.save()


def test_a_window_without_counts_counts_what_it_holds() -> None:
    """One that was saved under another measure; and a window with counts can be read under another measure."""
    documents = offers(1, 200)
    plain, weighed = (
        Deduplicator(Config(**{**SETTINGS, "measure": measure})) for measure in ("jaccard", "jaccard_idf")
    )
    plain.process(documents)
    weighed.process(documents)
    loaded = Deduplicator(weighed.config)
    loaded.load(plain.save())
    assert loaded.save() == weighed.save()
    again = Deduplicator(plain.config)
    again.load(weighed.save())
    assert again.save() == plain.save()


@pytest.mark.parametrize("before", [10, 64, 100, 1_000])
def test_a_step_that_is_undone_counts_nothing(before: int) -> None:
    """Also one that completes epochs and a block."""
    documents = offers(5, 1_400)
    dedup, other = Deduplicator(Config(**SETTINGS)), Deduplicator(Config(**SETTINGS))
    for one in (dedup, other):
        one.process(documents[:before])

    def broken() -> None:
        with step(dedup.matcher.table):
            dedup.matcher.match(dedup.signer.sign(offers(6, 300)).batch)
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert dedup.process(documents[before:]) == other.process(documents[before:])


def test_a_probe_counts_nothing_and_finds_what_adding_finds() -> None:
    """Its similarities are those of the epoch that the next document would have."""
    documents = offers(2, 128)
    for size in (64, 100):
        dedup, other = Deduplicator(Config(**SETTINGS)), Deduplicator(Config(**SETTINGS))
        for one in (dedup, other):
            one.process(documents[:size])
        found = dedup.probe(documents[100:101])
        assert dedup.probe(documents[100:101]) == found == other.process(documents[100:101])


def test_what_is_rare_decides() -> None:
    """Two offers that share a model number are a pair, two that share a brand and a kind are none; an explanation has
    the same similarity."""
    texts = [f"sony digital camera black {number}" for number in range(600)]
    config = Config(measure="jaccard_idf", shingles="words", k=1, verify="exact", threshold=0.35, bands=64, rows=2)
    dedup, plain = Deduplicator(config), Deduplicator(config.model_copy(update={"measure": "jaccard"}))
    dedup.process(Document(str(number), text) for number, text in enumerate(texts))
    (pair,) = dedup.process([Document("new", "sony camera 88 silver")])
    assert pair.older == "88"
    assert 0.35 < pair.similarity < 0.5
    assert explain(dedup.matcher, dedup.signer, "88", "new").similarity == pair.similarity
    assert dedup.process([Document("other", "sony digital camera black 600 1200")]) == []
    plain.process(Document(str(number), text) for number, text in enumerate(texts))
    assert len(plain.process([Document("other", "sony digital camera black 600 1200")])) > 100


def test_counts_are_bounded() -> None:
    """Whatever comes, the table has one size and the last 2,048 documents at most; what all have weighs least."""
    counts, rng = rarity.Rarity(), np.random.default_rng(1)
    for _ in range(100):
        sets = [np.unique(rng.zipf(1.3, 40)).astype(np.uint64) for _ in range(counts.left)]
        counts.add(np.concatenate(sets), np.cumsum([0, *map(len, sets)]))
        counts.commit()
        weights = counts.weights.of_count.tolist()
        assert len(weights) <= 1_537
        assert len(counts.save()) == 20 + 3 * 4 * (4 << 12)
        assert weights == sorted(weights, reverse=True)
        assert weights[-1] == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"verify": "sketch"}, "measure=jaccard_idf cannot be estimated from sketches: set verify to exact"),
        ({"scheme": "signals:title=0.6", "shingles": "chars"}, "measure=jaccard_idf with scheme signals: set scheme"),
        ({"scheme": "prefix"}, "prefix"),
        ({"collection_field": "feed"}, "measure=jaccard_idf with collection_field=feed.*leave one of them out"),
    ],
)
def test_what_has_no_one_stream_of_sets_is_refused(settings: dict[str, Any], message: str) -> None:
    """The message has the value, the rule and the remedy."""
    with pytest.raises(ConfigError, match=message):
        Config(**{**SETTINGS, **settings})


def test_model_numbers_are_joined() -> None:
    """A shop writes one with hyphens or a slash, another without; words without a digit stay as they are. So it is in
    texts that are not ASCII, and by no other measure."""
    rng = random.Random(5)
    texts = [
        "".join(rng.choices("a1B-/ .\u00e9" if rng.random() < 0.2 else "a1B-/ .", k=rng.randrange(14)))
        for _ in range(600)
    ]
    for first in range(0, 600, 30):
        codes = code_points(texts[first : first + 30], NormalForm())
        joined = with_joined_numbers(codes)
        expected = [
            " ".join(
                re.sub("(?<=[0-9a-z])[-/](?=[0-9a-z])", "", x) if re.search("[0-9]", x) else x for x in one.split(" ")
            )
            for one in texts_of(codes)
        ]
        assert texts_of(joined) == expected
        assert joined.characters == sum(map(len, expected))
    settings = {"shingles": "words", "k": 1, "verify": "exact"}
    offers = [Document("a", "Phone KX-TG6700/B, black"), Document("b", "Phone kxtg6700b black")]
    assert [
        pair.similarity
        for pair in Deduplicator(Config(**settings, measure="jaccard_idf", threshold=0.5)).process(offers)
    ] == [1]
    assert not Deduplicator(Config(**settings, threshold=0.5)).process(offers)


def texts_of(codes: CodePoints) -> list[str]:
    """Normalised texts as strings."""
    buffers = [codes.wide if is_wide else codes.narrow for is_wide in codes.is_wide]
    ends = zip(buffers, codes.starts, codes.starts + codes.lengths, strict=True)
    return ["".join(map(chr, buffer[start:end].tolist())) for buffer, start, end in ends]


def test_a_comparison_without_counts_is_refused() -> None:
    """No other similarity is given instead."""
    config = Config(**SETTINGS)
    dedup = Deduplicator(config)
    batch = dedup.signer.sign(offers(1, 2)).batch
    with pytest.raises(ConfigError, match="needs the counts of one stream"):
        dedup.matcher.scheme.common(batch.evidence, batch.evidence, config.plan)
    assert isinstance(dedup.process(offers(1, 2)), list)
