"""Laws of schemes with infinite rows: their own S-curve at every size of sets, and no bias in the estimate."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from cases import PARTIAL, PARTIAL_CASES, Case, parameters, prose
from oracle import NEVER, pair_of_sets, tail_above, tail_below

from neardup import Config, Deduplicator, Document, Signer
from neardup.documents.document import Features
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import candidate_probability, pass_probability, row_agreement

BOUND = 5.0  # standard deviations


def pairs_of_sets(union: int, similarity: float, seeds: range) -> tuple[Features, float]:
    """Two consecutive sets for each seed, and their exact similarity."""
    found = [pair_of_sets(union, similarity, seed) for seed in seeds]
    parts = [part for a, b, _ in found for part in (a, b)]
    return Features(np.concatenate(parts), np.cumsum([0, *map(len, parts)])), found[0][2]


def sketches_of_pairs(
    union: int, similarity: float, scheme: str, seeds: range
) -> tuple[SetPlan, np.ndarray, np.ndarray, float]:
    """Sketches of both sides, a row for each seed and pair, and the exact similarity."""
    features, exact = pairs_of_sets(union, similarity, seeds)
    plan = Config(scheme=scheme).plan
    fixed = SCHEMES[scheme].evidence(features, plan).fixed
    return plan, fixed[0::2], fixed[1::2], exact


@pytest.mark.parametrize("union", [1, 5, 30, 100, 1000])
@pytest.mark.parametrize("scheme", PARTIAL)
def test_a_row_is_infinite_as_often_as_its_part_is_empty(scheme: str, union: int) -> None:
    """A row is infinite in both sets with probability (1 - 1 / groups)^union, as its guarantee says."""
    plan, a, b, _ = sketches_of_pairs(union, 0.8, scheme, range(300))
    nothing = ((a == 0) & (b == 0)).mean()
    chance = (1 - 1 / plan.groups) ** union
    # The bound counts all rows of a pair as one observation.
    assert abs(nothing - chance) <= BOUND * math.sqrt(chance * (1 - chance) / 300) + 1e-9


@pytest.mark.parametrize("similarity", [0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("scheme", PARTIAL)
def test_large_sets_follow_the_s_curve_of_whole_sketches(scheme: str, similarity: float) -> None:
    """With 3,000 elements no row is infinite; candidates and emitted pairs lie within exact binomial tails."""
    config, seeds = Config(scheme=scheme), 300
    row, plan, tuning = SCHEMES[scheme], config.plan, config.tuning
    features, exact = pairs_of_sets(3000, similarity, range(seeds))
    evidence = row.evidence(features, plan)
    common = row.common(evidence.select(np.arange(0, 600, 2)), evidence.select(np.arange(1, 600, 2)), plan)
    met = common.keys > 0
    p = float(candidate_probability(exact, tuning.bands, tuning.rows, tuning.sketch_bits))
    assert tail_below(seeds, p, int(met.sum())) > NEVER
    assert tail_above(seeds, p, int(met.sum())) > NEVER
    emitted = int((met & (common.similarity >= tuning.score_min)).sum())
    if exact >= config.threshold:
        assert tail_below(seeds, config.recall, emitted) > NEVER, emitted
    if exact <= 0.6:
        assert emitted < seeds * config.recall / 10


@pytest.mark.parametrize("union", [100, 300])
def test_partial_rows_keep_the_promise_from_a_hundred_elements_on(union: int) -> None:
    """With eight parts of the universe: a row is infinite less than once in 500,000."""
    config, seeds = Config(scheme="partial_minhash"), 400
    row, plan = SCHEMES["partial_minhash"], config.plan
    features, exact = pairs_of_sets(union, config.threshold, range(seeds))
    assert exact == config.threshold
    evidence = row.evidence(features, plan)
    common = row.common(evidence.select(np.arange(0, 800, 2)), evidence.select(np.arange(1, 800, 2)), plan)
    emitted = int(((common.keys > 0) & (common.similarity >= config.tuning.score_min)).sum())
    assert tail_below(seeds, config.recall, emitted) > NEVER, emitted


@pytest.mark.parametrize("union", [60, 200, 600])
def test_a_grouped_pair_meets_as_often_as_its_bands_are_whole(union: int) -> None:
    """The rows of two sets are finite and equal with probability (1 - e) q, where e is the probability of an empty
    part.

    An element of one permutation is in one row only, so rows are not independent: the fraction of candidates differs
    from the curve of independent rows by at most .1.
    """
    scheme, seeds = "grouped", 400
    config = Config(scheme=scheme)
    row, plan, tuning = SCHEMES[scheme], config.plan, config.tuning
    features, exact = pairs_of_sets(union, 0.9, range(seeds))
    evidence = row.evidence(features, plan)
    common = row.common(evidence.select(np.arange(0, 800, 2)), evidence.select(np.arange(1, 800, 2)), plan)
    empty = (1 - 1 / plan.groups) ** union
    agree = (1 - empty) * float(row_agreement(exact, tuning.sketch_bits))
    expected = float(pass_probability(agree**tuning.rows, 1, tuning.bands))
    assert (common.keys > 0).mean() == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("union", [10, 50, 500])
@pytest.mark.parametrize("scheme", PARTIAL)
def test_estimates_are_unbiased_for_any_infinite_rows(scheme: str, union: int, similarity: float) -> None:
    """Each compared row has the same weight; the mean error of 400 pairs is within five standard deviations, with an
    allowance for estimates that are raised to 0."""
    row, plan = SCHEMES[scheme], Config(scheme=scheme).plan
    features, exact = pairs_of_sets(union, similarity, range(400))
    evidence = row.evidence(features, plan)
    a, b = evidence.select(np.arange(0, 800, 2)), evidence.select(np.arange(1, 800, 2))
    compared = ((a.fixed != 0) | (b.fixed != 0)).sum(axis=1)
    found = row.common(a, b, plan).similarity
    assert (
        abs((found * compared).sum() / compared.sum() - exact)
        <= BOUND * math.sqrt(exact * (1 - exact) / compared.sum()) + 0.002
    )


@pytest.mark.parametrize("case", parameters(PARTIAL_CASES))
def test_a_twin_is_always_found_in_all_bands_that_are_whole(case: Case) -> None:
    """The same text under another id is found, by its content if no band is whole."""
    rng = random.Random(9)
    config = case.config()
    row, counts = SCHEMES[config.scheme], set()
    for words in [1, 2, 3, 5, 20, 50, 100, 200, 300, 500, 4000]:
        twins = [Document(id_, " ".join(prose(rng, words))) for id_ in "a"]
        twins.append(twins[0]._replace(id="b"))
        (pair,) = Deduplicator(config).process(twins)
        own = row.keys(Signer(config).sign(twins[:1]).batch.evidence, config.plan)
        assert tuple(pair) == ("a", "b", 1.0, max(len(own.values), 1))
        counts.add(pair.buckets)
    assert {1, config.tuning.bands} < counts
