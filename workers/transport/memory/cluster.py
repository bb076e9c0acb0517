"""The broker of the twin in memory: topics, transactions, groups, a clock that the test moves, and faults as data.

Theory of operation. One cluster is one broker; clients (``memory.MemoryTransport``) call it under one lock. Nothing
happens by itself: time passes only in ``advance``, which ends sessions and transactions that are too old, and a group
moves on only when its members poll. So one thread with one seed always sees the same run.

Of each transactional id the cluster keeps an **epoch** and at most one open transaction. A new producer takes the next
epoch, and what the old one left open is aborted; a transaction that times out takes the next epoch too, so that its
producer is fenced. A transaction begins with its first record or offset. While it is open, the offsets in it are
*pending*: ``committed`` waits. Its end puts a control record in every partition it wrote, and applies or drops the
offsets, in one step.

**Faults** are what a client sees, and leave the truth to the cluster (``FAULTS`` lists them). ``commit_before``: the
request was lost, the transaction stays open until its timeout or the next producer of the id. ``commit_after``: only
the answer was lost, it is committed. While ``reachable`` is false every call fails as if it had not arrived, and no
session ends; when the broker is back, sessions begin anew, and transactions are as old as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.settings.kafka import BATCH_BYTES_MAX
from workers.transport.memory.group import Group
from workers.transport.memory.log import Outcome, PartitionLog, Transaction
from workers.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Membership,
    OutcomeUnknownError,
    Record,
    Replication,
    TransportError,
    UnknownTopicError,
    UnreachableError,
)

# Where a client can be made to fail, and what it then sees. The plain name fails before the cluster has acted,
# ``_after`` once it has; ``flush`` is after: the records are in the log, in a transaction that must be aborted.
FAULTS: dict[str, type[TransportError]] = {
    "partitions": UnreachableError,
    "configs": UnreachableError,
    "bounds": UnreachableError,
    "read": UnreachableError,
    "trim": UnreachableError,
    "poll": UnreachableError,
    "committed": UnreachableError,
    "producer": UnreachableError,
    "send": AbortedError,  # this record is not in the log; send returns, and flush raises
    "flush": AbortedError,
    "send_offsets": AbortedError,
    "send_offsets_after": AbortedError,
    "commit_before": OutcomeUnknownError,
    "commit_after": OutcomeUnknownError,
    "abort": OutcomeUnknownError,
    "abort_after": OutcomeUnknownError,
}

# The broker's own limit is 4,096; the protocol promises a little less.
METADATA_CHARACTERS_MAX = 4000


@dataclass
class _Fault:
    call: str
    who: str | None
    times: int
    raises: BaseException | type[BaseException] | None


@dataclass
class _ProducerState:
    epoch: int = 0
    transaction: Transaction | None = None


@dataclass
class _Topic:
    logs: list[PartitionLog]
    configs: Mapping[str, str]
    replicas: int

    @property
    def log_append_time(self) -> bool:
        """Whether records carry the cluster's clock, whatever was sent."""
        return self.configs.get("message.timestamp.type") == "LogAppendTime"


