"""The transport in memory, with the semantics of Kafka, for tests, simulations and benchmarks.

``MemoryTransport(cluster)`` is a client of a ``MemoryCluster``; any number of clients share a cluster, as processes do.
A process that dies is an object that is never called again. By default, one thread runs every worker in turns: ``poll``
returns at once, and ``committed`` and ``read`` raise ``UnreachableError`` where the Kafka client would wait. With
``wait`` (``time.sleep``, for example) they wait, in real threads, and the test moves the cluster's clock from another
thread.

Theory of operation of a consumer. It joins in its first ``poll``, as the Kafka client does. It may take part in a
rebalance in one ``poll`` and learn the outcome in a later one; meanwhile it works with its old partitions. A consumer
that was removed from the group finds all partitions revoked, and joins again. A partition in both ``revoked`` and
``assigned`` was lost and assigned again: drop its state. A consumer whose instance was taken over gets no notice: it
continues to poll, and its offsets are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memory_cluster import MemoryCluster
from memory_group import NO_GENERATION
from memory_producer import MemoryProducer

from neardup_workers.outside.transport.assignment import Offer, Share
from neardup_workers.outside.transport.protocol import (
    ANSWER_BYTES,
    UNBOUNDED,
    Committed,
    Consumer,
    LogEnd,
    Membership,
    Polled,
    Producer,
    Reader,
    Record,
    Replication,
    UnreachableError,
    record_bytes,
)

__all__ = ["MemoryCluster", "MemoryConsumer", "MemoryProducer", "MemoryReader", "MemoryTransport"]

Wait = Callable[[float], None]

WAIT_SECONDS = 0.002  # between two checks; a step takes longer
ANSWER_SECONDS_MAX = 5.0  # the limit of the transport on Kafka, too
READ_RECORDS = 500  # in a list of read(); the number of the Kafka client


class MemoryTransport:
    """A client of the cluster; see ``neardup_workers.outside.transport.protocol.Transport``."""

    def __init__(self, cluster: MemoryCluster, wait: Wait | None = None) -> None:
        self._cluster = cluster
        self._wait = wait

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; raises ``UnknownTopicError``."""
        with self._cluster.lock:
            self._cluster.check("partitions")
            return self._cluster.partitions(topic)

    def consumer(self, topic: str, group: str, instance: str) -> Consumer:
        """Make a member of ``group`` that joins at its first poll; without ``instance`` it leaves when it closes."""
        return MemoryConsumer(self._cluster, self._wait, topic, group, instance)

    def producer(self, transactional_id: str) -> Producer:
        """Make a producer that fences every earlier one of the same id."""
        return MemoryProducer(self._cluster, transactional_id)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        """Read the committed records of ``[start, end)``; waits for an open transaction as ``committed`` does."""
        waited = 0.0
        while start < end:
            with self._cluster.lock:
                self._cluster.check("read")
                log = self._cluster.log(topic, partition)
                log.check(start)
                log.check(end)
                records, position = log.read(start, READ_RECORDS, end)
            if records:
                yield records
            elif position == start:
                waited = _wait_for(self._wait, f"the transaction open at {start} of {topic}-{partition}", waited)
            start = position

    def reader(self, topic: str, answer_bytes: int = ANSWER_BYTES) -> Reader:
        """Make a reader of a topic without a group; its answers are what a poll takes."""
        return MemoryReader(self._cluster, self._wait, topic)

    def bounds(self, topic: str, *, written: bool = False) -> dict[int, tuple[int, int]]:
        """Return first offset and end of each partition; the end is where a read-committed reader stops, or, with
        ``written``, that of all records."""
        with self._cluster.lock:
            self._cluster.check("bounds")
            logs = (self._cluster.log(topic, p) for p in range(self._cluster.partitions(topic)))
            return {log.partition: (log.first, log.end if written else log.stable_end) for log in logs}

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """Return the first offset of each partition that has this time or a later one; its end if none has."""
        with self._cluster.lock:
            self._cluster.check("bounds")
            logs = [self._cluster.log(topic, p) for p in range(self._cluster.partitions(topic))]
            return {log.partition: log.offset_at(timestamp_ms) for log in logs}

    def group_offsets(self, group: str, topic: str) -> dict[int, Committed]:
        """Return the committed offsets of the group; pending offsets do not count."""
        with self._cluster.lock:
            self._cluster.check("group_offsets")
            return dict(self._cluster.offsets(group, topic))

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        """Commit offsets of a group that no member joins; raises ``FencedError`` if one has."""
        with self._cluster.lock:
            self._cluster.check("set_offsets")
            self._cluster.set_offsets(group, topic, offsets)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the id of each topic that exists."""
        with self._cluster.lock:
            self._cluster.check("partitions")
            known = self._cluster._topics
            return {topic: known[topic].id for topic in topics if topic in known}

    def configs(self, topic: str) -> Mapping[str, str]:
        """Return the settings with which the topic was created."""
        with self._cluster.lock:
            self._cluster.check("configs")
            return self._cluster.configs(topic)

    def replication(self, topic: str) -> Replication:
        """Return nodes and replicas, as the cluster and the topic were created."""
        with self._cluster.lock:
            self._cluster.check("configs")
            return self._cluster.replication(topic)

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Drop the records below the given offsets."""
        with self._cluster.lock:
            self._cluster.check("trim")
            for partition, offset in before.items():
                self._cluster.log(topic, partition).trim(offset)

    def members(self, group: str) -> int:
        """Return the number of members of a group."""
        with self._cluster.lock:
            return self._cluster.members(group)

    def shares(self, group: str) -> dict[str, Share]:
        """Return what each member of a group has been given last, by its instance."""
        with self._cluster.lock:
            return self._cluster.shares(group)

    def leave(self, group: str, instance: str) -> None:
        """Remove a closed instance from its group."""
        with self._cluster.lock:
            self._cluster.leave(group, instance)

    def close(self) -> None:
        """There is nothing to free."""


