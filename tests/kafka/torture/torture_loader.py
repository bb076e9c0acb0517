"""Who loads the torture's documents: a thread with a transactional producer of librdkafka, at a pace or ahead of it."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import KafkaException, Producer
from torture_documents import Item, Shape

from neardup_workers.outside.topics.messages import partition_of_key

BATCHES_PER_SECOND = 4.0
BURST_BATCH = 500
ANSWER_SECONDS_MAX = 60.0
PRODUCER_OPTIONS = {
    "transactional.id": "torture-load", "transaction.timeout.ms": 10_000, "linger.ms": 2, "acks": "all",
    "compression.type": "lz4", "log_level": 0,
}  # fmt: skip


class Loader(threading.Thread):
    """Sends the items in order, a transaction a batch.

    Up to item ``burst_until`` it sends as fast as the broker takes them, else at its pace. The partition of a key is
    that of its first record, so versions and removals of an id keep their order when partitions are added.
    A transaction whose outcome stays unknown is sent again: then its documents may be there twice, as versions.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, shape: Shape, made: list[Item], pace: float
    ) -> None:
        super().__init__(name="loader", daemon=True)
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.items, self.shape, self.pace = made, shape, pace
        self.loaded = self.burst_until = self.aborted = self.unknown = 0
        self.error: BaseException | None = None
        self._places: dict[str, int] = {}
        # So far back that every record is old to alignment, until the live ones.
        archive = (len(made) - shape.live) * shape.stride
        self.began_seconds = time.time() - archive - 4 * shape.lateness
        self._producer: Any = None

    def run(self) -> None:
        try:
            self._load()
        except BaseException as error:
            self.error = error

    def _load(self) -> None:
        due = time.monotonic()
        while self.loaded < len(self.items):
            at = self.loaded
            is_burst = at < self.burst_until
            size = (
                min(BURST_BATCH, self.burst_until - at) if is_burst else max(1, round(self.pace / BATCHES_PER_SECOND))
            )
            batch = self.items[at : at + size]
            self._send(batch, at)
            self.loaded += len(batch)
            due = max(due + len(batch) / self.pace, time.monotonic() - 1)
            while self.loaded >= self.burst_until and time.monotonic() < due:
                time.sleep(0.02)

    def record_seconds(self, number: int) -> float:
        """When an item is sent, by its record."""
        if number >= len(self.items) - self.shape.live:
            return time.time()
        return self.began_seconds + number * self.shape.stride

    def _send(self, batch: list[Item], at: int) -> None:
        while True:
            try:
                producer = self._connected()
                producer.begin_transaction()
                for number, item in enumerate(batch, at):
                    seconds = self.record_seconds(number)
                    partition = self._places.setdefault(item.key, partition_of_key(item.key.encode(), self.partitions))
                    producer.produce(
                        self.topic, item.value(seconds), item.key.encode(), partition, timestamp=round(1000 * seconds)
                    )
                return self._commit(producer)
            except (KafkaException, BufferError) as error:
                self._recover(error)

    def _commit(self, producer: Any) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            try:
                return producer.commit_transaction(10.0)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _recover(self, error: Exception) -> None:
        """Undo what can be undone; else drop the producer, whose successor ends its transaction."""
        cause = error.args[0] if error.args else None
        if hasattr(cause, "txn_requires_abort") and cause.txn_requires_abort():
            try:
                self._producer.abort_transaction(10.0)
                self.aborted += 1
                return
            except KafkaException:
                pass
        self.unknown += 1
        self._producer = None
        time.sleep(0.3)

    def _connected(self) -> Any:
        deadline = time.monotonic() + 2 * ANSWER_SECONDS_MAX
        while self._producer is None:
            made = Producer({**PRODUCER_OPTIONS, "bootstrap.servers": self.bootstrap})
            try:
                made.init_transactions(10.0)
                self._producer = made
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
        return self._producer
