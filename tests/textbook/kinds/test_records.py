"""The records scheme: signed records, refused records, candidates and scores."""

import hashlib
import json

import numpy as np
import pytest

from neardup import Config, Deduplicator, Document, Signer
from neardup.errors import ConfigError
from neardup.pairs.json_lines import Fields, decode_document
from neardup.schemes.interface import Evidence
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import probabilities

ROW = SCHEMES["records"]
BILL = {"name": "Bill Smith", "address": "1 Elm Street", "phone": "555 1234"}
# First keys, last key, their number, 64 bits of a digest of the evidence, the content.
KNOWN = (
    4569519225384780390,
    4052033478407931871,
    15006473003674865896,
    18,
    "e28f725973d962a1",
    [6816063283590353616, 16396668554895741422],
)


def config(**settings):
    options = {name: settings.pop(name) for name in settings.keys() & ROW.options.model_fields}
    return Config(scheme="records", scheme_options=options, **settings)


def documents(*records):
    return [Document(str(n), fields=record) for n, record in enumerate(records)]


def pairs_of(conf, *records):
    return [
        (p.older, p.newer, round(p.similarity * 300), p.buckets)
        for p in Deduplicator(conf).process(documents(*records))
    ]


def test_three_exact_keys_bring_records_together_and_the_score_tells_them_apart():
    """Equal address and phone, and Bill is William: 296 of 300. An equal name alone: 100 of 300, no pair."""
    william = {**BILL, "name": "William  SMITH"}
    other = {"name": "bill smith", "address": "77 Harbour Road", "phone": "123 9876"}
    assert pairs_of(config(), BILL, william, other) == [("0", "1", 296, 2)]
    assert pairs_of(config(threshold=0.3), BILL, william, other) == [("0", "1", 296, 2), ("0", "2", 100, 1)]


def test_records_that_share_no_key_are_never_scored():
    """One letter in each of three fields: 252 of 300, which is a match."""
    near = {"name": "Bill Smitt", "address": "1 Elm Streat", "phone": "555 1235"}
    assert pairs_of(config(), BILL, near) == []
    (found,) = pairs_of(config(shingled=("address",), rows=2), BILL, near)
    assert found[:3] == ("0", "1", 252)


def test_a_twin_is_a_pair_and_no_copy():
    """Three equal records are three pairs: they may be three entities."""
    assert len(pairs_of(config(), BILL, BILL, BILL)) == 3


