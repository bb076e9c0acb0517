"""Common parts of the measurements on a broker: the broker, a separate deployment for each, documents, processes.

Workers run in separate processes (``python -m benchmarks.kafka.worker``) if several compete for the cores, or if the
load must not share an interpreter with them. Each reports every turn as a line of JSON on its standard output: the
monotonic clock, which all processes of a machine share, documents so far, and processor seconds.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import orjson

from benchmarks import scripts
from benchmarks.measure import ONE_THREAD
from benchmarks.report import Size
from benchmarks.texts import draw_words
from neardup_workers.doing.stages.agreement import agree
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.messages import partition_of_key
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.topics.rules import topic_plans
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.transport.kafka.transport import TopicSpec
from neardup_workers.outside.transport.protocol import Message
from neardup_workers.running.service.roles import ROLES, wait_seconds

ROOT = Path(__file__).resolve().parents[2]
_BROKER = ROOT / "tests" / "kafka" / "servers" / "broker.py"
# Texts are made of pieces of this many words, drawn from a pool of so many: 25 pieces are a text of 4 kB.
_PIECE_WORDS, _POOL_PIECES, PIECES = 22, 8_000, 25
_TRANSACTION_DOCUMENTS = 2_000
# Bytes of a text of Arabic news, and how many different ones there are.
_NEWS_BYTES, _NEWS_TEXTS = 4_000, 2_000
WAIT_SECONDS_MAX = 240.0
_PARTITIONS = 8
# Events so far apart keep the window wide open and the whole log alive.
_WINDOW_SECONDS = 1e9
_LATENESS_SECONDS = 3_600.0


# Number of documents and seed -> their keys and values.
Made = Callable[[int, int], Iterator[tuple[bytes, bytes]]]


class Bench(NamedTuple):
    """The arguments of a scenario."""

    bootstrap: str
    broker_pid: int | None
    size: Size


def broker_module() -> ModuleType:
    """The launcher of the tests, by its path: it is no package."""
    spec = importlib.util.spec_from_file_location("benchmarks_broker", _BROKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(_BROKER.parent))  # of what it imports
    spec.loader.exec_module(module)
    return module


@contextmanager
def served(size: Size) -> Iterator[Bench]:
    """The broker of ``KAFKA_BOOTSTRAP_SERVERS``; if it is not set, a broker that starts and ends with the block."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        yield Bench(given, None, size)
        return
    with broker_module().Broker() as broker:
        yield Bench(broker.bootstrap, broker.pid, size)


def deployment(bench: Bench, prefix: str, **given: object) -> StreamSettings:
    """Create the topics of a separate deployment; return its settings."""
    base: dict[str, object] = {
        "bootstrap_servers": bench.bootstrap, "topic_prefix": f"{prefix}-{time.time_ns():x}.", "start": "earliest",
        "window_seconds": _WINDOW_SECONDS, "lateness_seconds": _LATENESS_SECONDS,
        "shards": _PARTITIONS, "documents_partitions": _PARTITIONS,
    }  # fmt: skip
    settings = load_stream({**base, **given})
    transport = connect(settings)
    transport.create_topics([TopicSpec(plan.name, plan.partitions, -1, plan.configs)
                                   for plan in topic_plans(settings)])  # fmt: skip
    agree(transport, settings)
    transport.close()
    return settings


def with_group(settings: StreamSettings, group: str, instance: str = "0") -> StreamSettings:
    """The same topics for another consumer group, which reads them again."""
    return load_stream({**settings.model_dump(exclude_unset=True), "group": group, "instance": instance})


def texts(count: int, seed: int, edited_fraction: float = 0.1, pieces: int = PIECES) -> Iterator[str]:
    """Texts of ``pieces`` pieces of 160 bytes; ``edited_fraction`` of them a recent one with one piece replaced.

    Unrelated texts share at most one piece in a hundred, so only edited texts are pairs. Generation is faster than
    signing.
    """
    rng = np.random.default_rng(seed)
    words = draw_words(rng, _PIECE_WORDS * _POOL_PIECES, punctuation=True)
    pool = [" ".join(words[i : i + _PIECE_WORDS]) for i in range(0, len(words), _PIECE_WORDS)]
    last: list[int] = []
    for _ in range(count):
        if last and rng.random() < edited_fraction:
            chosen = [*last[:-1], int(rng.integers(_POOL_PIECES))]
        else:
            chosen = last = rng.integers(_POOL_PIECES, size=pieces).tolist()
        yield " ".join(pool[i] for i in chosen)


