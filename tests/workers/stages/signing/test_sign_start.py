"""The start of a signer: at the first start of a group, after a crash in it, and in added partitions."""

from __future__ import annotations

from unittest import mock

import pytest
from memory_transport import MemoryTransport
from sign_world import SignWorld, plan_of
from topics_world import turns

from neardup import Config, ConfigError
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.outside.transport.protocol import OffsetGoneError, OutcomeUnknownError

CONFIG = Config(threshold=0.7, window_seconds=1e6, lateness_seconds=60.0)


class World(SignWorld):
    """Signers that take their turns together while time passes."""

    def __init__(self) -> None:
        super().__init__(plan_of(CONFIG))
        self.workers: dict[str, SignWorker] = {}

    def start(self, name: str, start: str | None, texts: str = "") -> SignWorker:
        self.workers[name] = self.worker(name, start=start, texts=texts)
        return self.workers[name]

    def turns(self, seconds: int = 6) -> None:
        for _ in range(2 * seconds):
            self.memory.advance(0.5)
            turns(*self.workers.values(), count=1)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_the_first_start_commits_every_partition_before_anything_is_signed(start: str) -> None:
    """One transaction commits the offsets of all partitions, including partitions that the member never owns."""
    world = World()
    for partition in (0, 1):
        world.document(f"old-{partition}", partition)
    world.start("one", start).turn(0.0, 100)
    assert world.offsets() == ({0: 0, 1: 0} if start == "earliest" else {0: 1, 1: 1})
    assert world.signed() == []


@pytest.mark.parametrize("fault", ["commit_before", "commit_after"])
def test_a_crash_in_the_first_start_leaves_all_offsets_or_none(fault: str) -> None:
    """If the first start was committed, the next one signs the documents written since; it is never half committed."""
    world = World()
    world.document("old", 1)
    world.memory.fail_next(fault)
    with pytest.raises(OutcomeUnknownError):
        world.start("one", "latest").turn(0.0, 100)
    world.document("between", 0)
    world.start("one", "latest")
    world.turns()
    assert world.signed() == (["between"] if fault == "commit_after" else [])


def test_two_signers_that_start_at_once_set_nothing_back() -> None:
    """The owner of the lowest partition decides for both; the other waits. No document is skipped or repeated."""
    world = World()
    for partition in (0, 1):
        world.document(f"old-{partition}", partition)
    one, two = world.start("one", "earliest"), world.start("two", "earliest")
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
    world.start("one", "latest")
    world.turns()
    world.workers.clear()
    world.memory.advance(world.memory.session_seconds)
    world.memory.add_partitions(world.topics.documents, 2)
    for partition in range(4):
        world.document(f"d{partition}", partition)
    world.start("one", start)
    world.start("two", start)
    world.turns(20)
    assert world.signed() == ["d0", "d1", "d2", "d3"]


def test_a_partition_that_is_added_is_read_without_a_restart() -> None:
    """The members discover it, one owns it, and its records are signed."""
    world = World()
    world.start("one", "latest")
    world.start("two", "latest")
    world.turns()
    world.memory.add_partitions(world.topics.documents, 1)
    world.document("added", 2)
    world.turns()
    assert world.signed() == ["added"]
    assert sorted(len(worker.running) for worker in world.workers.values()) == [1, 2]


def test_without_a_start_a_group_without_offsets_is_refused() -> None:
    """The signer never chooses a start silently; the error names the option."""
    world = World()
    with pytest.raises(ConfigError, match="--from earliest or --from latest"):
        world.start("one", None).turn(0.0, 100)


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_signer_that_signs_constant_texts_otherwise_is_refused(is_alone: bool) -> None:
    """It continues partitions of another one, or joins it, and signs nothing; one that signs them alike goes on."""
    world = World()
    world.document("old", 0)
    world.start("one", "earliest", "a" * 32)
    world.turns()
    assert world.signed() == ["old"]
    if is_alone:
        del world.workers["one"]
        world.memory.advance(60.0)
    world.document("next", 0)
    world.start("two", None, "b" * 32)
    with pytest.raises(ConfigError, match="signs constant texts as bbbbbbbb, and another one of its group as aaaaaaaa"):
        world.turns(60)
    del world.workers["two"]
    world.start("three", None, "a" * 32)
    world.turns(60)
    assert world.signed() == ["next", "old"]


def test_documents_that_were_deleted_before_a_signer_read_them_are_named() -> None:
    """It goes on behind them where that is accepted, and signs what is there."""
    world = SignWorld(plan_of(CONFIG))
    world.document("a")
    turns(world.worker())
    for name in ("b", "c", "d"):
        world.document(name)
    first = world.memory.log(world.topics.documents, 0).end - 1
    MemoryTransport(world.memory).trim(world.topics.documents, {0: first})
    world.memory.advance(60.0)
    with pytest.raises(OffsetGoneError, match=r"^offsets 1 to 3 of partition 0 of documents .* --allow-gap"):
        turns(world.worker("two"))
    world.memory.advance(60.0)
    three = world.worker("three", allow_gap=True)
    for _ in range(12):
        world.memory.advance(0.5)
        turns(three, count=1)
    assert world.signed() == ["a", "d"]
