"""The start of a signer: at the first start of a group, after a crash in it, and in added partitions."""

from __future__ import annotations

from unittest import mock

import numpy as np
import orjson
import pytest
from memory_transport import MemoryCluster, MemoryTransport

from neardup import Config, ConfigError
from neardup.pairs.json_lines import Fields
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.doing.stages.signer import SignPlan
from neardup_workers.outside.telemetry.observer import Silent
from neardup_workers.outside.topics.names import topic_names
from neardup_workers.outside.topics.signed import decode_signed
from neardup_workers.outside.transport.protocol import OutcomeUnknownError, Record

CONFIG = Config(threshold=0.7, window_seconds=1e6, lateness_seconds=60.0)
TOPICS = topic_names("", CONFIG.signing_fingerprint, 1)
GROUP = "signers"


class World:
    """A topic of documents in two partitions, and signers by name."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        for topic, partitions in ((TOPICS.documents, 2), (TOPICS.dead, 1), (TOPICS.signed, 1)):
            self.cluster.create(topic, partitions)
        self.workers: dict[str, SignWorker] = {}

    def worker(self, name: str, start: str | None, texts: str = "") -> SignWorker:
        transport = MemoryTransport(self.cluster)
        consumer, producer = transport.consumer(TOPICS.documents, GROUP, name), transport.producer(name)
        plan = SignPlan(CONFIG, Fields(), TOPICS, 1, 60.0, start, texts=texts)
        self.workers[name] = SignWorker(
            WorkerMember(transport, consumer, producer, Silent(), self.clock), plan, self.clock
        )
        return self.workers[name]

    def clock(self) -> float:
        return self.cluster.now_seconds

    def document(self, name: str, partition: int) -> None:
        self.cluster.append(TOPICS.documents, partition, orjson.dumps({"text": f"the text of {name}"}), name.encode())

    def turns(self, seconds: int = 6) -> None:
        for _ in range(2 * seconds):
            self.cluster.advance(0.5)
            for worker in self.workers.values():
                worker.turn(0.0, 100)

    def offsets(self) -> dict[int, int]:
        committed = self.cluster.group(GROUP, TOPICS.documents).offsets
        return {partition: at.offset for partition, at in sorted(committed.items())}

    def signed(self) -> list[str]:
        """The ids in ``signed``, sorted, with repetitions."""
        found: list[Record] = self.cluster.records(TOPICS.signed)
        batches = [
            decode_signed(record.value or b"", CONFIG.signing_fingerprint, CONFIG.plan.width).documents()
            for record in found
        ]
        return sorted(id_ for batch in batches for id_ in batch.ids_at(np.arange(batch.size)))


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_the_first_start_commits_every_partition_before_anything_is_signed(start: str) -> None:
    """One transaction commits the offsets of all partitions, including partitions that the member never owns."""
    world = World()
    for partition in (0, 1):
        world.document(f"old-{partition}", partition)
    world.worker("one", start).turn(0.0, 100)
    assert world.offsets() == ({0: 0, 1: 0} if start == "earliest" else {0: 1, 1: 1})
    assert world.signed() == []


@pytest.mark.parametrize("fault", ["commit_before", "commit_after"])
def test_a_crash_in_the_first_start_leaves_all_offsets_or_none(fault: str) -> None:
    """If the first start was committed, the next one signs the documents written since; it is never half committed."""
    world = World()
    world.document("old", 1)
    world.cluster.fail_next(fault)
    with pytest.raises(OutcomeUnknownError):
        world.worker("one", "latest").turn(0.0, 100)
    world.document("between", 0)
    world.worker("one", "latest")
    world.turns()
    assert world.signed() == (["between"] if fault == "commit_after" else [])


def test_two_signers_that_start_at_once_set_nothing_back() -> None:
    """The owner of the lowest partition decides for both; the other waits. No document is skipped or repeated."""
    world = World()
    for partition in (0, 1):
        world.document(f"old-{partition}", partition)
    one, two = world.worker("one", "earliest"), world.worker("two", "earliest")
    with mock.patch("neardup_workers.doing.stages.member.WorkerMember.begin"):
        world.turns()
    assert (one.member.waiting, two.member.waiting) == ({0}, {1})
    two.turn(0.0, 100)
    assert world.offsets() == {}
    world.turns()
    assert [worker.ready for worker in (one, two)] == [True, True]
    assert world.signed() == ["old-0", "old-1"]
    world.document("new-1", 1)
    world.turns()
    assert world.signed() == ["new-1", "old-0", "old-1"]


@pytest.mark.parametrize("start", ["earliest", "latest", None])
def test_a_partition_that_is_added_is_read_from_its_beginning(start: str | None) -> None:
    """The setting of the start does not matter: all records there are new to the group."""
    world = World()
    world.worker("one", "latest")
    world.turns()
    world.workers.clear()
    world.cluster.advance(world.cluster.session_seconds)
    world.cluster.add_partitions(TOPICS.documents, 2)
    for partition in range(4):
        world.document(f"d{partition}", partition)
    world.worker("one", start)
    world.worker("two", start)
    world.turns(20)
    assert world.signed() == ["d0", "d1", "d2", "d3"]


def test_a_partition_that_is_added_is_read_without_a_restart() -> None:
    """The members discover it, one owns it, and its records are signed."""
    world = World()
    world.worker("one", "latest")
    world.worker("two", "latest")
    world.turns()
    world.cluster.add_partitions(TOPICS.documents, 1)
    world.document("added", 2)
    world.turns()
    assert world.signed() == ["added"]
    assert sorted(len(worker.running) for worker in world.workers.values()) == [1, 2]


def test_without_a_start_a_group_without_offsets_is_refused() -> None:
    """The signer never chooses a start silently; the error names the option."""
    world = World()
    with pytest.raises(ConfigError, match="--from earliest or --from latest"):
        world.worker("one", None).turn(0.0, 100)


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_signer_that_signs_constant_texts_otherwise_is_refused(is_alone: bool) -> None:
    """It continues partitions of another one, or joins it, and signs nothing; one that signs them alike goes on."""
    world = World()
    world.document("old", 0)
    world.worker("one", "earliest", "a" * 32)
    world.turns()
    assert world.signed() == ["old"]
    if is_alone:
        del world.workers["one"]
        world.cluster.advance(60.0)
    world.document("next", 0)
    world.worker("two", None, "b" * 32)
    with pytest.raises(ConfigError, match="signs constant texts as bbbbbbbb, and another one of its group as aaaaaaaa"):
        world.turns(60)
    del world.workers["two"]
    world.worker("three", None, "a" * 32)
    world.turns(60)
    assert world.signed() == ["next", "old"]
