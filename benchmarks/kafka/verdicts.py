"""K6: seconds from the last matcher's report of a document until a reader has its verdict, at half load. K7: a filter
and a bare loop that consumes and produces.

K6. Full load is the rate at which one signer, one matcher and one linker, each in a process, work off a backlog. Then
documents arrive at half of this rate. A matcher reports what it has processed in ``links``; the broker stamps each of
these records. The latest of the stamps that cover a document is the moment from which its verdict can be decided. The
reader notes when it has the verdict. So the result includes the matcher's commit, the linker, and the reader's wait.

K7. Every verdict is ``original``, so the filter forwards each document. The bare loop polls the same documents and
sends them to another topic, without transactions, verdicts and offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.kafka.deploy import (
    Bench,
    Process,
    deployment,
    drained,
    load,
    wait_until,
    with_group,
)
from benchmarks.kafka.reader import TopicReader
from benchmarks.measure import processor_seconds
from benchmarks.report import Result, Size, Target
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.rule import DOCUMENT
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.topics.arrivals import ArrivalRows
from neardup_workers.outside.topics.links import decode_links
from neardup_workers.outside.topics.names import Topics, names_of
from neardup_workers.outside.topics.places import place_of, places_of
from neardup_workers.outside.topics.signed import decode_signed, position_of
from neardup_workers.outside.topics.verdicts import DecidedRows, encode_runs, parse_run
from neardup_workers.outside.transport.kafka.connect import connect, kafka_settings
from neardup_workers.outside.transport.kafka.transport import KafkaTransport
from neardup_workers.outside.transport.protocol import Message

SEED = 47
VERDICT_ID, FILTER_ID = "K6-verdict-latency", "K7-filter"
SECONDS_MAX, RATIO_MIN, LOAD_FRACTION = 0.5, 0.5, 0.5
_BACKLOG: dict[Size, int] = {"smoke": 400, "default": 40_000, "large": 200_000}
_LOAD_SECONDS: dict[Size, float] = {"smoke": 1.0, "default": 20.0, "large": 120.0}
# The first seconds are not counted: the load changes there.
_SETTLE_SECONDS: dict[Size, float] = {"smoke": 0.0, "default": 2.0, "large": 2.0}
_FILTERED: dict[Size, int] = {"smoke": 400, "default": 60_000, "large": 200_000}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 3, "large": 5}
_RUN_DOCUMENTS = 1_000
# Of the bare loop: longer than it needs to send what a poll returned.
_LINGER_MILLISECONDS = 100


_Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
# When a record of verdicts arrived, in seconds; its partition, and the offsets of its documents.
_Run = tuple[float, int, list[int]]


def _run_of(now: float, record: Any) -> _Run:
    return now, record.partition, [line["offset"] for line in parse_run(record.value)]


def latency(bench: Bench) -> Iterator[Result]:
    """K6: full load, half load, percentiles."""
    settings = deployment(bench, "verdicts", verdicts=True)
    backlog = _BACKLOG[bench.size]
    load(settings, backlog, SEED)
    reader = TopicReader(settings, names_of(settings).topics.verdicts, settings.documents_partitions, _run_of)
    try:
        details, begun = _run(settings, bench, reader)
    finally:
        reader.close()
    waits = _waits(settings, reader, begun + _SETTLE_SECONDS[bench.size])
    name = "99th percentile from the last matcher's report to a readable verdict"
    if not len(waits):
        yield Result(VERDICT_ID, name, None, "s", details={**details, "note": "no verdicts"})
        return
    details |= {"verdicts": len(waits), **{f"p{p}": float(np.percentile(waits, p)) for p in (50, 90, 99.9)}}
    details["max"] = float(waits.max())
    target = Target("at most", SECONDS_MAX) if bench.size != "smoke" else None
    yield Result(VERDICT_ID, name, float(np.percentile(waits, 99)), "s", target, details)


def _run(settings: StreamSettings, bench: Bench, reader: TopicReader[_Run]) -> tuple[dict[str, object], float]:
    """Work off the backlog, then run at half load: what was measured on the way, and when half load began."""
    backlog = _BACKLOG[bench.size]
    taken = {"sign": settings.documents_partitions, "match": settings.shards, "link": 1}
    signer, matcher, linker = (Process(role, settings, str(partitions)) for role, partitions in taken.items())
    every = [signer, matcher, linker]
    with signer, matcher, linker:
        wait_until(lambda: all(each.ready.is_set() for each in every), "ready", every)
        for each in every:
            each.start()
        wait_until(lambda: linker.documents >= backlog, "the backlog is decided", every)
        first = signer.turns[0]
        capacity = (backlog - first.documents) / (linker.turns[-1].at - first.at)
        rate = max(LOAD_FRACTION * capacity, 1.0)
        count = int(rate * _LOAD_SECONDS[bench.size])
        with Process("produce", settings, str(count), str(SEED + 1), str(rate)) as source:
            source.wait(source.ready.is_set, "ready")
            pids = {"broker": bench.broker_pid, "signer": signer.pid, "matcher": matcher.pid, "linker": linker.pid}
            begun, began = time.time(), time.monotonic()
            used = {who: processor_seconds(pid) for who, pid in pids.items()}
            source.start()
            wait_until(lambda: source.ended, "the source", every)
            span = time.monotonic() - began
            cores = {f"{who} cores": (processor_seconds(pid) - used[who]) / span for who, pid in pids.items()}
            behind = source.stop()["behind"]
        wait_until(lambda: _decided(reader) >= backlog + count, "all verdicts are read", every)
        for each in every:
            each.stop()
    details: dict[str, object] = {"full load documents/s": round(capacity), "load documents/s": round(rate)}
    return {**details, "source behind s": behind, **{name: used for name, used in cores.items() if used > 0}}, begun


def _decided(reader: TopicReader[_Run]) -> int:
    return sum(len(offsets) for _, _, offsets in list(reader.seen))


def _waits(
    settings: StreamSettings, reader: TopicReader[_Run], since: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds from the last report of each document to its verdict, of documents that were reported after ``since``."""
    reported = _reports(settings, names_of(settings).topics)
    waits = []
    for now, partition, offsets in reader.seen:
        stamps = np.array([reported[place_of(partition, offset)] for offset in offsets])
        waits.append(now - stamps[stamps >= since])
    return np.concatenate(waits) if waits else np.empty(0)


