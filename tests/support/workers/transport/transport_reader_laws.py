"""The laws of reading without a group, and of committing offsets there; see ``transport_laws``."""

from __future__ import annotations

import time
from collections.abc import Callable

from transport_harness import Harness, joined, publish

from neardup_workers.outside.transport.protocol import Committed, Headers, Message, OffsetGoneError


def law_a_reader_reads_partitions_without_a_group(harness: Harness) -> None:
    """The reader starts at the given offsets, returns headers, skips held partitions, and moves its positions."""
    topic = harness.make_topic(3)
    headers = (("kind", b"first"), ("none", b""), ("kind", b"second"))
    for partition in range(3):
        publish(harness, topic, [b"old"], partition=partition)
    writer = harness.transport().producer(harness.name("writer"))
    writer.begin()
    for partition in range(3):
        writer.send(Message(topic, partition, b"new", b"key", 1_700_000_000_123, headers))
    writer.flush()
    writer.commit()
    reader = harness.transport().reader(topic)
    old, new = (harness.transport().bounds(topic)[0][0], 1)
    reader.follow({0: new, 1: new, 2: old})
    reader.hold([1])
    found = []

    def came(count: int) -> bool:
        found.extend(reader.poll(harness.poll_seconds, 100))
        return len(found) >= count

    harness.wait_until(lambda: came(3), "what is not held is read")
    assert sorted((record.partition, record.value) for record in found) == [(0, b"new"), (2, b"new"), (2, b"old")]
    reader.hold([])
    harness.wait_until(lambda: came(4), "what was held is read")
    assert found[-1].partition == 1
    ends = reader.ends()
    assert ends.keys() == {0, 1, 2}
    assert all(end >= 2 for end in ends.values())
    assert all(record[2:] == (1_700_000_000_123, b"key", b"new", None, headers) for record in found if record.key)
    assert all(at >= 2 for at in reader.positions().values())
    reader.follow({2: old})
    harness.wait_until(lambda: came(6), "what is followed again is read again")
    assert reader.positions().keys() == {2}
    reader.close()


def law_records_of_every_shape_arrive_in_their_order(harness: Harness) -> None:
    """Several batches for two partitions: keys, values and headers of any length, also absent and empty ones, and times
    that fall."""
    topic = harness.make_topic(2)
    shapes = [
        (b"value", None, ()), (None, b"gone", ()), (b"", b"", (("", b""),)), (b"v" * 40_000, b"k", (("trace", b"1"),)),
        (b"\x00\xff" * 100, b"k" * 300, (("a", b"x" * 200), ("a", b""), ("\u00e9", b"\xff"))),
    ]  # fmt: skip
    sent: dict[int, list[tuple[int, bytes | None, bytes | None, Headers]]] = {0: [], 1: []}
    writer = harness.transport().producer(harness.name("writer"))
    writer.begin()
    for i in range(100):
        value, key, headers = shapes[i % len(shapes)]
        at = 1_700_000_000_000 - i
        writer.send(Message(topic, i % 3 % 2, value, key, at, headers))
        sent[i % 3 % 2].append((at, key, value, headers))
    offsets = writer.flush()
    writer.commit()
    assert len(offsets) == 100
    reader = harness.transport().reader(topic)
    reader.follow({0: 0, 1: 0})
    found = []

    def all_came() -> bool:
        found.extend(reader.poll(harness.poll_seconds, 1_000))
        return len(found) >= 100

    harness.wait_until(all_came, "all are read")
    reader.close()
    for partition, expected in sent.items():
        assert [(*one[2:5], one.headers) for one in found if one.partition == partition] == expected


def law_a_reader_knows_the_end_of_what_is_committed(harness: Harness) -> None:
    """The end does not move with an open transaction, and moves when that commits; a position below it is behind."""
    topic = harness.make_topic(1)
    publish(harness, topic, [b"0", b"1", b"2"])
    reader = harness.transport().reader(topic)
    assert reader.ends() == {}
    reader.follow({0: 0})
    found = []

    def came(count: int) -> bool:
        found.extend(reader.poll(harness.poll_seconds, 1))
        return len(found) >= count

    harness.wait_until(lambda: came(1), "the first is read")
    assert reader.positions()[0] == 1
    end = reader.ends()[0]
    assert end >= 3
    writer = harness.transport().producer(harness.name("writer"))
    writer.begin()
    writer.send(Message(topic, 0, b"3"))
    writer.flush()
    harness.wait_until(lambda: came(3), "all that is committed is read")
    assert not reader.poll(harness.poll_seconds, 1)
    assert reader.ends() == {0: end}
    writer.commit()
    harness.wait_until(lambda: came(4), "the rest is read")
    assert reader.ends()[0] > end
    reader.close()


def law_a_reader_below_the_log_is_an_error(harness: Harness) -> None:
    """The caller decides whether the trimmed records may be missed."""
    topic = harness.make_topic(1)
    publish(harness, topic, [b"0", b"1", b"2"])
    harness.transport().trim(topic, {0: 2})
    reader = harness.transport().reader(topic)
    reader.follow({0: 0})

    def is_gone() -> bool:
        try:
            reader.poll(harness.poll_seconds, 100)
        except OffsetGoneError:
            return True
        return False

    harness.wait_until(is_gone, "the error comes")
    reader.close()


def law_offsets_of_other_topics_commit_with_those_of_the_group(harness: Harness) -> None:
    """A member reads another topic without the group and commits its offsets in the same transaction."""
    source, other = harness.make_topic(1), harness.make_topic(2)
    publish(harness, source, [b"in"])
    group = harness.name("group")
    member = joined(harness, source, group, "one")
    harness.wait_until(lambda: member.values() == [b"in"], "the input is read")
    producer = harness.transport().producer(harness.name("worker"))
    for is_committed in (False, True):
        producer.begin()
        producer.flush()
        producer.send_offsets(source, {0: Committed(1, "a")}, member.present())
        producer.send_offsets(other, {0: Committed(7, "b"), 1: Committed(0, "c")}, member.present())
        if not is_committed:
            producer.abort()
            assert harness.transport().group_offsets(group, other) == {}
    producer.commit()
    assert member.consumer.committed(0) == Committed(1, "a")
    assert harness.transport().group_offsets(group, other) == {0: Committed(7, "b"), 1: Committed(0, "c")}
    assert harness.transport().group_offsets(group, source) == {0: Committed(1, "a")}


def law_an_offset_is_found_by_its_time(harness: Harness) -> None:
    """The first record with this time or a later one, also where times fall; the end if there is none. A marker of a
    transaction may count as a record."""
    topic, transport = harness.make_topic(2), harness.transport()
    now_ms = int(time.time() * 1000) - 1_000
    writer = harness.transport().producer(harness.name("writer"))
    writer.begin()
    for milliseconds in (100, 300, 200, 400):
        writer.send(Message(topic, 0, b"value", None, now_ms + milliseconds))
    writer.flush()
    writer.commit()
    harness.wait_until(lambda: transport.bounds(topic)[0][1] > 4, "all is committed")
    end = transport.bounds(topic)[0][1]
    wanted = {0: 0, 100: 0, 101: 1, 300: 1, 301: 3, 10_000_000: end}
    found = {milliseconds: transport.offsets_at(topic, now_ms + milliseconds) for milliseconds in wanted}
    if found != {milliseconds: {0: offset, 1: 0} for milliseconds, offset in wanted.items()}:
        raise AssertionError(found)


LAWS: list[Callable[[Harness], None]] = [law for name, law in sorted(globals().items()) if name.startswith("law_")]