def test_the_evidence_is_the_normalised_values():
    """In the order of the fields, with 0x1F between them, as UTF-8; a missing one is empty, others are left out."""
    conf = config(shingled=("name",), bands=4, rows=2)
    batch = Signer(conf).sign(documents({"phone": "555\x1f1234", "name": " ＢＩＬＬ  Élan ", "age": "7"})).batch
    assert batch.ragged.tobytes() == "bill élan\x1f\x1f555 1234".encode()
    assert batch.fixed.shape == (1, conf.plan.width) == (1, 4 * 2 * 2)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (None, "no_key"), ({}, "no_key"), ({"age": "7"}, "no_key"), ({"name": " \t"}, "no_key"),
        ({"name": "a\ud800"}, "surrogate"), ({"name": "a" * 60, "address": "b" * 50}, "text_too_long"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_used_are_refused(record, reason):
    """Each has its reason; the documents around it are signed."""
    signed = Signer(config(text_characters_max=100)).sign(documents(BILL, record, BILL))
    assert [tuple(refusal) for refusal in signed.refusals] == [(1, "1", reason)]
    assert signed.batch.size == 2


def test_a_record_needs_one_whole_key():
    """A key of several fields needs all of them; a shingled key needs its field."""
    conf = config(keys=("name+phone",), shingled=("address",))
    signed = Signer(conf).sign(documents({"name": "ann"}, {"name": "ann", "phone": "5"}, {"address": "elm"}))
    assert [refusal.position for refusal in signed.refusals] == [0]


def test_numbers_of_a_line_are_values_as_they_are_written():
    """And the id and the time are no fields of the record."""
    line = json.dumps({"id": "a", "timestamp": 5, "title": "Of sets", "year": 1999, "tags": ["x"]}).encode()
    document = decode_document(line, Fields(kind="record"))
    assert document == Document("a", timestamp=5.0, fields={"title": "Of sets", "year": "1999"})


def test_a_lower_cut_replaces_the_threshold():
    """``min_similarity`` decides what is emitted."""
    assert config(threshold=0.9).tuning.score_min == 0.9
    assert config(threshold=0.9, min_similarity=0.3).tuning.score_min == 0.3


def test_no_probability_is_promised_where_candidates_do_not_follow_from_the_similarity():
    """No number is better than a wrong one; below the cut nothing is emitted."""
    tuning = config(threshold=0.8, min_similarity=0.3).tuning
    assert tuning.exact_score
    assert np.isnan([tuning.recall, tuning.candidate_probability]).all()
    met, emitted = probabilities(tuning, np.array([0.2, 0.4]))
    assert np.isnan([*met, emitted[1]]).all()
    assert emitted[0] == 0


def test_a_bucket_of_many_is_cut_and_counted():
    """All records share a key."""
    dedup = Deduplicator(config(bucket_candidates_max=3, compared=0))
    pairs = dedup.process(documents(*[{"name": "ann"}] * 10))
    assert len(pairs) == 0 + 1 + 2 + 3 * 7
    assert dedup.counts()["cuts"] > 0


def test_a_record_has_known_keys_and_evidence():
    """A change of any hash is noticed here: then ``SIGNING_VERSION`` goes up."""
    conf = config(keys=("phone", "name+address"), shingled=("name",))
    batch = Signer(conf).sign(documents(BILL)).batch
    keys = ROW.keys(batch.evidence, conf.plan).values.tolist()
    digest = hashlib.blake2b(batch.fixed.tobytes() + batch.ragged.tobytes(), digest_size=8).hexdigest()
    assert (keys[0], keys[1], keys[-1], len(keys), digest, batch.contents[0].tolist()) == KNOWN


def test_evidence_from_elsewhere_gives_the_same_keys():
    """A copy of the columns, read-only, as they come out of a message."""
    conf = config(shingled=("name",))
    batch = Signer(conf).sign(documents(BILL, {**BILL, "name": "élan"})).batch
    copies = [np.frombuffer(column.tobytes(), column.dtype).reshape(column.shape) for column in batch.evidence]
    for one, other in zip(ROW.keys(batch.evidence, conf.plan), ROW.keys(Evidence(*copies), conf.plan), strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fields": ()}, "option fields is empty"), ({"fields": ("a:x",)}, "option fields='a:x'"),
        ({"keys": ("age",)}, "option keys names 'age'"), ({"nicknames": ("bill",)}, "two words or more"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(settings, words):
    """The configuration raises the error."""
    with pytest.raises(ConfigError, match=words):
        config(**settings)


# Words that mean that there is no value, as exports of databases, frames and spreadsheets write them.
NOTHING = (
    "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "NaN", "nan", "nil", "-", "--", "?", "Unknown", " unknown ",
    "\uff0d", "",
)  # fmt: skip


@pytest.mark.parametrize("word", NOTHING)
def test_a_word_for_nothing_is_no_value(word):
    """Two strangers that lack the same fields are no pair, and share no key; alone it is no key at all."""
    strangers = (
        {"name": "Ann Miller", "address": word, "phone": word},
        {"name": "Joe Smith", "address": word, "phone": word},
    )
    assert pairs_of(config(threshold=0.05), *strangers) == []
    signed = Signer(config()).sign(documents({"name": word}))
    assert [refusal.reason for refusal in signed.refusals] == ["no_key"]


def test_which_words_mean_nothing_is_a_setting():
    """A person may be called Null; and it is part of what was signed."""
    null = {"name": "Null", "address": "1 Elm Street", "phone": "tbd"}
    conf = config(placeholders=("tbd",))
    assert Signer(conf).sign(documents(null)).batch.ragged.tobytes() == b"null\x1f1 elm street\x1f"
    assert Signer(config()).sign(documents(null)).batch.ragged.tobytes() == b"\x1f1 elm street\x1ftbd"
    assert conf.signing_fingerprint != config().signing_fingerprint


def test_a_nearly_empty_record_is_no_best_match():
    """One equal field of three was similarity 1, more than a twin with a letter changed."""
    empty, near = {"phone": "555 1234"}, {**BILL, "name": "Bill Smitt"}
    assert [pair[:3] for pair in pairs_of(config(compared=0.3), BILL, empty)] == [("0", "1", 300)]
    assert pairs_of(config(), BILL, empty) == []
    assert [pair[:2] for pair in pairs_of(config(), BILL, near)] == [("0", "1")]
    assert config(compared=0.5).matching_fingerprint != config().matching_fingerprint
