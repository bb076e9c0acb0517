"""The steps of a matcher: how much one holds, and what is kept of it when nobody knows how it ended."""

from __future__ import annotations

from unittest import mock

import pytest
from match_world import PLAN, TOPICS, World, turns

from workers.stages.transaction import Message, transact
from workers.transport.protocol import AbortedError, FencedError, OutcomeUnknownError


def refuse(*_: object) -> None:
    raise AssertionError("the log is read again, though the table stands where the group does")


@pytest.mark.parametrize(
    ("call", "raises"),
    [
        ("send_offsets", FencedError("the partitions have moved, and come back")),
        ("flush", FencedError("the producer was fenced")),
        ("commit_before", FencedError("refused")),
        ("commit_after", FencedError("refused, for the second request: the answer to the first was lost")),
        ("commit_before", None),
        ("commit_after", None),
        ("poll", FencedError("replaced")),
    ],
)
def test_a_worker_that_starts_over_keeps_the_tables_that_stand_where_the_group_does(
    call: str, raises: FencedError | None
) -> None:
    """Whether its last step was committed or not; nothing is restored, lost or repeated."""
    world = World()
    world.document("a")
    one = world.worker("one")
    turns(one)
    world.document("b", 1)
    world.document("c", 500)  # a and b leave the window
    world.remove("b")
    world.cluster.fail_next(call, raises=raises)
    with pytest.raises((FencedError, OutcomeUnknownError)):
        turns(one)
    two = world.worker("one")
    two.inherit(one.hand_over())
    with mock.patch.object(two.transport, "read", refuse):
        turns(two)
    assert two.tables == one.tables
    assert two.kept == {}
    world.document("d", 501)
    turns(two)
    assert world.said() == ["-b", "a b", "c d"]
    turns(world.worker("three"), two)
    world.document("e", 502)
    turns(two)
    assert world.said() == ["-b", "a b", "c d", "d e"]


def test_tables_of_partitions_that_others_had_meanwhile_are_dropped() -> None:
    """What is committed is not where they stand: they are restored from the log."""
    world = World()
    world.document("a")
    one = world.worker("one")
    turns(one)
    world.document("b", 1)
    world.cluster.fail_next("send_offsets", raises=FencedError("put out"))
    with pytest.raises(FencedError):
        turns(one)
    world.cluster.advance(world.cluster.session_seconds + 1)
    other = world.worker("other")
    turns(other)
    world.document("c", 2)
    turns(other)
    other.consumer.close()
    world.cluster.advance(world.cluster.session_seconds + 1)
    two = world.worker("one")
    two.inherit(one.hand_over())
    turns(two)
    assert all(two.tables[partition] is not one.tables[partition] for partition in (0, 1))
    world.document("d", 3)
    turns(two)
    assert world.said() == ["a b", "b c", "c d"]


def test_tables_of_partitions_that_do_not_come_back_at_once_are_let_go() -> None:
    """Their memory is wanted for those that come."""
    world = World()
    one = world.worker("one")
    turns(one)
    world.cluster.advance(world.cluster.session_seconds + 1)
    other, two = world.worker("other"), world.worker("two")
    turns(other)
    two.inherit(one.hand_over())
    two.turn(0.0, 100)
    assert (two.joined, set(two.kept)) == (False, {0, 1})
    turns(other, two)
    assert (two.joined, two.kept, len(two.tables)) == (True, {}, 1)


def test_a_step_ends_at_its_bytes_and_what_they_lead_to() -> None:
    """The rest of the poll makes the next steps; whatever fails between them, each pair is published once."""
    world = World()
    worker = world.worker(plan=PLAN._replace(step_bytes_max=1))
    turns(worker, count=2)
    for i in range(6):
        world.document(f"d{i}", i)
    taken = []

    def fails_at_the_third(producer: object, messages: list[Message], *rest: object) -> None:
        taken.append(len(messages))
        if len(taken) == 3:
            raise AbortedError("the third step is aborted")
        transact(producer, messages, *rest)  # type: ignore[arg-type]

    polled = worker.consumer.poll
    with (
        mock.patch("workers.stages.matcher.transact", fails_at_the_third),
        mock.patch.object(worker.consumer, "poll", lambda timeout, records_max, _: polled(timeout, records_max)),
    ):
        assert worker.turn(0.0, 100) == 2
        assert worker.aborted_in_row == 1
        turns(worker, count=2)
    assert len(taken) == len(world.cluster.records(TOPICS.bands)) + 1
    assert world.said() == [f"d{i} d{i + 1}" for i in range(5)]
    turns(world.worker("two"), worker)
    assert world.said() == [f"d{i} d{i + 1}" for i in range(5)]
