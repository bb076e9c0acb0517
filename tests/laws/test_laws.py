"""Laws of signing, for every case: evidence, contents and keys of a document."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cases import (
    CASES,
    EXCLUDED,
    FEW,
    OF_TEXTS,
    OTHER_ELEMENTS,
    QUICK,
    SCHEME_REASONS,
    SLOW_LAWS,
    Case,
    every_case,
    same,
)
from import_path import folders

from neardup import Document, Signer
from neardup.documents.document import Features
from neardup.pairs.batches import bucket_keys
from neardup.pairs.pipeline import Matcher, match_step
from neardup.schemes.interface import Keys
from neardup.schemes.rows import SCHEMES

# A program that prints a digest of the contents, evidence and keys of each case.
SIGN = """
import hashlib, random
import numpy as np
import pytest
from cases import CASES
from neardup import Signer
from neardup.pairs.batches import bucket_keys
from neardup.schemes.rows import SCHEMES
for case in CASES.values():
    config = case.config()
    batch = Signer(config).sign(case.stream(random.Random(1), 50)).batch
    keys = bucket_keys(batch, config)
    columns = batch.contents, *batch.evidence, *keys
    digest = hashlib.blake2b(b"".join(np.ascontiguousarray(c).tobytes() for c in columns), digest_size=8)
    print(case.name, config.signing_fingerprint, config.matching_fingerprint, digest.hexdigest())
"""


def streams(case: Case, seed: int, size: int = 120) -> list[Document]:
    return case.stream(random.Random(seed), size)


def features_of(case: Case, seed: int, size: int = 120) -> Features:
    config = case.config()
    return SCHEMES[config.scheme].features(streams(case, seed, size), config.plan).features


def sets_of_keys(keys: Keys) -> list[list[int]]:
    return [keys.values[first:end].tolist() for first, end in pairwise(keys.starts)]


def test_an_exclusion_names_a_law_a_case_and_a_reason() -> None:
    """A misspelled name cannot exclude a law, or make it run on all cases."""
    laws = {
        name
        for path in Path(__file__).parents[1].rglob("test_*.py")
        for name in re.findall(r"^def (\w+)", path.read_text(), re.M)
    }
    assert {law for law, _ in EXCLUDED} | SLOW_LAWS | OF_TEXTS <= laws
    assert {case for _, case in EXCLUDED} | QUICK | FEW | OTHER_ELEMENTS <= CASES.keys()
    assert min(len(reason.split()) for reason in EXCLUDED.values()) > 3


def test_every_scheme_has_a_case() -> None:
    """So every law is run on it."""
    assert {case.config().scheme for case in CASES.values()} == set(SCHEMES)


def test_the_reasons_that_no_text_is_refused_with_are_met_where_they_should_be() -> None:
    """The file of tests in the table produces each of these reasons."""
    files = {path.name: path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py")}
    for reason, file in SCHEME_REASONS.items():
        assert f'"{reason}"' in files[file], reason


@every_case
def test_no_input_is_changed(case: Case) -> None:
    """No function of a scheme and no table changes features, evidence or a batch."""
    config = case.config()
    row = SCHEMES[config.scheme]
    features = features_of(case, 6)
    batch = Signer(config).sign(streams(case, 6, 50)).batch
    watched = [*features, *batch]
    before = [array.copy() for array in watched]
    row.contents(features)
    evidence = row.evidence(features, config.plan)
    evidence_before = [column.copy() for column in evidence]
    row.keys(evidence, config.plan)
    row.common(evidence, evidence, config.plan)
    matcher = Matcher(config)
    match_step(matcher, batch)
    matcher.match(batch, add=False)
    assert same(watched, before)
    assert same(evidence, evidence_before)


@every_case
def test_a_batch_signs_as_one_by_one_does(case: Case) -> None:
    """The other documents of a batch and the place in the buffers make no difference."""
    documents = streams(case, 7)
    signer = Signer(case.config())
    whole = signer.sign(documents)
    single = [signer.sign([document]) for document in documents]
    assert whole.batch.contents.tolist() == [c for one in single for c in one.batch.contents.tolist()]
    assert whole.batch.fixed.tolist() == [e for one in single for e in one.batch.fixed.tolist()]
    assert whole.batch.ragged.tobytes() == b"".join(one.batch.ragged.tobytes() for one in single)
    lengths = [one.batch.ragged_starts[-1] for one in single if one.batch.size]
    assert np.diff(whole.batch.ragged_starts).tolist() == lengths
    assert [r.reason for r in whole.refusals] == [r.reason for one in single for r in one.refusals]


@every_case
def test_evidence_has_the_width_that_the_scheme_says(case: Case) -> None:
    """Each column has a row for each item; contents have two halves."""
    config = case.config()
    row, features = SCHEMES[config.scheme], features_of(case, 8)
    count = len(features.starts) - 1
    assert np.diff(features.starts).min() > 0
    evidence = row.evidence(features, config.plan)
    assert evidence.fixed.shape == (count, config.plan.width)
    assert len(evidence.starts) == count + 1
    assert evidence.starts[-1] == len(evidence.ragged)
    assert row.contents(features).shape == (count, 2)
    keys = row.keys(evidence, config.plan)
    assert len(keys.starts) == count + 1
    assert keys.starts[-1] == len(keys.values)
    assert len(keys.payloads) in (0, len(keys.values))


@pytest.mark.processes
def test_the_same_seed_gives_the_same_keys_in_another_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Python seeds its own hash differently in each process; keys and fingerprints are the same."""
    exec(SIGN, {})
    here = capsys.readouterr().out
    path = os.pathsep.join([*folders("support"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", SIGN], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == here
    assert len(here.splitlines()) == len(CASES)


@every_case
def test_the_evidence_knows_the_common_keys(case: Case) -> None:
    """Evidence gives how many keys of the newer text the older one adds, for near pairs and for others."""
    config = case.config()
    row = SCHEMES[config.scheme]
    evidence = row.evidence(features_of(case, 9, 400), config.plan)
    count = len(evidence.starts) - 1
    rng = np.random.default_rng(9)
    left, right = rng.integers(0, count, (2, 20 * count))
    common = row.common(evidence.select(left), evidence.select(right), config.plan)
    keys = row.keys(evidence, config.plan)
    probed = sets_of_keys(keys)
    added = [set(own[:count]) for own, count in zip(probed, keys.counts_added.tolist(), strict=True)]
    counts = []
    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        counts.append(sum(key in added[b] for key in probed[a]))
    assert common.keys.tolist() == counts
    assert 0 < sum(count > 0 for count in counts) < len(counts)
    assert common.similarity.min() >= 0
    assert common.similarity.max() <= 1


@every_case
def test_an_item_without_a_key_has_its_content_for_one(case: Case) -> None:
    """So every item has a place in some partition."""
    config = case.config()
    batch = Signer(config).sign(streams(case, 10)).batch
    keys = bucket_keys(batch, config)
    own = sets_of_keys(SCHEMES[config.scheme].keys(batch.evidence, config.plan))
    for i, held in enumerate(sets_of_keys(keys)):
        assert held == (own[i] or [int(batch.contents[i, 0])])


@every_case
def test_a_copy_is_a_pair_of_similarity_1(case: Case) -> None:
    """The same document under another id is a pair in both orders."""
    documents = streams(case, 11, 60)
    config = case.config()
    for document in documents:
        signed = Signer(config).sign([document, document._replace(id="copy")])
        if signed.refusals:
            continue
        matches = match_step(Matcher(config), signed.batch)
        assert (matches.older, matches.newer) == ([document.id], ["copy"])
        assert matches.similarity.tolist() == [1.0]
