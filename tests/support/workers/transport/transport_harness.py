"""The interface between the laws of transports and their tests, and the small steps of the laws."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from neardup_workers.outside.transport.protocol import (
    Consumer,
    Membership,
    Message,
    Polled,
    Producer,
    Record,
    Transport,
    UnreachableError,
)

RECORDS_MAX = 1000
Answer = TypeVar("Answer")


class Harness(Protocol):
    """What a law needs from its test. Names are new for each harness; the fixture calls ``close``."""

    poll_seconds: float
    """The timeout that laws give to ``poll``: 0 where time does not pass by itself."""

    def name(self, prefix: str) -> str:
        """A name that no other law uses, for a group, an instance or a transactional id."""

    def make_topic(self, partitions: int) -> str:
        """A new empty topic; returns its name."""

    def add_partitions(self, topic: str, count: int) -> None:
        """Give the topic ``count`` more partitions."""

    def transport(self) -> Transport:
        """A new client of the broker, like the client of another process."""

    def kill(self, consumer: Consumer) -> None:
        """Let the process of this consumer die: it sends nothing more, not even heartbeats."""

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Call the condition until it holds; after a time limit, fail with ``what``."""

    def pass_session(self, keep_alive: Callable[[], object]) -> None:
        """Let more time pass than a session lasts, and call ``keep_alive`` (which polls) often enough meanwhile."""


def answered(harness: Harness, ask: Callable[[], Answer], what: str) -> Answer:
    """Ask until the broker answers; after a time limit, fail with ``what``."""
    answers: list[Answer] = []

    def is_answered() -> bool:
        with suppress(UnreachableError):
            answers.append(ask())
        return bool(answers)

    harness.wait_until(is_answered, what)
    return answers[0]


class Member:
    """A consumer that starts its partitions at the committed offset, else at 0, and keeps all records."""

    def __init__(self, harness: Harness, topic: str, group: str, instance: str) -> None:
        self.poll_seconds = harness.poll_seconds
        self.consumer = harness.transport().consumer(topic, group, instance)
        self.records: list[Record] = []
        self.owned: set[int] = set()
        self.unplaced: set[int] = set()  # paused until it has a position

    def step(self) -> Polled:
        polled = self.consumer.poll(self.poll_seconds, RECORDS_MAX)
        self.owned -= set(polled.revoked)
        self.unplaced -= set(polled.revoked)
        assert {record.partition for record in polled.records} <= self.owned  # not revoked, not paused
        assert self.owned.isdisjoint(polled.assigned)
        self.owned |= set(polled.assigned)
        self.unplaced |= set(polled.assigned)
        for partition in sorted(self.unplaced):
            with suppress(UnreachableError):  # asked again after the next poll
                committed = self.consumer.committed(partition)
                self.consumer.seek(partition, committed.offset if committed else 0)
                self.consumer.resume([partition])
                self.unplaced.discard(partition)
        self.records += polled.records
        return polled

    def owns(self, *partitions: int) -> bool:
        self.step()
        return self.owned == set(partitions)

    def present(self) -> Membership:
        """The membership of a poll now."""
        return self.step().membership

    def values(self, partition: int = 0) -> list[bytes | None]:
        self.step()
        return [record.value for record in self.records if record.partition == partition]


def joined(harness: Harness, topic: str, group: str = "", instance: str = "") -> Member:
    """A member that owns every partition of the topic."""
    member = Member(harness, topic, group or harness.name("group"), instance or harness.name("instance"))
    every = range(harness.transport().partitions(topic))
    harness.wait_until(lambda: member.owns(*every), "the only member owns every partition")
    return member


def send(producer: Producer, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
    producer.begin()
    for value in values:
        producer.send(Message(topic, partition, value))
    producer.flush()


def send_and_commit(producer: Producer, topic: str, values: Sequence[bytes]) -> None:
    send(producer, topic, values)
    producer.commit()


def publish(harness: Harness, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
    """Commit the values, and wait until a reader sees them."""
    transport = harness.transport()
    start = transport.bounds(topic)[partition][1]
    producer = transport.producer(harness.name("writer"))
    send(producer, topic, values, partition)
    producer.commit()
    producer.close()

    def are_visible() -> bool:
        end = transport.bounds(topic)[partition][1]
        return read_values(transport, topic, start, end, partition)[-len(values) :] == list(values)

    harness.wait_until(are_visible, "committed records are visible")


def settled(harness: Harness, *members: Member, count: int) -> None:
    """Poll until each partition has one owner, the counts differ by at most one and all members have one generation."""

    def is_settled() -> bool:
        generations = {member.present().generation for member in members}
        owned = sorted(itertools.chain.from_iterable(member.owned for member in members))
        shares = [len(member.owned) for member in members]
        is_even = owned == list(range(count)) and max(shares) - min(shares) <= 1
        return is_even and len(generations) == 1 and generations != {-1}

    harness.wait_until(is_settled, f"{count} partitions are shared by {len(members)} members")


def read_values(transport: Transport, topic: str, start: int, end: int, partition: int = 0) -> list[bytes | None]:
    return [record.value for records in transport.read(topic, partition, start, end) for record in records]
