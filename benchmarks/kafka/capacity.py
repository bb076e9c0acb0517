"""K8: what a document costs each role, and how many bytes it has in each topic: the table of ``neardup size``.

Every time is the processor time of a role over the broker, over that of a loop of ``orjson.loads`` on the same
documents in the same run, so that the table carries over to another machine. Roles run one after another in one
process. Bytes are those of keys and values, before compression. ``--capacity FILE`` writes the table.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from benchmarks.kafka import matcher, signer, verdicts
from benchmarks.kafka.deploy import PIECES, Bench, Made, Tally, deployment, load, texts
from benchmarks.report import Result, Size
from benchmarks.speed import shards
from neardup.workers.commands.size.capacity import Capacity
from neardup.workers.service.roles import ROLES
from neardup.workers.settings.kafka import StreamSettings
from neardup.workers.settings.load import load_stream
from neardup.workers.topics.names import names_of
from neardup.workers.transport.kafka.connect import connect

ID, SEED = "K8-capacity", 48
_DOCUMENTS: dict[Size, int] = {"smoke": 400, "default": 60_000, "large": 200_000}
_IN_MEMORY: dict[Size, int] = {"smoke": 400, "default": 20_000, "large": 60_000}
_TABLE_DOCUMENTS: dict[Size, int] = {"smoke": 6_000, "default": 1_000_000, "large": 1_000_000}
# Documents of so many pieces have half a kilobyte; those of ``PIECES`` have 4 kB.
_SHORT_PIECES = 3
_ID_BYTES = 20
_MANY = 32
# Of a worker apart from the window: Python, kernels, client, and the buffers of a step.
_PROCESS_BYTES = 300 << 20


def run(bench: Bench) -> Iterator[Result]:
    """Measure every entry of the table."""
    for name, value in measured(bench)._asdict().items():
        yield Result(ID, name, value, "")


def write(results: Sequence[Result], path: str) -> None:
    """Write the table that ``run`` has measured, if it has run."""
    found = {result.name: float(f"{result.value:.4g}") for result in results if result.scenario == ID}
    if found:
        Path(path).write_text(json.dumps(Capacity(**found)._asdict(), indent=2) + "\n", encoding="utf-8")


def measured(bench: Bench) -> Capacity:
    """Run all roles over the broker, and tables in memory."""
    count = _DOCUMENTS[bench.size]
    short, short_bytes, _ = _signed(bench, count, _SHORT_PIECES)
    long, long_bytes, settings = _signed(bench, count, PIECES)
    loop, kilobyte = _loop(count), (long - short) / (long_bytes - short_bytes) * 1e3
    topics = names_of(settings).topics
    passed = matcher.matched(lambda: connect(settings), settings, matcher.end_of_signed(settings))
    linked = _linked(settings, count) / count
    forwarded = _forwarded(bench, count)
    shard = (_in_memory(bench, _MANY) - _in_memory(bench, 1)) / (_MANY - 1)
    tables = {n: shards.measure(_TABLE_DOCUMENTS[bench.size], n) for n in shards.SHARDS}
    pairs = max(1, passed.pairs)
    return Capacity(
        loop_microseconds=1e6 * loop,
        signer_document=(short - kilobyte * short_bytes / 1e3) / loop,
        signer_kilobyte=kilobyte / loop,
        matcher_document=(passed.match[1] / count - settings.shards * shard) / loop,
        matcher_shard=shard / loop,
        restore_of_match=passed.restore[1] / passed.match[1],
        linker_document=linked / loop,
        filter_document=forwarded / loop,
        candidate_bytes=_bytes(settings, topics.candidates) / pairs - 2 * _ID_BYTES,
        link_bytes=_bytes(settings, topics.links) / pairs,
        verdict_bytes=_bytes(settings, topics.verdicts) / count - _ID_BYTES,
        cluster_bytes=_bytes(settings, topics.clusters) / count,
        shards_8=tables[8].used / tables[1].used,
        shards_32=tables[32].used / tables[1].used,
        slack=tables[8].allocated / tables[8].used,
        process_bytes=_PROCESS_BYTES,
    )


def _made(pieces: int) -> Made:
    def made(count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
        for i, text in enumerate(texts(count, seed, pieces=pieces)):
            id_ = f"doc-{seed:04d}-{i:011d}"
            yield id_.encode(), orjson.dumps({"id": id_, "text": text, "timestamp": time.time()})

    return made


def _loop(count: int) -> float:
    """Processor seconds of parsing a document of 4 kB, the least of three passes."""
    values = [value for _, value in _made(PIECES)(count, SEED)]
    best = math.inf
    for _ in range(3):
        began = time.process_time()
        for value in values:
            orjson.loads(value)
        best = min(best, time.process_time() - began)
    return best / count


def _signed(bench: Bench, count: int, pieces: int) -> tuple[float, float, StreamSettings]:
    """Sign documents: processor seconds and bytes of each, and the deployment that has them signed."""
    settings = deployment(bench, f"capacity{pieces}", verdicts=True)
    size = load(settings, count, SEED, _made(pieces))
    for role in ROLES.values():
        role.warm(settings)
    _, own, _ = signer.signer(settings, count)
    return own / count, size / count, settings


def _linked(settings: StreamSettings, count: int) -> float:
    """Processor seconds in which a linker decides all documents."""
    role, names, tally = ROLES["link"], names_of(settings), Tally()
    transport = connect(settings)
    name = names.worker(role.name, settings.instance)
    producer = transport.producer(name)
    consumer = transport.consumer(role.topic(names.topics), names.group(role.name), name)
    worker = role.make(transport, consumer, producer, settings, tally).worker
    while not (worker.ready and worker.running):
        worker.turn(0.0, 1)
    own, before = time.process_time(), tally.sums.get("documents", 0)
    while tally.sums.get("documents", 0) < count:
        worker.turn(settings.commit_interval_ms / 4_000, role.records_max(settings))
    seconds = (time.process_time() - own) * count / (count - before)
    for each in (producer, consumer, transport):
        each.close()
    return seconds


def _forwarded(bench: Bench, count: int) -> float:
    """Processor seconds of a document of 4 kB in a filter that forwards all."""
    settings = deployment(bench, "capacity-filter", verdicts=True)
    load(settings, count, SEED, _made(PIECES))
    verdicts.decide_all(settings)
    return verdicts.filtered(settings, count)[1] / count


def _in_memory(bench: Bench, number: int) -> float:
    """Processor seconds of a document in a matcher that has so many shards, in memory."""
    count = _IN_MEMORY[bench.size]
    settings = load_stream({"window_seconds": 1e9, "shards": number, "start": "earliest"})
    messages = matcher.signed(settings, matcher.documents(count), 2_000)
    return min(matcher.in_memory(settings, messages).match[1] for _ in range(3)) / count


def _bytes(settings: StreamSettings, topic: str) -> int:
    """Bytes of keys and values in a topic."""
    transport, total = connect(settings), 0
    for partition, (first, end) in transport.bounds(topic).items():
        for records in transport.read(topic, partition, first, end):
            total += sum(len(record.value or b"") + len(record.key or b"") for record in records)
    transport.close()
    return total
