"""Membership on Kafka: records polled before a partition is revoked; members that are busy, removed or replaced."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kafka_steps import (
    MakeHarness,
    committed_offset,
    poll_records,
    publish,
    start,
    step,
    visible,
)

from neardup_workers.outside.transport.protocol import (
    Committed,
    Consumer,
    FencedError,
)

# Of a poll that an event ends earlier.
POLL_SECONDS = 60.0
pytestmark = pytest.mark.usefixtures("quiet_client")


def test_records_polled_before_their_partition_went_cannot_be_committed(harnesses: MakeHarness) -> None:
    """Rule 2: after another member joins, the broker refuses the membership that came with the records."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    for partition in (0, 1):
        publish(transport, topic, [b"in"], partition)
    older = transport.consumer(topic, group, "older")
    before = poll_records(harness, older, count=2)
    newer = transport.consumer(topic, group, "newer")
    revoked: list[int] = []

    def is_moved() -> bool:
        revoked.extend(older.poll(0.1, 10).revoked)
        return bool(newer.poll(0.1, 10).assigned)

    harness.wait_until(is_moved, "a partition has moved")
    assert len(revoked) == 1
    producer = transport.producer(harness.name("worker"))
    with pytest.raises(FencedError):
        step(producer, topic, before, b"never")
    producer.abort()
    assert committed_offset(harness, newer, revoked[0]) is None


def test_a_step_in_hand_is_committed_while_the_group_waits_to_rebalance(harnesses: MakeHarness) -> None:
    """A poll returns its records before the client joins the rebalance, so the open step is not lost."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    older: Any = transport.consumer(topic, group, "older")
    harness.wait_until(lambda: start(older, older.poll(0.1, 10)) is None and len(older.positions()) == 2, "both owned")
    publish(transport, topic, [b"in"])
    newer = transport.consumer(topic, group, "newer")
    has_records, begins, ended = threading.Event(), threading.Event(), threading.Event()
    fetch = older._fetch

    def fetch_and_say(timeout_seconds: float, records_max: int) -> Any:
        batches = fetch(timeout_seconds, records_max)
        if batches:
            has_records.set()
        return batches

    def join() -> None:
        has_records.wait(POLL_SECONDS)  # the rebalance begins while the poll holds the record
        begins.set()
        while not ended.is_set():
            newer.poll(0.5, 10)

    older._fetch = fetch_and_say
    joining = threading.Thread(target=join)
    joining.start()
    began = time.monotonic()
    polled = older.poll(POLL_SECONDS, 10)
    assert begins.is_set()  # not before the rebalance begins,
    assert time.monotonic() - began < POLL_SECONDS - 1.0  # and not at the end of its own time
    assert [record.value for record in polled.records] == [b"in"]
    step(transport.producer(harness.name("worker")), topic, polled, b"out")
    assert committed_offset(harness, older) == Committed(1, "")
    before = polled.membership.generation
    harness.wait_until(lambda: older.poll(0.1, 10).membership.generation > before, "the group has another generation")
    ended.set()
    joining.join()


def test_added_partitions_are_read_after_the_leader_was_restarted(harnesses: MakeHarness) -> None:
    """The leader assigns partitions, and a process that takes over its place does not learn that it leads."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    leader = transport.consumer(topic, group, "leader")
    harness.wait_until(lambda: len(leader.poll(0.1, 10).assigned) == 2, "the first one has both partitions")
    harness.kill(leader)
    successor = transport.consumer(topic, group, "leader")
    owned: list[int] = []

    def owns(count: int) -> bool:
        owned.extend(successor.poll(0.1, 10).assigned)
        return len(owned) == count

    harness.wait_until(lambda: owns(2), "its successor has them")
    harness.add_partitions(topic, 2)
    harness.wait_until(lambda: owns(4), "it has the added ones too")


