"""A broker dies and comes back: no record is lost or repeated, and no worker waits for long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest
from broker import Broker
from kafka_harness import KafkaHarness
from kafka_steps import (
    TRANSACTION_OUTLASTS_RESTART_SECONDS,
    TRANSPORT_LOGGERS,
    MakeHarness,
    committed_offset,
    is_published,
    made_producer,
    publish,
    start,
    visible,
)

from neardup_workers.outside.transport.kafka.transport import KafkaTransport
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Consumer,
    FencedError,
    Message,
    OutcomeUnknownError,
    Polled,
    Producer,
    TransportError,
    UnreachableError,
)

# The waits of these tests take a few seconds; without its deadlines the client waits for minutes, or forever.
DEADLINE_SECONDS = 45.0
pytestmark = pytest.mark.usefixtures("quiet_client")


def test_a_copy_survives_the_death_of_the_broker(
    harnesses: MakeHarness, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker is killed in mid-step and restarted: the same consumer copies every record once, in order."""
    harness = harnesses(
        request_timeout_seconds=1.0,
        connect_timeout_seconds=1.0,
        flush_timeout_seconds=2.0,
        transaction_timeout_seconds=TRANSACTION_OUTLASTS_RESTART_SECONDS,
    )
    transport, source, target = harness.transport(), harness.make_topic(1), harness.make_topic(1)
    values = [b"%d" % number for number in range(600)]
    patient = harnesses().transport()
    publish(patient, source, values)
    copier = Copier(transport, source, target, harness.name("group"))
    harness.wait_until(lambda: copier.step() >= 100, "some steps are done")

    def kill_when_settled() -> None:
        # A single node that is killed before it writes the markers of the last commit may never write them.
        assert copier.consumer is not None
        committed_offset(harness, copier.consumer)  # the markers of the last commit are written
        broker.kill()

    copier.before_flush = kill_when_settled
    caplog.set_level(logging.WARNING, TRANSPORT_LOGGERS)

    def logged(text: str) -> int:
        return sum(text in record.message for record in caplog.records)

    harness.wait_until(lambda: copier.step() > 0 and logged("does not answer") > 0, "the broker is seen to be away")
    said = logged("does not answer")
    for _ in range(4):
        copier.step()
    assert logged("does not answer") == said  # a line for each outage, and not for each poll in it
    broker.start()
    harness.wait_until(lambda: copier.step() >= len(values), "everything is copied")

    def is_back() -> bool:
        copier.step()
        return logged("does not answer") == logged("is back")

    harness.wait_until(is_back, "the broker is seen to be back")
    copier.close()
    assert visible(patient, target) == values


class Copier:
    """A small worker: copies records in steps of at most 50, and restarts after an error that it cannot undo."""

    def __init__(self, transport: KafkaTransport, source: str, target: str, group: str) -> None:
        self.transport, self.source, self.target, self.group = transport, source, target, group
        self.consumer: Consumer | None = None
        self.producer: Producer | None = None
        self.position = 0
        self.before_flush: Callable[[], None] | None = None
        self.waiting: set[int] = set()  # assigned but not started: the broker may not know its position yet

    def step(self) -> int:
        """Copy the records of one poll; return the position reached."""
        try:
            self.producer = self.producer or self.transport.producer(self.group)
            self.consumer = self.consumer or self.transport.consumer(self.source, self.group, "copier")
        except UnreachableError:
            return self.position
        polled = self.consumer.poll(0.3, 50)
        self.waiting = (self.waiting - set(polled.revoked)) | set(polled.assigned)
        try:
            if self.waiting:
                start(self.consumer, polled._replace(assigned=tuple(self.waiting)))
                self.position = self.consumer.positions()[0]
                self.waiting.clear()
            if polled.records:
                self.copy(polled)
        except UnreachableError:
            pass
        except AbortedError:
            assert self.producer is not None
            self.producer.abort()
            self.consumer.seek(0, polled.records[0].offset)
        except (FencedError, OutcomeUnknownError):
            self.close()
        return self.position

    def copy(self, polled: Polled) -> None:
        assert self.producer is not None
        self.producer.begin()
        for record in polled.records:
            self.producer.send(Message(self.target, 0, record.value))
        if self.before_flush is not None:
            before_flush, self.before_flush = self.before_flush, None
            before_flush()
        self.producer.flush()
        after = polled.records[-1].offset + 1
        self.producer.send_offsets(self.source, {0: Committed(after, "")}, polled.membership)
        self.producer.commit()
        self.position = after

    def close(self) -> None:
        for client in (self.consumer, self.producer):
            if client is not None:
                client.close()
        self.consumer = self.producer = None
        self.waiting.clear()


def test_a_dead_broker_blocks_no_call_for_long(harnesses: MakeHarness, broker: Broker) -> None:
    """Clients close and leave no thread, and every call ends by its deadline with a clear error; the same objects work
    when the broker is back."""
    harness = harnesses(
        request_timeout_seconds=1.0,
        connect_timeout_seconds=1.0,
        close_timeout_seconds=0.5,
        transaction_timeout_seconds=TRANSACTION_OUTLASTS_RESTART_SECONDS,
    )
    topic = harness.make_topic(1)
    transport, consumer, producer = in_a_step(harness, topic)
    before = set(threading.enumerate())
    closed = in_a_step(harness, harness.make_topic(1))
    broker.kill()
    began = time.monotonic()
    for client in reversed(closed):
        client.close()
    assert time.monotonic() - began < DEADLINE_SECONDS
    harness.wait_until(lambda: set(threading.enumerate()) <= before, "the threads of the closed clients have ended")
    expected: list[tuple[Callable[[], object], type[TransportError] | None]] = [
        (producer.abort, None),
        (producer.begin, AbortedError),
        (producer.abort, None),
        (lambda: transport.partitions(topic), UnreachableError),
        (lambda: transport.bounds(topic), UnreachableError),
        (lambda: transport.producer("another"), UnreachableError),
        (lambda: transport.consumer(topic, "another", "one"), UnreachableError),
        (lambda: consumer.committed(0), UnreachableError),
        (lambda: consumer.poll(0.2, 10), None),
    ]
    for call, error in expected:
        began = time.monotonic()
        if error is None:
            call()
        else:
            with pytest.raises(error):
                call()
        assert time.monotonic() - began < DEADLINE_SECONDS, call
    broker.start()
    harness.wait_until(lambda: is_reachable(transport, topic), "the broker answers")
    harness.wait_until(lambda: is_published(producer, topic, b"after"), "its coordinator has loaded the transactions")
    assert committed_offset(harness, consumer) is None
    patient = harnesses().transport()
    harness.wait_until(lambda: visible(patient, topic) == [b"after"], "the later step alone is visible")


def in_a_step(harness: KafkaHarness, topic: str) -> tuple[KafkaTransport, Consumer, Producer]:
    """A member of a group of its own that owns the partition, and a producer with an open transaction."""
    transport = harness.transport()
    consumer = transport.consumer(topic, harness.name("group"), "one")
    harness.wait_until(lambda: bool(consumer.poll(0.1, 10).assigned), "the partition is assigned")
    producer = made_producer(harness, transport, harness.name("worker"))
    producer.begin()
    producer.send(Message(topic, 0, b"never"))
    producer.flush()
    return transport, consumer, producer


def is_reachable(transport: KafkaTransport, topic: str) -> bool:
    try:
        return transport.partitions(topic) > 0
    except UnreachableError:
        return False
