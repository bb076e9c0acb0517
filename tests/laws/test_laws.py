"""Laws of what a document becomes: evidence, contents and keys, for every scheme and every kind of shingles."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from cases import EXCLUDED, config_of, every_case, prose, random_stream
from oracle import NEVER, jaccard, pair_of_sets, shingles_of, tail_above, tail_below

from stream import Config, Deduplicator, Document, Signer
from stream.pipeline import Matcher, match_step
from stream.schemes import SCHEMES
from stream.shingles import SHINGLES, Shingles
from stream.tuning import row_agreement

# Prints a digest of the contents, evidence and keys of each case, in a process of its own.
SIGN = """
import hashlib
import numpy as np
from stream import Config, Document, Signer
from stream.schemes import SCHEMES
from stream.shingles import SHINGLES
documents = [Document(str(n), f"the {n} and the rain of Göteborg {n % 3}, it is in the north") for n in range(50)]
for scheme in SCHEMES:
    for shingles in SHINGLES:
        config = Config(scheme=scheme, shingles=shingles)
        batch = Signer(config).sign(documents).batch
        keys = SCHEMES[scheme].keys(batch.evidence, config.plan)
        columns = batch.contents, batch.evidence, keys
        digest = hashlib.blake2b(b"".join(np.ascontiguousarray(c).tobytes() for c in columns), digest_size=8)
        print(scheme, shingles, config.signing_fingerprint, config.matching_fingerprint, digest.hexdigest())
"""


def features_of(config: Config, seed: int, count: int = 20) -> Shingles:
    rng = random.Random(seed)
    return shingles_of([" ".join(prose(rng, rng.randint(1, 60))) + " the end" for _ in range(count)], config)


def rearranged(features: Shingles, seed: int, repeat: bool) -> Shingles:
    """Each item's shingles in another order; with ``repeat`` some of them several times."""
    rng = np.random.default_rng(seed)
    parts = []
    for first, end in pairwise(features.starts):
        values = features.values[first:end]
        if repeat:
            values = np.concatenate([values, rng.choice(values, len(values) * 2)])
        parts.append(rng.permutation(values))
    return Shingles(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))


def test_an_exclusion_names_a_law_a_row_and_a_reason() -> None:
    """No law is left out by a slip of the pen."""
    for (_, scheme, shingles), reason in EXCLUDED.items():
        assert scheme in SCHEMES
        assert shingles in SHINGLES
        assert len(reason.split()) > 3


@every_case
def test_the_order_of_shingles_makes_no_difference(scheme: str, shingles: str) -> None:
    """To contents, evidence and keys."""
    config, row = config_of(scheme, shingles), SCHEMES[scheme]
    features = features_of(config, 1)
    other = rearranged(features, 2, repeat=False)
    assert not np.array_equal(features.values, other.values)
    assert np.array_equal(row.contents(features), row.contents(other))
    assert np.array_equal(row.evidence(features, config.plan), row.evidence(other, config.plan))


@every_case
def test_repeated_shingles_make_no_difference_to_evidence(scheme: str, shingles: str) -> None:
    """The evidence is that of the set; the content is that of the bag, so it does differ."""
    config, row = config_of(scheme, shingles), SCHEMES[scheme]
    features = features_of(config, 3)
    other = rearranged(features, 4, repeat=True)
    assert np.array_equal(row.evidence(features, config.plan), row.evidence(other, config.plan))
    assert not (row.contents(features) == row.contents(other)).all(axis=1).any()


@every_case
def test_contents_are_equal_exactly_for_equal_bags(scheme: str, shingles: str) -> None:
    """128 bits tell all bags of a stream with many copies apart."""
    config, row = config_of(scheme, shingles), SCHEMES[scheme]
    texts = [x.text for x in random_stream(random.Random(5), 400, copies=0.5)]
    features = shingles_of(texts, config)
    bags = [np.sort(features.values[first:end]).tobytes() for first, end in pairwise(features.starts)]
    contents = [tuple(pair) for pair in row.contents(features).tolist()]
    assert len(set(bags)) == len(set(contents)) == len(set(zip(bags, contents, strict=True)))


