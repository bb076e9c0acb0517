"""The transport in memory: a twin of the real broker's, for tests and simulations. It ships with the package.

``MemoryTransport(cluster)`` is a client of a ``MemoryCluster``; any number of them share one, as processes do. A
process that dies is an object that is never called again. With the default, one thread plays every worker in turn:
``poll`` returns at once, ``committed`` and ``read`` raise ``UnreachableError`` where the real ones would wait. Given
``wait`` (``time.sleep``, say) they do wait, in real threads, and the test moves the cluster's clock from another one.

Theory of operation of a consumer. It joins in its first ``poll``, as the real client does, and it may take part in a
rebalance in one ``poll`` and learn the outcome in a later one; meanwhile it goes on with what it owns. What the group
took away, it forgets with the position. A consumer that was put out finds itself with everything revoked and joins
again: a partition both in ``revoked`` and in ``assigned`` was away and came back, and what was kept of it is void. A
consumer whose instance was taken over is never told: it polls on, and its offsets are refused.

Theory of operation of a producer: ``ready -> open -> ready``, with two more states.

    ready --begin--> open --commit, abort--> ready
    open --flush raised, a send or offsets refused--> failed --abort--> ready
    open, failed --no answer to commit or abort--> lost      every call but close raises from then on

Out of ``failed`` a commit is refused: on the real broker it can succeed with records missing. A call that the state
does not allow is a bug of the caller: ``AssertionError``. A fenced producer raises ``FencedError`` in any state. Its
records are in the log at once, within the open transaction: the least convenient of all the moments allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from workers.transport.memory.cluster import MemoryCluster
from workers.transport.memory.group import NO_GENERATION
from workers.transport.protocol import (
    UNBOUNDED,
    AbortedError,
    Committed,
    Consumer,
    FencedError,
    Membership,
    OutcomeUnknownError,
    Polled,
    Producer,
    Record,
    Replication,
    TransportError,
    UnreachableError,
)

__all__ = ["MemoryCluster", "MemoryConsumer", "MemoryProducer", "MemoryTransport"]

Wait = Callable[[float], None]

WAIT_SECONDS = 0.002  # between two looks; a step takes longer
ANSWER_SECONDS_MAX = 5.0  # as long as the real client is told to wait for an answer
READ_RECORDS = 500  # in a list that read() yields; the real client's own number


class MemoryTransport:
    """A client of the cluster; see ``workers.transport.protocol.Transport``."""

    def __init__(self, cluster: MemoryCluster, wait: Wait | None = None) -> None:
        self._cluster = cluster
        self._wait = wait

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; raises ``UnknownTopicError``."""
        with self._cluster.lock:
            self._cluster.check("partitions")
            return self._cluster.partitions(topic)

    def consumer(self, topic: str, group: str, instance: str) -> Consumer:
        """Join ``group`` as ``instance`` (by the first poll); without a name it is a member that leaves on close."""
        return MemoryConsumer(self._cluster, self._wait, topic, group, instance)

    def producer(self, transactional_id: str) -> Producer:
        """A producer that fences every earlier one of the same id."""
        return MemoryProducer(self._cluster, transactional_id)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        """The committed records of ``[start, end)``; waits, as ``committed`` does, for a transaction open in them."""
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

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """First offset and end of each partition; the end is where a read-committed reader would stop."""
        with self._cluster.lock:
            self._cluster.check("bounds")
            logs = (self._cluster.log(topic, p) for p in range(self._cluster.partitions(topic)))
            return {log.partition: (log.first, log.stable_end) for log in logs}

    def configs(self, topic: str) -> Mapping[str, str]:
        """The settings that the topic was created with."""
        with self._cluster.lock:
            self._cluster.check("configs")
            return self._cluster.configs(topic)

    def replication(self, topic: str) -> Replication:
        """What the cluster and the topic were created with."""
        with self._cluster.lock:
            self._cluster.check("configs")
            return self._cluster.replication(topic)

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Drop the records below the given offsets."""
        with self._cluster.lock:
            self._cluster.check("trim")
            for partition, offset in before.items():
                self._cluster.log(topic, partition).trim(offset)

    def leave(self, group: str, instance: str) -> None:
        """Give up the place of an instance that has closed."""
        with self._cluster.lock:
            self._cluster.leave(group, instance)

    def close(self) -> None:
        """Nothing is held."""


def _wait_for(wait: Wait | None, what: str, waited: float) -> float:
    """Wait a little and return the sum, or raise when the patience is over."""
    if wait is None or waited >= ANSWER_SECONDS_MAX:
        raise UnreachableError(f"waited {waited:.1f} s for {what} to end; try again later")
    wait(WAIT_SECONDS)
    return waited + WAIT_SECONDS


@dataclass
class _Place:
    """Where a consumer stands in a partition."""

    position: int | None = None
    paused: bool = True


class MemoryConsumer:
    """A member of a group; see ``workers.transport.protocol.Consumer`` and the theory of operation above."""

    def __init__(self, cluster: MemoryCluster, wait: Wait | None, topic: str, group: str, instance: str) -> None:
        self._cluster = cluster
        self._wait = wait
        self._topic = topic
        self._instance = instance
        self._group = cluster.group(group, topic)
        self._member: str | None = None
        self._generation = NO_GENERATION
        self._places: dict[int, _Place] = {}
        self._replaced = False
        self._turn = 0

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> Polled:
        """One step of the member: take part in the group, then take records; at once when there is no ``wait``.

        Of ``bytes_max`` it knows only when it has taken them, so it waits for records alone.
        """
        waited = 0.0
        while True:
            with self._cluster.lock:
                self._cluster.check("poll", self._instance)
                assigned, revoked = self._take_part()
                over = self._wait is None or waited >= timeout_seconds or assigned or revoked
                if over or self._available() >= records_max:
                    name = self._member or ""
                    membership = Membership(self._group.name, self._generation, name, self._instance)
                    return Polled(self._take(records_max, bytes_max), membership, assigned, revoked)
            if self._wait is not None:
                self._wait(WAIT_SECONDS)
            waited += WAIT_SECONDS

    def committed(self, partition: int) -> Committed | None:
        """What the group has committed; raises ``UnreachableError`` while a transaction holds it pending."""
        waited = 0.0
        while True:
            with self._cluster.lock:
                self._cluster.check("committed", self._instance)
                self._place(partition)
                if not self._cluster.pending(self._group.name, self._topic, partition):
                    return self._group.offsets.get(partition)
            waited = _wait_for(self._wait, f"offsets of {self._topic}-{partition} to be decided", waited)

    def seek(self, partition: int, offset: int) -> None:
        """Set the position of an assigned partition."""
        with self._cluster.lock:
            self._place(partition).position = offset

    def pause(self, partitions: Sequence[int]) -> None:
        """Take no records of these until ``resume``."""
        with self._cluster.lock:
            for partition in partitions:
                self._place(partition).paused = True

    def resume(self, partitions: Sequence[int]) -> None:
        """Take records of these again; they must have a position."""
        with self._cluster.lock:
            for partition in partitions:
                place = self._place(partition)
                if place.position is None:
                    raise AssertionError(f"{self._topic}-{partition} has no position: seek before resume")
                place.paused = False

    def lag(self) -> dict[int, int]:
        """Offsets between the position and the end of each partition that has a position."""
        with self._cluster.lock:
            return {p: max(0, self._end(p) - at) for p, at in self._positions().items()}

    def positions(self) -> dict[int, int]:
        """The offset of the next record to take, of each partition that has a position."""
        with self._cluster.lock:
            return self._positions()

    def close(self) -> None:
        """Stop. An instance keeps its place until its session ends; a member without a name leaves at once."""
        with self._cluster.lock:
            if not self._instance and self._member is not None:
                self._group.leave(self._member)
            self._places.clear()

    def _take_part(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Learn what the group decided; returns the partitions that came and those that went."""
        before = self._places
        if self._replaced:
            return (), ()
        if self._member is None or self._member not in self._group.members:
            if self._member is not None and self._group.holder(self._instance) is not None:
                self._replaced = True
                return (), ()
            self._member = self._group.join(self._instance, self._cluster.now_seconds)
            self._places = {}
        owned_before = frozenset(self._places)
        self._generation, owned = self._group.poll(self._member, owned_before, self._cluster.now_seconds)
        self._places = {p: self._places.get(p) or _Place() for p in sorted(owned)}
        kept = owned_before & owned
        return tuple(sorted(owned - kept)), tuple(sorted(before.keys() - kept))

    def _take(self, records_max: int, bytes_max: int) -> list[Record]:
        """Take records, from a partition further on each time; positions move only if all could be read."""
        positions = {p: at for p, at in self._positions().items() if not self._places[p].paused}
        first = self._turn % max(1, len(positions))
        self._turn += 1
        order = list(positions)
        found: list[Record] = []
        moved: dict[int, int] = {}
        for partition in order[first:] + order[:first]:
            log = self._cluster.log(self._topic, partition)
            records, moved[partition] = log.read(positions[partition], records_max - len(found))
            for record in records:
                if bytes_max <= 0:  # the one that reached it was taken
                    moved[partition] = record.offset
                    break
                bytes_max -= len(record.value or b"") + len(record.key or b"")
                found.append(record)
        for partition, position in moved.items():
            self._places[partition].position = position
        return found

    def _available(self) -> int:
        positions = self._positions().items()
        return sum(self._end(p) - at for p, at in positions if not self._places[p].paused)

    def _positions(self) -> dict[int, int]:
        return {p: place.position for p, place in self._places.items() if place.position is not None}

    def _end(self, partition: int) -> int:
        return self._cluster.log(self._topic, partition).stable_end

    def _place(self, partition: int) -> _Place:
        if partition not in self._places:
            raise AssertionError(f"{self._topic}-{partition} is not assigned to {self._instance!r}: poll says what is")
        return self._places[partition]


