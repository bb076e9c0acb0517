"""A worker as a member of its group: it polls, begins partitions that wait, pauses those ahead, and publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from neardup_workers.doing.stages.transaction import COMMITTED, transact
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.transport.protocol import (
    UNBOUNDED,
    AbortedError,
    Committed,
    Consumer,
    Membership,
    Message,
    Polled,
    Producer,
    Transport,
    UnreachableError,
)

# Of a worker that has not polled yet.
_UNKNOWN = Membership("", -1, "", None)


@dataclass(eq=False)
class WorkerMember:
    """The connections of a worker, and its part in the group. ``clock`` is the wall clock.

    ``waiting`` are the partitions whose committed offset is not known yet, ``aborted_in_row`` the consecutive steps
    whose transaction was aborted, ``awaited`` what the worker waits for of other roles, as a sentence. ``check`` raises
    if the worker must not work: it is called with ``begins`` before partitions begin that were assigned.
    """

    transport: Transport
    consumer: Consumer
    producer: Producer
    observer: Observer
    clock: Callable[[], float] = time.time
    check: Callable[..., None] = lambda **given: None
    membership: Membership = _UNKNOWN  # of the last poll
    waiting: set[int] = field(default_factory=set)
    aborted_in_row: int = 0
    awaited: str = ""
    _is_joining: bool = False  # at the last poll
    _is_checked: bool = False  # since the last assignment
    _refused: int = -1  # the last partition that could not begin
    _paused: set[int] = field(default_factory=set)

    @property
    def joined(self) -> bool:
        """Whether it has a generation of the group."""
        return self.membership.generation >= 0

    def poll(
        self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED, *, at_hand: bool = False
    ) -> Polled:
        """Poll, and follow the group. With records ``at_hand``, wait only while the group rebalances: no step may be
        published until it ends, and without a wait the worker would turn thousands of times."""
        timeout = 0.0 if at_hand and not self._is_joining else timeout_seconds
        polled = self.consumer.poll(timeout, records_max, bytes_max)
        self.membership, self._is_joining = polled.membership, polled.is_joining
        self.waiting = self.waiting - set(polled.revoked) | set(polled.assigned)
        self._paused -= set(polled.revoked)
        self._is_checked = self._is_checked and not polled.assigned
        return polled

    def admit(self) -> None:
        """Check once after an assignment, before a partition begins. Raises as ``check``."""
        if not self._is_checked:
            self.check(begins=True)
            self._is_checked = True

    def begin(self, begin: Callable[[int], bool]) -> None:
        """Begin the partitions that wait; the next turn asks for the others, the last that could not begin at the end.

        ``begin`` begins a partition, and returns whether its position is known. ``UnreachableError`` and
        ``AbortedError`` mean the same as false.
        """
        for partition in sorted(self.waiting, key=lambda partition: (partition <= self._refused, partition)):
            try:
                self.admit()
                is_known = begin(partition)
            except (UnreachableError, AbortedError):
                is_known = False
            if not is_known:
                self._refused = partition
                return  # each answer may take seconds, and the group waits for the next poll
            self.waiting.remove(partition)

    def start(self, partition: int, offset: int) -> None:
        """Read the records of a partition from an offset on."""
        self.consumer.seek(partition, offset)
        self.consumer.resume([partition])
        self._paused.discard(partition)

    def hold(self, full: set[int], running: Collection[int]) -> None:
        """Pause the partitions that have enough pending records, and resume the running others."""
        if full - self._paused:
            self.consumer.pause(sorted(full - self._paused))
        if resumed := (self._paused - full) & set(running):
            self.consumer.resume(sorted(resumed))
        self._paused = full

    def transact(
        self,
        messages: Sequence[Message],
        topic: str,
        offsets: Mapping[int, Committed],
        outcome: str = COMMITTED,
        more_offsets: Mapping[str, Mapping[int, Committed]] = MappingProxyType({}),
    ) -> None:
        """Publish and commit with the membership of the last poll; see ``transact``."""
        transact(self.producer, messages, topic, offsets, self.membership, self.observer, outcome, more_offsets)
