"""The cluster that `torture.py` tortures: one broker or several, topics, and workers as processes.

Processes are signalled by their ids, only those started here; the kernel kills them, even stopped ones, when the
process that started them ends in whatever way.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import limited
from broker import BECOME_JAVA
from brokers import Brokers
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions
from import_path import SOURCES
from kafka import KafkaAdminClient
from torture_documents import Shape

from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, ROLES, SIGN, names_of
from neardup_workers.outside.transport.kafka.transport import KafkaSettings, KafkaTransport
from neardup_workers.outside.transport.protocol import Record

ROOT = Path(__file__).resolve().parents[3]
SESSION_SECONDS = 3.0
TRANSACTION_SECONDS = 5.0
TRIM_SECONDS, TRIM_ROUNDS_MAX = 5.0, 12
# A node that comes back after SIGKILL has no leaders until the session of its former life is over, and the markers of
# transactions that end meanwhile are dropped by Kafka as those of deleted topics: an abort that readers never hear of,
# and that the producer's next commit undoes. The broker's own default looks for overdue transactions after that.
OVERDUE_SECONDS = 10.0
BROKER_SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(round(OVERDUE_SECONDS * 1000))}
# What Kafka logs when it drops them.
DROPPED_MARKERS = "Couldn't find leader endpoint"
# Windows that the archive of a run spans, whatever the number of documents.
WINDOWS = 10
DOCUMENTS_PARTITIONS, DOCUMENTS_PARTITIONS_GROWN = 4, 6
SHARDS = 4  # at the beginning
# Documents of a signer's step at most, by the seed: the default, and one so small that a window has many steps.
STEPS = (5_000, 100)
# The member that a cluster shows, by the seed: the longest, or the one with the greatest number in this field.
REPRESENTATIVES = ("timestamp", "longest")
# What each role reads, and has committed when it has begun.
TOPIC_OF = {SIGN: "documents", MATCH: "links", LINK: "signed", FILTER: "verdicts"}
_T = TypeVar("_T")


class TortureError(Exception):
    """The run could not come to its end."""


def patient(what: str, ask: Callable[[], _T], seconds_max: float = 90.0) -> _T:
    """Ask again while the broker is away."""
    deadline = time.monotonic() + seconds_max
    while True:
        try:
            return ask()
        except Exception as error:
            if time.monotonic() > deadline:
                raise TortureError(f"{what}: no answer in {seconds_max:.0f} s: {error}") from error
            time.sleep(0.3)


class Worker:
    """One name of a role, and the process that bears it now."""

    def __init__(self, role: str, instance: int, folder: Path, environment: dict[str, str]) -> None:
        self.role, self.name = role, f"{role}-{instance}"
        self._folder, self._environment = folder, environment
        self._command = [sys.executable, limited.__file__, role, "--instance", str(instance), "--from", "latest"]
        self.process: subprocess.Popen[bytes] | None = None
        self.wakes: float | None = None  # when it is stopped
        self.due = 0.0  # when there is no process: when to start one
        self.leaving = False

    def start(self) -> None:
        """Start a process; the main thread must, for the process dies with the thread that started it."""
        launch = [sys.executable, "-S", "-E", "-c", BECOME_JAVA, str(os.getpid()), *self._command]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                launch, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    @property
    def port(self) -> int:
        """Where the last process of this name shows its metrics, by its log."""
        return int(re.findall(r"health and metrics on [^ ]+:(\d+)", self.log.read_text())[-1])

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        self.process = self.wakes = None


class Cluster:
    """Broker, settings, workers; everything of a run but its schedule."""

    def __init__(
        self,
        given: argparse.Namespace,
        folder: Path,
        settings: Mapping[str, str] = BROKER_SETTINGS,
    ) -> None:
        self.given, self.folder = given, folder
        self.brokers = Brokers(given.nodes, settings)
        live = given.documents // 10
        stride = WINDOWS * given.window / (given.documents - live)
        self.shape = Shape(given.documents, given.window, given.lateness, stride, given.hot, live, given.templates)
        properties = folder / "client.properties"
        properties.write_text(
            f"session.timeout.ms={SESSION_SECONDS * 1e3:.0f}\ntransaction.timeout.ms={TRANSACTION_SECONDS * 1e3:.0f}\n"
        )
        values: dict[str, object] = {
            "bootstrap_servers": self.brokers.bootstrap, "topic_prefix": "torture.", "window_seconds": given.window,
            "lateness_seconds": given.lateness, "shards": SHARDS, "documents_partitions": DOCUMENTS_PARTITIONS,
            "kafka_config": str(properties), "health_port": 0, "sign_threads": 1,
            "verdicts": given.linkers > 0, "standbys": given.standbys,
            "representative": REPRESENTATIVES[given.seed % len(REPRESENTATIVES)],
        }  # fmt: skip
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
        own = {f"NEARDUP_{name.upper()}": str(value) for name, value in values.items()}
        limits = {
            "trim_seconds": TRIM_SECONDS, "step_documents_max": STEPS[given.seed % len(STEPS)],
            "turn_seconds_max": 60, "stall_seconds_max": 60,
        }  # fmt: skip
        self.environment = {**kept, **own, "PYTHONPATH": SOURCES, "STREAM_LIMITS": json.dumps(limits)}
        self.settings: StreamSettings = load_stream(values)
        self.names = names_of(self.settings)
        self.transport = KafkaTransport(KafkaSettings(self.brokers.bootstrap, session_timeout_seconds=SESSION_SECONDS))
        self.workers: list[Worker] = []
        self._numbers: Counter[str] = Counter()

    def start(self) -> None:
        self.brokers.start()
        patient("topics", lambda: self._topics("create"))
        for role in ROLES:
            for _ in range(self.wanted(role)):
                self.add(role)

    def wanted(self, role: str) -> int:
        """How many workers of a role there are, but for one more now and then."""
        given = self.given
        return int({SIGN: given.signers, MATCH: given.matchers, LINK: given.linkers, FILTER: given.filters}[role])

    def add(self, role: str) -> Worker:
        worker = Worker(role, self._numbers[role], self.folder, self.environment)
        self._numbers[role] += 1
        worker.start()
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.transport.close()
        for number, node in enumerate(self.brokers.nodes, 1):
            (self.folder / f"node-{number}.log").write_text(node.log)
        self.brokers.close()

    def dropped_markers(self) -> int:
        """How many transactions were ended without a marker, by the broker's own log: what follows is void."""
        return self.brokers.log.count(DROPPED_MARKERS)

    def grow(self) -> None:
        """Add partitions to the topic of documents, and first to those that mirror it; who reads is to notice."""
        client = AdminClient({"bootstrap.servers": self.brokers.bootstrap, "log_level": 0})
        topics = self.names.topics

        def grown(wanted: NewPartitions) -> None:
            try:
                client.create_partitions([wanted])[wanted.topic].result()
            except KafkaException as error:  # the answer to the request before may have been lost
                if f"already has {DOCUMENTS_PARTITIONS_GROWN} partition" not in str(error):
                    raise

        for topic in (topics.unique, topics.verdicts, topics.documents):
            patient("more partitions", partial(grown, NewPartitions(topic, DOCUMENTS_PARTITIONS_GROWN)))

    def grow_shards(self, shards: int) -> None:
        """Add shards to the running stream, as an administrator does."""
        patient("more shards", lambda: self._topics("shards", str(shards)))

    def _topics(self, *words: str) -> None:
        command = [sys.executable, "-m", "neardup", "topics", *words]
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def leaders(self) -> dict[tuple[str, int], int]:
        """The node that leads each partition of the topics."""
        client = AdminClient({"bootstrap.servers": self.brokers.bootstrap, "log_level": 0})
        topics = patient("leaders", lambda: client.list_topics(timeout=5.0).topics)
        return {(t, p): found.leader for t in self.names.topics for p, found in topics[t].partitions.items()}

    def read(self, topic: str, partition: int, start: int, end: int) -> list[Record]:
        return patient(
            f"read {topic}",
            lambda: [one for found in self.transport.read(topic, partition, start, end) for one in found],
        )

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        return patient(f"bounds of {topic}", lambda: self.transport.bounds(topic))

    def is_trimmed(self) -> bool:
        """Whether ``signed`` has lost its beginning, or a window still needs its first message: after an outage, all of
        a small run may be in some large ones. The owner of shard 0 trims in the second round of its life at the
        earliest, and may have begun a moment ago."""
        deadline = time.monotonic() + TRIM_ROUNDS_MAX * TRIM_SECONDS
        while not self.bounds(self.names.topics.signed)[0][0] and self._needed_from():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.3)
        return True

    def _needed_from(self) -> int:
        """The first message of ``signed`` that a window of a shard or of a linker has, as they have committed it."""
        topics, offsets = self.names.topics, self.transport.group_offsets
        shards = offsets(self.names.group(MATCH), topics.links).values()
        linkers = offsets(self.names.group(LINK), topics.signed).values() if self.settings.verdicts else ()
        return min(
            *(decode_window(one.metadata).start for one in shards),
            *(decode_signed_metadata(one).window for one in linkers),
        )

    def is_open(self) -> bool:
        """Whether a transaction has written to one of the topics and not ended: readers stop before the end there."""
        places = [(topic, p, end) for topic in self.names.topics for p, (_, end) in self.bounds(topic).items()]
        return any(self._log_end(topic, partition) > end for topic, partition, end in places)

    def _log_end(self, topic: str, partition: int) -> int:
        return patient(f"end of {topic}", lambda: self.transport.log_bounds(topic, partition)[1])

    def held(self) -> dict[int, list[tuple[int, int]]]:
        """How many documents the table of each shard holds, and its bytes, as each matcher that has one reports it."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for port in (one.port for one in self.workers if one.role == MATCH):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10.0) as answer:
                text = answer.read().decode()
            rows = re.findall(r'^neardup_table_(documents|bytes){partition="(\d+)"} (\S+)$', text, re.MULTILINE)
            values = {(name, int(shard)): int(float(value)) for name, shard, value in rows}
            for name, shard in values:
                if name == "documents":
                    found[shard].append((values[name, shard], values["bytes", shard]))
        return found

    def topic(self, role: str) -> str:
        """The topic whose partitions the members of a role share; those of matchers stand for shards."""
        return str(getattr(self.names.topics, TOPIC_OF[role]))

    def committed(self, role: str) -> dict[int, int]:
        """The committed offsets of a role's group; those of matchers are places in ``signed``."""
        group, topic = self.names.group(role), self.topic(role)

        def ask() -> dict[int, int]:
            with KafkaAdminClient(bootstrap_servers=self.brokers.bootstrap, request_timeout_ms=5_000) as admin:
                found = admin.list_group_offsets([group])[group]
            return {place.partition: at.offset for place, at in found.items() if place.topic == topic}

        return patient(f"offsets of {group}", ask)

    def unread(self, role: str) -> int:
        """Records that the group has not committed; control records, which are none, may stand behind its offset."""
        committed, count, topic = self.committed(role), 0, self.topic(role)
        if role == MATCH:
            topic, committed = self.names.topics.signed, {0: min(committed.values(), default=0)}
        for partition, (first, end) in self.bounds(topic).items():
            start = max(first, committed.get(partition, first))
            count += len(self.read(topic, partition, start, end)) if start < end else 0
        return count
