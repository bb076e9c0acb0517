"""S14: a linker without a broker: documents a second, its restore, its memory while a matcher is down, and what the
ledger of sources takes.

Rows and links are made beforehand, as signers and matchers write them: steps of 5,000 documents from 8 partitions, and
of 50,000 as in a backlog, links of 8 shards, and a pair with an earlier document for three documents in ten. The topics
are in memory, so the linker alone is measured: it decodes, decides, and encodes the verdicts. One thread does all of
it.

A matcher that is down is a partition of ``links`` without records, while everything else goes on at ``RATE`` documents
a second for an hour. The memory is what the linker itself holds, with the messages that its arrays are views of.

Two linkers decide the same documents with sources, URLs and titles in turn, step by step; one of them counts sources.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from memory_transport import MemoryCluster, MemoryTransport

from benchmarks.report import Result, Size, Target, checksum
from neardup import Config
from neardup.documents.document import Column
from neardup.schemes.interface import Evidence
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.row_columns import VerdictLimits
from neardup.stories.verdicts.rule import DOCUMENT
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.doing.stages.verdicts.sources import Sources
from neardup_workers.main import COLLECT_OBJECTS
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.links import LinkMessage, Links, encode_links
from neardup_workers.outside.topics.names import LINK, generation, topic_names
from neardup_workers.outside.topics.places import places_of
from neardup_workers.outside.topics.shown import encode_shown
from neardup_workers.outside.topics.signed import SignedRows, encode_signed, position_of
from neardup_workers.running.service.roles import warm_decisions

SEED = 14
ID = "S14-linker"
RATE_MIN, RESTORE_SECONDS_MAX, RATE = 50_000, 20.0, 5_000
_DOCUMENTS: dict[Size, int] = {"smoke": 10_000, "default": 1_000_000, "large": 4_000_000}
_UNDECIDED: dict[Size, int] = {"smoke": 10_000, "default": LIMITS.undecided_max, "large": LIMITS.undecided_max}
STEP, _BACKLOG_STEP, _PARTITIONS, _SHARDS, _PAIRED = 5_000, 50_000, 8, 8, 0.3
_ID_BYTES, _SOURCES, _TRIM_STEPS = 20, 500, 20
_RECORDS_MAX = 128
_CONFIG = Config(window_seconds=1e9, lateness_seconds=3_600.0)
_FINGERPRINT = _CONFIG.signing_fingerprint
_MICROSECONDS = 1_000_000
_HOUR_SECONDS = 3_600


class Step(NamedTuple):
    """The messages of a step: its rows, and the links of each shard."""

    rows: list[bytes]
    links: list[list[bytes]]


def steps(count: int, seed: int = SEED, *, shown: bool = False, size: int = STEP) -> Iterator[Step]:
    """The messages of ``count`` documents, a step at a time; with what is shown of them, if that is wanted."""
    rng = np.random.default_rng(seed)
    end = position_of(0)
    for first in range(0, count, size):
        numbers = np.arange(first, min(first + size, count))
        places = _places(numbers)
        ids = rng.integers(97, 123, len(numbers) * _ID_BYTES, np.uint8)
        sketches = np.random.default_rng([seed, first]).integers(0, 256, (len(numbers), _CONFIG.plan.width), np.uint8)
        evidence = Evidence(sketches, np.empty(0, np.uint8), np.zeros(len(numbers) + 1, np.int64))
        rows = SignedRows(
            np.full(len(numbers), DOCUMENT, np.uint8), places, ids, np.arange(0, len(ids) + 1, _ID_BYTES),
            np.full(len(numbers), NO_RANK), numbers * _MICROSECONDS // RATE, _contents(numbers)[:, None].repeat(2, 1),
            evidence, _shown(numbers, rng) if shown else None,
        )  # fmt: skip
        messages = list(encode_signed(rows, _FINGERPRINT))
        begin, end = end, end + position_of(len(messages))
        paired = numbers[(rng.random(len(numbers)) < _PAIRED) & (numbers > 0)]
        others = paired - 1 - rng.integers(0, np.minimum(paired, 10_000))
        similarities = rng.integers(8_000, 10_000, len(paired)).astype(np.uint16)
        owners = rng.integers(0, _SHARDS, len(paired))
        links = []
        for shard in range(_SHARDS):
            own = owners == shard
            pairs = Links(
                _places(paired[own]), _places(others[own]), _contents(paired[own]), _contents(others[own]),
                similarities[own],
            )  # fmt: skip
            links.append(list(encode_links(LinkMessage(pairs, begin, end), _FINGERPRINT)))
        yield Step(messages, links)


def _shown(numbers: np.ndarray[Any, np.dtype[np.int64]], rng: np.random.Generator) -> Column | None:
    """A few of the sources have most of the documents."""
    names = [f"source{number}.example" for number in (rng.zipf(1.3, len(numbers)) % _SOURCES).tolist()]
    places = zip(names, numbers.tolist(), strict=True)
    return encode_shown(
        [(name, f"https://{name}/news/{n}/a-story.html", f"The title of story {n}") for name, n in places]
    )


def _places(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The places of documents, which go to the partitions in turn."""
    return places_of(numbers % _PARTITIONS, numbers // _PARTITIONS)


def _contents(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


class World:
    """The topics of a linker in memory, and the linker."""

    def __init__(self, undecided_max: int = LIMITS.undecided_max) -> None:
        self.topics = topic_names("", generation(_FINGERPRINT, _SHARDS))
        self.cluster = MemoryCluster()
        topics = self.topics
        for topic, count in (
            (topics.signed, 1), (topics.links, _SHARDS), (topics.verdicts, _PARTITIONS), (topics.clusters, 1),
            (topics.originals, 1), (topics.sources, 1),
        ):  # fmt: skip
            self.cluster.create(topic, count)
        limits = VerdictLimits(10**15, 3_600 * _MICROSECONDS, 1 << 30)
        self.plan = LinkPlan(
            _CONFIG,
            self.topics,
            _SHARDS,
            1,
            limits,
            "earliest",
            allow_gap=False,
            match_group="matchers",
            undecided_max=undecided_max,
        )
        self.metrics = Metrics(LINK)
        self.linker = self.start("one")

    def start(self, name: str) -> LinkWorker:
        """Start a linker that takes the place of the one before."""
        self.cluster.advance(60.0)
        transport = MemoryTransport(self.cluster)
        consumer, producer = transport.consumer(self.topics.signed, "linkers", name), transport.producer(name)
        self.linker = LinkWorker(WorkerMember(transport, consumer, producer, self.metrics), self.plan)
        return self.linker

    def write(self, step: Step, down: int | None = None) -> None:
        """Append the messages of a step; those of shard ``down`` are missing."""
        for value in step.rows:
            self.cluster.append(self.topics.signed, 0, value)
        for shard, values in enumerate(step.links):
            for value in values if shard != down else []:
                self.cluster.append(self.topics.links, shard, value)

    def decided(self) -> int:
        """How many documents have a verdict."""
        return self.linker.state.arrivals


def run(size: Size) -> Iterator[Result]:
    """The rate, the restore, and the memory with a matcher down."""
    warm_decisions(_CONFIG)
    gc.set_threshold(COLLECT_OBJECTS)  # as a worker does
    count = _DOCUMENTS[size]
    rate = Target("at least", RATE_MIN) if size != "smoke" else None
    for of, what in ((_BACKLOG_STEP, f", steps of {_BACKLOG_STEP:,}"), (STEP, "")):
        world, seconds = _decided(count, of)
        answers = checksum(record.value for record in world.cluster.records(world.topics.verdicts))
        details: dict[str, object] = {
            "documents": count, "us/document": 1e6 * seconds / count, "bytes a document": _held(world) / count,
            "duplicates": int(world.metrics.value("verdicts", "duplicate")), "checksum": answers,
        }  # fmt: skip
        yield Result(ID, f"documents decided a second of one core{what}", count / seconds, "/s", rate, details)
    own = time.process_time()
    world.start("two")
    while not world.linker.running:
        world.linker.turn(0.0, _RECORDS_MAX)
    seconds = (time.process_time() - own) * 1_000_000 / count
    bound = Target("at most", RESTORE_SECONDS_MAX) if size != "smoke" else None
    yield Result(ID, "restore of a million documents", seconds, "s", bound, {"documents": count})
    yield _down(size)
    yield _sources(size)


def _decided(count: int, size: int) -> tuple[World, float]:
    """A linker that has decided so many documents in steps of a size, and its processor seconds."""
    world, seconds = World(), 0.0
    for step in steps(count, size=size):
        world.write(step)
        before, own = world.decided(), time.process_time()
        while world.decided() < min(before + size, count):
            world.linker.turn(0.0, _RECORDS_MAX)
        seconds += time.process_time() - own
    return world, seconds


def _down(size: Size) -> Result:
    """A matcher is down for an hour at full load."""
    limit = _UNDECIDED[size]
    world = World(limit)
    for _ in range(3):
        world.linker.turn(0.0, _RECORDS_MAX)
    held: dict[str, int] = {}
    documents = _HOUR_SECONDS * RATE if size != "smoke" else 4 * limit
    marks = {"a tenth": documents // 10, "half": documents // 2, "all": documents}
    written, last = 0, None
    made = steps(2 * limit + 20 * STEP)
    while written < documents:
        last = next(made, last)  # what the linker no longer reads has any content
        assert last is not None
        world.write(last, down=_SHARDS - 1)
        written += STEP
        world.linker.turn(0.0, _RECORDS_MAX)
        for name, mark in marks.items():
            if written >= mark and name not in held:
                held[name] = _held(world)
    assert not world.decided()
    state = world.linker.state
    details: dict[str, object] = {
        "documents that arrived": written, "documents read": state.undecided, "undecided_max": limit,
        **{f"MB after {name} of the hour": round(amount / 1e6, 1) for name, amount in held.items()},
        "bytes a waiting document": held["all"] / max(1, state.undecided),
    }  # fmt: skip
    growth = held["all"] / held["half"]
    return Result(
        ID, "memory of a linker after an hour with a matcher down, over that after half an hour", growth, "times",
        Target("at most", 1.01), details,
    )  # fmt: skip


class _Uncounted(Sources):
    """A ledger that counts nothing."""

    def count(self, *_: object) -> None:
        """Ignore it."""


def _sources(size: Size) -> Result:
    """What the ledger of sources takes, with its writes."""
    count = _DOCUMENTS[size] // 4
    with_ledger, without = World(), World()
    seconds = {with_ledger: 0.0, without: 0.0}
    for world in seconds:
        while not world.linker.running:
            world.linker.turn(0.0, 1)
    without.linker.held.sources = _Uncounted(1)
    for number, step in enumerate(steps(count, shown=True)):
        for world in (with_ledger, without) if number % 2 else (without, with_ledger):
            world.write(step)
            before, own = world.decided(), time.process_time()
            while world.decided() < before + STEP and world.decided() < count:
                world.linker.turn(0.0, _RECORDS_MAX)
            if number % _TRIM_STEPS == 0:
                world.linker.trim()
            seconds[world] += time.process_time() - own
    records = with_ledger.cluster.records(with_ledger.topics.sources)
    details: dict[str, object] = {
        "documents": count, "sources": _SOURCES, "us/document": 1e6 * seconds[with_ledger] / count,
        "without": 1e6 * seconds[without] / count, "/s without": count / seconds[without],
        "records a document": len(records) / count,
        "bytes a document": sum(len(one.key or b"") + len(one.value or b"") for one in records) / count,
    }  # fmt: skip
    return Result(
        ID, "documents decided a second of one core, with a ledger of sources", count / seconds[with_ledger], "/s",
        None, details,
    )  # fmt: skip


def _held(world: World) -> int:
    """Bytes of everything that the state of the linker refers to: objects, arrays, and the messages below them."""
    gc.collect()
    linker = world.linker
    seen: set[int] = set()
    total = 0
    todo: list[object] = [linker.state, linker.held.clusters, linker.held.intake.watermarks, linker._marks]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        if isinstance(one, np.ndarray):
            todo += [one.base] if one.base is not None else []
        elif isinstance(one, memoryview):
            todo.append(one.obj)
        elif not isinstance(one, str | bytes | int | float | None):
            todo += gc.get_referents(one)
    return total


SCENARIOS = {ID: run}
