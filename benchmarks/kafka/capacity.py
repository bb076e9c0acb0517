"""K8: what a document costs each role, and how many bytes it has in each topic: the constants of ``neardup size``, and
the table in OPERATIONS.

Every time is the processor time of a role over the broker. Roles run one after another in one process. Bytes are those
of keys and values, before compression.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.kafka import matcher, verdicts
from benchmarks.kafka.deploy import PIECES, Bench, deployment, drained, load, values
from benchmarks.report import Result, Size
from benchmarks.speed import shards
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.running.service.roles import ROLES

ID, SEED = "K8-capacity", 48
_DOCUMENTS: dict[Size, int] = {"smoke": 400, "default": 60_000, "large": 200_000}
_IN_MEMORY: dict[Size, int] = {"smoke": 400, "default": 20_000, "large": 60_000}
_TABLE_DOCUMENTS: dict[Size, int] = {"smoke": 6_000, "default": 1_000_000, "large": 1_000_000}
# Documents of so many pieces have half a kilobyte; those of ``PIECES`` have 4 kB.
_SHORT_PIECES = 3
_ID_BYTES = 20
_MANY = 32


def run(bench: Bench) -> Iterator[Result]:
    """Measure each constant: microseconds of a document, ratios, bytes."""
    for name, value in measured(bench).items():
        yield Result(ID, name, value, "")


def measured(bench: Bench) -> dict[str, float]:
    """Run all roles over the broker, and tables in memory."""
    count = _DOCUMENTS[bench.size]
    short, short_bytes, _ = _signed(bench, count, _SHORT_PIECES)
    long, long_bytes, settings = _signed(bench, count, PIECES)
    kilobyte = (long - short) / (long_bytes - short_bytes) * 1e3
    topics = names_of(settings).topics
    ROLES["match"].warm(settings)
    passed = matcher.matched(lambda: connect(settings), settings, matcher.end_of_signed(settings))
    linked = drained("link", settings, 1, count)[1] / count
    forwarded = _forwarded(bench, count)
    shard = (_in_memory(bench, _MANY) - _in_memory(bench, 1)) / (_MANY - 1)
    table = shards.measure(_TABLE_DOCUMENTS[bench.size], 8)
    pairs = max(1, passed.pairs)
    return {
        "signer_document": 1e6 * (short - kilobyte * short_bytes / 1e3),
        "signer_kilobyte": 1e6 * kilobyte,
        "matcher_document": 1e6 * (passed.match[1] / count - settings.shards * shard),
        "matcher_shard": 1e6 * shard,
        "restore_of_match": passed.restore[1] / passed.match[1],
        "linker_document": 1e6 * linked,
        "filter_document": 1e6 * forwarded,
        "candidate_bytes": _bytes(settings, topics.candidates) / pairs - 2 * _ID_BYTES,
        "link_bytes": _bytes(settings, topics.links) / pairs,
        "verdict_bytes": _bytes(settings, topics.verdicts) / count - _ID_BYTES,
        "cluster_bytes": _bytes(settings, topics.clusters) / count,
        "slack": table.allocated / table.used,
    }


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
