"""K8: what a document costs each role, and how many bytes it has in each topic: the table of ``neardup size``.

Every time is the processor time of a role over the broker, over that of the loop that ``neardup size`` runs, so that
the table carries over to another machine. Roles run one after another in one process. Bytes are those of keys and
values, before compression. ``--capacity FILE`` writes the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.kafka import matcher, verdicts
from benchmarks.kafka.deploy import PIECES, Bench, deployment, drained, load, values
from benchmarks.report import Result, Size
from benchmarks.speed import shards
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.running.commands.size.capacity import Capacity, loop_microseconds_here
from neardup_workers.running.service.roles import ROLES

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
    loop, kilobyte = loop_microseconds_here() / 1e6, (long - short) / (long_bytes - short_bytes) * 1e3
    topics = names_of(settings).topics
    ROLES["match"].warm(settings)
    passed = matcher.matched(lambda: connect(settings), settings, matcher.end_of_signed(settings))
    linked = drained("link", settings, 1, count)[1] / count
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


def _signed(bench: Bench, count: int, pieces: int) -> tuple[float, float, StreamSettings]:
    """Sign documents: processor seconds and bytes of each, and the deployment that has them signed."""
    settings = deployment(bench, f"capacity{pieces}", verdicts=True)
    size = load(settings, count, SEED, partial(values, pieces=pieces))
    _, own, _ = drained("sign", settings, settings.documents_partitions, count)
    return own / count, size / count, settings


def _forwarded(bench: Bench, count: int) -> float:
    """Processor seconds of a document of 4 kB in a filter that forwards all."""
    settings = deployment(bench, "capacity-filter", verdicts=True)
    load(settings, count, SEED)
    verdicts.decide_all(settings)
    return drained("filter", settings, settings.documents_partitions, count)[1] / count


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
