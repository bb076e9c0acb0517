"""The laws of consumer groups that every transport obeys; ``transport_laws`` has the other laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from transport_harness import RECORDS_MAX, Harness, Member, joined, publish, send, settled

from neardup_workers.outside.transport.protocol import AbortedError, Committed, FencedError, Membership, Message, Record

PARTITIONS = 5


def is_refused(harness: Harness, topic: str, membership: Membership) -> None:
    """Check that the offsets of that membership, and the commit after them, are refused and stay invisible."""
    before = harness.transport().bounds(topic)[0][1]
    producer = harness.transport().producer(harness.name("zombie"))
    send(producer, topic, [b"of a zombie"])
    with pytest.raises(FencedError):
        producer.send_offsets(topic, {0: Committed(0, "of a zombie")}, membership)
    with pytest.raises((FencedError, AbortedError)):
        producer.commit()
    producer.abort()
    producer.close()
    publish(harness, topic, [b"end"])
    read = harness.transport().read(topic, 0, before, harness.transport().bounds(topic)[0][1])
    assert [record.value for records in read for record in records] == [b"end"]


def law_every_partition_has_one_owner_as_members_come_and_go(harness: Harness) -> None:
    """One, two and three members share evenly, and so do the members that stay."""
    topic, group = harness.make_topic(PARTITIONS), harness.name("group")
    members = [joined(harness, topic, group, "one")]
    for instance in ("two", "three"):
        members.append(Member(harness, topic, group, instance))
        settled(harness, *members, count=PARTITIONS)
    leaving, *staying = members
    leaving.consumer.close()
    harness.pass_session(lambda: [member.step() for member in staying])
    settled(harness, *staying, count=PARTITIONS)


def law_offsets_without_a_member_never_touch_those_of_members(harness: Harness) -> None:
    """They are read as they were written, the last ones count, and a group that has a member refuses them."""
    topic, alone, joins = harness.make_topic(2), harness.name("alone"), harness.name("group")
    transport = harness.transport()
    for said in ("first", "last"):
        transport.set_offsets(alone, topic, {0: Committed(7, said)})
    assert transport.group_offsets(alone, topic) == {0: Committed(7, "last")}
    joined(harness, topic, joins, "one")
    with pytest.raises(FencedError):
        transport.set_offsets(joins, topic, {0: Committed(7, "of no member")})
    assert transport.group_offsets(joins, topic) == {}


def law_a_member_too_many_owns_nothing(harness: Harness) -> None:
    """With more members than partitions, some members wait and poll nothing."""
    topic, group = harness.make_topic(1), harness.name("group")
    members = [joined(harness, topic, group, "one"), Member(harness, topic, group, "two")]
    settled(harness, *members, count=1)
    assert members[0].owned == {0}
    assert members[1].step().records == []


def law_a_new_partition_is_paused_and_has_no_position(harness: Harness) -> None:
    """A poll returns none of its records before ``seek`` and ``resume``, and its lag does not count."""
    topic = harness.make_topic(1)
    publish(harness, topic, [b"a", b"b", b"c"])
    consumer = harness.transport().consumer(topic, harness.name("group"), harness.name("instance"))
    assigned: list[int] = []

    def is_assigned() -> bool:
        polled = consumer.poll(harness.poll_seconds, RECORDS_MAX)
        assert polled.records == []
        assigned.extend(polled.assigned)
        return assigned == [0]

    harness.wait_until(is_assigned, "the partition is assigned")
    for _ in range(3):
        assert consumer.poll(harness.poll_seconds, RECORDS_MAX).records == []
    assert consumer.lag().get(0, 0) == 0
    consumer.seek(0, 1)
    consumer.resume([0])
    values: list[bytes | None] = []

    def is_read() -> bool:
        values.extend(record.value for record in consumer.poll(harness.poll_seconds, RECORDS_MAX).records)
        return len(values) == 2

    harness.wait_until(is_read, "the records from the position on are read")
    assert values == [b"b", b"c"]


def law_what_is_revoked_is_reported_and_read_by_the_new_owner_only(harness: Harness) -> None:
    """After a join each member has the records of its own partitions only, and none is missing."""
    topic, group = harness.make_topic(PARTITIONS), harness.name("group")
    older = joined(harness, topic, group, "older")
    newer = Member(harness, topic, group, "newer")
    settled(harness, older, newer, count=PARTITIONS)
    assert older.owned
    assert newer.owned
    for partition in range(PARTITIONS):
        publish(harness, topic, [b"%d" % partition], partition)

    def are_read() -> bool:
        older.step()
        newer.step()
        return len(older.records) + len(newer.records) >= PARTITIONS

    harness.wait_until(are_read, "every partition's record is read")
    for member in (older, newer):
        assert sorted(record.partition for record in member.records) == sorted(member.owned)


def law_pause_stops_records_and_keeps_the_place(harness: Harness) -> None:
    """A paused member that polls outlives its session; after ``resume`` it continues at its position."""
    topic = harness.make_topic(2)
    member = joined(harness, topic)
    publish(harness, topic, [b"before"])
    harness.wait_until(lambda: member.values() == [b"before"], "the first record is read")
    member.consumer.pause([0])
    publish(harness, topic, [b"meanwhile"])
    publish(harness, topic, [b"other"], partition=1)
    harness.pass_session(member.step)
    harness.wait_until(lambda: member.values(1) == [b"other"], "the partition that is not paused is read")
    assert member.values() == [b"before"]
    assert member.owned == {0, 1}
    member.consumer.resume([0])
    harness.wait_until(lambda: len(member.values()) == 2, "the paused record is read")
    assert member.values() == [b"before", b"meanwhile"]


def law_a_partition_that_was_paused_is_read_on(harness: Harness) -> None:
    """Records of several partitions are in flight, and others are read between: no record is lost or repeated."""
    topic = harness.make_topic(3)
    member = joined(harness, topic)
    for partition in range(3):
        publish(harness, topic, [b"%d" % i for i in range(40)], partition)
    records: list[Record] = []

    def all_came(partitions: Sequence[int], count: int) -> bool:
        records.extend(member.consumer.poll(harness.poll_seconds, 7).records)
        return sum(record.partition in partitions for record in records) >= count

    harness.wait_until(lambda: all_came((0, 1, 2), 7), "some are read")
    for held in ((0,), (1, 2), (0, 2)):
        member.consumer.pause(held)
        free = [partition for partition in range(3) if partition not in held]
        before = sum(record.partition in free for record in records)
        wanted = min(before + 20, 40 * len(free))
        harness.wait_until(lambda free=free, wanted=wanted: all_came(free, wanted), "the others are read")  # type: ignore[misc]
        member.consumer.resume(held)
    harness.wait_until(lambda: all_came((0, 1, 2), 120), "all are read")
    for partition in range(3):
        values = [record.value for record in records if record.partition == partition]
        assert values == [b"%d" % i for i in range(40)]


def law_a_partition_that_is_added_is_assigned(harness: Harness) -> None:
    """A member discovers it, keeps its other partitions, and reads the new records."""
    topic = harness.make_topic(1)
    publish(harness, topic, [b"old"])
    member = joined(harness, topic)
    harness.wait_until(lambda: member.values() == [b"old"], "the first partition is read")
    harness.add_partitions(topic, 1)
    harness.wait_until(lambda: member.owns(0, 1), "the member owns the new one too")
    publish(harness, topic, [b"new"], partition=1)
    harness.wait_until(lambda: member.values(1) == [b"new"], "the new one is read")
    assert member.values() == [b"old"]


def law_seek_goes_back(harness: Harness) -> None:
    """After a seek backwards a member gets the same records again, once."""
    topic = harness.make_topic(1)
    publish(harness, topic, [b"a", b"b"])
    member = joined(harness, topic)
    harness.wait_until(lambda: len(member.values()) == 2, "both are read")
    member.consumer.seek(0, 1)
    harness.wait_until(lambda: len(member.values()) == 3, "the second is read again")
    member.step()
    assert member.values() == [b"a", b"b", b"b"]


def law_lag_is_nothing_at_the_end(harness: Harness) -> None:
    """A member that has read everything has lag 0, even with control records at the end."""
    topic = harness.make_topic(1)
    member = joined(harness, topic)
    publish(harness, topic, [b"a", b"b"])
    harness.wait_until(lambda: len(member.values()) == 2, "both are read")
    harness.wait_until(lambda: bool(member.step()) and member.consumer.lag() == {0: 0}, "nothing is left to read")


def law_polls_of_an_empty_topic_give_nothing(harness: Harness) -> None:
    """A poll returns no record, no change and no error, and a read of nothing returns nothing."""
    topic = harness.make_topic(2)
    member = joined(harness, topic)
    for _ in range(3):
        polled = member.step()
        assert (polled.records, polled.assigned, polled.revoked) == ([], (), ())
    assert list(harness.transport().read(topic, 0, 0, 0)) == []


def law_an_older_generation_may_not_commit(harness: Harness) -> None:
    """After a rebalance the membership of an earlier poll is refused; the current one is accepted."""
    topic, group = harness.make_topic(2), harness.name("group")
    older = joined(harness, topic, group, "one")
    stale = older.present()
    newer = Member(harness, topic, group, "two")
    settled(harness, older, newer, count=2)
    assert older.present().generation > stale.generation
    is_refused(harness, topic, stale)
    (owner,) = (member for member in (older, newer) if 0 in member.owned)
    producer = harness.transport().producer(harness.name("worker"))
    producer.begin()
    producer.send_offsets(topic, {0: Committed(1, "present")}, owner.present())
    producer.commit()
    assert owner.consumer.committed(0) == Committed(1, "present")


def law_a_member_of_no_generation_may_not_commit(harness: Harness) -> None:
    """The empty membership is refused; a real broker would accept it."""
    topic = harness.make_topic(1)
    member = joined(harness, topic)
    is_refused(harness, topic, member.present()._replace(generation=-1, member=""))


def law_an_instance_that_returns_in_time_keeps_its_partitions(harness: Harness) -> None:
    """A restart within the session changes neither partitions nor generation, and the others see no change."""
    topic, group = harness.make_topic(4), harness.name("group")
    stays, restarts = joined(harness, topic, group, "stays"), Member(harness, topic, group, "restarts")
    settled(harness, stays, restarts, count=4)
    owned, generation = set(restarts.owned), stays.present().generation
    harness.kill(restarts.consumer)
    back = Member(harness, topic, group, "restarts")
    harness.wait_until(lambda: back.owns(*owned), "the returned member owns what it had")
    for _ in range(3):
        polled = stays.step()
        assert (polled.assigned, polled.revoked, polled.membership.generation) == ((), (), generation)
    assert back.present().generation == generation


def law_an_instance_is_fenced_by_its_successor(harness: Harness) -> None:
    """The older process of an instance gets no notice but cannot commit; the newer one can."""
    topic, group = harness.make_topic(1), harness.name("group")
    older = joined(harness, topic, group, "one")
    zombie = older.present()
    newer = joined(harness, topic, group, "one")
    is_refused(harness, topic, zombie)
    producer = harness.transport().producer(harness.name("worker"))
    producer.begin()
    producer.send_offsets(topic, {0: Committed(0, "newer")}, newer.present())
    producer.commit()
    assert newer.consumer.committed(0) == Committed(0, "newer")


def law_the_partitions_of_a_killed_member_move(harness: Harness) -> None:
    """After its session the others own all, start at its commits, and the dead member may not commit."""
    topic, group = harness.make_topic(2), harness.name("group")
    killed = joined(harness, topic, group, "killed")
    publish(harness, topic, [b"done", b"open"])
    harness.wait_until(lambda: len(killed.values()) == 2, "both are read")
    producer = harness.transport().producer(harness.name("worker"))
    producer.begin()
    producer.send_offsets(topic, {0: Committed(1, "")}, killed.present())
    producer.commit()
    zombie = killed.present()
    harness.kill(killed.consumer)
    heir = Member(harness, topic, group, "heir")
    harness.pass_session(heir.step)
    harness.wait_until(lambda: heir.owns(0, 1), "the heir owns everything")
    harness.wait_until(lambda: heir.values() == [b"open"], "the heir reads on from the committed offset")
    is_refused(harness, topic, zombie)


def law_close_never_raises(harness: Harness) -> None:
    """Close a consumer that never polled, twice, and a producer with an open or fenced transaction."""
    topic = harness.make_topic(1)
    transport = harness.transport()
    consumer = transport.consumer(topic, harness.name("group"), harness.name("instance"))
    older, newer = (transport.producer("same" + topic) for _ in range(2))
    newer.begin()
    newer.send(Message(topic, 0, b"never"))
    for closed in (consumer, older, newer, consumer, older, newer):
        closed.close()
    member = joined(harness, topic)
    publish(harness, topic, [b"end"])
    harness.wait_until(lambda: b"end" in member.values(), "the last record is read")
    assert member.values() == [b"end"]
    transport.close()
    transport.close()


LAWS: list[Callable[[Harness], None]] = [law for name, law in sorted(globals().items()) if name.startswith("law_")]