class MemoryProducer:
    """A transactional producer; see ``workers.transport.protocol.Producer`` and the theory of operation above."""

    def __init__(self, cluster: MemoryCluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        with cluster.lock:
            cluster.check("producer", transactional_id)
            self._key = (transactional_id, cluster.init_producer(transactional_id))
        self._state: Literal["ready", "open", "failed", "lost"] = "ready"
        self._failure: TransportError | None = None
        self._unflushed = 0

    def begin(self) -> None:
        """Open a transaction."""
        with self._cluster.lock:
            self._expect("begin", "ready")
            self._state, self._unflushed = "open", 0

    def send(
        self, topic: str, partition: int, value: bytes | None, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Append to the transaction; what goes wrong is told by ``flush``, but an unknown topic at once."""
        with self._cluster.lock:
            self._expect("send", "open", "failed")
            self._cluster.log(topic, partition)
            self._unflushed += 1
            try:
                self._cluster.check("send", self._id)
                self._cluster.write(self._key, topic, partition, value, key, timestamp_ms)
            except AbortedError as error:
                self._fail(error)

    def flush(self) -> None:
        """Raises ``AbortedError`` if a record was not acknowledged."""
        with self._cluster.lock:
            self._expect("flush", "open", "failed")
            self._raise_failure()
            self._try("flush")
            self._unflushed = 0

    def send_offsets(self, topic: str, offsets: Mapping[int, Committed], membership: Membership) -> None:
        """Put the group's offsets into the transaction; raises ``FencedError`` for an older membership."""
        with self._cluster.lock:
            self._expect("send_offsets", "open", "failed")
            self._raise_failure()
            if self._unflushed:
                raise AssertionError(f"{self._unflushed} records of {self._id!r} have had no flush: flush first")
            self._try("send_offsets")
            try:
                self._cluster.write_offsets(self._key, topic, offsets, membership)
            except FencedError as error:
                self._fail(error)
                raise
            self._try("send_offsets_after")

    def commit(self) -> None:
        """Make the transaction visible; after anything has failed in it, that failure again."""
        with self._cluster.lock:
            self._expect("commit", "open", "failed")
            self._raise_failure()
            self._finish(commit=True)

    def abort(self) -> None:
        """Undo the transaction."""
        with self._cluster.lock:
            self._expect("abort", "open", "failed")
            self._finish(commit=False)

    def close(self) -> None:
        """Abort what is open, if it can be; never raises."""
        with self._cluster.lock:
            if self._state in ("open", "failed") and self._cluster.reachable and self._is_current():
                self._cluster.end(self._key, commit=False)
            self._state = "lost"

    def _finish(self, commit: bool) -> None:
        before, after = ("commit_before", "commit_after") if commit else ("abort", "abort_after")
        self._state = "lost"  # until there is an answer
        self._cluster.check(before, self._id)
        self._cluster.end(self._key, commit)
        self._cluster.check(after, self._id)
        self._state, self._failure = "ready", None

    def _expect(self, call: str, *states: str) -> None:
        self._cluster.fence(self._key)
        if self._state == "lost":
            raise OutcomeUnknownError(
                f"{call}: producer {self._id!r} was closed or got no answer to its last commit or abort; make a new one"
            )
        if self._state not in states:
            raise AssertionError(f"{call} is not allowed when producer {self._id!r} is {self._state}")

    def _try(self, call: str) -> None:
        try:
            self._cluster.check(call, self._id)
        except TransportError as error:
            self._fail(error)
            raise

    def _fail(self, error: TransportError) -> None:
        self._state = "failed"
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure)) from self._failure

    def _is_current(self) -> bool:
        try:
            self._cluster.fence(self._key)
        except FencedError:
            return False
        return True