def values(
    count: int, seed: int, timestamp: Callable[[], float] = time.time, pieces: int = PIECES
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of documents."""
    for i, text in enumerate(texts(count, seed, pieces=pieces)):
        id_ = f"doc-{seed:04d}-{i:011d}"
        yield id_.encode(), orjson.dumps({"id": id_, "text": text, "timestamp": timestamp()})


def arabic_values(count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of 4 kB of Arabic news each, or of generated Arabic where the folder of news is absent."""
    made = scripts.real("Arabic", min(count, _NEWS_TEXTS)) or scripts.generated("Arabic", min(count, _NEWS_TEXTS))
    texts_made = [one.text.encode()[:_NEWS_BYTES].decode(errors="ignore") for one in made]
    for i in range(count):
        id_ = f"doc-{seed:04d}-{i:011d}"
        text = f"{texts_made[i % len(texts_made)]} {i}"
        yield id_.encode(), orjson.dumps({"id": id_, "text": text, "timestamp": time.time()})


def load(settings: StreamSettings, count: int, seed: int, made: Made = values) -> int:
    """Send documents to the topic, in transactions; returns their bytes."""
    transport = connect(settings)
    topic = names_of(settings).topics.documents
    producer = transport.producer(f"{settings.topic_prefix}load")
    stream, total = made(count, seed), 0
    while batch := list(itertools.islice(stream, _TRANSACTION_DOCUMENTS)):
        producer.begin()
        for key, value in batch:
            producer.send(Message(topic, partition_of_key(key, _PARTITIONS), value, key))
            total += len(value)
        producer.commit()
    producer.close()
    transport.close()
    return total


class Tally(Observer):
    """An observer that keeps sums of counters, by name and label: stages in seconds, documents."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add to a counter."""
        key = f"{name} {label}".strip()
        self.sums[key] = self.sums.get(key, 0.0) + amount

    def stages(self) -> dict[str, float]:
        """Seconds of each stage."""
        head = "stage_seconds "
        return {key.removeprefix(head): amount for key, amount in self.sums.items() if key.startswith(head)}


def drained(name: str, settings: StreamSettings, partitions: int, count: int) -> tuple[float, float, Tally]:
    """Run a role in this process from the assignment of so many partitions to the commit of the step with document
    ``count``: wall and own seconds, scaled to ``count`` documents, and its stages."""
    role, names, tally = ROLES[name], names_of(settings), Tally()
    role.warm(settings)
    transport = connect(settings)
    member = names.worker(role.name, settings.instance)
    producer = transport.producer(member)
    consumer = transport.consumer(role.topic(names.topics), names.group(role.name), member)
    worker = role.make(WorkerMember(transport, consumer, producer, tally), settings, LIMITS).worker
    while len(worker.running) < partitions:
        worker.turn(0.0, 1)
    before = tally.sums.get("documents", 0)
    started, own = time.perf_counter(), time.process_time()
    while tally.sums.get("documents", 0) < count:
        worker.turn(wait_seconds(role, LIMITS), role.records_max(LIMITS))
    scale = count / (tally.sums["documents"] - before)
    seconds = (time.perf_counter() - started) * scale, (time.process_time() - own) * scale
    for each in (producer, consumer, transport):
        each.close()
    return *seconds, tally


class Turn(NamedTuple):
    """A worker after a turn that read documents: time, documents so far, processor seconds so far."""

    at: float
    documents: int
    processor: float


class Process:
    """A worker or a source of documents in a separate process; see the module. The end of the block kills it."""

    def __init__(self, what: str, settings: StreamSettings, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.kafka.worker", what, settings.model_dump_json(exclude_unset=True)]
        self._process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True,
            env=os.environ | ONE_THREAD,
        )  # fmt: skip
        self.pid = self._process.pid
        self.turns: list[Turn] = []
        self.ready = threading.Event()
        self.last: dict[str, Any] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def documents(self) -> int:
        """Documents so far."""
        return self.turns[-1].documents if self.turns else 0

    def start(self) -> None:
        """Start the measured work of the warm process."""
        self.wait(self.ready.is_set, "ready")
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def stop(self) -> dict[str, Any]:
        """End the process in order; returns its last report."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._reader.join(60)
        return self.last

    def wait(self, is_so: Callable[[], bool], what: str, seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Wait while the process runs."""
        wait_until(is_so, what, [self], seconds_max)

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if isinstance(said, list):
                self.turns.append(Turn(*said))
            elif said.get("ready"):
                self.ready.set()
            else:
                self.last = said


def wait_until(
    is_so: Callable[[], bool], what: str, processes: Sequence[Process] = (), seconds_max: float = WAIT_SECONDS_MAX
) -> None:
    """Poll until the condition holds; raises if it takes too long or a process has ended."""
    deadline = time.monotonic() + seconds_max
    while not is_so():
        if time.monotonic() > deadline or any(process.ended for process in processes):
            raise RuntimeError(f"not so in {seconds_max:.0f} s, or a process has ended: {what}")
        time.sleep(0.02)
