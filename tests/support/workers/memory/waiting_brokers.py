"""Brokers that answer, and keep a worker from its work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memory_transport import MemoryTransport

from neardup_workers.outside.transport.protocol import Committed, Membership, UnreachableError


class Mute(MemoryTransport):
    """A broker whose log of ``signed`` shows nothing to a reader."""

    def reader(self, topic: str, *given: int) -> Any:
        """A reader that gets no record."""
        made: Any = super().reader(topic, *given)
        made.poll = lambda *given: []
        return made

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Any]:
        """No record, forever."""
        while topic.startswith("signed"):
            yield []
        yield from super().read(topic, partition, start, end)


class Pending(MemoryTransport):
    """A broker that has lost the end of a transaction of the group."""

    def consumer(self, topic: str, group: str, instance: str) -> Any:
        """A consumer whose offsets cannot be had."""
        made: Any = super().consumer(topic, group, instance)
        made.committed = self.committed
        return made

    def committed(self, partition: int) -> Committed | None:
        """Raise what Kafka does."""
        raise UnreachableError("offsets are not decided")


class Outsider(MemoryTransport):
    """A broker whose group never settles."""

    def consumer(self, topic: str, group: str, instance: str) -> Any:
        """A consumer that is in no generation."""
        made: Any = super().consumer(topic, group, instance)
        poll = made.poll
        made.poll = lambda *given: poll(*given)._replace(membership=Membership("", -1, "", None), assigned=())
        return made
