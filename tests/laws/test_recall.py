"""The S-curve holds: candidates and emitted pairs over many seeds with one pair each, at every size of sets."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import numpy as np
import pytest
from cases import SKETCHED
from oracle import (
    NEVER,
    Corpus,
    Hashes,
    PairsOf,
    all_pairs,
    corpus,
    jaccard,
    joined_pairs,
    pair_of_sets,
    tail_above,
    tail_below,
)
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document
from neardup.documents.document import Features
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import candidate_probability, emission_probability, row_agreement

# Size of the union of two sets -> seeds, one pair each.
SEEDS = {1: 100, 2: 500, 3: 500, 5: 500, 10: 1000, 30: 500, 100: 500, 1000: 300, 5000: 100}
SIMILARITIES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)


# Size of the union, similarity, seeds.
Cell = tuple[int, float, int]
CURVE: tuple[Cell, ...] = tuple((union, similarity, SEEDS[union]) for union in SEEDS for similarity in SIMILARITIES)


@cache
def counts_of(scheme: str, config: Config, cells: tuple[Cell, ...]) -> dict[Cell, tuple[float, int, int]]:
    """For each cell: the exact similarity, the number of candidates, the number of emitted pairs."""
    row, plan = SCHEMES[scheme], config.plan
    exact: dict[Cell, float] = {}
    candidates: Counter[Cell] = Counter()
    emitted: Counter[Cell] = Counter()
    for seed in range(max(seeds for *_, seeds in cells)):
        here = [cell for cell in cells if seed < cell[2]]
        sets: list[Hashes] = []
        for union, similarity, seeds in here:
            a, b, exact[union, similarity, seeds] = pair_of_sets(union, similarity, seed)
            sets += [a, b]
        features = Features(np.concatenate(sets), np.cumsum([0, *map(len, sets)]))
        evidence = row.evidence(features, plan._replace(seed=seed))
        left, right = (evidence.select(np.arange(first, len(sets), 2)) for first in (0, 1))
        common = row.common(left, right, plan)
        met = common.keys > 0
        candidates.update(dict(zip(here, met.tolist(), strict=True)))
        emitted.update(dict(zip(here, (met & (common.similarity >= config.tuning.score_min)).tolist(), strict=True)))
    return {cell: (exact[cell], candidates[cell], emitted[cell]) for cell in cells}


@pytest.mark.long
@pytest.mark.parametrize("union", SEEDS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("scheme", SKETCHED)
def test_candidates_follow_the_s_curve(scheme: str, similarity: float, union: int) -> None:
    """The number of candidates is within exact binomial tails of one in ten million on both sides."""
    config = Config(scheme=scheme)
    exact, candidates, _ = counts_of(scheme, config, CURVE)[union, similarity, SEEDS[union]]
    tuning = config.tuning
    p = float(candidate_probability(exact, tuning.bands, tuning.rows, tuning.sketch_bits))
    assert tail_below(SEEDS[union], p, candidates) > NEVER, (exact, p, candidates)
    assert tail_above(SEEDS[union], p, candidates) > NEVER, (exact, p, candidates)


@pytest.mark.long
@pytest.mark.parametrize("union", SEEDS)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("scheme", quick_first(SKETCHED, 1))
def test_emitted_pairs_keep_the_promise(scheme: str, similarity: float, union: int) -> None:
    """From the threshold on, at least as many pairs as the curve says; below ``score_min``, at most as many.

    Rows of one permutation vary less than independent rows, most of all for small sets, which is better on both sides.
    """
    config = Config(scheme=scheme)
    exact, _, emitted = counts_of(scheme, config, CURVE)[union, similarity, SEEDS[union]]
    tuning = config.tuning
    p = float(emission_probability(exact, tuning.bands, tuning.rows, tuning.agreements_min, tuning.sketch_bits))
    if exact >= config.threshold:
        assert p >= config.recall
        assert tail_below(SEEDS[union], p, emitted) > NEVER, (exact, p, emitted)
    if exact <= tuning.score_min:
        assert tail_above(SEEDS[union], p, emitted) > NEVER, (exact, p, emitted)


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 0.6, "recall": 0.9},
        {"threshold": 0.9, "recall": 0.99},
        {"threshold": 0.5, "recall": 0.9, "sketch_bits": 16},
        {"threshold": 0.7, "sketch_bits": 32, "rows_max": 256},
        {"threshold": 1.0, "recall": 0.999},
    ],
    ids=str,
)
@pytest.mark.parametrize("scheme", SKETCHED)
def test_the_requested_recall_is_the_recall_at_the_threshold(scheme: str, settings: dict[str, float]) -> None:
    """Pairs at the threshold are emitted with the requested recall, for every threshold, recall, bits and rows."""
    config = Config(scheme=scheme, **settings)
    cells = tuple((union, config.threshold, 600) for union in (20, 500))
    for (union, *_), (exact, _, emitted) in counts_of(scheme, config, cells).items():
        assert exact == config.threshold
        assert tail_below(600, config.recall, emitted) > NEVER, (union, emitted)


@pytest.mark.parametrize("similarity", quick_first([0.8, 0.1, 0.0, 0.5], 1))
@pytest.mark.parametrize("scheme", SKETCHED)
def test_estimates_are_unbiased(scheme: str, similarity: float) -> None:
    """The mean of ten thousand pairs of random sets would show agreement by chance, which is .4% of the rows.

    At similarity 0 an estimate cannot fall below 0, so there the test counts equal rows.
    """
    row, plan, union, count = SCHEMES[scheme], Config(scheme=scheme).plan, 100, 10_000
    common = round(similarity * union)
    elements = np.random.default_rng(7).integers(0, 2**64, (count, union), np.uint64)
    half = (union - common) // 2
    sets = [part for e in elements for part in (e[: common + half], np.append(e[:common], e[common + half :]))]
    evidence = row.evidence(Features(np.concatenate(sets), np.cumsum([0, *map(len, sets)])), plan)
    left, right = (evidence.select(np.arange(first, 2 * count, 2)) for first in (0, 1))
    found = row.common(left, right, plan).similarity
    if similarity:
        spread = (similarity * (1 - similarity) / plan.signature_rows / count) ** 0.5
        assert abs(found.mean() - similarity) <= 5 * spread
    else:
        equal = int((left.fixed == right.fixed).sum())
        rows = count * plan.signature_rows
        assert abs(equal - rows / 256) <= 5 * (rows / 256) ** 0.5


def generated(seed: int) -> list[Document]:
    """A hundred and twenty texts in families, edited by up to a third."""
    rng = random.Random(seed)
    words = [f"w{rng.getrandbits(40):x}" for _ in range(2_000)]
    out: list[list[str]] = []
    for n in range(120):
        text = rng.choices(words, k=rng.randint(20, 120)) if n % 4 == 0 else list(rng.choice(out[-8:]))
        for at in rng.sample(range(len(text)), rng.randint(0, len(text) // 12)):
            text[at] = rng.choice(words)
        out.append(text)
    return [Document(str(n), " ".join(text)) for n, text in enumerate(out)]


@cache
def truth_of(seed: int, shingles: str) -> tuple[Corpus, list[Hashes], list[int], PairsOf]:
    """A generated corpus with its distinct contents, as ``Corpus.distinct`` gives them, and all pairs of them."""
    config = Config(shingles=shingles)
    truth = corpus(generated(seed), config)
    sets, firsts = truth.distinct()
    return truth, sets, firsts, all_pairs(sets, config.threshold)


@pytest.mark.long
def test_the_oracle_by_prefixes_finds_what_all_pairs_find() -> None:
    """On generated sets of all sizes, at several thresholds, both give the same pairs and similarities."""
    rng = np.random.default_rng(5)
    for threshold in (0.2, 0.5, 0.8, 1.0):
        pool = rng.integers(0, 2**64, 60, np.uint64)
        sets = [np.unique(rng.choice(pool, rng.integers(1, 40))) for _ in range(150)]
        sets += [np.unique(np.append(x[1:], pool[0])) for x in sets[:80]]
        found = all_pairs(sets, threshold)
        assert found
        assert joined_pairs(sets, threshold) == found


def test_the_oracle_knows_the_similarity_of_sets() -> None:
    """Against Python's own sets."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        a, b = (np.unique(rng.integers(0, 30, rng.integers(1, 25)).astype(np.uint64)) for _ in range(2))
        x, y = set(a.tolist()), set(b.tolist())
        assert jaccard(a, b) == len(x & y) / len(x | y)