def test_a_partition_that_moves_while_its_owner_restarts_finds_an_owner(harnesses: MakeHarness) -> None:
    """An owner gives a partition up and calls for the join that assigns it; a restart in between loses that call."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    older = transport.consumer(topic, group, "older")
    harness.wait_until(lambda: len(older.poll(0.1, 10).assigned) == 2, "the first one has both partitions")
    newer = transport.consumer(topic, group, "newer")
    owned: set[int] = set()

    def turn(member: Consumer, seconds: float) -> None:
        polled = member.poll(seconds, 10)
        owned.difference_update(polled.revoked)
        owned.update(polled.assigned)

    polling = threading.Event()

    def poll_newer() -> None:
        while not polling.is_set():
            turn(newer, 0.1)

    joining = threading.Thread(target=poll_newer)
    joining.start()
    harness.wait_until(lambda: older.poll(0.0, 10).is_joining, "the group rebalances")
    harness.wait_until(lambda: transport.owned(group, topic) == 1, "one is given up")
    harness.kill(older)
    polling.set()
    joining.join()
    successor = transport.consumer(topic, group, "older")

    def is_whole() -> bool:
        for member in (newer, successor):
            turn(member, 0.1)
        return owned == {0, 1}

    harness.wait_until(is_whole, "each partition has an owner")


def test_members_that_are_mostly_busy_settle(harnesses: MakeHarness) -> None:
    """A join that completes between two polls counts; the client alone would repeat the join forever."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(4), harness.name("group")
    members = [transport.consumer(topic, group, f"busy-{number}") for number in range(3)]
    owned: list[set[int]] = [set() for _ in members]
    last: list[int] = [-1 for _ in members]

    def is_settled() -> bool:
        for number, member in enumerate(members):
            polled = member.poll(0.02, 10)
            owned[number] = (owned[number] - set(polled.revoked)) | set(polled.assigned)
            last[number] = polled.membership.generation
            time.sleep(0.15)
        return sorted(p for parts in owned for p in parts) == [0, 1, 2, 3] and all(owned) and len(set(last)) == 1

    harness.wait_until(is_settled, "four partitions are shared by three busy members")
    assert last[0] < 12


def test_a_member_that_missed_a_generation_gets_everything_again(harnesses: MakeHarness) -> None:
    """Other members may have owned its partitions: the transport reports them revoked, then assigned, and paused."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    publish(transport, topic, [b"in"])
    consumer = transport.consumer(topic, group, "one")
    polled = poll_records(harness, consumer)
    notes = consumer._notes  # type: ignore[attr-defined]
    notes.membership = polled.membership._replace(member="as if removed during a rebalance")
    consumer._client._coordinator.request_rejoin()  # type: ignore[attr-defined]
    again = consumer.poll(POLL_SECONDS, 10)
    assert (again.revoked, again.assigned, again.records) == ((0, 1), (0, 1), [])
    with pytest.raises(AssertionError):
        consumer.resume([0])


def test_a_member_that_stopped_polling_is_fenced(harnesses: MakeHarness) -> None:
    """Heartbeats do not replace polls: after poll interval and session the broker refuses the step."""
    harness = harnesses(session_timeout_seconds=1.0, heartbeat_seconds=0.3, poll_interval_seconds_max=1.0)
    transport, topic, group = harness.transport(), harness.make_topic(1), harness.name("group")
    publish(transport, topic, [b"in"])
    zombie = transport.consumer(topic, group, "zombie")
    polled = poll_records(harness, zombie)
    heir = transport.consumer(topic, group, "heir")
    harness.wait_until(lambda: bool(heir.poll(0.2, 10).assigned), "the heir owns the partition")
    producer = transport.producer(harness.name("worker"))
    with pytest.raises(FencedError):
        step(producer, topic, polled, b"never")
    producer.abort()
    heir.close()
    seen: list[int] = []

    def is_back() -> bool:
        again = zombie.poll(0.2, 10)
        assert again.records == []
        seen.extend(again.revoked)
        return again.assigned == (0,)

    harness.wait_until(is_back, "the zombie has joined again")
    assert seen == [0]
    assert visible(transport, topic) == [b"in"]


def test_an_instance_that_was_replaced_learns_it_from_poll(harnesses: MakeHarness) -> None:
    """The client stops its heartbeats without an error; the transport raises at every later poll."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(1), harness.name("group")
    older = transport.consumer(topic, group, "same")
    harness.wait_until(lambda: bool(older.poll(0.1, 10).assigned), "the older one owns the partition")
    newer = transport.consumer(topic, group, "same")
    harness.wait_until(lambda: bool(newer.poll(0.1, 10).assigned), "the newer one owns the partition")

    def is_fenced() -> bool:
        newer.poll(0, 10)
        try:
            older.poll(0.1, 10)
        except FencedError:
            return True
        return False

    harness.wait_until(is_fenced, "the older one is fenced")
    with pytest.raises(FencedError):
        older.poll(0.1, 10)
