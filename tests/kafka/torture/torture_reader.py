"""Committed records as librdkafka reads them: nothing here is shared with the readers of the workers."""

from __future__ import annotations

import time
from threading import Thread
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

PATIENCE_SECONDS = 60.0


class Read(NamedTuple):
    """One committed record."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Follower(Thread):
    """Keeps all committed records of some partitions of a topic, before others trim them."""

    def __init__(self, bootstrap: str, topic: str, partitions: range = range(1)) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._partitions = bootstrap, topic, partitions
        self._records: list[Read] = []
        self._ends_at = float("inf")
        self._error: Exception | None = None

    def run(self) -> None:
        """Read until ``all`` is called, and from then on to the end of the log."""
        consumer = Consumer(_options(self._address))
        try:
            consumer.assign([TopicPartition(self._topic, partition, 0) for partition in self._partitions])
            unread = set(self._partitions)  # librdkafka says once that the end of a log is reached
            while True:
                is_last = self._ends_at < float("inf")
                for message in consumer.consume(2_000, 0.2):
                    error = message.error()
                    if error is None:
                        self._records.append(_read_of(message))
                        unread.add(message.partition())
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread.discard(message.partition())
                    elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                        raise LookupError(f"{self._topic} was trimmed before it was read: {error}")
                if is_last and not unread:
                    return
                if time.monotonic() > self._ends_at:
                    raise TimeoutError(f"{self._topic} was not read to its end")
        except Exception as error:
            self._error = error
        finally:
            consumer.close()

    def all(self, seconds_max: float) -> list[Read]:
        """Return the records up to the ends of the logs, where nothing more is written, partition by partition in order
        of offsets; raises what reading raised."""
        self._ends_at = time.monotonic() + seconds_max
        self.join()
        if self._error is not None:
            raise self._error
        return sorted(self._records, key=lambda read: (read.partition, read.offset))


def committed_records(bootstrap: str, topic: str) -> list[Read]:
    """All records of a topic that a read-committed consumer gets, partition by partition in order of offsets.

    It reads each partition up to the end that librdkafka reports (the last stable offset). Raises ``TimeoutError``
    when no broker answers.
    """
    consumer = Consumer(_options(bootstrap))
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def _options(bootstrap: str) -> dict[str, str | bool | int]:
    return {
        "bootstrap.servers": bootstrap, "group.id": "torture-oracle", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error", "log_level": 0,
    }  # fmt: skip


def _read_of(message: Message) -> Read:
    return Read(message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value())


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
                found.append(_read_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
    return sorted(found, key=lambda read: (read.partition, read.offset))
