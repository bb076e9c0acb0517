"""K5: seconds from the sending of a document until a read-committed reader has its candidate, at half load.

Full load is the rate at which one signer and one matcher, each in a process, work off a backlog on this machine. Then
documents arrive at half of this rate. Each carries the time of its sending, and its candidates repeat this time. The
reader notes the time at which it has a candidate. So the result includes the reader's own wait and all earlier stages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson

from benchmarks.kafka.deploy import Bench, Process, deployment, load, wait_until
from benchmarks.kafka.reader import TopicReader
from benchmarks.measure import processor_seconds
from benchmarks.report import Result, Size, Target
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import names_of

SEED = 43
ID = "K5-latency"
SECONDS_MAX, LOAD_FRACTION = 1.0, 0.5
_BACKLOG: dict[Size, int] = {"smoke": 400, "default": 60_000, "large": 200_000}
_LOAD_SECONDS: dict[Size, float] = {"smoke": 1.0, "default": 20.0, "large": 120.0}
# The first seconds are not counted: the load changes there.
_SETTLE_SECONDS = 2.0
_IDLE_SECONDS = 2.0


class _Candidate(NamedTuple):
    """A candidate as it was read: seconds of its arrival and its sending; time and id of the newer document."""

    now: float
    sent: float
    newer_seconds: float
    newer: str


def _candidate(now: float, record: Any) -> _Candidate:
    pair = orjson.loads(record.value)
    return _Candidate(now, record.timestamp / 1e3, pair["newer_timestamp"], pair["newer"])


class _Load(NamedTuple):
    """The load and its results."""

    capacity: float
    rate: float
    said: dict[str, float]
    stages: dict[str, dict[str, float]]
    cores: dict[str, float]


def run(bench: Bench) -> Iterator[Result]:
    """Full load, half load, percentiles."""
    settings = deployment(bench, "latency")
    load(settings, _BACKLOG[bench.size], SEED)
    reader = TopicReader(settings, names_of(settings).topics.candidates, settings.documents_partitions, _candidate)
    try:
        done = _run(settings, bench)
    finally:
        reader.close()
    of_load = [one for one in reader.seen if one.newer.startswith(f"doc-{SEED + 1:04d}")]
    settled = min((sent for _, _, sent, _ in of_load), default=0.0) + (
        _SETTLE_SECONDS if bench.size != "smoke" else 0.0
    )
    waits = np.array([now - sent for now, _, sent, _ in of_load if sent >= settled])
    details: dict[str, object] = {
        "full load documents/s": round(done.capacity), "load documents/s": round(done.rate),
        "source behind s": done.said["behind"], "candidates": len(waits),
    }  # fmt: skip
    name = "99th percentile from sending to committed candidate"
    if not len(waits):
        yield Result(ID, name, None, "s", details={**details, "note": "no candidates"})
        return
    matched = np.array([matched - sent for _, matched, sent, _ in of_load if sent >= settled])
    details |= {f"p{p} to the matcher's sending": float(np.percentile(matched, p)) for p in (50, 99)}
    details |= {f"p{p}": float(np.percentile(waits, p)) for p in (50, 90, 99.9)} | {"max": float(waits.max())}
    details |= {f"{who} cores": amount for who, amount in done.cores.items()}
    for who, stages in done.stages.items():
        details |= {f"{who} {stage} s": seconds for stage, seconds in stages.items()}
    target = Target("at most", SECONDS_MAX) if bench.size != "smoke" else None
    yield Result(ID, name, float(np.percentile(waits, 99)), "s", target, details)


def _run(settings: StreamSettings, bench: Bench) -> _Load:
    backlog = _BACKLOG[bench.size]
    taken = {"sign": settings.documents_partitions, "match": settings.shards}
    signer, matcher = (Process(role, settings, str(partitions)) for role, partitions in taken.items())
    with signer, matcher:
        both = [signer, matcher]
        wait_until(lambda: all(each.ready.is_set() for each in both), "ready", both)
        for each in both:
            each.start()
        capacity = _capacity(signer, matcher, backlog)
        rate = max(LOAD_FRACTION * capacity, 1.0)
        count = int(rate * _LOAD_SECONDS[bench.size])
        with Process("produce", settings, str(count), str(SEED + 1), str(rate)) as source:
            source.start()
            pids = {"broker": bench.broker_pid, "signer": signer.pid, "matcher": matcher.pid, "source": source.pid}
            began, used = time.monotonic(), {who: processor_seconds(pid) for who, pid in pids.items()}
            # The last moment at which all processes still run: before the source ends.
            wait_until(lambda: signer.documents >= backlog + count * 0.9 or source.ended, "the load", both)
            span = time.monotonic() - began
            cores = {who: (processor_seconds(pid) - used[who]) / span for who, pid in pids.items()}
            wait_until(lambda: source.ended, "the source", both)
            said = source.stop()
        wait_until(lambda: signer.documents >= backlog + count, "all are signed", both)
        _settle(matcher)
        stages = {"signer": signer.stop()["stages"], "matcher": matcher.stop()["stages"]}
    return _Load(capacity, rate, said, stages, {who: amount for who, amount in cores.items() if amount > 0})


def _capacity(signer: Process, matcher: Process, backlog: int) -> float:
    """Documents a second of the backlog, from the start of the signer to the last document of the matcher."""
    both = [signer, matcher]
    wait_until(lambda: signer.documents >= backlog, "the backlog is signed", both)
    _settle(matcher)
    begun = signer.turns[0]
    return (backlog - begun.documents) / (matcher.turns[-1].at - begun.at)


def _settle(matcher: Process) -> None:
    """Wait until the matcher has nothing more to do."""
    wait_until(
        lambda: bool(matcher.turns) and time.monotonic() - matcher.turns[-1].at > _IDLE_SECONDS, "idle", [matcher]
    )
