"""The topics: names, generations, and the messages of ``candidates`` and ``documents.dead``."""

from __future__ import annotations

import base64
import itertools
import random

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import Config, Document, Matcher, Signer
from neardup.documents.document import REASONS
from neardup.pairs.pair_rule import NO_MATCHES, Matches
from neardup.pairs.pipeline import match_step
from neardup_workers.outside.topics.messages import (
    DEAD_BYTES_MAX,
    DEAD_KEY_BYTES_MAX,
    Envelope,
    encode_candidates,
    encode_dead,
    encode_removal,
    partition_of_key,
)
from neardup_workers.outside.topics.names import generation, topic_names
from neardup_workers.outside.transport.protocol import Record

ENVELOPE = Envelope("one_permutation", "0123456789ab")
# The default limit of brokers.
MESSAGE_BYTES = 1_000_000


def test_a_generation_names_the_signing_and_the_number_of_partitions() -> None:
    """Topics with data that cannot be compared have different names; a change of matching alone keeps the name."""
    names = {
        topic_names("", generation(config.signing_fingerprint, partitions)).signed
        for config in (Config(), Config(seed=2), Config(k=4))
        for partitions in (4, 8)
    }
    assert len(names) == 6
    assert all(len(name) == len("signed-") + 12 for name in names)
    same = Config(window_seconds=60.0, lateness_seconds=5.0)
    assert generation(same.signing_fingerprint, 8) == generation(Config().signing_fingerprint, 8)


def test_every_name_begins_with_the_prefix() -> None:
    """Two deployments can share a broker."""
    assert all(name.startswith("news.") for name in topic_names("news.", generation("00" * 16, 8)))


@pytest.mark.parametrize(("key", "partition"), [(b"", 0), (b"a", 2), (b"document-1", 7), (b"\xff" * 9, 7)])
def test_keys_go_where_they_always_went(key: bytes, partition: int) -> None:
    """The answers are fixed: every version sends the messages of an id to the same partition."""
    assert partition_of_key(key, 8) == partition


@given(st.binary(), st.integers(1, 4096))
def test_every_key_has_a_place(key: bytes, partitions: int) -> None:
    """The partition lies between 0 and the number of partitions minus one."""
    assert 0 <= partition_of_key(key, partitions) < partitions


def test_a_candidate_says_all_of_a_pair() -> None:
    """Ids, rounded similarity, buckets, times in seconds, scheme and generation; the newer id is the key."""
    matches = Matches(
        ["a"], ["bé"], np.array([1_500_000]), np.array([2_000_000]), np.array([0.87654321]), np.array([3], np.int32)
    )
    [(key, value)] = encode_candidates(matches, ENVELOPE)
    assert key == "bé".encode()
    assert orjson.loads(value) == {
        "older": "a", "newer": "bé", "similarity": 0.8765, "buckets": 3, "scheme": "one_permutation",
        "older_timestamp": 1.5, "newer_timestamp": 2.0, "generation": "0123456789ab",
    }  # fmt: skip


def test_pairs_together_are_encoded_as_each_alone() -> None:
    """Whatever the ids are, and with lists of passages, which name the older text, too."""
    rng = random.Random(1)
    one, two, *others = ([f"w{rng.randrange(10**6)}" for _ in range(40)] for _ in range(9))
    texts = [[*others[0], *one, *others[1], *two], [*two, *others[2], *one], [*one, *others[3], *two, *others[4]]]
    ids = ['a"},{"older":"b', '},{"older":"', '{"older":"\\']
    config = Config(scheme="parts")
    batch = Signer(config).sign([Document(id_, " ".join(text)) for id_, text in zip(ids, texts, strict=True)]).batch
    matches = match_step(Matcher(config), batch)
    found = encode_candidates(matches, ENVELOPE)
    assert found == [encode_candidates(matches.select(np.array([i])), ENVELOPE)[0] for i in range(3)]
    values = [orjson.loads(value) for _, value in found]
    assert {(value["older"], value["newer"]) for value in values} == set(itertools.combinations(ids, 2))
    assert all(len(value["passages"]) == 2 for value in values)
    assert encode_candidates(NO_MATCHES, ENVELOPE) == []


def test_a_removal_notice_says_the_id() -> None:
    """The removed id is its key, and it names the generation."""
    key, value = encode_removal("bé".encode(), ENVELOPE)
    assert key == "bé".encode()
    assert orjson.loads(value) == {"removed": "bé", "generation": "0123456789ab"}


@pytest.mark.parametrize("reason", REASONS)
def test_a_dead_letter_says_why_and_from_where(reason: str) -> None:
    """It has reason, sentence with the bound of its setting, topic, partition, offset, time, and the record itself."""
    record, config = Record(3, 17, 1234, b"\xff", b"\x00text"), Config(text_characters_max=9)
    letter = orjson.loads(encode_dead(record, "documents", reason, config))
    bound = " (at most 9 are read: --set text_characters_max=NUMBER)" if reason == "text_too_long" else ""
    assert (letter["reason"], letter["message"]) == (reason, REASONS[reason] + bound)
    assert (letter["topic"], letter["partition"], letter["offset"], letter["timestamp_ms"]) == (
        "documents",
        3,
        17,
        1234,
    )
    assert base64.b64decode(letter["key"]) == b"\xff"
    assert base64.b64decode(letter["value"]) == b"\x00text"


@pytest.mark.parametrize(
    ("key", "value"), [(b"k" * 10**6, None), (b"k" * 10**6, b""), (None, b"v" * 10**6), (b"", None)]
)
def test_a_dead_letter_of_any_record_fits_a_message(key: bytes | None, value: bytes | None) -> None:
    """Key and value are truncated and their lengths kept, because a letter that the broker refuses would stop the
    signer.
    """
    letter = encode_dead(Record(0, 0, 0, key, value), "documents", "not_utf8")
    assert len(letter) + min(len(key or b""), DEAD_KEY_BYTES_MAX) < MESSAGE_BYTES
    fields = orjson.loads(letter)
    assert (fields["key_bytes"], fields["value_bytes"]) == (len(key or b""), len(value or b""))
    assert len(base64.b64decode(fields["value"])) == min(len(value or b""), DEAD_BYTES_MAX)
