"""The laws of logs and transactions that every transport obeys; ``transport_group_laws`` has the laws of groups.

``LAWS`` is the list for ``parametrize``; each law gets its own ``Harness``.

The laws run in memory and on a real broker, so they assume neither determinism nor speed: a commit may become visible a
little after it returns, and a group settles when its members have polled often enough. Hence everything that needs time
goes through ``harness.wait_until`` or ``harness.pass_session``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from transport_harness import Harness, answered, joined, publish, read_values, send, send_and_commit

from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Message,
    OffsetGoneError,
    TransportError,
    UnknownTopicError,
)


def law_records_keep_their_order_in_each_partition(harness: Harness) -> None:
    """A reader gets the records of one producer in a partition in their order, with growing offsets."""
    topic = harness.make_topic(2)
    publish(harness, topic, [b"a0", b"a1", b"a2"], partition=0)
    publish(harness, topic, [b"b0", b"b1"], partition=1)
    publish(harness, topic, [b"a3"], partition=0)
    member = joined(harness, topic)
    harness.wait_until(lambda: len(member.values(0) + member.values(1)) == 6, "six records are read")
    assert member.values(0) == [b"a0", b"a1", b"a2", b"a3"]
    assert member.values(1) == [b"b0", b"b1"]
    for partition in (0, 1):
        offsets = [record.offset for record in member.records if record.partition == partition]
        assert offsets == sorted(set(offsets))


def law_keys_and_timestamps_arrive_as_sent(harness: Harness) -> None:
    """Key, value, null value and timestamp stay unchanged."""
    topic = harness.make_topic(1)
    producer = harness.transport().producer(harness.name("writer"))
    producer.begin()
    producer.send(Message(topic, 0, b"value", key=b"key", timestamp_ms=1_700_000_000_123))
    producer.send(Message(topic, 0, None, key=b"gone", timestamp_ms=1_700_000_000_124))
    producer.flush()
    producer.commit()
    member = joined(harness, topic)
    harness.wait_until(lambda: len(member.values()) == 2, "both records are read")
    assert [record[2:5] for record in member.records] == [
        (1_700_000_000_123, b"key", b"value"),
        (1_700_000_000_124, b"gone", None),
    ]


def law_a_flush_returns_the_offsets_of_its_records(harness: Harness) -> None:
    """A reader finds the records at these offsets, also after an aborted transaction and a second flush."""
    topic = harness.make_topic(2)
    producer = harness.transport().producer(harness.name("writer"))
    send(producer, topic, [b"never"])
    producer.abort()
    producer.begin()
    sent = [(0, b"a"), (1, b"b"), (0, b"c")]
    for partition, value in sent:
        producer.send(Message(topic, partition, value))
    offsets = producer.flush()
    producer.send(Message(topic, 1, b"d"))
    offsets += producer.flush()
    assert producer.flush() == []
    producer.commit()
    member = joined(harness, topic)
    harness.wait_until(lambda: len(member.values(0) + member.values(1)) == 4, "four records are read")
    assert {(record.partition, record.offset, record.value) for record in member.records} == {
        (partition, offset, value) for (partition, value), offset in zip([*sent, (1, b"d")], offsets, strict=True)
    }


def law_a_poll_ends_with_the_record_that_reaches_its_bytes(harness: Harness) -> None:
    """The first poll returns that record alone; the next polls return the later ones in order."""
    topic = harness.make_topic(1)
    values = [b"%d" % i * 100 for i in range(9)]
    publish(harness, topic, values)
    member = joined(harness, topic)
    found = []

    def all_came() -> bool:
        found.append([record.value for record in member.consumer.poll(harness.poll_seconds, 500, 1).records])
        return sum(map(len, found)) == len(values)

    harness.wait_until(all_came, "all nine are read")
    assert [value for polled in found for value in polled] == values
    assert max(map(len, found)) == 1


def law_nothing_of_an_open_or_aborted_transaction_is_seen(harness: Harness) -> None:
    """Readers stop before an open transaction, skip an aborted one, and see later commits."""
    topic = harness.make_topic(1)
    publish(harness, topic, [b"first"])
    member = joined(harness, topic)
    producer = harness.transport().producer(harness.name("aborting"))
    send(producer, topic, [b"never", b"never"])
    later = harness.transport().producer(harness.name("later"))
    send(later, topic, [b"last"])
    later.commit()
    harness.wait_until(lambda: member.values() == [b"first"], "the first record is read")
    for _ in range(3):
        assert member.values() == [b"first"]
    assert harness.transport().bounds(topic)[0][1] <= 2
    producer.abort()
    harness.wait_until(lambda: len(member.values()) > 1, "the record behind the aborted ones is read")
    assert member.values() == [b"first", b"last"]


def law_a_producer_goes_on_after_an_abort(harness: Harness) -> None:
    """After ``abort`` the same producer begins again, and only the later transaction is visible."""
    topic = harness.make_topic(1)
    producer = harness.transport().producer(harness.name("writer"))
    send(producer, topic, [b"undone"])
    producer.abort()
    send(producer, topic, [b"done"])
    producer.commit()
    member = joined(harness, topic)
    harness.wait_until(lambda: len(member.values()) > 0, "a record is read")
    assert member.values() == [b"done"]


def law_a_producer_reaches_added_partitions(harness: Harness) -> None:
    """The first transaction that needs an added partition may be aborted, and the next one succeeds."""
    topic = harness.make_topic(1)
    transport = harness.transport()
    producer = transport.producer(harness.name("writer"))
    send_and_commit(producer, topic, [b"before"])
    harness.add_partitions(topic, 1)
    harness.wait_until(lambda: transport.partitions(topic) == 2, "the partition is added")
    try:
        send(producer, topic, [b"behind"], 1)
    except AbortedError:
        producer.abort()
        send(producer, topic, [b"behind"], 1)
    producer.commit()
    reader = joined(harness, topic)
    harness.wait_until(lambda: bool(reader.values(1)) and bool(reader.values(0)), "both records are read")
    assert [reader.values(partition) for partition in (0, 1)] == [[b"before"], [b"behind"]]


def law_output_and_offsets_commit_together(harness: Harness) -> None:
    """A committed step has its records and its offsets; a later member of the group starts there."""
    source, target = harness.make_topic(1), harness.make_topic(1)
    publish(harness, source, [b"in"])
    group = harness.name("group")
    member = joined(harness, source, group, "one")
    harness.wait_until(lambda: member.values() == [b"in"], "the input is read")
    producer = harness.transport().producer(harness.name("worker"))
    send(producer, target, [b"out"])
    producer.send_offsets(source, {0: Committed(member.records[-1].offset + 1, "why")}, member.present())
    producer.commit()
    assert member.consumer.committed(0) == Committed(1, "why")
    reader = joined(harness, target)
    harness.wait_until(lambda: reader.values() == [b"out"], "the output is read")
    again = joined(harness, source, group, "one")
    publish(harness, source, [b"next"])
    harness.wait_until(lambda: again.values() == [b"next"], "the returned member reads on")


def law_offsets_of_an_aborted_step_are_not_moved(harness: Harness) -> None:
    """After an abort the offsets of the group are unchanged, and the step can be repeated."""
    topic = harness.make_topic(1)
    publish(harness, topic, [b"in"])
    member = joined(harness, topic)
    producer = harness.transport().producer(harness.name("worker"))
    for text, is_kept in (("kept", True), ("lost", False)):
        producer.begin()
        producer.send_offsets(topic, {0: Committed(0 if is_kept else 1, text)}, member.present())
        if is_kept:
            producer.commit()
        else:
            producer.abort()
    assert member.consumer.committed(0) == Committed(0, "kept")


def law_metadata_of_a_position_comes_back(harness: Harness) -> None:
    """A text of 4,000 characters, an empty text and a text outside ASCII come back unchanged."""
    topic = harness.make_topic(1)
    member = joined(harness, topic)
    producer = harness.transport().producer(harness.name("worker"))
    for text in ("x" * 4000, "", '{"from": 3, "é": "\u6f22"}'):
        producer.begin()
        producer.send_offsets(topic, {0: Committed(0, text)}, member.present())
        producer.commit()
        assert member.consumer.committed(0) == Committed(0, text)


def law_a_group_without_commits_has_no_offsets(harness: Harness) -> None:
    """``committed`` of a new group is None for every partition."""
    member = joined(harness, harness.make_topic(2))
    assert [member.consumer.committed(partition) for partition in (0, 1)] == [None, None]


def law_a_producer_fences_the_older_one_of_its_id(harness: Harness) -> None:
    """The older producer's open transaction is aborted at once; its commit fails, and its records stay invisible."""
    topic = harness.make_topic(1)
    transactional_id = harness.name("worker")
    older = harness.transport().producer(transactional_id)
    send(older, topic, [b"zombie"])
    newer = harness.transport().producer(transactional_id)
    send(newer, topic, [b"alive"])
    newer.commit()
    with pytest.raises(TransportError):
        older.commit()
    with pytest.raises(TransportError):
        send_and_commit(older, topic, [b"zombie again"])
    older.close()
    publish(harness, topic, [b"end"])
    member = joined(harness, topic)
    harness.wait_until(lambda: b"end" in member.values(), "the last record is read")
    assert member.values() == [b"alive", b"end"]


