"""A reader of a topic on a thread of its own, which notes when each record arrived."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kafka import KafkaConsumer, TopicPartition

from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.transport.kafka.connect import kafka_settings

_READ_RECORDS_MAX = 10_000
_T = TypeVar("_T")


class TopicReader(Generic[_T]):
    """Reads committed records of a topic from its beginning.

    Args:
        settings: how to connect.
        topic: the topic.
        partitions: the number of its partitions.
        note: makes of an arrival time in seconds and a record of the client what ``seen`` keeps.
    """

    def __init__(self, settings: StreamSettings, topic: str, partitions: int, note: Callable[[float, Any], _T]) -> None:
        self.seen: list[_T] = []
        self._note = note
        self._stopped = threading.Event()
        self._client = KafkaConsumer(**kafka_settings(settings).consumer_options(), group_id=None)
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._client.assign(places)
        self._client.seek_to_beginning(*places)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stopped.set()
        self._thread.join(10)
        self._client.close(autocommit=False)

    def _read(self) -> None:
        while not self._stopped.is_set():
            found = self._client.poll(timeout_ms=100, max_records=_READ_RECORDS_MAX)
            now = time.time()
            for records in found.values():
                for record in records:
                    self.seen.append(self._note(now, record))
