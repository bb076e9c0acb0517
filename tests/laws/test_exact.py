"""Exactness: exact schemes find the pairs that brute force finds, each with its true similarity, and no other pair.

The tests use many seeds, thresholds of .5 to 1, orders of arrival, sizes of batches and windows; and real sets with
their exact truth.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import some_order
from oracle import PairsOf, json_lines, random_sets, truth_of
from quick_parameters import quick_first

from neardup import CapacityError, Config, ConfigError, Deduplicator, Document
from neardup.features.tokens.token_order import NO_FREQUENCIES, TokenOrder, counted, most_frequent
from neardup.schemes.rows import SCHEMES
from neardup.window import band_table


def config_of(**settings: Any) -> Config:
    return Config(scheme="prefix", shingles="tokens", **settings)


def learned(documents: list[Document], config: Config) -> Config:
    """The same with the order of the tokens in the documents themselves."""
    values = SCHEMES["prefix"].features(documents, config.plan).features.values
    order = TokenOrder(most_frequent(counted(NO_FREQUENCIES, values, 1 << 20), 1 << 16))
    return config.model_copy(update={"scheme_options": {"token_order": order}})


def processed(config: Config, documents: list[Document], rng: np.random.Generator) -> dict[frozenset[str], float]:
    """Return pairs with their similarity, from documents in batches of random sizes; no pair is repeated."""
    dedup = Deduplicator(config)
    pairs = []
    at = 0
    while at < len(documents):
        size = int(rng.choice([1, 2, 7, 50, 400]))
        pairs += dedup.process(documents[at : at + size])
        at += size
    found = {frozenset((pair.older, pair.newer)): pair.similarity for pair in pairs}
    assert len(found) == len(pairs)
    assert dedup.counts()["cuts"] == 0
    return found


@pytest.mark.parametrize("seed", quick_first(range(30), 10))
def test_the_pairs_equal_those_of_brute_force(seed: int) -> None:
    """Distinct sets in any order of arrival, with and without a window of time and an order of tokens."""
    rng = np.random.default_rng(seed)
    universe, size_max = int(rng.choice([10, 60, 5000])), int(rng.choice([8, 25, 80]))
    sets = list({frozenset(x) for x in random_sets(rng, 250, universe, size_max)})
    union = int(rng.integers(2, 40))
    threshold = float(
        rng.choice([0.5, 0.6, 0.75, 0.8, 0.9, 1.0, int(rng.integers((union + 1) // 2, union + 1)) / union])
    )
    times = rng.permutation(len(sets)) if seed % 2 else np.arange(len(sets)) + rng.integers(0, 30, len(sets))
    documents = [Document(str(i), tokens=sorted(x), timestamp=float(times[i])) for i, x in enumerate(sets)]
    window = float(rng.choice([20, 90, 1e6]))
    config = config_of(threshold=threshold, window_seconds=window, lateness_seconds=float(len(sets) + 30))
    if seed % 3 == 0:
        config = learned(documents[: len(documents) // 2], config)
    expected = {}
    for i, a in enumerate(sets):
        for j in range(i):
            similarity = len(a & sets[j]) / len(a | sets[j])
            if similarity >= threshold and abs(times[i] - times[j]) <= window:
                expected[frozenset((str(i), str(j)))] = similarity
    arrival = rng.permutation(len(documents)) if seed % 5 == 0 else np.arange(len(documents))
    assert processed(config, [documents[i] for i in arrival], rng) == expected, (threshold, window)


def test_a_threshold_is_met_by_the_pairs_that_stand_on_it() -> None:
    """For every quotient of two sizes up to 13: a pair with this similarity is found, but not at the next threshold."""
    rng = np.random.default_rng(1)
    for union in range(1, 14):
        for common in range((union + 1) // 2, union):
            tokens = rng.permutation(10_000)[:union].tolist()
            documents = [Document("a", tokens=tokens), Document("b", tokens=tokens[:common])]
            threshold = common / union
            assert [tuple(p)[:3] for p in Deduplicator(config_of(threshold=threshold)).process(documents)] == [
                ("a", "b", threshold)
            ]
            above = float(np.nextafter(threshold, 1))
            assert Deduplicator(config_of(threshold=above)).process(documents) == []


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "threshold", "order"),
    [("chess", 0.8, "learned"), ("chess", 0.9, "learned"), ("foodmart", 0.5, "learned"), ("foodmart", 0.5, "hashes")],
)
def test_item_sets_have_just_the_pairs_of_their_truth(
    real_data: Callable[[str], Path], name: str, threshold: float, order: str
) -> None:
    """Pairs of distinct sets; n copies of a set have n - 1 links."""
    folder = real_data("itemsets_fimi")
    baskets = [sorted({*map(int, line.split())}) for line in (folder / f"{name}.dat").read_text().splitlines()]
    documents = [Document(str(i), tokens=basket) for i, basket in enumerate(baskets)]
    number: dict[tuple[int, ...], int] = {}
    content = [number.setdefault(tuple(basket), i) for i, basket in enumerate(baskets)]
    expected: PairsOf = {}
    for row in rows_of(folder / f"{name}_pairs_j0{round(100 * {'chess': 0.8, 'foodmart': 0.5}[name])}.csv"):
        a, b = sorted((content[int(row["a"])], content[int(row["b"])]))
        similarity = int(row["inter"]) / int(row["union"])
        if a != b and similarity >= threshold:
            expected[a, b] = similarity
    config = config_of(threshold=threshold)
    found: PairsOf = {}
    links = 0
    for pair in Deduplicator(learned(documents, config) if order == "learned" else config).process(documents):
        a, b = sorted((content[int(pair.older)], content[int(pair.newer)]))
        links += a == b
        if a != b:
            assert (a, b) not in found
            found[a, b] = pair.similarity
    assert found == expected
    assert len(expected) > 10
    assert links == len(baskets) - len(number)


@pytest.mark.parametrize("threshold", [0.8, 0.9])
@pytest.mark.parametrize(("name", "kind", "k"), [("itn_multilingual", "char5", 5), ("itn_multilingual", "char3", 3)])
def test_texts_have_just_the_pairs_of_their_truth(
    real_data: Callable[[str], Path], name: str, kind: str, k: int, threshold: float
) -> None:
    """In the normal form of the truth (NFC, lower case, single blanks), the pairs are equal to the truth."""
    folder = real_data(name)
    documents = [
        x._replace(text=unicodedata.normalize("NFC", x.text).lower()) for x in json_lines(folder / "docs.jsonl")
    ]
    config = Config(scheme="prefix", k=k, threshold=threshold, fold="space")
    number: dict[str, str] = {}
    content = {x.id: number.setdefault(" ".join(x.text.split()), x.id) for x in documents}
    expected = {}
    for pair, similarity in truth_of(folder / f"pairs_j050_{kind}.csv").items():
        contents = frozenset(content[id_] for id_ in pair)
        if len(contents) == 2 and similarity >= threshold:
            expected[contents] = similarity
    found = {}
    for older, newer, similarity, _ in Deduplicator(config).process(documents):
        contents = frozenset((content[older], content[newer]))
        if len(contents) == 2:
            found[contents] = similarity
    assert found.keys() == expected.keys()
    assert len(expected) > 100
    assert max(abs(found[pair] - expected[pair]) for pair in found) < 1e-6


def test_identical_links_just_the_texts_that_are_equal_after_normalisation() -> None:
    """n copies by n - 1 links of similarity 1, with a key of the whole text or of a few positions."""
    texts = ["Some text", "some  TEXT ", "some text", "some text.", "ｓｏｍｅ text", "x", "", "Some text"]
    for settings in ({}, {"scheme_options": {"positions": 1}}, {"scheme_options": {"positions": 50}}):
        dedup = Deduplicator(Config(scheme="identical", **settings))
        pairs = dedup.process([Document(str(i), text) for i, text in enumerate(texts)])
        assert [tuple(pair) for pair in pairs] == [
            ("0", "1", 1.0, 1), ("1", "2", 1.0, 1), ("2", "4", 1.0, 1), ("4", "7", 1.0, 1)
        ]  # fmt: skip
        assert [refusal.reason for refusal in dedup.refusals] == ["empty"]


def test_texts_that_share_all_positions_are_distinguished() -> None:
    """They are candidates, of similarity 0, and no pair."""
    texts = [f"a text that ends in {i}" for i in range(10)]
    documents = [Document(text, text) for text in texts]
    config = Config(scheme="identical:positions=1", seed=5)
    assert config.plan.positions[0] > 20
    dedup = Deduplicator(config)
    assert dedup.process(documents) == []
    assert dedup.counts()["candidates"] == 45
    candidates = Deduplicator(config, candidates=True).process(documents)
    assert {pair.similarity for pair in candidates} == {0.0}


@pytest.mark.parametrize(
    ("scheme", "settings"),
    [
        (scheme, settings)
        for scheme in ("prefix", "identical")
        for settings in ({"probe_candidates_max": 5}, {"buckets_shared_min": 2}, {"min_similarity": 0.5})
    ]
    + [("prefix", {"measure": "containment", "verify": "exact"})],
)
def test_settings_that_would_lose_pairs_are_refused(scheme: str, settings: dict[str, Any]) -> None:
    """The message names the setting and the reason: no setting removes the guarantee."""
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} is .*(leave it out|set one of them)"):
        Config(scheme=scheme, **settings)


def test_no_bucket_is_cut() -> None:
    """Even with a small limit, a bucket of a hundred sets gives a hundred candidates."""
    documents = [Document(str(i), tokens=[1, 2, 3, 1000 + i]) for i in range(101)]
    order = learned(documents[:1], config_of()).scheme_options.token_order
    dedup = Deduplicator(config_of(threshold=0.6, bucket_candidates_max=3, scheme_options={"token_order": order}))
    assert len(dedup.process(documents)) == 101 * 100 // 2
    assert dedup.counts()["cuts"] == 0


def test_a_table_that_is_full_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises an error and undoes the step; it never drops a posting silently."""
    monkeypatch.setattr(band_table, "POSTINGS_MAX", 1000)
    rng = np.random.default_rng(2)
    documents = [Document(str(i), tokens=rng.integers(0, 2**40, 50).tolist()) for i in range(200)]
    dedup = Deduplicator(config_of())
    with pytest.raises(CapacityError, match="shorten the window"):
        dedup.process(documents)
    assert dedup.counts()["items"] == 0


def test_what_decides_keys_is_part_of_the_fingerprint() -> None:
    """Each order of tokens, threshold, seed and position has its own generation; without an order, hashes decide."""
    prefix = [
        Config(scheme="prefix"), Config(scheme="prefix", threshold=0.9), Config(scheme="prefix", seed=2),
        Config(scheme="prefix", scheme_options={"token_order": some_order()}),
        Config(scheme="prefix", measure="jaccard_bag"),
        Config(scheme="prefix", k=6),
    ]  # fmt: skip
    identical = [
        Config(scheme="identical", **settings)
        for settings in (
            {},
            {"scheme_options": {"positions": 3}},
            {"scheme_options": {"positions": 4}},
            {"fold": "case,space"},
            {"seed": 2},
        )
    ]
    fingerprints = [config.signing_fingerprint for config in (*prefix, *identical)]
    assert len(set(fingerprints)) == len(fingerprints)
    assert Config(scheme="prefix", scheme_options={"token_order": TokenOrder()}).signing_fingerprint == fingerprints[0]
    assert Config(scheme="identical", threshold=0.9).signing_fingerprint == fingerprints[len(prefix)]
