"""Groups of the cluster in memory, moment by moment: the owners of partitions, and the accepted offsets."""

from __future__ import annotations

import pytest
from memory_harness import MemoryHarness
from memory_transport import MemoryCluster
from transport_harness import Member, joined, settled

from neardup_workers.outside.transport.protocol import (
    Committed,
    FencedError,
)


def test_a_fenced_member_loses_all_and_joins_again(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """Its old membership is refused. Its next poll reports everything revoked; assigned partitions have no position."""
    member = joined(harness, "t", "group")
    cluster.append("t", 0, b"a")
    zombie = member.present()
    cluster.advance(cluster.session_seconds)
    producer = harness.transport().producer("worker")
    producer.begin()
    with pytest.raises(FencedError, match="session"):
        producer.send_offsets("t", {0: Committed(1, "")}, zombie)
    polled = member.consumer.poll(0, 10)
    assert (polled.revoked, polled.assigned, polled.records) == ((0,), (0,), [])
    assert polled.membership.member != zombie.member
    assert polled.membership.generation > zombie.generation
    assert member.consumer.lag() == {}


def test_no_call_but_send_offsets_reports_a_replaced_instance(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """The replaced member polls on with its old membership and partitions; only its offsets are refused."""
    older = joined(harness, "t", "group", "one")
    before = older.present()
    newer = joined(harness, "t", "group", "one")
    cluster.append("t", 0, b"a")
    assert older.values() == newer.values() == [b"a"]
    assert older.present() == before
    assert before.generation == newer.present().generation
    cluster.advance(cluster.session_seconds)
    assert older.present() == before


def test_a_partition_moves_in_two_steps(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """Its owner loses it first; the next generation assigns it to the new member."""
    cluster.create("two", 2)
    older = joined(harness, "two", "group", "older")
    newer = harness.transport().consumer("two", "group", "newer")
    assert newer.poll(0, 1).membership.generation == -1
    polled = older.step()
    assert (polled.revoked, polled.membership.generation) == ((1,), 2)
    older.step()
    polled = newer.poll(0, 1)
    assert (polled.assigned, polled.membership.generation) == ((1,), 3)
    assert older.present().generation == 3


def test_a_partition_has_never_two_owners(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """Until the old owner learns of the revocation, the new member has a generation but not the partition."""
    cluster.create("three", 3)
    older, other = joined(harness, "three", "group", "older"), Member(harness, "three", "group", "other")
    settled(harness, older, other, count=3)
    newer = Member(harness, "three", "group", "newer")
    for member in (newer, older, other, newer):
        member.step()
    assert newer.present().generation == other.present().generation > 0
    assert newer.owned == set()
    assert older.owned | other.owned == {0, 1, 2}
    settled(harness, older, other, newer, count=3)


def test_offsets_are_taken_until_the_rebalance_is_complete(harness: MemoryHarness) -> None:
    """The old generation is valid until all members have polled; then it is refused."""
    one = joined(harness, "t", "group", "one")
    two = Member(harness, "t", "group", "two")
    settled(harness, one, two, count=1)
    harness.transport().consumer("t", "group", "three").poll(0, 1)
    membership = one.present()
    producer = harness.transport().producer("worker")
    producer.begin()
    producer.send_offsets("t", {0: Committed(0, "in time")}, membership)
    two.step()
    with pytest.raises(FencedError, match="generation"):
        producer.send_offsets("t", {0: Committed(0, "late")}, membership)


def test_a_partition_is_not_lost_with_the_owner_who_was_to_give_it_up(
    harness: MemoryHarness, cluster: MemoryCluster
) -> None:
    """An instance replaced in mid-move cannot confirm the revocation; the group continues without it."""
    cluster.create("four", 4)
    older = joined(harness, "four", "group", "older")
    newer = Member(harness, "four", "group", "newer")
    newer.step()
    older.consumer.poll(0, 0)  # the rebalance is complete: two partitions are withheld
    again = Member(harness, "four", "group", "older")
    settled(harness, newer, again, count=4)


def test_a_member_without_a_name_leaves_at_once(harness: MemoryHarness, cluster: MemoryCluster) -> None:
    """An empty instance is a dynamic member: when it closes, its partitions move without a wait for the session."""
    cluster.create("two", 2)
    leaving = Member(harness, "two", "group", "")
    staying = Member(harness, "two", "group", "")
    settled(harness, leaving, staying, count=2)
    leaving.consumer.close()
    harness.wait_until(lambda: staying.owns(0, 1), "the other owns everything")