def _wait_for(wait: Wait | None, what: str, waited: float) -> float:
    """Wait a little and return the sum of the waits; raise at the limit."""
    if wait is None or waited >= ANSWER_SECONDS_MAX:
        raise UnreachableError(f"waited {waited:.1f} s for {what} to end; try again later")
    wait(WAIT_SECONDS)
    return waited + WAIT_SECONDS


@dataclass
class _Assigned:
    """The state of a consumer in a partition."""

    position: int | None = None
    paused: bool = True


class MemoryConsumer:
    """A member of a group; see ``neardup_workers.outside.transport.protocol.Consumer`` and the theory of operation
    above."""

    def __init__(self, cluster: MemoryCluster, wait: Wait | None, topic: str, group: str, instance: str) -> None:
        self._cluster = cluster
        self._wait = wait
        self._topic = topic
        self._instance = instance
        self._group = cluster.group(group, topic)
        self._member: str | None = None
        self._generation = NO_GENERATION
        self._assigned: dict[int, _Assigned] = {}
        self._is_replaced = False
        self._turn = 0
        self._offer = Offer()
        self._standbys: tuple[int, ...] = ()

    def offer(self, offer: Offer) -> None:
        """Say with the next join which tables this member has."""
        self._offer = offer

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> Polled:
        """Take part in the group, then read records; without ``wait`` it returns at once.

        It waits only for ``records_max``, because it knows the number of bytes only after it reads.
        """
        waited = 0.0
        while True:
            with self._cluster.lock:
                self._cluster.check("poll", self._instance)
                assigned, revoked = self._sync()
                over = self._wait is None or waited >= timeout_seconds or assigned or revoked
                if over or self._available() >= records_max:
                    name = self._member or ""
                    membership = Membership(self._group.name, self._generation, name, self._instance)
                    is_joining, records = self._group.is_joining(name), self._read(records_max, bytes_max)
                    return Polled(records, membership, assigned, revoked, is_joining, self._standbys)
            if self._wait is not None:
                self._wait(WAIT_SECONDS)
            waited += WAIT_SECONDS

    def committed(self, partition: int) -> Committed | None:
        """Read the committed offset; raises ``UnreachableError`` while it is pending in a transaction."""
        waited = 0.0
        while True:
            with self._cluster.lock:
                self._cluster.check("committed", self._instance)
                self._one(partition)
                if not self._cluster.pending(self._group.name, self._topic, partition):
                    return self._group.offsets.get(partition)
            waited = _wait_for(self._wait, f"offsets of {self._topic}-{partition} to be decided", waited)

    def seek(self, partition: int, offset: int) -> None:
        """Set the position of an assigned partition."""
        with self._cluster.lock:
            self._one(partition).position = offset

    def pause(self, partitions: Sequence[int]) -> None:
        """Read no records of these until ``resume``."""
        with self._cluster.lock:
            for partition in partitions:
                self._one(partition).paused = True

    def resume(self, partitions: Sequence[int]) -> None:
        """Read records of these again; they must have a position."""
        with self._cluster.lock:
            for partition in partitions:
                one = self._one(partition)
                if one.position is None:
                    raise AssertionError(f"{self._topic}-{partition} has no position: seek before resume")
                one.paused = False

    def lag(self) -> dict[int, int]:
        """Return offsets between position and end of each partition that has a position."""
        with self._cluster.lock:
            return {p: max(0, self._end(p) - at) for p, at in self._positions().items()}

    def positions(self) -> dict[int, int]:
        """Return the offset of the next record of each partition that has a position."""
        with self._cluster.lock:
            return self._positions()

    def ends(self) -> dict[int, LogEnd]:
        """Return the end of each partition that has a position."""
        with self._cluster.lock:
            logs = {partition: self._cluster.log(self._topic, partition) for partition in self._positions()}
            return {partition: LogEnd(log.stable_end, log.end, 0.0) for partition, log in logs.items()}

    def close(self) -> None:
        """Stop. A named instance keeps its membership until its session ends; a member without a name leaves at
        once."""
        with self._cluster.lock:
            if not self._instance and self._member is not None:
                self._group.leave(self._member)
            self._assigned.clear()

    def _sync(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Take part in the group; returns partitions that are new, and those that are no longer owned."""
        before = self._assigned
        if self._is_replaced:
            return (), ()
        if self._member is None or self._member not in self._group.members:
            if self._member is not None and self._group.holder(self._instance) is not None:
                self._is_replaced = True
                return (), ()
            self._member = self._group.join(self._instance, self._cluster.now_seconds, self._offer)
            self._assigned = {}
        owned_before = frozenset(self._assigned)
        now_seconds = self._cluster.now_seconds
        self._generation, owned = self._group.poll(self._member, owned_before, now_seconds, self._offer)
        self._standbys = tuple(sorted(self._group.members[self._member].share.standbys))
        self._assigned = {p: self._assigned.get(p) or _Assigned() for p in sorted(owned)}
        unbroken = owned_before & owned
        return tuple(sorted(owned - unbroken)), tuple(sorted(before.keys() - unbroken))

    def _read(self, records_max: int, bytes_max: int) -> list[Record]:
        """Read records, beginning with another partition each time; positions move only if all reads succeed."""
        positions = {p: at for p, at in self._positions().items() if not self._assigned[p].paused}
        first = self._turn % max(1, len(positions))
        self._turn += 1
        order = list(positions)
        read: list[Record] = []
        moved: dict[int, int] = {}
        for partition in order[first:] + order[:first]:
            log = self._cluster.log(self._topic, partition)
            records, moved[partition] = log.read(positions[partition], records_max - len(read), bytes_max=bytes_max)
            bytes_max -= sum(map(record_bytes, records))
            read += records
        for partition, position in moved.items():
            self._assigned[partition].position = position
        return read

    def _available(self) -> int:
        positions = self._positions().items()
        return sum(self._end(p) - at for p, at in positions if not self._assigned[p].paused)

    def _positions(self) -> dict[int, int]:
        return {p: one.position for p, one in self._assigned.items() if one.position is not None}

    def _end(self, partition: int) -> int:
        return self._cluster.log(self._topic, partition).stable_end

    def _one(self, partition: int) -> _Assigned:
        if partition not in self._assigned:
            raise AssertionError(f"{self._topic}-{partition} is not assigned to {self._instance!r}: poll says what is")
        return self._assigned[partition]


class MemoryReader:
    """Reads partitions without a group; see ``neardup_workers.outside.transport.protocol.Reader``."""

    def __init__(self, cluster: MemoryCluster, wait: Wait | None, topic: str) -> None:
        self._cluster, self._wait, self._topic = cluster, wait, topic
        self._positions: dict[int, int] = {}
        self._held: frozenset[int] = frozenset()
        self._ends: dict[int, int] = {}

    def follow(self, starts: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        self._positions, self._held, self._ends = dict(starts), frozenset(), {}

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> list[Record]:
        """Return the records that have arrived; without ``wait`` it returns at once."""
        waited = 0.0
        while True:
            with self._cluster.lock:
                self._cluster.check("read")
                records = self._read(records_max, bytes_max)
            if records or self._wait is None or waited >= timeout_seconds:
                return records
            self._wait(WAIT_SECONDS)
            waited += WAIT_SECONDS

    def hold(self, partitions: Collection[int]) -> None:
        """Read no records of these until the next call."""
        self._held = frozenset(partitions)

    def positions(self) -> dict[int, int]:
        """Return the offset of the next record of each partition."""
        return dict(self._positions)

    def ends(self) -> dict[int, int]:
        """Return the end of committed records of each partition, by its last read."""
        return dict(self._ends)

    def close(self) -> None:
        """There is nothing to free."""

    def _read(self, records_max: int, bytes_max: int) -> list[Record]:
        read: list[Record] = []
        for partition in self._positions.keys() - self._held:
            log = self._cluster.log(self._topic, partition)
            self._ends[partition] = log.stable_end
            start, room = self._positions[partition], records_max - len(read)
            records, self._positions[partition] = log.read(start, room, bytes_max=bytes_max)
            bytes_max -= sum(map(record_bytes, records))
            read += records
        return read
