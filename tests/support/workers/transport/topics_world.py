"""Topics in memory, and members of their groups by name: what every test of workers that takes their turns begins with.

The shell of a worker, with its settings and its process, is in ``shell_harness``; the whole cluster with its failures
is ``sim_cluster``, which builds on this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_transport import MemoryCluster, MemoryTransport

from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.telemetry.observer import SILENT, Observer


class TopicsWorld:
    """A broker in memory with topics, by their number of partitions; its clock stands until a test moves it."""

    def __init__(self, partitions: Mapping[str, int], **broker: Any) -> None:
        self.memory = MemoryCluster(**broker)
        for topic, count in partitions.items():
            self.memory.create(topic, count)

    def clock(self) -> float:
        """The time of the cluster."""
        return self.memory.now_seconds

    def member(self, topic: str, group: str, name: str, observer: Observer = SILENT) -> WorkerMember:
        """The connections of a new process of that name, which reads a topic as a member of a group."""
        transport = MemoryTransport(self.memory)
        consumer, producer = transport.consumer(topic, group, name), transport.producer(name)
        return WorkerMember(transport, consumer, producer, observer, self.clock)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a group has committed, by partition."""
        offsets = self.memory.group(group, topic).offsets
        return {partition: at.offset for partition, at in sorted(offsets.items())}


def turns(*workers: Any, count: int = 5, records_max: int = 100) -> None:
    """Give workers turns, one after the other, so many times."""
    for _ in range(count):
        for worker in workers:
            worker.turn(0.0, records_max)
