"""Incidents of workers: the real ones, on the twin of Kafka.

An incident is a generator. Its first value means that all is well; each later one is another moment of the incident.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from incident_place import Place
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench

from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.transport.protocol import Committed, Consumer, UnreachableError
from neardup_workers.running.service.roles import ROLES

Incident = Callable[[Place], Iterator[None]]
VERDICTS = {"verdicts": True}


def unlike(number: int) -> str:
    """A text of words that no other one has."""
    chance = random.Random(number)
    return " ".join(f"{chance.getrandbits(40):x}" for _ in range(20))


class Documents:
    """Documents of one deployment, each with a number of its own."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self._numbers = bench, itertools.count()

    def send(
        self, count: int, text: str | None = None, at: float | None = None, message_at: float | None = None
    ) -> None:
        """Send documents that nothing is like, or with this text; ``at`` is their time, now if nothing is said."""
        for n in itertools.islice(self._numbers, count):
            said = unlike(n) if text is None else text
            value = json.dumps({"id": f"d{n}", "text": said, "timestamp": time.time() if at is None else at}).encode()
            given = None if message_at is None else round(message_at * 1000)
            self.bench.cluster.append(self.bench.names.topics.documents, n % 2, value, b"d%d" % n, given)

    def near(self, count: int) -> None:
        """Send documents of which each is near to all others."""
        for _ in range(count):
            self.send(1, f"{TEXT} {next(self._numbers)}")


def work(bench: Bench, *roles: str, **changes: Any) -> None:
    """Let a worker of each role take all that there is, one role after the other."""
    bench.agree(**changes)
    for role in roles:
        bench.run(role, lambda role=role: bench.has_taken_all(role), **changes)


def looks(count: int) -> Callable[[], bool]:
    """A condition that holds when it was asked so often: a worker takes that many turns."""
    left = itertools.count(1)
    return lambda: next(left) > count


def worked(place: Place, role: str, **changes: Any) -> tuple[Bench, Documents]:
    """A deployment with documents that its workers have taken; the place shows the worker of a role."""
    bench = place.show_worker(role, **changes)
    documents = Documents(bench)
    documents.send(4)
    work(bench, SIGN, MATCH, *((LINK, FILTER) if changes.get("verdicts") else ()))
    return bench, documents


def ends(role: str, **changes: Any) -> Incident:
    """The only worker of a role ends without a word."""

    def incident(place: Place) -> Iterator[None]:
        bench, documents = worked(place, role, **changes)
        yield
        place.is_down, place.absent = True, {role}
        documents.send(4)
        work(bench, *itertools.takewhile(lambda one: one != role, (SIGN, MATCH, LINK, FILTER)))
        while True:
            yield

    return incident


def restarts(place: Place) -> Iterator[None]:
    """The broker refuses the connection again and again."""
    bench, _ = worked(place, SIGN)
    yield
    while True:
        refusals = iter([UnreachableError("no broker")] * 5)

        def connect(refusals: Iterator[UnreachableError] = refusals) -> MemoryTransport:
            for error in refusals:
                raise error
            return MemoryTransport(bench.cluster)

        bench.run(SIGN, looks(8), connect)
        yield


def disconnected(place: Place) -> Iterator[None]:
    """The broker stops answering a worker."""
    bench, _ = worked(place, SIGN)
    bench.run(SIGN, lambda: bench.metrics[SIGN].value("connected") == 1)
    yield
    bench.cluster.fail_next("poll", times=1_000, raises=None)
    bench.run(SIGN, lambda: bench.metrics[SIGN].value("connected") == 0)
    bench.cluster.clear_faults()
    while True:
        yield


def not_ready(place: Place) -> Iterator[None]:
    """A transaction of a predecessor stays open, which holds its committed offset."""
    bench, _ = worked(place, SIGN)
    bench.run(SIGN, lambda: bench.metrics[SIGN].value("ready") == 1)
    yield
    transport, topic = MemoryTransport(bench.cluster), bench.names.topics.documents
    before = transport.consumer(topic, bench.names.group(SIGN), bench.names.worker(SIGN, "0"))
    membership = before.poll(0.0, 1).membership
    producer = transport.producer("predecessor")
    producer.begin()
    producer.send_offsets(topic, {0: Committed(1, "")}, membership)
    bench.run(SIGN, looks(12))
    while True:
        yield


