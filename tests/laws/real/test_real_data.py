"""Real texts: the emitted pairs compared with all pairs at or above the threshold, by exact sets.

Recall is counted over pairs of distinct contents. The truth files next to the texts were made with another
normalisation (NFC and lower case). So the tests compare with the pairs of our own sets, and the files must agree with
these where both normalisations agree.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import SKETCHED
from oracle import (
    Corpus,
    PairsOf,
    corpus,
    jaccard,
    jglue_sentences,
    joined_pairs,
    json_lines,
    tail_above,
    tail_below,
    truth_of,
)
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document
from neardup.documents.document import Features
from neardup.features.texts.normalize import normalize
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import row_agreement

# One right pair in a thousand million fails: there are thousands of pairs.
NEVER = 1e-9


class RealSet(NamedTuple):
    """A set of texts: its folder, how to read it, the kind of its shingles, and a truth file for this kind.

    Words have no truth file, because the files split words by another rule.
    """

    folder: str
    read: Callable[[Path], list[Document]]
    settings: dict[str, Any]
    truth: str | None


def lines(name: str) -> Callable[[Path], list[Document]]:
    return lambda folder: json_lines(folder / name)


SETS: dict[str, RealSet] = {
    "licence_texts char5": RealSet("licence_texts", lines("docs.jsonl"), {}, "pairs_j080_char5.csv"),
    "licence_texts word3": RealSet("licence_texts", lines("docs.jsonl"), {"shingles": "words"}, None),
    "itn_multilingual char5": RealSet("itn_multilingual", lines("docs.jsonl"), {}, "pairs_j080_char5.csv"),
    "itn_multilingual char3": RealSet("itn_multilingual", lines("docs.jsonl"), {"k": 3}, "pairs_j080_char3.csv"),
    "ja_jglue char3": RealSet("ja_jglue", jglue_sentences, {"k": 3}, "jsts_pairs_j080_char3.csv"),
    "irplag_java char5": RealSet("irplag_java", lines("docs.jsonl"), {}, "pairs_j080_char5.csv"),
    "irplag_java word3": RealSet("irplag_java", lines("docs.jsonl"), {"shingles": "words"}, None),
    "mccormick_minhash char5": RealSet("mccormick_minhash", lines("docs_1000.jsonl"), {}, "n1000_pairs_j050_char5.csv"),
}


class Truth(NamedTuple):
    """The documents of a set, its distinct contents (as sets, and by number for each document), their pairs at .8."""

    documents: list[Document]
    corpus: Corpus
    sets: list[np.ndarray]
    pairs: PairsOf


@cache
def truth_at(name: str, folder: Path) -> Truth:
    real = SETS[name]
    documents = real.read(folder)
    exact = corpus(documents, Config(**real.settings))
    sets, _ = exact.distinct()
    return Truth(documents, exact, sets, joined_pairs(sets, 0.8))


@pytest.fixture(params=SETS)
def name(request: pytest.FixtureRequest) -> str:
    """A row of ``SETS``."""
    return str(request.param)


@pytest.fixture
def truth(name: str, real_data: Callable[[str], Path]) -> Truth:
    """Read the row of ``name``, with its exact pairs."""
    return truth_at(name, real_data(SETS[name].folder))


def emitted_pairs(config: Config, truth: Truth) -> tuple[PairsOf, int, Deduplicator]:
    """Pairs of distinct contents with their estimates; links between copies; the deduplicator that found them."""
    dedup = Deduplicator(config)
    number = {x.id: content for x, content in zip(truth.corpus.documents, truth.corpus.contents, strict=True)}
    emitted: PairsOf = {}
    links = 0
    for pair in dedup.process(truth.documents):
        i, j = sorted((number[pair.older], number[pair.newer]))
        links += i == j
        if i != j:
            assert (i, j) not in emitted, pair
            emitted[i, j] = pair.similarity
    return emitted, links, dedup


@pytest.mark.long
@pytest.mark.parametrize("scheme", SKETCHED)
@pytest.mark.parametrize("seed", [1, 2])
def test_recall_on_real_texts_reaches_the_target(scheme: str, seed: int, name: str, truth: Truth) -> None:
    """Recall over every pair at or above .8; no bucket is truncated; copies are linked; no emitted pair is wrong.

    A pair is wrong if its estimate is outside the binomial tails of its true similarity.
    """
    config = Config(scheme=scheme, seed=seed, **SETS[name].settings)
    emitted, links, dedup = emitted_pairs(config, truth)
    recall = len(truth.pairs.keys() & emitted.keys()) / len(truth.pairs)
    assert recall >= config.recall, f"{name}, seed {seed}: {recall:.4f} of {len(truth.pairs)} pairs"
    assert dedup.counts()["cuts"] == 0
    assert links == len(truth.corpus.contents) - len(truth.sets)
    rows, bits = config.plan.signature_rows, config.tuning.sketch_bits
    for (i, j), estimate in emitted.items():
        similarity = truth.pairs.get((i, j)) or jaccard(truth.sets[i], truth.sets[j])
        q, equal = float(row_agreement(similarity, bits)), round(rows * (estimate + (1 - estimate) * 2.0**-bits))
        assert tail_above(rows, q, equal) > NEVER, (name, seed, similarity, estimate)
        assert tail_below(rows, q, equal) > NEVER, (name, seed, similarity, estimate)


@pytest.mark.long
@pytest.mark.parametrize("scheme", SKETCHED)
def test_estimates_on_real_texts_are_unbiased(scheme: str, name: str, truth: Truth) -> None:
    """Over twelve seeds and all pairs of distinct contents: the mean error of a seed varies around zero.

    Errors of one seed are not independent, because a few texts are in most pairs; errors of two seeds are.
    """
    pairs = np.array(list(truth.pairs)[:400])
    exact = np.array(list(truth.pairs.values())[:400])
    used, places = np.unique(pairs, return_inverse=True)
    places = places.reshape(pairs.shape)
    sets = [truth.sets[i] for i in used]
    features = Features(np.concatenate(sets), np.cumsum([0, *map(len, sets)]))
    means = []
    row, plan = SCHEMES[scheme], Config(scheme=scheme).plan
    for seed in range(12 if features.starts[-1] < 500_000 else 4):
        evidence = row.evidence(features, plan._replace(seed=seed))
        found = row.common(evidence.select(places[:, 0]), evidence.select(places[:, 1]), plan)
        means.append(float((found.similarity - exact).mean()))
    # The error of one pair bounds the error of a seed's mean.
    one_pair = float(np.sqrt(exact * (1 - exact) / plan.signature_rows).mean())
    assert abs(np.mean(means)) <= 4 * one_pair / len(means) ** 0.5, means
    assert max(map(abs, means)) <= 4 * one_pair, means


@pytest.mark.parametrize("name", quick_first(sorted(name for name, real in SETS.items() if real.truth), 2))
def test_the_truth_files_say_the_same_where_normalisations_agree(
    name: str, truth: Truth, real_data: Callable[[str], Path]
) -> None:
    """Similarities are equal for every pair of texts that NFKC and full case folding do not change."""
    real = SETS[name]
    assert real.truth
    config = Config(**real.settings)
    folder = real_data(real.folder)
    number = {x.id: content for x, content in zip(truth.corpus.documents, truth.corpus.contents, strict=True)}
    same = {x.id for x in truth.documents if plain(x.text) == normalize(x.text, config.plan.normal_form)}
    compared = 0
    for pair, similarity in truth_of(folder / real.truth).items():
        a, b = pair
        if a in same and b in same:
            compared += 1
            assert jaccard(truth.sets[number[a]], truth.sets[number[b]]) == pytest.approx(similarity, abs=1e-6), pair
            i, j = sorted((number[a], number[b]))
            assert i == j or similarity < 0.8 or (i, j) in truth.pairs, pair
    assert compared > 5


def plain(text: str) -> str:
    """The normalisation of the truth files."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