def _reports(settings: StreamSettings, topics: Topics) -> dict[int, float]:
    """By place of a document: when the last shard reported it, in seconds."""
    transport, fingerprint = connect(settings), settings.signing_fingerprint
    places, positions = _log(transport, settings, topics)
    stamps = np.zeros(len(places))
    for shard, (first, _) in transport.bounds(topics.links).items():
        _, end = transport.log_bounds(topics.links, shard)
        ends, at = [], []
        for records in transport.read(topics.links, shard, first, end):
            for record in records:
                message = decode_links(record.value or b"", fingerprint)
                if message.end >= 0:
                    ends.append(message.end)
                    at.append(record.timestamp_ms / 1e3)
        np.maximum(stamps, np.array(at)[np.searchsorted(ends, positions, "right")], out=stamps)
    transport.close()
    return dict(zip(places.tolist(), stamps.tolist(), strict=True))


def _log(transport: KafkaTransport, settings: StreamSettings, topics: Topics) -> tuple[_Numbers, _Numbers]:
    """The place of each row of ``signed``, and the position before it."""
    places, positions = [], []
    first, _ = transport.bounds(topics.signed)[0]
    _, end = transport.log_bounds(topics.signed, 0)
    for records in transport.read(topics.signed, 0, first, end):
        for record in records:
            rows = decode_signed(record.value or b"", settings.signing_fingerprint, settings.plan.width)
            places.append(rows.places)
            positions.append(position_of(record.offset) + np.arange(rows.size))
    return np.concatenate(places), np.concatenate(positions)