def restoring(place: Place) -> Iterator[None]:
    """A window is read again, a message a turn."""
    bench, documents = worked(place, MATCH)
    for _ in range(30):
        documents.send(2)
        work(bench, SIGN)
    work(bench, MATCH)
    bench.run(MATCH, lambda: bench.metrics[MATCH].value("ready") == 1)
    yield
    while True:
        bench.run(MATCH, looks(6), step_messages_max=1)
        yield


def idle(place: Place) -> Iterator[None]:
    """Two other signers share the two partitions."""
    bench, _ = worked(place, SIGN)
    bench.run(SIGN, lambda: bench.metrics[SIGN].value("connected") == 1)
    yield
    others = [
        MemoryTransport(bench.cluster).consumer(bench.names.topics.documents, bench.names.group(SIGN), f"other-{n}")
        for n in range(2)
    ]

    def shared(turns: Callable[[], bool]) -> bool:
        for other in others:
            other.poll(0.0, 1)
        return turns()

    bench.cluster.session_seconds = 1e9
    turns, staying = looks(30), MemoryTransport(bench.cluster)
    staying.leave = lambda *_: None  # type: ignore[method-assign]
    bench.run(SIGN, lambda: shared(turns), lambda: staying, instance="9")
    while True:
        yield


def lag(place: Place) -> Iterator[None]:
    """Documents come faster than a signer signs them."""
    bench, documents = worked(place, SIGN)
    yield
    documents.send(1_200, message_at=time.time() - 120)
    while True:
        documents.send(300, message_at=time.time() - 120)  # more for each partition than are signed in all
        bench.run(SIGN, looks(8), step_documents_max=10)
        yield


def aborted(place: Place) -> Iterator[None]:
    """The brokers refuse every write."""
    bench, documents = worked(place, SIGN)
    yield
    documents.send(40)
    while True:
        bench.cluster.fail_next("flush", times=1_000)
        bench.run(SIGN, looks(6))
        bench.cluster.clear_faults()
        yield


def sometimes_aborted(place: Place) -> Iterator[None]:
    """The brokers refuse every second write."""
    bench, documents = worked(place, SIGN)
    yield
    while True:
        documents.send(4)
        bench.cluster.fail_next("flush")
        work(bench, SIGN)
        yield


def late_pairs(place: Place) -> Iterator[None]:
    """Producers write documents an hour after their time."""
    bench, documents = worked(place, MATCH)
    yield
    while True:
        documents.send(4, TEXT, at=time.time() - 3_000)
        work(bench, SIGN, MATCH)
        yield


def refused(place: Place) -> Iterator[None]:
    """A producer has renamed the field of the text."""
    bench, _ = worked(place, SIGN)
    yield
    while True:
        bench.add(("x", "some text"), text_field=1)
        for n in range(3):
            value = json.dumps({"id": f"r{n}", "body": TEXT}).encode()
            bench.cluster.append(bench.names.topics.documents, 0, value, b"r%d" % n, round(time.time() * 1000))
        work(bench, SIGN)
        yield


def near_copies(**changes: Any) -> Incident:
    """Very many documents are near to each other, and the limits of candidates are small."""

    def incident(place: Place) -> Iterator[None]:
        bench, documents = worked(place, MATCH, **changes)
        yield
        while True:
            documents.near(20)
            work(bench, SIGN, MATCH)
            yield

    return incident


def evictions(place: Place) -> Iterator[None]:
    """The window has room for fewer documents than come in it."""
    bench, documents = worked(place, MATCH, window_documents=16)
    yield
    while True:
        documents.send(20)
        work(bench, SIGN, MATCH)
        yield


def late(place: Place) -> Iterator[None]:
    """Messages have times of long before the stream's."""
    bench, documents = worked(place, MATCH, window_seconds=120.0, lateness_seconds=60.0)
    yield
    while True:
        documents.send(4)
        work(bench, SIGN)
        documents.send(4, at=time.time() - 10_000, message_at=time.time() - 10_000)
        work(bench, SIGN, MATCH)
        yield


def clocks_ahead(place: Place) -> Iterator[None]:
    """A producer's clock is a day ahead."""
    bench, documents = worked(place, SIGN)
    yield
    while True:
        documents.send(4, at=time.time() + 86_400)
        work(bench, SIGN)
        yield


