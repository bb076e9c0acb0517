"""Laws of exact verification: every emitted pair reaches the threshold by the true measure, and every missed pair was
no candidate. Also laws of pairs that must share several bands."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import SKETCHED, prose, random_stream, rating_stream, token_stream
from oracle import NEVER, Hashes, corpus, jaccard, json_lines, pair_of_sets, tail_above, tail_below, truth_of
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document
from neardup.documents.document import Features
from neardup.errors import ConfigError
from neardup.schemes.rows import SCHEMES

# Independent definitions of the measures, for bags of words that Python counts.
MEASURES: dict[str, Callable[[Counter[Any], Counter[Any]], float]] = {
    "jaccard": lambda a, b: len(set(a) & set(b)) / len(set(a) | set(b)),
    "jaccard_bag": lambda a, b: (a & b).total() / (a | b).total(),
    "jaccard_bag_sum": lambda a, b: (a & b).total() / (a.total() + b.total()),
    "containment": lambda a, b: len(set(a) & set(b)) / min(len(set(a)), len(set(b))),
}
# Measures by which equal documents are not similar by 1 have another threshold.
THRESHOLDS = {"jaccard_bag_sum": 0.4}


def bag_of(document: Document) -> Counter[Any]:
    """Return what the settings below compare: words, tokens, or items repeated by their stars."""
    if isinstance(document.tokens, dict):
        return Counter(document.tokens)
    return Counter(document.tokens or document.text.split())


@pytest.mark.parametrize("shingle_bytes", quick_first([4, 8], 1))
@pytest.mark.parametrize("scheme", ["one_permutation", "minhash", "grouped"])
@pytest.mark.parametrize("measure", MEASURES)
def test_every_emitted_pair_has_its_true_similarity(measure: str, scheme: str, shingle_bytes: int) -> None:
    """It is exact to the last bit and at or above the threshold; most such pairs are emitted; copies have 1."""
    settings = {
        "shingles": "words",
        "k": 1,
        "scheme_options": {"shingle_bytes": shingle_bytes},
        "scheme": scheme,
        "rows_max": 128,
        "sketch_bits": 16,
    }
    threshold = THRESHOLDS.get(measure, 0.7)
    config = Config(verify="exact", measure=measure, threshold=threshold, recall=0.9, **settings)
    documents = [x for x in random_stream(random.Random(3), 250, copies=0, lengths=(40, 300)) if x.text.split()]
    bags = {x.id: bag_of(x) for x in documents}
    pairs = Deduplicator(config).process(documents)
    for pair in pairs:
        older, newer = bags[pair.older], bags[pair.newer]
        assert pair.similarity == (1.0 if older == newer else MEASURES[measure](older, newer))
        assert pair.similarity >= threshold
    assert len(pairs) > 100


def test_the_summed_union_finds_what_the_greatest_union_finds() -> None:
    """At 4/9 the same pairs as at .8 by the greatest union, from the same keys: s is J / (1 + J)."""
    documents = [x for x in random_stream(random.Random(3), 250, copies=0, lengths=(40, 300)) if x.text.split()]
    shape = {"shingles": "words", "k": 1, "verify": "exact", "bands": 16, "rows": 6}
    greatest = Deduplicator(Config(measure="jaccard_bag", threshold=0.8, **shape)).process(documents)
    summed = Deduplicator(Config(measure="jaccard_bag_sum", threshold=0.8 / 1.8, **shape)).process(documents)
    assert [pair[:2] for pair in summed] == [pair[:2] for pair in greatest]
    assert len(greatest) > 50
    scored = [(one.similarity, other.similarity) for one, other in zip(summed, greatest, strict=True)]
    assert all(s == pytest.approx(j / (1 + j)) for s, j in scored if j < 1.0)
    assert all(s == 1.0 for s, j in scored if j == 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"verify": "exact"}, "threshold=0.8 with measure=jaccard_bag_sum.*set threshold to 0.5 or less"),
        ({"threshold": 0.4}, "measure=jaccard_bag_sum cannot be estimated from sketches: set verify to exact"),
        ({"threshold": 0.4, "scheme": "prefix"}, "jaccard_bag_sum"),
    ],
)
def test_a_summed_union_needs_a_threshold_that_bags_can_reach(settings: dict[str, Any], message: str) -> None:
    """The similarity of two bags is at most one half, and the score is computed from their elements."""
    with pytest.raises(ConfigError, match=message):
        Config(measure="jaccard_bag_sum", **settings)


@pytest.mark.parametrize(
    ("stream", "settings"),
    [
        (token_stream, {}),
        (token_stream, {"measure": "jaccard_bag"}),
        (rating_stream, {"measure": "jaccard_bag", "scheme_options": {"ratings": "stars"}}),
    ],
    ids=["tokens", "a bag of tokens", "stars"],
)
def test_given_elements_are_measured_as_they_are(
    stream: Callable[..., list[Document]], settings: dict[str, str]
) -> None:
    """Sets and bags of tokens, and items repeated by their stars: every pair has its true similarity."""
    config = Config(shingles="tokens", verify="exact", **settings)
    documents = [x for x in stream(random.Random(4), 250) if x.tokens and "\ud800" not in x.tokens]
    bags = {x.id: bag_of(x) for x in documents}
    pairs = Deduplicator(config).process(documents)
    assert len(pairs) > 50
    for pair in pairs:
        measure = MEASURES[settings.get("measure", "jaccard")]
        assert pair.similarity == measure(bags[pair.older], bags[pair.newer])


@pytest.mark.parametrize("scheme", [*SKETCHED, "partial_minhash"])
def test_an_exact_pair_is_missed_only_if_it_is_no_candidate(scheme: str) -> None:
    """Pairs at the threshold are emitted whenever they are candidates, and at least with the requested recall."""
    config, seeds = Config(scheme=scheme, verify="exact"), 600
    emitted = met = 0
    for seed in range(seeds):
        a, b, exact = pair_of_sets(100, config.threshold, seed)
        features = Features(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]))
        evidence = SCHEMES[scheme].evidence(features, config.plan._replace(seed=seed))
        common = SCHEMES[scheme].common(evidence.select(np.array([0])), evidence.select(np.array([1])), config.plan)
        assert common.similarity[0] == exact
        met += int(common.keys[0] > 0)
        emitted += int(common.keys[0] > 0 and common.similarity[0] >= config.tuning.score_min)
    assert emitted == met
    assert tail_below(seeds, config.recall, emitted) > NEVER, emitted


def test_an_estimate_on_the_threshold_may_fail_but_a_measure_does_not() -> None:
    """With a measure, ``score_min`` is equal to the threshold, for every threshold."""
    for threshold in (0.5, 0.8, 1.0):
        tuning = Config(threshold=threshold, verify="exact", rows_max=256).tuning
        assert (tuning.score_min, tuning.margin, tuning.pass_probability) == (threshold, 0.0, 1.0)
        assert tuning.recall == tuning.candidate_probability >= 0.95


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["one_permutation", "partial_minhash"])
@pytest.mark.parametrize(("threshold", "file"), [(0.5, "pairs_j050_char5.csv"), (0.8, "pairs_j080_char5.csv")])
@pytest.mark.parametrize("name", ["licence_texts", "itn_multilingual", "irplag_java"])
def test_real_texts_are_verified_exactly(
    name: str, threshold: float, file: str, scheme: str, real_data: Callable[[str], Path]
) -> None:
    """The stream finds the promised fraction of the true pairs of distinct contents, each with its true similarity.

    No emitted pair is below the threshold. The truth file uses another normalisation: only its pairs that reach the
    threshold in our normalisation count. The test reads some thousand texts, evenly spread.
    """
    config = Config(scheme=scheme, verify="exact", threshold=threshold, bucket_candidates_max=2**20, rows_max=256)
    exact = corpus(json_lines(real_data(name) / "docs.jsonl"), config)
    sets, firsts = exact.distinct()
    set_of = {exact.documents[i].id: own for i, own in zip(firsts, sets, strict=True)}
    pairs = Deduplicator(config).process([exact.documents[i] for i in firsts])
    for pair in pairs[:: 1 + len(pairs) // 1000]:
        assert pair.similarity == jaccard(set_of[pair.older], set_of[pair.newer]) >= threshold
    known = [pair for pair in truth_of(real_data(name) / file) if pair <= set_of.keys()]
    known = known[:: 1 + len(known) // 1000]
    wanted = {pair for pair in known if jaccard(*(set_of[id_] for id_ in pair)) >= threshold}
    found = wanted & {frozenset(pair[:2]) for pair in pairs}
    recall = len(found) / len(wanted)
    assert recall >= config.recall, f"{name}: {recall:.4f} of {len(wanted)} pairs"


def sets_of(words: list[str]) -> Hashes:
    return np.unique(np.array([hash(word) & 0xFFFFFFFF for word in words], np.uint64))


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_a_short_text_inside_a_longer_one_is_contained_in_it(measure: str) -> None:
    """By containment it is a pair of similarity 1; by Jaccard similarity it is no pair."""
    rng = random.Random(5)
    long = prose(rng, 60)
    texts = [Document("long", " ".join(long)), Document("short", " ".join(long[:45]))]
    config = Config(verify="exact", measure=measure, threshold=0.9, k=1, shingles="words", bands=30, rows=4)
    pairs = [(*pair[:2], pair.similarity) for pair in Deduplicator(config).process(texts)]
    assert pairs == ([("long", "short", 1.0)] if measure == "containment" else [])
    assert jaccard(sets_of(long), sets_of(long[:45])) < 0.9


@pytest.mark.parametrize("least", [1, 2, 5])
def test_pairs_that_meet_in_too_few_bands_are_not_emitted(least: int) -> None:
    """Exactly the pairs that share enough buckets; copies are always pairs."""
    documents = random_stream(random.Random(6), 400)
    shape = {"bands": 12, "rows": 10, "min_similarity": 0.7}
    everything = Deduplicator(Config(**shape)).process(documents)
    found = Deduplicator(Config(buckets_shared_min=least, **shape)).process(documents)
    assert found == [pair for pair in everything if pair.buckets >= least or pair.similarity == 1.0]
    assert (len(found) < len(everything)) == (least > 1)


@pytest.mark.parametrize("least", quick_first([2, 3], 1))
@pytest.mark.parametrize("verify", ["sketch", "exact"])
def test_the_recall_counts_pairs_that_share_several_bands(least: int, verify: str) -> None:
    """The tuning chooses more bands, so pairs at the threshold still have the requested recall."""
    config, seeds = Config(buckets_shared_min=least, verify=verify, scheme="minhash"), 500
    row, plan, tuning = SCHEMES["minhash"], config.plan, config.tuning
    emitted = met = 0
    for seed in range(seeds):
        a, b, exact = pair_of_sets(50, config.threshold, seed)
        features = Features(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]))
        evidence = row.evidence(features, plan._replace(seed=seed))
        common = row.common(evidence.select(np.array([0])), evidence.select(np.array([1])), plan)
        met += int(common.keys[0] >= least)
        emitted += int(common.keys[0] >= least and common.similarity[0] >= tuning.score_min)
    assert exact == config.threshold
    assert tail_below(seeds, tuning.candidate_probability, met) > NEVER
    assert tail_above(seeds, tuning.candidate_probability, met) > NEVER
    assert tuning.recall >= config.recall
    assert tail_below(seeds, config.recall, emitted) > NEVER


def test_elements_kept_for_verification_are_bounded() -> None:
    """``evidence_bytes_max`` evicts the oldest documents and counts them; four bytes an element keep twice as many."""
    held = {}
    rng = random.Random(7)
    documents = [Document(str(n), " ".join(prose(rng, 4000))) for n in range(60)]
    for shingle_bytes in (4, 8):
        config = Config(
            verify="exact", scheme_options={"shingle_bytes": shingle_bytes}, evidence_bytes_max=1 << 20, k=20
        )
        dedup = Deduplicator(config)
        dedup.process(documents)
        held[shingle_bytes] = dedup.matcher.table.documents
        assert dedup.counts()["evicted"] == len(documents) - held[shingle_bytes] > 0
    assert held[4] >= 1.8 * held[8]


def test_items_are_ragged_sorted_sets() -> None:
    """The evidence next to a sketch: the elements in ascending order, without repetition, in the requested bytes."""
    for shingle_bytes, dtype in ((4, "<u4"), (8, "<u8")):
        config = Config(verify="exact", scheme_options={"shingle_bytes": shingle_bytes})
        row = SCHEMES[config.scheme]
        reading = row.features([Document("a", "banana banana banana"), Document("b", "bandana")], config.plan)
        evidence = row.evidence(reading.features, config.plan)
        values = evidence.ragged.view(dtype)
        for first, end in pairwise(evidence.starts // shingle_bytes):
            assert (np.diff(values[first:end].astype(object)) > 0).all()
        assert np.array_equal(np.unique(reading.features.values), np.unique(values))
