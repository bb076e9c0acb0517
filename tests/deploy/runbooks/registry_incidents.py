"""Incidents that are too dear to cause: the real registry of a role gets the values of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from incident_place import Place
from prometheus_client import CollectorRegistry, ProcessCollector
from shell_harness import TEXT
from worker_incidents import VERDICTS, Incident, near_copies, work, worked

from neardup_workers.outside.telemetry.health import Health, HealthAnswer, application
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.names import LINK, MATCH, SIGN


def gauges(role: str, well: dict[str, float], wrong: dict[str, float]) -> Incident:
    """The registry of a role with the values of an incident; ``name,label`` is a gauge of a label.

    Next to it, all documents of the deployment have one text.
    """

    def incident(place: Place) -> Iterator[None]:
        metrics, health = Metrics(role), Health(1e9)
        health.beat(HealthAnswer(True, "partitions: 0, 1"))
        bench, documents = worked(place, SIGN, **VERDICTS)
        place.show(metrics, health)

        def more() -> None:
            documents.send(20, TEXT)
            work(bench, SIGN, MATCH, LINK)

        place.tick = more
        for values in (well, wrong):
            for name, value in values.items():
                metrics.set(*_named(name, value))
            yield
        more()
        while True:
            yield

    return incident


def _named(name: str, value: float) -> tuple[str, float, str]:
    gauge, _, label = name.partition(",")
    return gauge, value, label


def samples(role: str, name: str, well: float, wrong: float) -> Incident:
    """The registry of a role whose histogram gets the values of an incident."""

    def incident(place: Place) -> Iterator[None]:
        metrics, health = Metrics(role), Health(1e9)
        place.show(metrics, health)
        metrics.sample(name, [well] * 10)
        yield
        while True:
            metrics.sample(name, [wrong] * 10)
            yield

    return incident


def lone(place: Place) -> Iterator[None]:
    """Next to near copies that limits cut, a matcher counts documents that may lack all of their pairs."""
    for _ in near_copies(probe_candidates_max=4)(place):
        yield
        place.bench.metrics[MATCH].count("lone_documents", 20)


def stuck(place: Place) -> Iterator[None]:
    """The lag of one partition grows while its worker commits others."""
    worked(place, SIGN)
    metrics, health = Metrics(SIGN), Health(1e9)
    health.beat(HealthAnswer(True, "partitions: 0, 1"))
    place.show(metrics, health)
    for partition in ("0", "1"):
        metrics.set("lag_records", 0, partition)
    yield
    for lag_records in itertools.count(10, 10):
        metrics.set("lag_records", lag_records, "1")
        metrics.count("transactions", 1, "committed")
        yield


def memory(place: Place) -> Iterator[None]:
    """The process collector of a worker reads a process of 3.9 GB, which is a file here."""
    metrics, health = Metrics(MATCH), Health(1e9)
    metrics.set("table_bytes", 3.4e9, "0")
    proc = place.folder / "proc"
    (proc / "self").mkdir(parents=True)
    stat = (Path("/proc/self/stat")).read_text()
    before, after = stat.rsplit(")", 1)
    fields = after.split()

    def hold(pages: int) -> None:
        fields[21] = str(pages)  # rss
        (proc / "self" / "stat").write_text(f"{before}) {' '.join(fields)}")

    (proc / "stat").write_text(Path("/proc/stat").read_text())
    hold(100_000)
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(proc=str(proc), pid=lambda: "self", registry=registry)
    place.answer = application(registry, health)
    yield
    hold(950_000)
    while True:
        yield