class Hand:
    """A worker that is turned by hand, on clocks that the test moves; ``others`` are members that do nothing."""

    def __init__(self, bench: Bench, role: str = SIGN, **changes: Any) -> None:
        self.bench, self.others, self.ahead = bench, list[Consumer](), 0.0
        bench.cluster.session_seconds = 1e9
        transport = MemoryTransport(bench.cluster)
        self._topic, self._group = ROLES[role].topic(bench.names.topics), bench.names.group(role)
        name, settings = bench.names.worker(role, "0"), bench.settings.model_copy(update=changes)
        consumer, producer = transport.consumer(self._topic, self._group, name), transport.producer(name)
        member = WorkerMember(transport, consumer, producer, bench.metrics[role])
        self.made: Any = ROLES[role].make(member, settings, LIMITS)
        self.made.worker.now = lambda: time.monotonic() + self.ahead
        self.made.worker.member.clock = lambda: time.time() + self.ahead

    def turn(self, count: int = 1, seconds: float = 0.0, records_max: int = 100) -> None:
        for _ in range(count):
            self.ahead += seconds
            self.bench.cluster.advance(seconds)
            for other in self.others:
                other.poll(0.0, 1)
            self.made.worker.turn(0.0, records_max)
        self.made.observe()

    def share(self) -> None:
        """Let another signer join, which takes one of the two partitions."""
        self.others = [MemoryTransport(self.bench.cluster).consumer(self._topic, self._group, "other")]
        self.turn(6)


def waits_for_others(**changes: Any) -> Incident:
    """Another signer has a partition with an older backlog, and does not sign it."""

    def incident(place: Place) -> Iterator[None]:
        bench, documents = worked(place, SIGN, window_seconds=3_600.0, lateness_seconds=60.0)
        hand = Hand(bench, **changes)
        hand.turn(3)
        yield
        hand.share()
        documents.send(2)
        hand.turn(1, seconds=600.0)
        while True:
            documents.send(4)
            hand.turn(3, seconds=25.0)
            yield

    return incident


def partition_behind(place: Place) -> Iterator[None]:
    """The messages of a partition carry times of an hour ago, and there is a backlog of them."""
    bench = place.show_worker(SIGN)
    documents, hand = Documents(bench), Hand(bench)
    hand.turn(3)
    yield
    while True:
        documents.send(100, at=time.time() - 3_600, message_at=time.time() - 3_600)
        hand.turn(2, records_max=10)
        yield


def watermark(place: Place) -> Iterator[None]:
    """A matcher is down: its shards have passed nothing for seven minutes."""
    bench, documents = worked(place, LINK, **VERDICTS)
    bench.run(LINK, lambda: bench.metrics[LINK].value("ready") == 1)
    yield
    place.absent = {MATCH}
    documents.send(4)
    work(bench, SIGN)
    hand = Hand(bench, LINK)
    hand.turn(6, seconds=70.0)
    while True:
        yield


def jump(place: Place) -> Iterator[None]:
    """After a time without duplicates, all documents have one text; for minutes they are fewer than those before."""
    bench, documents = worked(place, LINK, **VERDICTS)
    yield
    documents.send(200)
    work(bench, SIGN, MATCH, LINK)
    yield

    def more() -> None:
        documents.send(2, TEXT)
        work(bench, SIGN, MATCH, LINK)

    place.tick = more
    while True:
        more()
        yield


def gone(place: Place) -> Iterator[None]:
    """Retention has deleted documents before the filter forwarded them, and allow_gap accepts that."""
    bench, documents = worked(place, FILTER, **VERDICTS)
    yield
    while True:
        documents.send(4)
        work(bench, SIGN, MATCH, LINK)
        transport, topic = MemoryTransport(bench.cluster), bench.names.topics.documents
        transport.trim(topic, {partition: end for partition, (_, end) in transport.bounds(topic).items()})
        work(bench, FILTER, allow_gap=True)
        yield


def incomplete(place: Place) -> Iterator[None]:
    """Matchers worked without verdicts for a while, and allow_gap accepts that."""
    bench, documents = worked(place, LINK, **VERDICTS)
    yield

    def more() -> None:
        documents.send(4)
        work(bench, SIGN)
        work(bench, MATCH, verdicts=False)
        documents.send(4)
        work(bench, SIGN, MATCH)
        work(bench, LINK, allow_gap=True)

    place.tick = more
    while True:
        more()
        yield