@pytest.mark.long
@pytest.mark.parametrize("shingles", ["chars", "words"])
@pytest.mark.parametrize("scheme", SKETCHED)
def test_a_stream_finds_what_brute_force_finds(scheme: str, shingles: str) -> None:
    """On sixteen generated corpora, the promised fraction of all pairs of distinct contents is emitted.

    The number of candidates agrees with their probabilities. The estimate of each emitted pair is within the binomial
    tails of its true similarity.
    """
    wanted = found = 0
    for seed in range(16):
        config = Config(scheme=scheme, shingles=shingles, seed=seed + 1)
        truth, sets, firsts, exact = truth_of(seed, shingles)
        place = {truth.documents[i].id: n for n, i in enumerate(firsts)}
        pairs = Deduplicator(config).process([truth.documents[i] for i in firsts])
        emitted = {(place[pair.older], place[pair.newer]): pair.similarity for pair in pairs}
        wanted += len(exact)
        found += len(exact.keys() & emitted.keys())
        for (i, j), estimate in emitted.items():
            similarity = jaccard(sets[i], sets[j])
            q = float(row_agreement(similarity, config.tuning.sketch_bits))
            rows = config.plan.signature_rows
            equal = round(rows * (estimate + (1 - estimate) * 2.0**-config.tuning.sketch_bits))
            assert tail_above(rows, q, equal) > NEVER, (seed, similarity, estimate)
            assert tail_below(rows, q, equal) > NEVER, (seed, similarity, estimate)
    assert wanted > 300
    assert tail_below(wanted, config.recall, found) > NEVER, (wanted, found)
