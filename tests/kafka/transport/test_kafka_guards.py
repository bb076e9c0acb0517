"""The guards of the transport, each with its fault, injected below the guard, on a real broker.

The client reports most of these faults in other ways too, so a lost message does not prove that the guard works. The
tests replace the client's own answer by the answer that the guard must catch.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition
from kafka import errors as client_errors
from kafka.producer.future import FutureProduceResult
from kafka_steps import MakeHarness, poll_records, publish, visible

from neardup_workers.outside.transport.kafka.client_internals import batches
from neardup_workers.outside.transport.protocol import AbortedError, FencedError, Message

pytestmark = pytest.mark.usefixtures("quiet_client")


def lose_one_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the next batch without an acknowledgement; the client's own flush and commit do not notice."""
    hand_over = batches.hand_over

    def without_answer(client: Any, place: TopicPartition, records: batches.Records) -> batches.SentRecords:
        monkeypatch.setattr(batches, "hand_over", hand_over)
        hand_over(client, place, records)
        unanswered = FutureProduceResult(place)
        unanswered.success((-1, None, lambda at: client_errors.KafkaTimeoutError("injected: not acknowledged")))
        return batches.SentRecords(unanswered, records.number)

    monkeypatch.setattr(batches, "hand_over", without_answer)


def test_a_record_without_acknowledgement_fails_the_flush(
    harnesses: MakeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 1: the client's flush and commit succeed, but the transport checks each future and stops the step."""
    harness = harnesses()
    transport, topic = harness.transport(), harness.make_topic(1)
    producer = transport.producer(harness.name("writer"))
    producer.begin()
    lose_one_in_silence(monkeypatch)
    producer.send(Message(topic, 0, b"lost"))
    producer.send(Message(topic, 0, b"there"))
    for call in (producer.flush, producer.commit):
        with pytest.raises(AbortedError, match="not acknowledged"):
            call()
    producer.abort()
    publish(transport, topic, [b"end"])
    harness.wait_until(lambda: visible(transport, topic) == [b"end"], "nothing of the step is visible")


def test_a_producer_that_failed_goes_on_with_another_client(
    harnesses: MakeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed client may count records differently from the broker, so the next transaction gets a new client."""
    harness = harnesses()
    transport, topic = harness.transport(), harness.make_topic(1)
    producer: Any = transport.producer(harness.name("writer"))
    producer.begin()
    lose_one_in_silence(monkeypatch)
    producer.send(Message(topic, 0, b"lost"))
    with pytest.raises(AbortedError):
        producer.flush()
    producer.abort()
    failed = producer._client
    producer.begin()
    producer.send(Message(topic, 0, b"second try"))
    producer.flush()
    producer.commit()
    assert producer._client is not failed
    after = producer._client
    producer.begin()
    producer.commit()
    assert producer._client is after  # a client without a failure is kept
    harness.wait_until(lambda: visible(transport, topic) == [b"second try"], "the second try alone is visible")


def run_ahead(consumer: Any) -> None:
    """Give the client a newer generation than the last assignment, as in the middle of a join."""
    notes = consumer._notes
    noted = notes.membership
    notes.live = lambda: noted._replace(generation=noted.generation + 1)


def test_the_membership_of_a_poll_equals_that_of_its_assignment(harnesses: MakeHarness) -> None:
    """Rule 2: a newer generation would let this member commit records that another member owns by now."""
    harness = harnesses()
    transport, topic = harness.transport(), harness.make_topic(1)
    consumer: Any = transport.consumer(topic, harness.name("group"), "one")
    harness.wait_until(lambda: bool(consumer.poll(0.1, 1).assigned), "the partition is assigned")
    noted = consumer._notes.membership
    run_ahead(consumer)
    polled = consumer.poll(0.1, 1)
    assert (polled.records, polled.membership) == ([], noted)


def test_records_of_a_member_that_was_fenced_meanwhile_are_refused(harnesses: MakeHarness) -> None:
    """Rule 2: another member may own the partition already, so the poll raises instead of returning records."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(1), harness.name("group")
    consumer: Any = transport.consumer(topic, group, "one")
    publish(transport, topic, [b"first"])
    poll_records(harness, consumer)
    run_ahead(consumer)
    publish(transport, topic, [b"second"])
    given: list[object] = []
    with pytest.raises(FencedError):
        harness.wait_until(lambda: given.extend(consumer.poll(0.1, 1).records) or bool(given), "a record or an error")
    assert given == []


def test_records_of_a_partition_that_went_in_the_same_poll_are_dropped(harnesses: MakeHarness) -> None:
    """The next owner reads them again; the poll returns the records of the remaining partitions."""
    harness = harnesses()
    transport, topic, group = harness.transport(), harness.make_topic(2), harness.name("group")
    consumer: Any = transport.consumer(topic, group, "one")
    for partition in (0, 1):
        publish(transport, topic, [b"first"], partition)
    poll_records(harness, consumer, 2)
    for partition in (0, 1):
        publish(transport, topic, [b"second"], partition)
    fetch, found = consumer._fetch, set()

    def fetch_then_lose_one(timeout_seconds: float, records_max: int) -> Any:
        if found == {0, 1}:
            consumer._notes.revoke([TopicPartition(topic, 1)])
            return {}
        batch = fetch(timeout_seconds, records_max)
        found.update(place.partition for place in batch)
        return batch

    consumer._fetch = fetch_then_lose_one
    polled = consumer.poll(20.0, 10)
    assert found == {0, 1}
    assert (polled.revoked, [(record.partition, record.value) for record in polled.records]) == ((1,), [(0, b"second")])


def test_no_record_is_lost_and_no_read_hangs_while_a_leader_is_no_known_broker(
    harnesses: MakeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was fenced is named as a leader before it is among the brokers again. The client raises after its
    position has passed the records, and waits for the answer to a fetch that it never sent."""
    harness = harnesses()
    transport, topic = harness.transport(), harness.make_topic(1)
    reader = transport.reader(topic)
    try:
        publish(transport, topic, [b"a", b"b", b"c"])
        reader.follow({0: 0})
        found: list[bytes | None] = []
        harness.wait_until(lambda: bool(found.extend(r.value for r in reader.poll(0.1, 1)) or found), "one is read")
        manager = reader._client._manager  # type: ignore[attr-defined]
        with monkeypatch.context() as broken:
            broken.setattr(manager, "_conns", {})
            broken.setattr(manager.cluster, "broker_metadata", lambda node: None)
            found += [record.value for record in reader.poll(0.1, 10)]
        publish(transport, topic, [b"d"])
        harness.wait_until(
            lambda: len(found.extend(r.value for r in reader.poll(0.1, 10)) or found) >= 4, "the rest is read"
        )
        assert found == [b"a", b"b", b"c", b"d"]
    finally:
        reader.close()