def law_committed_waits_for_a_pending_transaction(harness: Harness) -> None:
    """While a transaction holds an offset, ``committed`` does not return the older one."""
    topic = harness.make_topic(1)
    member = joined(harness, topic)
    transactional_id = harness.name("worker")
    stuck = harness.transport().producer(transactional_id)
    stuck.begin()
    stuck.send_offsets(topic, {0: Committed(0, "pending")}, member.present())
    with pytest.raises(TransportError):
        member.consumer.committed(0)
    harness.transport().producer(transactional_id)  # ends it

    def committed() -> Committed | None:
        member.step()
        return member.consumer.committed(0)

    assert answered(harness, committed, "the committed offset is known") is None


def law_offsets_of_a_group_are_returned_without_waiting(harness: Harness) -> None:
    """While a transaction holds an offset, the call returns the earlier commit; an unknown group has none."""
    topic, group = harness.make_topic(3), harness.name("group")
    assert harness.transport().group_offsets(harness.name("unknown"), topic) == {}
    member = joined(harness, topic, group)
    producer = harness.transport().producer(harness.name("worker"))
    producer.begin()
    producer.send_offsets(topic, {0: Committed(0, "a"), 2: Committed(0, "c")}, member.present())
    producer.commit()
    expected = {0: Committed(0, "a"), 2: Committed(0, "c")}
    harness.wait_until(lambda: harness.transport().group_offsets(group, topic) == expected, "the offsets are there")
    producer.begin()
    producer.send_offsets(topic, {1: Committed(0, "b"), 2: Committed(0, "d")}, member.present())
    assert harness.transport().group_offsets(group, topic) == expected
    producer.abort()
    assert harness.transport().group_offsets(group, topic) == expected