@pytest.mark.parametrize("size", [1000, 2500])
def test_planted_copies_among_real_articles_are_found_and_nothing_else(
    size: int, real_data: Callable[[str], Path]
) -> None:
    """The pairs are the pairs that the set names, all above .97."""
    folder = real_data("mccormick_minhash")
    planted = {frozenset(line.split()) for line in (folder / f"articles_{size}.truth").read_text().splitlines()}
    pairs = Deduplicator().process(json_lines(folder / f"docs_{size}.jsonl"))
    assert {frozenset((pair.older, pair.newer)) for pair in pairs} == planted
    assert len(pairs) == len(planted)
    assert min(pair.similarity for pair in pairs) > 0.9


def test_long_speeches_have_no_near_duplicates(real_data: Callable[[str], Path]) -> None:
    """233 addresses of 15,000 shingles share many words and no passages: there is no pair."""
    folder = real_data("sotu")
    documents = [Document(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.txt"))]
    assert len(documents) == 233
    assert Deduplicator().process(documents) == []


def test_hostile_strings_are_taken_or_refused_and_found_again(real_data: Callable[[str], Path]) -> None:
    """The big list of naughty strings, twice: each is refused both times or has its copy linked."""
    text = (real_data("blns") / "blns.txt").read_text(encoding="utf-8")
    strings = [line for line in text.splitlines() if line and not line.startswith("#")]
    dedup = Deduplicator()
    dedup.process(Document(f"a{n}", line) for n, line in enumerate(strings))
    once = [refusal.position for refusal in dedup.refusals]
    pairs = dedup.process(Document(f"b{n}", line) for n, line in enumerate(strings))
    assert [refusal.position for refusal in dedup.refusals] == once
    found = {pair.newer for pair in pairs if pair.similarity == 1}
    assert found == {f"b{n}" for n in range(len(strings)) if n not in once}
