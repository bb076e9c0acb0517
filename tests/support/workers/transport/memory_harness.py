"""The harness of the transport laws for the transport in memory: time passes only in ``pass_session``."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from memory_transport import MemoryCluster, MemoryTransport

from neardup_workers.outside.transport.protocol import Consumer, Transport

LOOKS_MAX = 50


class MemoryHarness:
    """See ``transport_harness.Harness``. No call waits: a condition that fails 50 times will never hold."""

    poll_seconds = 0.0

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self._counter = itertools.count()

    def name(self, prefix: str) -> str:
        return f"{prefix}-{next(self._counter)}"

    def make_topic(self, partitions: int) -> str:
        topic = self.name("topic")
        self.cluster.create(topic, partitions)
        return topic

    def add_partitions(self, topic: str, count: int) -> None:
        self.cluster.add_partitions(topic, count)

    def transport(self) -> Transport:
        return MemoryTransport(self.cluster)

    def kill(self, consumer: Consumer) -> None:
        """A consumer is dead as soon as no test calls it."""

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        assert any(is_so() for _ in range(LOOKS_MAX)), f"never so: {what}"

    def pass_session(self, keep_alive: Callable[[], object]) -> None:
        for _ in range(4):
            keep_alive()
            self.cluster.advance(self.cluster.session_seconds / 2.5)


@pytest.fixture
def harness() -> MemoryHarness:
    """A harness with a topic ``t`` of one partition."""
    made = MemoryHarness()
    made.cluster.create("t", 1)
    return made


@pytest.fixture
def cluster(harness: MemoryHarness) -> MemoryCluster:
    return harness.cluster


@pytest.fixture
def transport(cluster: MemoryCluster) -> MemoryTransport:
    return MemoryTransport(cluster)
