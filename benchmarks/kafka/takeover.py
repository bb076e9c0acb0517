"""K9: seconds of a takeover by size of the window, with a standby and without, after the session of the dead owner.

Two matchers share the shards. One is gone without leaving, and its session ends; the time begins with the first turn of
the survivor in which the shards are its own, and ends when it runs all of them. On the twin of the broker the session
costs nothing, so the time is the work of the takeover alone: replay of the rest, or restore of the window.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from memory_transport import MemoryCluster, MemoryTransport

from benchmarks.kafka import matcher
from benchmarks.kafka.deploy import Bench, Tally, deployment
from benchmarks.report import Result, Size, Target
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.topics.names import names_of
from neardup_workers.running.service.roles import ROLES

ID = "K9-takeover"
SECONDS_MAX = 5.0
_DOCUMENTS: dict[Size, tuple[int, ...]] = {
    "smoke": (600,), "default": (50_000, 200_000), "large": (100_000, 1_000_000, 5_000_000),
}  # fmt: skip
_STEP = 2_000


def run(bench: Bench) -> Iterator[Result]:
    """Take over windows of each size, with a standby and without."""
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
