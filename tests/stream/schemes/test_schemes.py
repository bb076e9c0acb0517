"""Schemes: the table has its fields, and what a document becomes in each has known answers."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest
from cases import SKETCHED
from oracle import shingles_of
from reference import code_points, content, keys, kgrams, minhash, one_permutation, permutation, sketch

from neardup import Config, Deduplicator
from neardup.features.texts.shingles import SHINGLES
from neardup.features.tokens.verify import SET_MEASURES
from neardup.schemes.kinds.set_options import SHINGLE_BYTES
from neardup.schemes.parameters import VECTOR_MEASURE_NAMES
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import SKETCH_BITS
from neardup_textbook.kinds.vector_measures import VECTOR_MEASURES
from neardup_textbook.kinds.vector_options import VECTOR_EVIDENCE
from neardup_textbook.signatures.hyperplanes import PLANES

TEXT = "The quick brown fox jumps over the lazy dog"
# Scheme -> its signature in plain integers.
SIGNATURES = {"one_permutation": one_permutation, "minhash": minhash, "permutation": permutation}
# Scheme -> first key, last key, 64 bits of a digest of the evidence, for TEXT and the defaults.
KNOWN = {
    "one_permutation": (12571427307518320995, 17602467638914613738, "99d60094c3aab455"),
    "minhash": (254886072300507836, 7321862317752661730, "c6af6c958be3f917"),
    "permutation": (9202123565161956070, 15785017646825337327, "730dfd75fc388764"),
}
KNOWN_CONTENT = (14998792515697226871, 1565515109401548512)


def signed(scheme: str, text: str) -> tuple[list[int], bytes, tuple[int, int]]:
    config, row = Config(scheme=scheme), SCHEMES[scheme]
    features = shingles_of([text], config)
    evidence = row.evidence(features, config.plan)
    contents = row.contents(features)[0].tolist()
    return row.keys(evidence, config.plan).values.tolist(), evidence.fixed.tobytes(), (contents[0], contents[1])


@pytest.mark.parametrize("scheme", SKETCHED)
def test_a_document_has_known_keys_and_evidence(scheme: str) -> None:
    """A change of any hash between text and key is noticed here: then ``SIGNING_VERSION`` goes up."""
    found, evidence, _ = signed(scheme, TEXT)
    assert (found[0], found[-1], hashlib.blake2b(evidence, digest_size=8).hexdigest()) == KNOWN[scheme]


def test_a_document_has_a_known_content() -> None:
    """Equal in all schemes of shingles."""
    assert {signed(scheme, TEXT)[2] for scheme in SKETCHED} == {KNOWN_CONTENT}


@pytest.mark.parametrize("scheme", SKETCHED)
def test_a_document_becomes_what_the_definitions_say(scheme: str) -> None:
    """Text to keys in plain integers, without one line of the library."""
    shingles = kgrams(code_points(TEXT.lower()), 5)
    evidence = sketch(SIGNATURES[scheme](shingles, 126, 1), 8)
    assert signed(scheme, TEXT) == (keys(evidence, 18, 1), evidence, content(shingles))


@pytest.mark.parametrize("scheme", SKETCHED)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_arrays_have_the_shapes_of_the_plan(scheme: str, bits: int) -> None:
    """A row an item; width in bytes; contents of two words; none of them for no documents."""
    config, row = Config(scheme=scheme, sketch_bits=bits), SCHEMES[scheme]
    for texts in (["one text", "another text", TEXT], []):
        features = shingles_of(texts, config)
        evidence = row.evidence(features, config.plan)
        assert evidence.fixed.shape == (len(texts), config.plan.width)
        assert evidence.fixed.dtype == np.uint8
        assert np.diff(row.keys(evidence, config.plan).starts).tolist() == [config.tuning.bands] * len(texts)
        assert row.contents(features).shape == (len(texts), 2)
        common = row.common(evidence, evidence, config.plan)
        assert common.keys.tolist() == [config.tuning.bands] * len(texts)
        assert common.similarity.tolist() == [1.0] * len(texts)


@pytest.mark.parametrize("scheme", SKETCHED)
def test_a_row_states_its_guarantee(scheme: str) -> None:
    """In a sentence; its name is that of the algorithm, in small letters."""
    assert len(SCHEMES[scheme].guarantee.split()) > 5
    assert re.fullmatch("[a-z][a-z0-9_]*", scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_samples_of_texts_that_are_nearly_the_same_make_a_pair(scheme: str) -> None:
    """A worker compiles its kernels with them, so every scheme can read its own samples and finds a pair in them."""
    text = " ".join(f"the fox {number * 7919 % 9973} of day {number}" for number in range(80))
    example = SCHEMES[scheme].examples[0]
    config = Config(**{"scheme": scheme, "recall": 0.8, **example})
    texts = [text, text if scheme == "identical" else f"{text}s"]
    samples = [SCHEMES[scheme].sample(one, config.plan)._replace(id=str(n)) for n, one in enumerate(texts)]
    dedup = Deduplicator(config)
    assert [pair[:2] for pair in dedup.process(samples)] == [("0", "1")]
    assert not dedup.refusals


def test_examples_stand_for_every_value_of_the_settings_that_choose_a_kernel() -> None:
    """Every kind of shingles, width of sketch, measure, vector evidence and kind of planes."""
    used = {
        (name, value)
        for row in SCHEMES.values()
        for example in row.examples
        for name, value in {**example, **example.get("scheme_options", {})}.items()
        if name != "scheme_options"
    }
    choices = {
        "shingles": SHINGLES, "sketch_bits": SKETCH_BITS, "measure": SET_MEASURES, "shingle_bytes": SHINGLE_BYTES,
        "evidence": VECTOR_EVIDENCE, "planes": PLANES,
    }  # fmt: skip
    assert {(name, value) for name, values in choices.items() for value in values} <= used


def test_the_names_of_choices_are_the_keys_of_their_tables() -> None:
    """The settings name measures of vectors without loading them."""
    assert tuple(VECTOR_MEASURES) == VECTOR_MEASURE_NAMES


def test_every_scheme_is_found_in_its_file() -> None:
    """The table of schemes names files and rows; an unknown name is a KeyError, as in any table."""
    assert all(SCHEMES[name].guarantee for name in SCHEMES)
    assert "no scheme" not in SCHEMES
    with pytest.raises(KeyError):
        SCHEMES["no scheme"]
