"""Shared parts of the tests of the transport on Kafka: names, and the small steps of a worker."""

from __future__ import annotations

from collections.abc import Callable

from kafka_harness import KafkaHarness
from transport_harness import answered

from neardup_workers.outside.transport.kafka.transport import KafkaTransport
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Consumer,
    Message,
    Polled,
    Producer,
)

MakeHarness = Callable[..., KafkaHarness]
# The client logs each of its attempts; these tests look at the transport's own messages only.
TRANSPORT_LOGGERS = "neardup_workers.outside.transport"
# A starting broker may find a timed-out transaction before it counts as a leader itself. It then treats the written
# partitions as deleted and ends the transaction without its control records, so the next commit of that id makes the
# aborted records visible. A broker looks for timed-out transactions after 10 s, when it has started; the broker of the
# tests looks after 1 s.
TRANSACTION_OUTLASTS_RESTART_SECONDS = 60.0


def start(consumer: Consumer, polled: Polled) -> None:
    """Start the assigned partitions at the committed offset of the group, else at 0."""
    for partition in polled.assigned:
        committed = consumer.committed(partition)
        consumer.seek(partition, committed.offset if committed else 0)
    consumer.resume(polled.assigned)


def poll_records(harness: KafkaHarness, consumer: Consumer, count: int = 1) -> Polled:
    """Poll until a step has that many records; start the partitions that are assigned meanwhile. A poll with fewer, of
    which the others had not arrived, goes back."""
    steps: list[Polled] = []

    def has_records() -> bool:
        steps.append(consumer.poll(0.5, count))
        polled = steps[-1]
        start(consumer, polled)
        if len(polled.records) == count:
            return True
        for record in reversed(polled.records):
            if record.partition not in polled.assigned:
                consumer.seek(record.partition, record.offset)
        return False

    harness.wait_until(has_records, f"{count} records are polled at once")
    return steps[-1]


def made_producer(harness: KafkaHarness, transport: KafkaTransport, transactional_id: str) -> Producer:
    """Make a producer whose limits are so short that a busy broker may answer its start too late."""
    return answered(harness, lambda: transport.producer(transactional_id), f"{transactional_id!r} has started")


def committed_offset(harness: KafkaHarness, consumer: Consumer, partition: int = 0) -> Committed | None:
    """The committed offset, once the broker says it: its coordinator may be loading, or write markers."""
    return answered(harness, lambda: consumer.committed(partition), f"the committed offset of {partition} is known")


def publish(transport: KafkaTransport, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = transport.producer(f"publish-{topic}")
    producer.begin()
    for value in values:
        producer.send(Message(topic, partition, value))
    producer.flush()
    producer.commit()
    producer.close()


def visible(transport: KafkaTransport, topic: str) -> list[bytes | None]:
    """The committed values in partition 0."""
    start_offset, end = transport.bounds(topic)[0]
    return [record.value for records in transport.read(topic, 0, start_offset, end) for record in records]


def step(producer: Producer, topic: str, polled: Polled, value: bytes) -> None:
    """Send one output, then the offsets after the records: the only safe order."""
    producer.begin()
    producer.send(Message(topic, 0, value))
    producer.flush()
    offsets = {record.partition: Committed(record.offset + 1, "") for record in polled.records}
    producer.send_offsets(topic, offsets, polled.membership)
    producer.commit()


def is_published(producer: Producer, topic: str, value: bytes) -> bool:
    """Take one step; return False if it is known that the step was not committed."""
    try:
        producer.begin()
        producer.send(Message(topic, 0, value))
        producer.flush()
        producer.commit()
    except AbortedError:
        producer.abort()
        return False
    return True
