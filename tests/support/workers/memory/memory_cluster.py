"""The broker in memory: topics, transactions, groups, a clock that the test moves, and faults as data.

Theory of operation. A cluster is one broker. Its clients (``MemoryTransport``) call it under one lock. The cluster has
no activity of its own: time passes only in ``advance``, which ends overdue sessions and transactions, and a rebalance
proceeds only when members poll. So one thread with one seed always has the same run.

For each transactional id the cluster stores an **epoch** and at most one open transaction. A new producer increments
the epoch, and aborts the open transaction. A timeout of a transaction increments the epoch too, so that its producer is
fenced. A transaction begins with its first record or offset. While it is open, its offsets are *pending*, and
``committed`` waits. Its end writes a control record to each of its partitions, and applies or drops its offsets, as one
change.

**Faults** change what a client sees, never the state of the cluster (``FAULTS`` lists them). ``commit_before``: the
request was lost; the transaction stays open until its timeout or the next producer of the id. ``commit_after``: only
the response was lost; the transaction is committed. While ``reachable`` is false, every call fails as if it had not
arrived, and no session ends. When the broker is back, sessions start again; transactions keep their age.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory_group import Group
from memory_log import PartitionLog, Transaction, TransactionState

from neardup_workers.outside.settings.kafka import BATCH_BYTES_MAX
from neardup_workers.outside.transport.assignment import Share
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Headers,
    Membership,
    Message,
    OutcomeUnknownError,
    Record,
    Replication,
    TransportError,
    UnknownTopicError,
    UnreachableError,
)

# Name of a fault -> the error that the client sees. A plain name fails before the cluster acts, ``_after`` behind it.
# ``flush`` is behind it too: the records are in the log, in a transaction that must be aborted.
FAULTS: dict[str, type[TransportError]] = {
    "partitions": UnreachableError,
    "configs": UnreachableError,
    "bounds": UnreachableError,
    "group_offsets": UnreachableError,
    "set_offsets": UnreachableError,
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

# The limit of the protocol; Kafka's own is 4,096.
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
    id: str

    @property
    def log_append_time(self) -> bool:
        """Whether records get the time of the cluster instead of the time that was sent."""
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
        self._made = 0  # topics
        self._groups: dict[str, Group] = {}
        self._producers: dict[str, _ProducerState] = {}
        self._faults: list[_Fault] = []
        self._reachable = True

    # Called by tests.

    def create(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None, replicas: int = 1) -> None:
        """Create a topic. Of its settings only ``message.timestamp.type`` has an effect; ``configs`` returns all."""
        with self.lock:
            if topic in self._topics or partitions < 1:
                raise ValueError(f"cannot create {topic!r} with {partitions} partitions: it must be new, with >= 1")
            logs = [PartitionLog(topic, partition) for partition in range(partitions)]
            self._made += 1
            self._topics[topic] = _Topic(logs, dict(configs or {}), replicas, f"{topic}-{self._made}")

    def add_partitions(self, topic: str, count: int) -> None:
        """Give a topic ``count`` more partitions; the groups that read it rebalance."""
        with self.lock:
            logs = self._topic(topic).logs
            logs += [PartitionLog(topic, len(logs) + i) for i in range(count)]
            for group in self._groups.values():
                if group.topic == topic:
                    group.grow(range(len(logs)))

    def advance(self, seconds: float) -> None:
        """Advance the clock, remove members that did not poll, and time out open transactions."""
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
        """Whether the broker answers; set it to false for an outage."""
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
        """Make the next call of a producer or consumer, or of any, fail; ``raises`` replaces the usual error."""
        if call not in FAULTS:
            raise ValueError(f"there is no fault {call!r}; there are {', '.join(FAULTS)}")
        with self.lock:
            self._faults.append(_Fault(call, transactional_id or instance, times, raises))

    def clear_faults(self) -> None:
        """Drop the faults that have not happened yet."""
        with self.lock:
            self._faults.clear()

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> int:
        """Write a record without a transaction, as an outside producer does; returns its offset."""
        with self.lock:
            return self._append(Message(topic, partition, value, key, timestamp_ms, headers))

    def append_batch(self, topic: str, partition: int, values: Sequence[bytes], packed_bytes: int) -> None:
        """Write records as one compressed batch; it is refused if it unpacks to more than ``batch_bytes_max``."""
        with self.lock:
            if sum(map(len, values)) > self.batch_bytes_max:
                self.log(topic, partition).append_refused(len(values), packed_bytes, int(self.now_seconds * 1000))
                return
            for value in values:
                self._append(Message(topic, partition, value))

    def records(self, topic: str) -> list[Record]:
        """Return all records that a read-committed reader sees, partition by partition."""
        with self.lock:
            return [r for log in self._topic(topic).logs for r in log.read(log.first, log.end + 1)[0]]

    def group(self, name: str, topic: str) -> Group:
        """Return a group with its offsets, members and generation; made at the first call."""
        with self.lock:
            partitions = range(self.partitions(topic))
            group = self._groups.setdefault(name, Group(name, topic, partitions))
            if group.topic != topic:
                raise AssertionError(f"group {name!r} reads {group.topic!r}; in memory a group has one topic")
            return group

    def offsets(self, group: str, topic: str) -> dict[int, Committed]:
        """Return the committed offsets of a group in its own topic or in another topic."""
        with self.lock:
            known = self._groups.get(group)
            return {} if known is None else known.offsets_of(topic)

    # Called by clients, which hold the lock.

    def members(self, group: str) -> int:
        """Return the number of members of a group."""
        known = self._groups.get(group)
        return 0 if known is None else len(known.members)

    def shares(self, group: str) -> dict[str, Share]:
        """Return the share of each member of a group, by its instance."""
        known = self._groups.get(group)
        return {} if known is None else {one.instance or one.member: one.share for one in known.members.values()}

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        """Commit offsets of a group without members; raises ``FencedError`` if it has some."""
        known = self._groups.get(group) or self.group(group, topic)
        if known.members:
            raise FencedError(f"group {group!r} has members: only they commit its offsets")
        known.offsets_of(topic).update(offsets)

    def leave(self, group: str, instance: str) -> None:
        """Remove the member of an instance from its group, if there is one."""
        member = self._groups[group].holder(instance) if group in self._groups else None
        if member is not None:
            self._groups[group].leave(member.member)

    def check(self, call: str, who: str | None = None) -> None:
        """Raise the error of ``fail_next``, or the error of an outage."""
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
        raise FAULTS[call](f"{call} of {who or 'the transport'} was not answered; see its docstring for the remedy")

    def partitions(self, topic: str) -> int:
        """Return the number of partitions; raises ``UnknownTopicError``."""
        return len(self._topic(topic).logs)

    def configs(self, topic: str) -> Mapping[str, str]:
        """Return the settings of a topic; raises ``UnknownTopicError``."""
        return self._topic(topic).configs

    def replication(self, topic: str) -> Replication:
        """Nodes, and replicas of a topic; raises ``UnknownTopicError``."""
        return Replication(self.nodes, self._topic(topic).replicas)

    def log(self, topic: str, partition: int) -> PartitionLog:
        """Return the log of a partition; raises ``UnknownTopicError``."""
        logs = self._topic(topic).logs
        if not 0 <= partition < len(logs):
            raise UnknownTopicError(f"{topic!r} has no partition {partition}: it has {len(logs)}, from 0")
        return logs[partition]

    def init_producer(self, transactional_id: str) -> int:
        """Increment the epoch of an id, and abort the open transaction of the earlier producer; returns the epoch."""
        state = self._producers.setdefault(transactional_id, _ProducerState())
        self._end(state, commit=False)
        state.epoch += 1
        return state.epoch

    def write(self, producer: tuple[str, int], message: Message) -> int:
        """Append to the transaction of this transactional id and epoch; returns the offset."""
        return self._append(message, self._transaction(producer))

    def write_offsets(
        self, producer: tuple[str, int], topic: str, offsets: Mapping[int, Committed], membership: Membership
    ) -> None:
        """Put offsets of a group into the transaction; raises ``FencedError`` for an older membership."""
        group = self._groups[membership.group]
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
        """Raise ``FencedError`` unless this is the present epoch of its id."""
        transactional_id, epoch = producer
        state = self._producers[transactional_id]
        if state.epoch != epoch:
            raise FencedError(
                f"producer {transactional_id!r} of epoch {epoch} was fenced: the id is at epoch {state.epoch}, by a"
                " newer producer or because a transaction timed out; make a new one"
            )
        return state

    def pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of the group for this partition."""
        of = (group, topic, partition)
        states = self._producers.values()
        return any(state.transaction is not None and of in state.transaction.offsets for state in states)

    def _topic(self, topic: str) -> _Topic:
        if topic not in self._topics:
            raise UnknownTopicError(f"topic {topic!r} does not exist; create it first")
        return self._topics[topic]

    def _transaction(self, producer: tuple[str, int]) -> Transaction:
        state = self.fence(producer)
        if state.transaction is None:
            state.transaction = Transaction(producer[0], self.now_seconds)
        return state.transaction

    def _append(self, message: Message, writer: Transaction | None = None) -> int:
        topic, partition, value, key, timestamp_ms, headers = message
        log = self.log(topic, partition)
        bytes_sent = len(value or b"") + len(key or b"")
        if bytes_sent > self.record_bytes_max:
            raise AbortedError(
                f"a record of {bytes_sent} bytes for {topic}-{partition} is over the limit of"
                f" {self.record_bytes_max}; send less at once"
            )
        if timestamp_ms is None or self._topics[topic].log_append_time:
            timestamp_ms = int(self.now_seconds * 1000)
        return log.append(value, key, timestamp_ms, writer, headers)

    def _end(self, state: _ProducerState, commit: bool) -> None:
        transaction, state.transaction = state.transaction, None
        if transaction is None:
            return
        transaction.outcome = TransactionState.COMMITTED if commit else TransactionState.ABORTED
        for log in transaction.logs:
            log.append_control(transaction)
        if commit:
            for (group, topic, partition), committed in transaction.offsets.items():
                self._groups[group].offsets_of(topic)[partition] = committed
