"""The shell of a worker without a process: a cluster in memory, a clock that advances itself, a stop that waits."""

from __future__ import annotations

import itertools
import json
import signal
import time

from memory_transport import MemoryCluster, MemoryTransport

from neardup_workers.doing.stages.agreement import agree
from neardup_workers.outside.process.watchdog import Watchdog
from neardup_workers.outside.settings.kafka import LIMITS, StreamLimits, StreamSettings
from neardup_workers.outside.telemetry.health import Health
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.topics.rules import topic_plans
from neardup_workers.running.service.roles import ROLES
from neardup_workers.running.service.shell import Outside, Shell

LOOKS_MAX = 2_000
TEXT = "a story of many words that two agencies print on one day with a word or two changed by their editors"


def settings_of(**changes) -> StreamSettings:
    """Small settings of a deployment that starts at the beginning of its topics."""
    given = {
        "window_seconds": 1e9, "lateness_seconds": 3_600.0, "shards": 2, "documents_partitions": 2,
        "start": "earliest", **changes,
    }  # fmt: skip
    return StreamSettings(**{name: value for name, value in given.items() if value is not None})


def cluster_of(settings: StreamSettings) -> MemoryCluster:
    """A broker with the topics of the settings."""
    cluster = MemoryCluster(start_seconds=time.time() - 10)  # workers see later records as live
    for plan in topic_plans(settings):
        cluster.create(plan.name, plan.partitions, plan.configs)
    agree(MemoryTransport(cluster), settings)
    return cluster


class Until:
    """A stop signal that is set when a condition holds; it records every nap and advances the cluster's time."""

    def __init__(self, is_so, cluster: MemoryCluster | None = None) -> None:
        self._is_so, self._cluster, self._looks = is_so, cluster, 0
        self.naps: list[float] = []

    @property
    def signal(self) -> int:
        self._looks += 1
        assert self._looks < LOOKS_MAX, "what the test waits for never came"
        return signal.SIGTERM if self._is_so() else 0

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        if self._cluster is not None:
            self._cluster.advance(seconds)


def divided(changes):
    """The changes of settings, and those of limits."""
    limits = {name: value for name, value in changes.items() if name in StreamLimits._fields}
    return {name: value for name, value in changes.items() if name not in limits}, limits


class Bench:
    """A deployment in memory, with the reports of its workers. Changes are of settings or of limits."""

    def __init__(self, **changes) -> None:
        changes, limits = divided(changes)
        self.settings, self.limits = settings_of(**changes), LIMITS._replace(**limits)
        self.cluster = cluster_of(self.settings)
        self.names = names_of(self.settings)
        self.metrics = {role: Metrics(role) for role in ROLES}
        self.health = {role: Health(120) for role in ROLES}
        self.stuck: list[str] = []
        self.collected: list[str] = []  # calls about the garbage collector, in order
        self.stop: Until | None = None

    def add(self, *documents, **fields) -> None:
        """Write documents in turns to the two partitions."""
        for i, (id_, text) in enumerate(documents):
            value = json.dumps({"id": id_, "text": text, "timestamp": 1_600_000_000, **fields}).encode()
            self.cluster.append(self.names.topics.documents, i % 2, value, id_.encode())

    def run(self, role: str, is_so, connect=None, **changes):
        """Run a worker until the condition holds; return how it ended."""
        self.stop = Until(is_so, self.cluster)
        ticks = itertools.count()
        outside = Outside(
            connect or (lambda: MemoryTransport(self.cluster)), self.metrics[role], self.health[role], Watchdog(),
            self.stop, lambda: float(next(ticks)), self.stuck.append,
            lambda: self.collected.append("loaded"), lambda: self.collected.append("collect"),
        )  # fmt: skip
        changes, limits = divided(changes)
        settings = self.settings.model_copy(update=changes)
        return Shell(ROLES[role], settings, outside, self.limits._replace(**limits)).run()

    def agree(self, **changes) -> None:
        """Put settings in force, as ``topics create`` does while no worker runs."""
        agree(MemoryTransport(self.cluster), self.settings.model_copy(update=divided(changes)[0]))

    def sign(self, documents: int, **changes):
        """Run a signer until it has signed this number of documents."""
        return self.run("sign", lambda: self.metrics["sign"].value("documents") >= documents, **changes)

    def match(self, pairs: int, **changes):
        """Run a matcher until it has published this number of pairs."""
        return self.run("match", lambda: self.metrics["match"].value("pairs") >= pairs, **changes)

    def has_taken_all(self, role: str) -> bool:
        """Whether the group has committed the ends of its topic."""
        topics = self.names.topics
        topic = ROLES[role].topic(topics)
        offsets = self.cluster.group(self.names.group(role), topic).offsets
        read = {p: (topics.signed, 0) if role == "match" else (topic, p) for p in range(self.cluster.partitions(topic))}
        logs = {p: self.cluster.log(*place) for p, place in read.items()}
        values = {p: [r.offset for r in log.read(log.first, log.end + 1)[0]] for p, log in logs.items()}
        return all(p in offsets and offsets[p].offset > max(found, default=-1) for p, found in values.items())

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs that readers of candidates see, sorted."""
        values = [json.loads(record.value) for record in self.cluster.records(self.names.topics.candidates)]
        return sorted(tuple(sorted((value["older"], value["newer"]))) for value in values)
