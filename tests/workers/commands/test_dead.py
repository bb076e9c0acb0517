"""Dead letters are listed, shown, and sent again once, on topics in memory."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from memory_transport import MemoryCluster, MemoryTransport

from neardup.errors import ConfigError
from neardup_workers.outside.options.running import DeadOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.messages import DEAD_BYTES_MAX, encode_dead
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.protocol import Record
from neardup_workers.running.commands.dead import Chosen, chosen, list_letters, replay, show_letters

SETTINGS = StreamSettings()
TOPICS = names_of(SETTINGS).topics
NOW_MS = int(time.time() * 1000)
POISON = ((b"a", b"{", "not_json"), (b"b", b'{"id": "b"}', "no_text"), (None, b"[]", "not_object"))


class Dead:
    """Topics in memory with documents and the letters about them."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(start_seconds=NOW_MS / 1000)
        self.cluster.create(TOPICS.documents, 2, {"retention.ms": "86400000"})
        self.cluster.create(TOPICS.dead, 2)
        self.transport = MemoryTransport(self.cluster, wait=lambda seconds: None)

    def refuse(self, key: bytes | None, value: bytes | None, reason: str, headers: Any = (), age_ms: int = 0) -> None:
        """Append a document, and its letter."""
        at = NOW_MS - age_ms
        offset = self.cluster.append(TOPICS.documents, 1, value, key, at, headers)
        letter = encode_dead(Record(1, offset, at, key, value), TOPICS.documents, reason)
        self.cluster.append(TOPICS.dead, 0, letter, key)

    def replay(self, which: Chosen = Chosen()) -> tuple[int, dict[str, int]]:  # noqa: B008
        done = replay(self.transport, SETTINGS, which)
        return done.sent, dict(done.skipped)

    def sent_again(self) -> list[Record]:
        """The documents with the header of a replay."""
        return [r for r in self.cluster.records(TOPICS.documents) if "neardup-replayed" in dict(r.headers)]


@pytest.fixture
def dead() -> Dead:
    made = Dead()
    for key, value, reason in POISON:
        made.refuse(key, value, reason, (("trace", b"1"),))
    return made


def test_a_document_is_sent_again_once_as_it_was(dead: Dead) -> None:
    """Key, value, partition, time and headers are the same, and one more header names the letter."""
    assert dead.replay() == (3, {})
    found = dead.sent_again()
    assert [(r.partition, r.key, r.value, r.timestamp_ms) for r in found] == [
        (1, key, value, NOW_MS) for key, value, _ in POISON
    ]
    assert [r.headers for r in found] == [
        (("trace", b"1"), ("neardup-replayed", b"0-%d" % place)) for place in range(3)
    ]
    assert dead.replay() == (0, {"were replayed before": 3})
    assert len(dead.sent_again()) == 3


@pytest.mark.parametrize("fault", ["send", "flush", "commit_before", "commit_after"])
def test_a_replay_that_fails_sends_the_rest_at_the_next_try(dead: Dead, fault: str) -> None:
    """Whether the transaction was committed or not: each document is sent once."""
    dead.cluster.fail_next(fault)
    with pytest.raises(Failure, match="replay again") as failed:
        dead.replay()
    assert failed.value.code == Exit.BROKER
    dead.replay()
    assert [r.key for r in dead.sent_again()] == [b"a", b"b", None]


def test_letters_are_chosen_by_place_reason_and_time(dead: Dead) -> None:
    """All that is named must hold."""
    assert dead.replay(Chosen(frozenset({"0-1", "0-2"}), reason="no_text")) == (1, {})
    dead.cluster.advance(3_600)
    dead.refuse(b"late", b"", "not_json")
    assert dead.replay(Chosen(since_ms=NOW_MS + 1_800_000)) == (1, {})
    assert [r.key for r in dead.sent_again()] == [b"b", b"late"]


def test_a_document_that_has_left_the_log_comes_from_its_letter(dead: Dead) -> None:
    """A long one is in its letter in part: it cannot be sent, and the command says so."""
    dead.refuse(b"long", b"x" * (DEAD_BYTES_MAX + 1), "not_json")
    dead.transport.trim(TOPICS.documents, {1: 4})
    cause = f"are no longer in {TOPICS.documents}, and their letters have only the beginning"
    assert dead.replay() == (3, {cause: 1})
    assert [(r.key, r.value) for r in dead.sent_again()] == [(key, value) for key, value, _ in POISON]
    done = replay(dead.transport, SETTINGS, Chosen(frozenset({"0-3"})))
    assert done.exit == Exit.UNUSABLE
    assert done.sentence() == f"0 documents were sent again; 1 {cause}"


def test_a_document_that_the_topic_would_delete_at_once_is_not_sent(dead: Dead) -> None:
    """It keeps its time, which is older than the retention of the topic."""
    dead.refuse(b"old", b"{", "not_json", age_ms=2 * 86_400_000)
    assert dead.replay() == (3, {f"are older than retention.ms of {TOPICS.documents}, which would delete them": 1})


def test_a_batch_that_was_refused_is_sent_again_when_it_may_be_unpacked(dead: Dead) -> None:
    """A command with the same limit says which setting to raise."""
    dead.cluster.batch_bytes_max = 10
    dead.cluster.append_batch(TOPICS.documents, 0, [b"x" * 8, b"y" * 8], packed_bytes=5)
    [refused] = [r for r in dead.cluster.records(TOPICS.documents) if r.refused]
    dead.cluster.append(TOPICS.dead, 1, encode_dead(refused, TOPICS.documents, "batch_too_large"), b"")
    which = Chosen(reason="batch_too_large")
    assert dead.replay(which) == (
        0, {"unpack to more than an eighth of memory_max: raise it for this command and for the signers": 1},
    )  # fmt: skip


def test_letters_are_listed_and_shown(dead: Dead, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A line of JSON each; for reading, the reason as a sentence, and the document."""
    dead.replay(Chosen(frozenset({"0-1"})))
    list_letters(dead.transport, SETTINGS, Chosen())
    out, err = capfdbinary.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(x["letter"], x["reason"], x["offset"], x["key"], x["replayed"]) for x in lines] == [
        ("0-0", "not_json", 0, "a", False), ("0-1", "no_text", 1, "b", True),
        ("0-2", "not_object", 2, None, False),
    ]  # fmt: skip
    assert err.startswith(b"3 letters: 1 not_json, 1 ")
    show_letters(dead.transport, SETTINGS, Chosen(frozenset({"0-1"})))
    shown = capfdbinary.readouterr()[0].decode()
    assert shown.startswith("letter    0-1 of 20")
    assert ", replayed\nreason    no_text: " in shown
    assert shown.endswith('document  11 bytes\n{"id": "b"}\n\n')


def test_what_is_chosen_is_checked() -> None:
    """A reason that refuses nothing, and a time that is none, are named."""
    assert chosen(DeadOptions(places=["0-1"], since="2026-01-31T08:00")).since_ms == 1_769_846_400_000
    ago = chosen(DeadOptions(places=[], since="2h")).since_ms
    assert abs(time.time() * 1000 - 7_200_000 - ago) < 60_000
    with pytest.raises(ConfigError, match=r"--reason typo: no document is refused for it; .*not_json"):
        chosen(DeadOptions(places=[], reason="typo"))
    with pytest.raises(ConfigError, match="--since"):
        chosen(DeadOptions(places=[], since="yesterday"))
