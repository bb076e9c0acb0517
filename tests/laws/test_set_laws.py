"""Laws of signed texts under the schemes that sketch sets, for every kind of shingles."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
from cases import Case, every_set_case, prose, random_stream, same
from oracle import NEVER, jaccard, shingles_of, tail_above, tail_below

from neardup import Config, Deduplicator, Document
from neardup.documents.document import Features
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import row_agreement


def features_of(config: Config, seed: int, count: int = 20) -> Features:
    rng = random.Random(seed)
    return shingles_of([" ".join(prose(rng, rng.randint(1, 60))) + " the end" for _ in range(count)], config)


def rearranged(features: Features, seed: int, repeat: bool) -> Features:
    """Each item's shingles in another order; with ``repeat`` some of them several times."""
    rng = np.random.default_rng(seed)
    parts = []
    for first, end in pairwise(features.starts):
        values = features.values[first:end]
        if repeat:
            values = np.concatenate([values, rng.choice(values, len(values) * 2)])
        parts.append(rng.permutation(values))
    return Features(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))


@every_set_case
def test_the_order_of_shingles_makes_no_difference(case: Case) -> None:
    """Contents, evidence and keys stay the same."""
    config, row = case.config(), SCHEMES[case.settings["scheme"]]
    features = features_of(config, 1)
    other = rearranged(features, 2, repeat=False)
    assert not np.array_equal(features.values, other.values)
    assert np.array_equal(row.contents(features), row.contents(other))
    assert same(row.evidence(features, config.plan), row.evidence(other, config.plan))


@every_set_case
def test_repeated_shingles_make_no_difference_to_evidence(case: Case) -> None:
    """Repetitions change the content, a hash of the bag; they do not change the evidence, a sketch of the set."""
    config, row = case.config(), SCHEMES[case.settings["scheme"]]
    features = features_of(config, 3)
    other = rearranged(features, 4, repeat=True)
    assert same(row.evidence(features, config.plan), row.evidence(other, config.plan))
    assert not (row.contents(features) == row.contents(other)).all(axis=1).any()


@every_set_case
def test_contents_are_equal_exactly_for_equal_bags(case: Case) -> None:
    """128 bits distinguish all bags of a stream with many copies."""
    config, row = case.config(), SCHEMES[case.settings["scheme"]]
    texts = [x.text for x in random_stream(random.Random(5), 400, copies=0.5)]
    features = shingles_of(texts, config)
    bags = [np.sort(features.values[first:end]).tobytes() for first, end in pairwise(features.starts)]
    contents = [tuple(pair) for pair in row.contents(features).tolist()]
    assert len(set(bags)) == len(set(contents)) == len(set(zip(bags, contents, strict=True)))


@every_set_case
def test_another_seed_gives_other_keys(case: Case) -> None:
    """No key is equal under both seeds, and rows of the evidence agree only by chance."""
    row, features = SCHEMES[case.settings["scheme"]], features_of(case.config(), 8)
    plans = [case.config(seed=seed).plan for seed in (1, 2)]
    first, second = (row.evidence(features, plan) for plan in plans)
    keys = [
        set(row.keys(evidence, plan).values.tolist()) for evidence, plan in zip((first, second), plans, strict=True)
    ]
    assert not keys[0] & keys[1]
    assert (first.fixed == second.fixed).mean() < 0.05


@every_set_case
def test_a_twin_is_always_found(case: Case) -> None:
    """The same text under another id, as a pair of similarity 1 in every band, unless it is refused."""
    rng = random.Random(9)
    config = case.config()
    texts = [" ".join(prose(rng, rng.choice([1, 2, 3, 5, 20, 200]))) for _ in range(60)]
    texts += ["the", "漢字を書くのが好きです the", "!?", "\0", "a" * 5000, "the a " * 2000]
    for text in texts:
        dedup = Deduplicator(config)
        pairs = dedup.process([Document("a", text), Document("b", text)])
        refused = [refusal.reason for refusal in dedup.refusals]
        if refused:
            assert (pairs, refused) == ([], ["no_shingles", "no_shingles"]), text
        else:
            assert [tuple(pair) for pair in pairs] == [("a", "b", 1.0, config.tuning.bands)], text


@every_set_case
def test_where_a_text_is_changed_makes_no_difference(case: Case) -> None:
    """A prepended word or swapped halves change the estimate only as they change J: the position has no influence.

    Each estimate is within the exact binomial tails around its own J, and the estimates together have no bias.
    """
    config, row = case.config(), SCHEMES[case.settings["scheme"]]
    rng = random.Random(10)
    words = [prose(rng, rng.choice([30, 80, 300])) for _ in range(150)]
    changes = {
        "a word prepended": [["zebra", *text] for text in words],
        "a stop word prepended": [["the", *text] for text in words],
        "halves swapped": [text[len(text) // 2 :] + text[: len(text) // 2] for text in words],
    }
    before = row.evidence(shingles_of([" ".join(text) for text in words], config), config.plan)
    sets = sets_of([" ".join(text) for text in words], config)
    for change, changed in changes.items():
        texts = [" ".join(text) for text in changed]
        after = row.evidence(shingles_of(texts, config), config.plan)
        exact = np.array([jaccard(a, b) for a, b in zip(sets, sets_of(texts, config), strict=True)])
        estimates = row.common(before, after, config.plan).similarity
        assert_estimates(config, estimates, exact, change)


def sets_of(texts: list[str], config: Config) -> list[np.ndarray]:
    values, starts = shingles_of(texts, config)
    return [np.unique(values[first:end]) for first, end in pairwise(starts)]


def assert_estimates(config: Config, estimates: np.ndarray, exact: np.ndarray, what: str) -> None:
    rows, bits = config.plan.signature_rows, config.tuning.sketch_bits
    for estimate, similarity in zip(estimates.tolist(), exact.tolist(), strict=True):
        q = float(row_agreement(similarity, bits))
        equal = round(rows * (estimate + (1 - estimate) * 2.0**-bits))
        assert tail_below(rows, q, equal) > NEVER, (what, estimate, similarity)
        assert tail_above(rows, q, equal) > NEVER, (what, estimate, similarity)
    spread = (exact * (1 - exact) / rows).sum() ** 0.5 / len(exact)
    # The errors of one seed are not quite independent: many texts are made of the same words.
    assert abs((estimates - exact).mean()) <= 6 * spread + 1e-12, what
