"""K9: seconds of a takeover by size of the window, with a standby and without, after the session of the dead owner.

Two matchers share the shards. One is gone without leaving, and its session ends; the time begins with the first turn of
the survivor in which the shards are its own, and ends when it runs all of them. On the twin of the broker the session
costs nothing, so the time is the work of the takeover alone: replay of the rest, or restore of the window.

Linkers work over the broker. A process that has decided the window is killed (SIGKILL) while another linker stands by,
and more documents arrive. Then that one is gone, too, and a new one restores the window. The time begins in the same
way, and ends with the commit of the next verdicts; the details have the seconds since the kill.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from contextlib import closing

from kafka import KafkaProducer
from memory_transport import MemoryCluster, MemoryTransport

from benchmarks.kafka import matcher
from benchmarks.kafka.deploy import WAIT_SECONDS_MAX, Bench, Process, Tally, deployment
from benchmarks.report import Result, Size, Target
from benchmarks.speed.linker import STEP, Step, steps
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.running.service.roles import ROLES

ID = "K9-takeover"
SECONDS_MAX = 5.0
_DOCUMENTS: dict[Size, tuple[int, ...]] = {
    "smoke": (600,), "default": (50_000, 200_000), "large": (100_000, 1_000_000, 5_000_000),
}  # fmt: skip
_STEP = 2_000
_LINKED: dict[Size, int] = {"smoke": STEP, "default": 1_000_000, "large": 5_000_000}
_TURN_SECONDS = 0.05
# Documents a second that a linker decides on a busy machine, at least.
_RATE_MIN = 2_500


def run(bench: Bench) -> Iterator[Result]:
    """Take over windows of each size, with a standby and without."""
    yield from linkers(bench)
    for count in _DOCUMENTS[bench.size]:
        settings = deployment(bench, "takeover", window_documents=max(count, 1_000))
        ROLES["match"].warm(settings)
        cluster = matcher.holding(settings, matcher.signed(settings, matcher.documents(count), _STEP))
        for standbys in (1, 0):
            seconds, read = taken_over(cluster, settings.model_copy(update={"standbys": standbys}))
            target = Target("at most", SECONDS_MAX) if standbys and count >= 10_000 else None
            where = "with a standby" if standbys else "without a standby"
            yield Result(ID, f"takeover {where}, {count:,} documents", seconds, "s", target, {"documents read": read})


def taken_over(cluster: MemoryCluster, settings: StreamSettings) -> tuple[float, int]:
    """Match the log with two matchers, let one die, and return the seconds of the takeover and the documents that it
    read again."""
    group, tally = f"takeover{settings.standbys}", Tally()
    dying, survivor = (_member(cluster, settings, group, name, tally) for name in ("a", "b"))
    end = cluster.log(names_of(settings).topics.signed, 0).end
    while not _is_even(dying, survivor, settings, end):
        for worker in (dying, survivor):
            worker.turn(0.0, LIMITS.step_messages_max)
    while (
        survivor.member.joined
        and len(survivor.running) + len(survivor.restoring) + len(survivor.member.waiting) < settings.shards
    ):
        cluster.advance(cluster.session_seconds / 3)
        before, started = tally.sums.get("restored_documents", 0.0), time.perf_counter()
        survivor.turn(0.0, LIMITS.step_messages_max)
    while len(survivor.running) < settings.shards:
        survivor.turn(0.0, LIMITS.step_messages_max)
    return time.perf_counter() - started, int(tally.sums.get("restored_documents", 0.0) - before)


def _is_even(one: MatchWorker, two: MatchWorker, settings: StreamSettings, end: int) -> bool:
    """Whether both have matched all, each half of the shards, and stand by for each other if they shall."""
    tables = [*one.tables.values(), *two.tables.values()]
    is_shared = len(tables) == settings.shards and abs(len(one.tables) - len(two.tables)) <= 1
    stand = len(one.standbys.ready) + len(two.standbys.ready) == settings.standbys * settings.shards
    return is_shared and stand and all(table.position >> 16 >= end for table in tables)


def _member(cluster: MemoryCluster, settings: StreamSettings, group: str, name: str, tally: Tally) -> MatchWorker:
    """A matcher of a group of its own."""
    role, topics = ROLES["match"], names_of(settings).topics
    transport = MemoryTransport(cluster)
    consumer, producer = transport.consumer(role.topic(topics), group, name), transport.producer(f"{group}-{name}")
    worker = role.make(WorkerMember(transport, consumer, producer, tally), settings, LIMITS).worker
    assert isinstance(worker, MatchWorker)
    return worker


def linkers(bench: Bench) -> Iterator[Result]:
    """Kill a linker that has a standby, then end that one when it has none."""
    count = _LINKED[bench.size]
    settings = deployment(bench, "takeover", verdicts=True, standbys=1, window_documents=2 * count)
    ROLES["link"].warm(settings)
    made = steps(count + 2 * STEP)
    publish(settings, itertools.islice(made, count // STEP))
    with Process("link", settings, "1") as owner:
        owner.start()
        waits = WAIT_SECONDS_MAX + count / _RATE_MIN
        owner.wait(lambda: owner.documents >= count, "all have a verdict", waits)
        survivor = Linker(settings, "1")
        while not survivor.worker.held.is_level:
            survivor.worker.turn(_TURN_SECONDS, LIMITS.step_messages_max)
        killed = time.perf_counter()
    for where, following in (("with a standby", "2"), ("without a standby", "")):
        publish(settings, [next(made)])
        with closing(survivor):
            seconds, read = survivor.taken_over()
            session, ended = settings.client.session_timeout_seconds, time.perf_counter()
        details = {"documents read": read, "seconds since the kill": ended - killed, "session s": session}
        killed = time.perf_counter()
        if following:
            survivor = Linker(settings, following)
        target = Target("at most", SECONDS_MAX) if following and bench.size != "smoke" else None
        yield Result(ID, f"takeover of a linker {where}, {count:,} documents", seconds, "s", target, details)


class Linker:
    """A linker of this process; closing it is no leave: the group keeps its place for the session."""

    def __init__(self, settings: StreamSettings, instance: str) -> None:
        role, names, self._tally = ROLES["link"], names_of(settings), Tally()
        name, transport = names.worker(role.name, instance), connect(settings)
        consumer = transport.consumer(role.topic(names.topics), names.group(role.name), name)
        producer = transport.producer(name)
        self._closing = producer, consumer, transport
        worker = role.make(WorkerMember(transport, consumer, producer, self._tally), settings, LIMITS).worker
        assert isinstance(worker, LinkWorker)
        self.worker = worker

    def taken_over(self) -> tuple[float, int]:
        """Take turns until verdicts are committed; return the seconds since the partition was its own, and the
        documents that it read again."""
        began, before = 0.0, self._restored()
        while not self._tally.sums.get("documents"):
            started = time.perf_counter()
            self.worker.turn(_TURN_SECONDS, LIMITS.step_messages_max)
            if not began and (self.worker.member.waiting or self.worker.restoring_partitions() or self.worker.running):
                began = started
        return time.perf_counter() - began, self._restored() - before

    def _restored(self) -> int:
        return int(self._tally.sums.get("restored_documents", 0.0))

    def close(self) -> None:
        """Free what it holds."""
        self.worker.close()
        for each in self._closing:
            each.close()


def publish(settings: StreamSettings, made: Iterable[Step]) -> None:
    """Send rows and links without transactions, whose markers would take offsets."""
    topics = names_of(settings).topics
    client = KafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, max_request_size=settings.client.request_bytes_max, acks="all"
    )
    for step in made:
        for value in step.rows:
            client.send(topics.signed, value, partition=0)
        for shard, values in enumerate(step.links):
            for value in values:
                client.send(topics.links, value, partition=shard)
        client.flush(timeout=60)
    client.close()
