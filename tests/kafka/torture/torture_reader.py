"""Committed records as librdkafka reads them: nothing here is shared with the readers of the workers."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

PATIENCE_SECONDS = 60.0


class Read(NamedTuple):
    """One committed record."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def committed_records(bootstrap: str, topic: str) -> list[Read]:
    """All records of a topic that a read-committed consumer gets, partition by partition in order of offsets.

    It reads each partition up to the end that librdkafka reports (the last stable offset). Raises ``TimeoutError``
    when no broker answers.
    """
    options = {
        "bootstrap.servers": bootstrap, "group.id": "torture-oracle", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error", "log_level": 0,
    }  # fmt: skip
    consumer = Consumer(options)
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str) -> list[Read]:
    partitions = sorted(consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions)
    firsts = [consumer.get_watermark_offsets(TopicPartition(topic, p), PATIENCE_SECONDS)[0] for p in partitions]
    consumer.assign([TopicPartition(topic, p, first) for p, first in zip(partitions, firsts, strict=True)])
    found: list[Read] = []
    unread = set(partitions)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while unread:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {unread} of {topic} were not read in {PATIENCE_SECONDS:.0f} s")
        for message in consumer.consume(2_000, 0.2):
            error = message.error()
            if error is None:
                deadline = time.monotonic() + PATIENCE_SECONDS
                key, value = message.key(), message.value()
                found.append(Read(message.partition(), message.offset(), message.timestamp()[1], key, value))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
    return sorted(found, key=lambda read: (read.partition, read.offset))
