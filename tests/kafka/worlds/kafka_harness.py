"""The harness of the transport laws for the transport on Kafka, with short sessions, a real broker and real time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from kafka import KafkaAdminClient
from make_topic import MakeTopic

from neardup_workers.outside.transport.kafka.transport import KafkaSettings, KafkaTransport
from neardup_workers.outside.transport.protocol import Consumer, Transport

WAIT_SECONDS_MAX = 90.0  # a wait of a second or two, on the slowest machine
SESSION_SECONDS = 4.0  # where a test waits for the end of a session; a heartbeat may come late on a busy machine


def quick_settings(bootstrap_servers: str, **changes: object) -> KafkaSettings:
    """Settings that notice changes at once and have limits which no pause of a busy machine reaches.

    A test that waits for the end of a limit gives a short one.
    """
    settings: dict[str, object] = {
        "session_timeout_seconds": 30.0,
        "heartbeat_seconds": 0.3,
        "poll_interval_seconds_max": 60.0,
        "request_timeout_seconds": 10.0,
        "flush_timeout_seconds": 20.0,
        "transaction_timeout_seconds": 60.0,
        "commit_timeout_seconds": 20.0,
        "committed_timeout_seconds": 20.0,
        "read_timeout_seconds": 30.0,
        "metadata_age_seconds": 1.0,
    }
    return KafkaSettings(bootstrap_servers, **{**settings, **changes})  # type: ignore[arg-type]


def add_partitions(settings: KafkaSettings, topic: str, count: int) -> None:
    """Give the topic ``count`` more partitions, as Kafka's tools do."""
    with KafkaAdminClient(**settings.options()) as admin:
        partitions = admin.describe_topics([topic])[0]["partitions"]
        admin.create_partitions({topic: len(partitions) + count})


class KafkaHarness:
    """See ``transport_laws.Harness``. ``close`` closes every transport, consumer and producer of the harness."""

    poll_seconds = 0.1

    def __init__(self, bootstrap_servers: str, make_topic: MakeTopic, **changes: object) -> None:
        self._settings = quick_settings(bootstrap_servers, **changes)
        self._make_topic = make_topic
        self._closing: list[Callable[[], None]] = []

    def name(self, prefix: str) -> str:
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def make_topic(self, partitions: int) -> str:
        return self._make_topic("law", partitions)

    def add_partitions(self, topic: str, count: int) -> None:
        add_partitions(self._settings, topic, count)

    def transport(self) -> KafkaTransport:
        made = _Noting(self._settings, self._closing)
        self._closing.append(made.close)
        return made

    def kill(self, consumer: Consumer) -> None:
        """Close the instance. A closing instance sends nothing to the group, so the broker sees a dead process."""
        consumer.close()

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not is_so():
            assert time.monotonic() < deadline, f"not so in {WAIT_SECONDS_MAX:.0f} s: {what}"
            time.sleep(0.01)

    def pass_session(self, keep_alive: Callable[[], object]) -> None:
        deadline = time.monotonic() + self._settings.session_timeout_seconds + 0.5
        while time.monotonic() < deadline:
            keep_alive()
            time.sleep(0.05)

    def close(self) -> None:
        while self._closing:
            self._closing.pop()()


class _Noting(KafkaTransport):
    """Records every object that it makes, to close all of them after the test."""

    def __init__(self, settings: KafkaSettings, closing: list[Callable[[], None]]) -> None:
        super().__init__(settings)
        self._closing = closing

    def consumer(self, topic: str, group: str, instance: str):  # type: ignore[no-untyped-def]
        made = super().consumer(topic, group, instance)
        self._closing.append(made.close)
        return made

    def producer(self, transactional_id: str):  # type: ignore[no-untyped-def]
        made = super().producer(transactional_id)
        self._closing.append(made.close)
        return made


_: type[Transport] = KafkaTransport