class MemoryCluster:
    """A broker in memory. Times are seconds of its own clock, which starts at ``start_seconds``."""

    def __init__(
        self,
        session_seconds: float = 10.0,
        transaction_timeout_seconds: float = 15.0,
        record_bytes_max: int = 1_048_576,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        nodes: int = 1,
        start_seconds: float = 1_600_000_000.0,
    ) -> None:
        self.session_seconds = session_seconds
        self.transaction_timeout_seconds = transaction_timeout_seconds
        self.record_bytes_max, self.batch_bytes_max = record_bytes_max, batch_bytes_max
        self.nodes = nodes
        self.now_seconds = start_seconds
        self.lock = threading.RLock()
        self._topics: dict[str, _Topic] = {}
        self._groups: dict[str, Group] = {}
        self._producers: dict[str, _ProducerState] = {}
        self._faults: list[_Fault] = []
        self._reachable = True

    # What a test does to a cluster.

    def create(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None, replicas: int = 1) -> None:
        """Make a topic; of its settings only ``message.timestamp.type`` is followed, the others are told."""
        with self.lock:
            if topic in self._topics or partitions < 1:
                raise ValueError(f"cannot create {topic!r} with {partitions} partitions: it must be new, with >= 1")
            logs = [PartitionLog(topic, partition) for partition in range(partitions)]
            self._topics[topic] = _Topic(logs, dict(configs or {}), replicas)

    def advance(self, seconds: float) -> None:
        """Let time pass: members that did not poll are put out, open transactions time out."""
        with self.lock:
            self.now_seconds += seconds
            if not self._reachable:
                return
            for group in self._groups.values():
                group.expire(self.now_seconds, self.session_seconds)
            for state in self._producers.values():
                pending = state.transaction
                if pending is None:
                    continue
                if self.now_seconds - pending.started_seconds >= self.transaction_timeout_seconds:
                    self._end(state, commit=False)
                    state.epoch += 1

    @property
    def reachable(self) -> bool:
        """Whether the broker answers; set it to false to take the broker away for a while."""
        return self._reachable

    @reachable.setter
    def reachable(self, reachable: bool) -> None:
        with self.lock:
            if reachable and not self._reachable:
                for group in self._groups.values():
                    for member in group.members.values():
                        member.seen_seconds = self.now_seconds
            self._reachable = reachable

    def fail_next(
        self,
        call: str,
        *,
        transactional_id: str | None = None,
        instance: str | None = None,
        times: int = 1,
        raises: BaseException | type[BaseException] | None = None,
    ) -> None:
        """Let the next call (of that producer or consumer, else of any) fail; ``raises`` is a crash instead."""
        if call not in FAULTS:
            raise ValueError(f"there is no fault {call!r}; there are {', '.join(FAULTS)}")
        with self.lock:
            self._faults.append(_Fault(call, transactional_id or instance, times, raises))

    def clear_faults(self) -> None:
        """Forget the faults that have not struck."""
        with self.lock:
            self._faults.clear()

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write a record without a transaction, as an outside producer does; returns its offset."""
        with self.lock:
            return self._append(topic, partition, value, key, timestamp_ms, None)

    def append_batch(self, topic: str, partition: int, values: Sequence[bytes], packed_bytes: int) -> None:
        """Write records as one compressed batch; one that unpacks to more than ``batch_bytes_max`` is refused."""
        with self.lock:
            if sum(map(len, values)) > self.batch_bytes_max:
                self.log(topic, partition).append_refused(len(values), packed_bytes, int(self.now_seconds * 1000))
                return
            for value in values:
                self._append(topic, partition, value, None, None, None)

    def records(self, topic: str) -> list[Record]:
        """All that a read-committed reader sees of a topic, partition by partition."""
        with self.lock:
            return [r for log in self._topic(topic).logs for r in log.read(log.first, log.end + 1)[0]]

    def group(self, name: str, topic: str) -> Group:
        """The group, made if it is new: its offsets, members and generation."""
        with self.lock:
            partitions = range(self.partitions(topic))
            group = self._groups.setdefault(name, Group(name, topic, partitions))
            if group.topic != topic:
                raise AssertionError(f"group {name!r} reads {group.topic!r}; the twin has one topic a group")
            return group

    # What clients call, with the lock held.

    def leave(self, group: str, instance: str) -> None:
        """Take the member of an instance out of its group, if there is one."""
        member = self._groups[group].holder(instance) if group in self._groups else None
        if member is not None:
            self._groups[group].leave(member.member)

    def check(self, call: str, who: str | None = None) -> None:
        """Raise what was asked for by ``fail_next``, or that the broker is away."""
        for fault in self._faults:
            if fault.call == call and fault.who in (None, who):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                if fault.raises is not None:
                    raise fault.raises
                break
        else:
            if self._reachable:
                return
        raise FAULTS[call](f"{call} of {who or 'the transport'} was not answered; see its docstring for what to do")

    def partitions(self, topic: str) -> int:
        """Number of partitions; raises ``UnknownTopicError``."""
        return len(self._topic(topic).logs)

    def configs(self, topic: str) -> Mapping[str, str]:
        """The settings of a topic; raises ``UnknownTopicError``."""
        return self._topic(topic).configs

    def replication(self, topic: str) -> Replication:
        """Nodes, and replicas of a topic; raises ``UnknownTopicError``."""
        return Replication(self.nodes, self._topic(topic).replicas)

    def log(self, topic: str, partition: int) -> PartitionLog:
        """One partition; raises ``UnknownTopicError``."""
        logs = self._topic(topic).logs
        if not 0 <= partition < len(logs):
            raise UnknownTopicError(f"{topic!r} has no partition {partition}: it has {len(logs)}, from 0")
        return logs[partition]

    def init_producer(self, transactional_id: str) -> int:
        """The next epoch of the id; what an earlier producer left open is aborted."""
        state = self._producers.setdefault(transactional_id, _ProducerState())
        self._end(state, commit=False)
        state.epoch += 1
        return state.epoch

    def write(
        self,
        producer: tuple[str, int],
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int | None,
    ) -> None:
        """Append to the transaction of that (transactional id, epoch)."""
        self._append(topic, partition, value, key, timestamp_ms, self._transaction(producer))

    def write_offsets(
        self, producer: tuple[str, int], topic: str, offsets: Mapping[int, Committed], membership: Membership
    ) -> None:
        """Put a group's offsets into the transaction; raises ``FencedError`` for an older membership."""
        group = self.group(membership.group, topic)
        group.check(membership)
        transaction = self._transaction(producer)
        for partition, committed in offsets.items():
            self.log(topic, partition)
            if len(committed.metadata) > METADATA_CHARACTERS_MAX:
                raise AssertionError(
                    f"metadata of {topic}-{partition} has {len(committed.metadata)} characters;"
                    f" the limit is {METADATA_CHARACTERS_MAX}"
                )
            transaction.offsets[group.name, topic, partition] = committed

    def end(self, producer: tuple[str, int], commit: bool) -> None:
        """Commit or abort the open transaction, if there is one."""
        self._end(self.fence(producer), commit)

    def fence(self, producer: tuple[str, int]) -> _ProducerState:
        """Raise ``FencedError`` unless this is the present epoch of the id."""
        transactional_id, epoch = producer
        state = self._producers[transactional_id]
        if state.epoch != epoch:
            raise FencedError(
                f"producer {transactional_id!r} of epoch {epoch} was fenced: the id is at epoch {state.epoch}, by a"
                " newer producer or because a transaction timed out; make a new one"
            )
        return state

    def pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction holds an offset of the group there."""
        place = (group, topic, partition)
        states = self._producers.values()
        return any(state.transaction is not None and place in state.transaction.offsets for state in states)

    def _topic(self, topic: str) -> _Topic:
        if topic not in self._topics:
            raise UnknownTopicError(f"topic {topic!r} does not exist; create it first")
        return self._topics[topic]

    def _transaction(self, producer: tuple[str, int]) -> Transaction:
        state = self.fence(producer)
        if state.transaction is None:
            state.transaction = Transaction(producer[0], self.now_seconds)
        return state.transaction

    def _append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int | None,
        writer: Transaction | None,
    ) -> int:
        log = self.log(topic, partition)
        bytes_sent = len(value or b"") + len(key or b"")
        if bytes_sent > self.record_bytes_max:
            raise AbortedError(
                f"a record of {bytes_sent} bytes for {topic}-{partition} is over the limit of"
                f" {self.record_bytes_max}; send less at once"
            )
        if timestamp_ms is None or self._topics[topic].log_append_time:
            timestamp_ms = int(self.now_seconds * 1000)
        return log.append(value, key, timestamp_ms, writer)

    def _end(self, state: _ProducerState, commit: bool) -> None:
        transaction, state.transaction = state.transaction, None
        if transaction is None:
            return
        transaction.outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
        for log in transaction.logs:
            log.append_control(transaction)
        if commit:
            for (group, _, partition), committed in transaction.offsets.items():
                self._groups[group].offsets[partition] = committed