def law_ends_are_where_a_committed_reader_stops(harness: Harness) -> None:
    """The ends are known once the partition was read, and again and again; an open transaction is known to be one."""
    topic = harness.make_topic(2)
    publish(harness, topic, [b"a", b"b"])
    member = joined(harness, topic)

    def stands_at(partition: int, end: int, written: int = 0) -> bool:
        """Whether it is at the end, as a broker said lately: after half a second it answers in any case."""
        member.step()
        found, at_end = member.consumer.ends().get(partition), member.consumer.positions()[partition] == end
        return at_end and found is not None and found[:2] == (end, written or end) and found.age_seconds < 2

    harness.wait_until(lambda: stands_at(0, 3) and stands_at(1, 0), "both are read to their ends")
    producer = harness.transport().producer(harness.name("writer"))
    send(producer, topic, [b"c"])
    assert member.values() == [b"a", b"b"]
    harness.wait_until(lambda: stands_at(0, 3, 4), "it is written, and nothing came")
    harness.wait_until(lambda: stands_at(1, 0), "the other one is still known to be at its end")
    producer.commit()
    harness.wait_until(lambda: stands_at(0, 5), "record and control record are read")


def law_read_gives_the_committed_records_of_a_range(harness: Harness) -> None:
    """The read returns exactly these, in order, even if the range begins or ends in control or aborted records."""
    topic = harness.make_topic(1)
    transport = harness.transport()
    publish(harness, topic, [b"a", b"b", b"c"])
    middle = transport.bounds(topic)[0][1]
    aborting = transport.producer(harness.name("aborting"))
    send(aborting, topic, [b"never"] * 3)
    aborting.abort()
    aborting.close()
    publish(harness, topic, [b"d"])
    harness.wait_until(lambda: transport.bounds(topic)[0][1] == middle + 6, "the log ends in a control record")
    end = transport.bounds(topic)[0][1]
    assert read_values(transport, topic, 0, end) == [b"a", b"b", b"c", b"d"]
    assert read_values(transport, topic, 1, 3) == [b"b", b"c"]
    assert read_values(transport, topic, 1, middle) == [b"b", b"c"]
    assert read_values(transport, topic, middle - 1, middle + 4) == []
    assert read_values(transport, topic, middle, end) == [b"d"]
    assert read_values(transport, topic, end, end) == []


