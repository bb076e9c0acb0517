"""The transaction of a step: the order of its calls, and its state after a failed call."""

from __future__ import annotations

import pytest
from memory_transport import MemoryCluster, MemoryTransport

from neardup_workers.doing.stages.transaction import transact
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Message,
    OutcomeUnknownError,
)

MESSAGES = [Message("out", 0, b"one", b"k"), Message("out", 1, b"two")]


class Step:
    """A consumer with a record, and a producer."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.cluster.create("in", 1)
        self.cluster.create("out", 2)
        self.cluster.append("in", 0, b"record")
        transport = MemoryTransport(self.cluster)
        self.consumer, self.producer = transport.consumer("in", "group", "one"), transport.producer("one")
        self.consumer.poll(0, 1)
        self.consumer.seek(0, 0)
        self.consumer.resume([0])
        self.polled = self.consumer.poll(0, 10)

    def run(self) -> None:
        transact(self.producer, MESSAGES, "in", {0: Committed(1, "here")}, self.polled.membership)

    def happened(self) -> bool:
        values = [record.value for record in self.cluster.records("out")]
        committed = self.consumer.committed(0)
        assert values in ([], [b"one", b"two"])
        assert (committed == Committed(1, "here")) == bool(values)
        return bool(values)


def test_messages_and_offsets_become_visible_together() -> None:
    """After a step both are visible."""
    step = Step()
    step.run()
    assert step.happened()


@pytest.mark.parametrize("call", ["send", "flush", "send_offsets", "send_offsets_after"])
def test_a_step_that_failed_did_not_happen_and_can_be_done_again(call: str) -> None:
    """After a refusal before the commit nothing is visible, and the same producer continues."""
    step = Step()
    step.cluster.fail_next(call)
    with pytest.raises(AbortedError):
        step.run()
    assert not step.happened()
    step.run()
    assert step.happened()


@pytest.mark.parametrize(("call", "happened"), [("commit_before", False), ("commit_after", True)])
def test_a_commit_without_an_answer_may_have_happened(call: str, happened: bool) -> None:
    """The error says that the outcome is unknown, and the producer is useless from then on."""
    step = Step()
    step.cluster.fail_next(call)
    with pytest.raises(OutcomeUnknownError):
        step.run()
    with pytest.raises(OutcomeUnknownError):
        step.run()
    MemoryTransport(step.cluster).producer("one")
    assert step.happened() == happened


@pytest.mark.parametrize("call", ["abort", "abort_after"])
def test_an_abort_without_an_answer_is_an_unknown_outcome(call: str) -> None:
    """The worker does not continue after an uncertain undo."""
    step = Step()
    step.cluster.fail_next("flush")
    step.cluster.fail_next(call)
    with pytest.raises(OutcomeUnknownError):
        step.run()


def test_a_zombie_publishes_nothing() -> None:
    """Its old membership is refused when its partitions have moved, and its epoch when its producer is fenced."""
    step = Step()
    step.cluster.advance(step.cluster.session_seconds + 1)
    with pytest.raises(FencedError):
        step.run()
    MemoryTransport(step.cluster).producer("one")
    with pytest.raises(FencedError):
        step.run()
    assert not step.happened()


class Stubborn:
    """A producer whose ``begin`` or ``commit`` fails and leaves a transaction that must be aborted."""

    def __init__(self, fails: str) -> None:
        self.fails = fails
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        def call(*_: object) -> None:
            self.calls.append(name)
            if name == self.fails:
                raise AbortedError(f"{name} failed")

        return call


@pytest.mark.parametrize("fails", ["begin", "send", "flush", "send_offsets", "commit"])
def test_any_failed_step_is_aborted(fails: str) -> None:
    """No failure of the first, a middle or the last call leaves an open transaction."""
    producer, step = Stubborn(fails), Step()
    with pytest.raises(AbortedError, match=fails):
        transact(producer, MESSAGES, "in", {0: Committed(1, "")}, step.polled.membership)  # type: ignore[arg-type]
    assert producer.calls[-2:] == [fails, "abort"]
    whole = ["begin", "send", "send", "flush", "send_offsets", "commit"]
    assert producer.calls[:-1] == whole[: whole.index(fails) + 1]
