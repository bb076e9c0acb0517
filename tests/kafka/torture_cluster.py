"""The cluster that `torture.py` tortures: a broker, topics, workers as processes, and who loads the documents.

Processes are signalled by their ids, only those started here; the kernel kills them, even stopped ones, when the
process that started them ends in whatever way.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import orjson
from broker import BECOME_JAVA, Broker
from kafka import KafkaAdminClient
from torture_oracle import documents

from workers.settings.kafka import StreamSettings
from workers.settings.load import load_stream
from workers.stages.transaction import Message
from workers.topics.messages import partition_of_key
from workers.topics.names import names_of
from workers.transport.kafka.transport import KafkaSettings, KafkaTransport
from workers.transport.protocol import AbortedError, Producer, Record, TransportError

ROOT = Path(__file__).resolve().parents[2]
SESSION_SECONDS = 3.0
TRANSACTION_SECONDS = 5.0
# A node that comes back after SIGKILL has no leaders until the session of its former life is over, and the markers of
# transactions that end meanwhile are dropped by Kafka as those of deleted topics: an abort that readers never hear of,
# and that the producer's next commit undoes. The broker's own default looks for overdue transactions after that.
OVERDUE_SECONDS = 10.0
BROKER_SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(round(OVERDUE_SECONDS * 1000))}
# What Kafka logs when it drops them.
DROPPED_MARKERS = "Couldn't find leader endpoint"
WINDOWS = 8  # in a run
LATENESS_SECONDS_MIN = 5_000
BATCHES_PER_SECOND = 4.0
ROLES = ("sign", "match")
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
        self._command = [sys.executable, "-m", "workers", role, "--instance", str(instance), "--from", "earliest"]
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

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.broker = Broker(settings=BROKER_SETTINGS)
        self.window = max(given.documents // WINDOWS, 300)
        self.lateness = max(given.documents // 4, LATENESS_SECONDS_MIN)
        values: dict[str, object] = {
            "bootstrap_servers": self.broker.bootstrap, "topic_prefix": "torture.", "window_seconds": self.window,
            "lateness_seconds": self.lateness, "bands_partitions": 4, "documents_partitions": 4,
            "candidates_partitions": 2, "session_timeout_seconds": SESSION_SECONDS, "health_port": 0,
            "transaction_timeout_seconds": TRANSACTION_SECONDS, "trim_interval_seconds": 5, "sign_threads": 1,
            "turn_seconds_max": 60, "stall_seconds_max": 60,
        }  # fmt: skip
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
        own = {f"NEARDUP_{name.upper()}": str(value) for name, value in values.items()}
        self.environment = {**kept, **own, "PYTHONPATH": str(ROOT)}
        self.settings: StreamSettings = load_stream(values)
        self.names = names_of(self.settings)
        self.transport = KafkaTransport(KafkaSettings(self.broker.bootstrap, session_timeout_seconds=SESSION_SECONDS))
        self.workers: list[Worker] = []
        self._numbers: Counter[str] = Counter()

    def start(self) -> None:
        self.broker.start()
        command = [sys.executable, "-m", "workers", "topics", "create"]
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        for role, count in zip(ROLES, (self.given.signers, self.given.matchers), strict=True):
            for _ in range(count):
                self.add(role)

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
        self.broker.close()

    def dropped_markers(self) -> int:
        """How many transactions were ended without a marker, by the broker's own log: what follows is void."""
        return self.broker.log.count(DROPPED_MARKERS)

    def records(self, topic: str) -> list[Record]:
        """All committed records of a topic."""
        return [record for p, (first, end) in self.bounds(topic).items() for record in self.read(topic, p, first, end)]

    def read(self, topic: str, partition: int, start: int, end: int) -> list[Record]:
        return patient(
            f"read {topic}",
            lambda: [one for found in self.transport.read(topic, partition, start, end) for one in found],
        )

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        return patient(f"bounds of {topic}", lambda: self.transport.bounds(topic))

    def is_open(self) -> bool:
        """Whether a transaction has written to one of the topics and not ended: readers stop before the end there."""
        places = [(topic, p, end) for topic in self.names.topics for p, (_, end) in self.bounds(topic).items()]
        return any(self._log_end(topic, partition) > end for topic, partition, end in places)

    def _log_end(self, topic: str, partition: int) -> int:
        return patient(f"end of {topic}", lambda: self.transport.admin.log_bounds(topic, partition)[1])

    def committed(self, role: str) -> dict[int, int]:
        """The committed offsets of a role's group."""
        group = self.names.group(role)

        def ask() -> dict[int, int]:
            with KafkaAdminClient(bootstrap_servers=self.broker.bootstrap, request_timeout_ms=5_000) as admin:
                found = admin.list_group_offsets([group])[group]
            return {place.partition: at.offset for place, at in found.items()}

        return patient(f"offsets of {group}", ask)

    def unread(self, role: str, topic: str) -> int:
        """Records that the group has not committed; control records, which are none, may stand behind its offset."""
        committed, count = self.committed(role), 0
        for partition, (first, end) in self.bounds(topic).items():
            start = max(first, committed.get(partition, first))
            count += len(self.read(topic, partition, start, end)) if start < end else 0
        return count