@every_case
def test_no_input_is_changed(scheme: str, shingles: str) -> None:
    """Neither shingles nor evidence nor a batch, by any function of the row or by a table."""
    config, row = config_of(scheme, shingles), SCHEMES[scheme]
    features = features_of(config, 6)
    batch = Signer(config).sign(random_stream(random.Random(6), 50)).batch
    watched = [*features, *batch]
    before = [array.copy() for array in watched]
    row.contents(features)
    evidence = row.evidence(features, config.plan)
    evidence_before = evidence.copy()
    row.keys(evidence, config.plan)
    row.common(evidence[:-1], evidence[1:], config.plan)
    matcher = Matcher(config)
    match_step(matcher, batch)
    match_step(matcher, batch, add=False)
    assert all(np.array_equal(a, b) for a, b in zip(watched, before, strict=True))
    assert np.array_equal(evidence, evidence_before)


@every_case
def test_a_batch_signs_as_one_by_one_does(scheme: str, shingles: str) -> None:
    """Whatever is signed or refused beside a document, and wherever its text stands in the buffers."""
    config = config_of(scheme, shingles)
    documents = random_stream(random.Random(7), 120)
    signer = Signer(config)
    whole = signer.sign(documents)
    single = [signer.sign([document]) for document in documents]
    assert whole.batch.contents.tolist() == [c for one in single for c in one.batch.contents.tolist()]
    assert whole.batch.evidence.tolist() == [e for one in single for e in one.batch.evidence.tolist()]
    assert [r.reason for r in whole.refusals] == [r.reason for one in single for r in one.refusals]


def test_the_same_seed_gives_the_same_keys_in_another_process() -> None:
    """Whatever Python's own hash is seeded with; and the same fingerprints."""
    outputs = []
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", SIGN], env=environment, capture_output=True, text=True, check=True)
        outputs.append(run.stdout)
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == len(SCHEMES) * len(SHINGLES)


@every_case
def test_another_seed_gives_other_keys(scheme: str, shingles: str) -> None:
    """Not one of them is shared, and rows of the evidence agree no more than by chance."""
    row, features = SCHEMES[scheme], features_of(config_of(scheme, shingles), 8)
    plans = [config_of(scheme, shingles, seed=seed).plan for seed in (1, 2)]
    first, second = (row.evidence(features, plan) for plan in plans)
    keys = [
        set(row.keys(evidence, plan).ravel().tolist()) for evidence, plan in zip((first, second), plans, strict=True)
    ]
    assert not keys[0] & keys[1]
    assert (first == second).mean() < 0.05


@every_case
def test_a_twin_is_always_found(scheme: str, shingles: str) -> None:
    """The same text under another id, as a pair of similarity 1 in every band, unless it is refused."""
    rng = random.Random(9)
    config = config_of(scheme, shingles)
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


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_items_agree_on_a_band_exactly_when_their_keys_are_equal(scheme: str, bits: int) -> None:
    """So who has the evidence has the keys: how many are common, and which is the first."""
    row, config = SCHEMES[scheme], Config(scheme=scheme, sketch_bits=bits)
    plan = config.plan
    parts = [part for seed in range(300) for part in pair_of_sets(60, 0.5 + seed % 50 / 100, seed)[:2]]
    features = Shingles(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
    evidence = row.evidence(features, plan)
    a, b = evidence[0::2], evidence[1::2]
    common = row.common(a, b, plan)
    equal = row.keys(a, plan) == row.keys(b, plan)
    assert common.keys.tolist() == equal.sum(axis=1).tolist()
    assert common.first_key.tolist() == [int(e.argmax()) if e.any() else -1 for e in equal]
    assert 0 < equal.any(axis=1).sum() < len(equal)
    across = row.common(a, np.roll(b, 1, axis=0), plan)
    assert across.keys.tolist() == (row.keys(a, plan) == np.roll(row.keys(b, plan), 1, axis=0)).sum(axis=1).tolist()


@every_case
def test_where_a_text_is_changed_makes_no_difference(scheme: str, shingles: str) -> None:
    """A word prepended, or halves swapped, moves the estimate only as it moves J: position means nothing.

    Each estimate within the exact binomial tails around its own J, and no bias over all of them.
    """
    config, row = config_of(scheme, shingles), SCHEMES[scheme]
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