def law_what_was_trimmed_is_gone(harness: Harness) -> None:
    """``trim`` moves the first offset; a read below it raises ``OffsetGoneError``, a read from it works."""
    topic = harness.make_topic(2)
    transport = harness.transport()
    publish(harness, topic, [b"a", b"b", b"c"])
    transport.trim(topic, {0: 2})
    harness.wait_until(lambda: transport.bounds(topic)[0][0] == 2, "the first offset has moved")
    assert transport.bounds(topic)[1] == (0, 0)
    with pytest.raises(OffsetGoneError):
        read_values(transport, topic, 1, 3)
    assert read_values(transport, topic, 2, 3) == [b"c"]
    transport.trim(topic, {0: 1})
    assert transport.bounds(topic)[0][0] == 2


def law_a_position_below_the_log_is_an_error(harness: Harness) -> None:
    """``poll`` raises for a position below the first offset; after a correct seek the member continues."""
    topic = harness.make_topic(1)
    transport = harness.transport()
    publish(harness, topic, [b"a", b"b"])
    member = joined(harness, topic)
    harness.wait_until(lambda: len(member.values()) == 2, "both are read")
    transport.trim(topic, {0: 1})
    harness.wait_until(lambda: transport.bounds(topic)[0][0] == 1, "the first offset has moved")
    member.records.clear()
    member.consumer.seek(0, 0)

    def is_refused() -> bool:
        try:
            member.step()
        except OffsetGoneError:
            return True
        return False

    harness.wait_until(is_refused, "the position is refused")
    assert member.records == []
    member.consumer.seek(0, 1)
    harness.wait_until(lambda: member.values() == [b"b"], "the rest is read")


def law_bounds_are_those_of_a_committed_reader(harness: Harness) -> None:
    """An empty partition has (0, 0); an open transaction holds the end at its begin, not that of all records."""
    topic = harness.make_topic(2)
    transport = harness.transport()
    assert transport.bounds(topic) == {0: (0, 0), 1: (0, 0)}
    publish(harness, topic, [b"a"])
    harness.wait_until(lambda: transport.bounds(topic)[0] == (0, 2), "record and control record count")
    producer = transport.producer(harness.name("writer"))
    send(producer, topic, [b"b"])
    assert transport.bounds(topic) == {0: (0, 2), 1: (0, 0)}
    harness.wait_until(lambda: transport.bounds(topic, written=True)[0] == (0, 3), "the open record counts")
    producer.commit()
    harness.wait_until(lambda: transport.bounds(topic)[0] == (0, 4), "the end has moved")


def law_an_unknown_topic_is_refused_by_name(harness: Harness) -> None:
    """The call does not create the topic."""
    missing = harness.name("missing")
    for _ in range(2):
        with pytest.raises(UnknownTopicError, match=missing):
            harness.transport().partitions(missing)


def law_a_refused_flush_or_offset_lets_no_commit_through(harness: Harness) -> None:
    """After refused offsets the commit fails too, and an abort makes the producer usable."""
    topic = harness.make_topic(1)
    member = joined(harness, topic)
    producer = harness.transport().producer(harness.name("worker"))
    send(producer, topic, [b"never"])
    with pytest.raises(FencedError):
        producer.send_offsets(topic, {0: Committed(0, "")}, member.present()._replace(generation=-1))
    with pytest.raises((FencedError, AbortedError)):
        producer.commit()
    producer.abort()
    send(producer, topic, [b"done"])
    producer.commit()
    harness.wait_until(lambda: len(member.values()) > 0, "a record is read")
    assert member.values() == [b"done"]


def law_offsets_follow_a_flush(harness: Harness) -> None:
    """A record may be lost between ``send`` and its acknowledgement, so offsets before the flush are refused."""
    topic = harness.make_topic(1)
    member = joined(harness, topic)
    producer = harness.transport().producer(harness.name("worker"))
    producer.begin()
    producer.send(Message(topic, 0, b"in flight"))
    with pytest.raises(AssertionError, match="flush first"):
        producer.send_offsets(topic, {0: Committed(0, "")}, member.present())
    producer.abort()


LAWS: list[Callable[[Harness], None]] = [law for name, law in sorted(globals().items()) if name.startswith("law_")]