class Loader(threading.Thread):
    """Loads the documents at a pace; a transaction of unknown outcome is looked up, and sent again if it is not there.

    It waits when the signers are so far behind that a document could come later than ``lateness_seconds`` allows.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="loader", daemon=True)
        given, self.cluster = cluster.given, cluster
        self.documents = documents(given.documents, cluster.window, given.seed)
        self.pace = given.documents / given.seconds
        self.loaded = self.waited = self.unknown = 0
        self.error: BaseException | None = None
        self._topic = cluster.names.topics.documents
        self._sent: dict[int, list[int]] = {p: [] for p in range(cluster.settings.documents_partitions)}
        self._producer: Producer | None = None

    def run(self) -> None:
        try:
            self._load()
        except BaseException as error:
            self.error = error

    def _load(self) -> None:
        size, due = max(1, round(self.pace / BATCHES_PER_SECOND)), time.monotonic()
        since_checked = 0
        for start in range(0, len(self.documents), size):
            batch = self.documents[start : start + size]
            if since_checked >= self.cluster.lateness // 10:
                self._keep_near(start)
                since_checked = 0
            self._send(batch, start)
            self.loaded += len(batch)
            since_checked += len(batch)
            due = max(due + len(batch) / self.pace, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))

    def _keep_near(self, at: int) -> None:
        """Wait until no unsigned document is older than half of the lateness; ``at``: the next document's number."""
        while True:
            committed, oldest = self.cluster.committed("sign"), at
            for partition, (_, end) in self.cluster.bounds(self._topic).items():
                behind, sent = end - committed.get(partition, 0), self._sent[partition]
                if behind > 0 and sent:
                    oldest = min(oldest, sent[max(0, len(sent) - behind)])
            if at - oldest < self.cluster.lateness // 2:
                return
            self.waited += 1
            time.sleep(0.5)

    def _send(self, batch: list[dict[str, object]], start: int) -> None:
        messages = []
        for number, document in enumerate(batch, start):
            key = str(document["id"]).encode()
            partition = partition_of_key(key, len(self._sent))
            messages.append(Message(self._topic, partition, orjson.dumps(document), key))
            self._sent[partition].append(number)
        while True:
            try:
                return self._publish(messages)
            except AbortedError:
                time.sleep(0.3)
            except TransportError:
                self.unknown += 1
                self._producer = None
                self._publisher()  # ends the transaction that is in doubt
                first, end = self.cluster.bounds(self._topic)[messages[0].partition]
                there = self.cluster.read(self._topic, messages[0].partition, first, end)
                if any(record.key == messages[0].key for record in there):
                    return None

    def _publisher(self) -> Producer:
        if self._producer is None:
            self._producer = patient("a producer", lambda: self.cluster.transport.producer("torture-load"))
        return self._producer

    def _publish(self, messages: list[Message]) -> None:
        producer = self._publisher()
        try:
            producer.begin()
            for message in messages:
                producer.send(message.topic, message.partition, message.value, message.key)
            producer.flush()
            producer.commit()
        except AbortedError:
            producer.abort()
            raise