def filters(bench: Bench) -> Iterator[Result]:
    """K7: the throughput of a filter over that of a bare loop."""
    count = _FILTERED[bench.size]
    settings = deployment(bench, "filter", verdicts=True)
    size = load(settings, count, SEED + 2)
    decided = decide_all(settings)
    assert decided == count
    best: dict[str, tuple[float, float]] = {}
    stages: dict[str, float] = {}
    for turn in range(_REPEATS[bench.size]):
        wall, own, tally = drained(
            "filter", with_group(settings, f"filter{turn}"), settings.documents_partitions, count
        )
        for name, times in (("bare", bare(settings, count)), ("filter", (wall, own))):
            known = best.get(name, times)
            best[name] = min(known[0], times[0]), min(known[1], times[1])
        stages = tally.stages()
    details: dict[str, object] = {"documents": count, "bytes a document": round(size / count)}
    for name, (wall, own) in best.items():
        details |= {f"{name} documents/s": round(count / wall), f"{name} own us/document": 1e6 * own / count}
    details |= {f"{name} us/document": 1e6 * seconds / count for name, seconds in stages.items()}
    details["by own processor time"] = best["bare"][1] / best["filter"][1]
    target = Target("at least", RATIO_MIN) if bench.size != "smoke" else None
    ratio = best["bare"][0] / best["filter"][0]
    yield Result(FILTER_ID, "throughput of a filter over a bare loop's", ratio, "times", target, details)


def bare(settings: StreamSettings, count: int) -> tuple[float, float]:
    """Poll every document and send it on, with the options of the workers: wall and own seconds."""
    client = KafkaConsumer(**kafka_settings(settings).consumer_options(), group_id=None)
    options = kafka_settings(settings)
    producer = KafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, linger_ms=_LINGER_MILLISECONDS,
        batch_size=options.batch_bytes, compression_type=options.compression,
        max_request_size=settings.client.request_bytes_max,
    )  # fmt: skip
    topics = names_of(settings).topics
    places = [TopicPartition(topics.documents, partition) for partition in range(settings.documents_partitions)]
    client.assign(places)
    client.seek_to_beginning(*places)
    producer.partitions_for(topics.candidates)
    started, own = time.perf_counter(), time.process_time()
    found = 0
    while found < count:
        for records in client.poll(timeout_ms=200, max_records=LIMITS.step_documents_max).values():
            for record in records:
                producer.send(
                    topics.candidates, record.value, key=record.key, partition=record.partition,
                    timestamp_ms=record.timestamp,
                )  # fmt: skip
            found += len(records)
        producer.flush()
    seconds = time.perf_counter() - started, time.process_time() - own
    producer.close()
    client.close(autocommit=False)
    return seconds


def decide_all(settings: StreamSettings) -> int:
    """Write a verdict for each document, ``original``, in runs as a linker writes them; returns their number."""
    transport, topics = connect(settings), names_of(settings).topics
    producer = transport.producer(f"{settings.topic_prefix}decide")
    count = 0
    for partition, (first, _) in transport.bounds(topics.documents).items():
        # The end of what may be read can be before the last commit: its markers are on their way.
        _, end = transport.log_bounds(topics.documents, partition)
        offsets = [r.offset for records in transport.read(topics.documents, partition, first, end) for r in records]
        for at in range(0, len(offsets), _RUN_DOCUMENTS):
            part = np.array(offsets[at : at + _RUN_DOCUMENTS], np.int64)
            producer.begin()
            for run in encode_runs(_originals(count, places_of(np.full(len(part), partition), part))):
                producer.send(Message(topics.verdicts, run.partition, run.value, run.key))
            producer.commit()
            count += len(part)
    producer.close()
    transport.close()
    return count


def _originals(first: int, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> DecidedRows:
    """Documents with ids of 20 bytes, all of them originals."""
    n = len(places)
    none = np.full(n, -1)
    rows = ArrivalRows(
        places, np.full(n, DOCUMENT, np.uint8), np.zeros(n, np.int64), np.arange(n, dtype=np.uint64),
        np.full(20 * n, ord("d"), np.uint8), np.arange(0, 20 * n + 1, 20), np.full(n, NO_RANK),
        np.zeros(n, np.int64),
    )  # fmt: skip
    no, similarities = np.zeros(n, np.bool_), np.zeros(n, np.float32)
    zeros = np.zeros(n, np.int64)
    compared = none, similarities, zeros, np.zeros(n, np.uint8)
    verdicts = Verdicts(np.zeros(n, np.uint8), places, none, similarities, none, none, none, no, no, *compared)
    return DecidedRows(first + np.arange(n), rows, verdicts, [None] * n, no, zeros, zeros, np.full(n, NO_RANK), zeros)
