"""The laws of verdicts, clusters and documents.unique in a quiet cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any

from cluster_oracle import expected_clusters, wrong_clusters
from ledger_replay import ledger_of
from memory_transport import MemoryTransport
from verdict_oracle import arrivals_of, expected_lines, one_process

from neardup.documents.document import Verdict
from neardup_workers.doing.stages.verdicts.beginning.restore import Offsets, Restored, restored
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.doing.stages.verdicts.sources import Sources
from neardup_workers.outside.topics.names import generation_header
from neardup_workers.outside.topics.places import place_name
from neardup_workers.outside.topics.verdicts import parse_run

if TYPE_CHECKING:
    from sim_checks import Outcome
    from sim_cluster import Cluster


def lines_of(cluster: Cluster) -> list[tuple[int, dict[str, Any]]]:
    """The lines that the model expects, in order of arrival: place and line."""
    links = [record for records in cluster.links.values() for record in records]
    return expected_lines(cluster.signed[0], links, cluster.config)


def check_verdicts(outcome: Outcome) -> None:
    """Each record of ``documents`` has one verdict, equal to the model's, in the order of its partition."""
    cluster = outcome.cluster
    expected = defaultdict(list)
    for place, line in lines_of(cluster):
        expected[place >> 48].append(line)
    found = defaultdict(list)
    for record in cluster.memory.records(cluster.topics.verdicts):
        lines = parse_run(record.value)
        assert record.key == f"{lines[0]['offset']}-{lines[-1]['offset'] + 1}".encode()
        found[record.partition] += lines
    sent = defaultdict(list)
    for truth in outcome.truths:
        sent[truth.partition].append(truth.offset)
    assert {s: [line["offset"] for line in lines] for s, lines in found.items()} == dict(sent)
    assert found == expected
    outcome.verdicts = Counter(line["status"] for lines in found.values() for line in lines)


def check_one_process(outcome: Outcome) -> None:
    """The verdicts are those of one process that decides the rows of ``signed``, if no limit cuts what shards find."""
    cluster, config = outcome.cluster, outcome.config
    expected, places = one_process(cluster.signed[0], config)
    lines = [line for _, line in sorted(_found(cluster), key=lambda one: one[1]["arrival"])]
    named = [line for line in lines if line["status"] != "removed"]
    assert [_seen(line) for line in named] == [_decided(verdict, places) for verdict in expected]


def _found(cluster: Cluster) -> list[tuple[int, dict[str, Any]]]:
    records = cluster.memory.records(cluster.topics.verdicts)
    return [(record.partition, line) for record in records for line in parse_run(record.value)]


def _seen(line: dict[str, Any]) -> tuple[object, ...]:
    names = ("duplicate_of", "similarity", "cluster", "related", "previous", "matched")
    return line.get("id"), line["status"], *(line.get(name) for name in names), line.get("late", False)


def _decided(verdict: Verdict, places: list[str]) -> tuple[object, ...]:
    similarity = None if verdict.similarity is None else round(verdict.similarity, 4)
    numbers = (verdict.cluster, verdict.related, verdict.previous, verdict.matched)
    named = (None if number is None else places[number] for number in numbers)
    return verdict.id or None, verdict.status, verdict.duplicate_of, similarity, *named, verdict.late


def check_clusters(outcome: Outcome) -> None:
    """The last record of each cluster is the expected one, and no record repeats another.

    A cluster has ended only if no document can join it.
    """
    cluster = outcome.cluster
    placed = lines_of(cluster)
    lines = [line for _, line in placed]
    expected = expected_clusters(lines, [place_name(place) for place, _ in placed])
    stream = max((line["timestamp"] for line in lines if "timestamp" in line), default=0.0)
    limits = cluster.link_plan.limits
    records = cluster.memory.records(cluster.topics.clusters)
    assert wrong_clusters(records, expected, stream - (limits.window + limits.lateness) / 1e6) == []
    outcome.clusters = Counter(
        {
            "clusters": len(expected),
            "clusters ended": sum(record.value is None for record in records),
            "clusters not shown by their original": sum(
                row["id"] not in [one["id"] for one in row["representatives"][:1]] for row in expected.values()
            ),
        }
    )


def check_standing(outcome: Outcome) -> None:
    """As many linkers stand by as are wanted and there; each has decided what is committed, and has what the owner
    has."""
    cluster = outcome.cluster
    workers = [place.worker for place in cluster.places if isinstance(place.worker, LinkWorker)]
    owners = [worker for worker in workers if worker.running]
    standing = [worker for worker in workers if worker.standby.is_on]
    assert len(standing) == min(cluster.scenario.standbys, len(workers) - len(owners))
    for worker, owner in product(standing, owners):
        if worker.held.is_level or owner.state.arrivals:
            assert worker.held.is_level
            assert worker.state.arrivals == owner.state.arrivals
            assert worker.held.clusters._clusters == owner.held.clusters._clusters
            assert worker.state.decisions.stream_time == owner.state.decisions.stream_time
    outcome.standing = len(standing)


def check_sources(outcome: Outcome) -> None:
    """The ledger of the linker, and the one that a restart restores, equal a ledger that counts all verdicts at once
    with the sources and times of the messages of ``signed``."""
    cluster = outcome.cluster
    lines = [line for _, line in lines_of(cluster)]
    expected = ledger_of(arrivals_of(cluster.signed[0], cluster.config), lines)
    workers = [place.worker for place in cluster.places if isinstance(place.worker, LinkWorker)]
    holding = [worker for worker in workers if worker.held.is_level]
    for sources in (*(worker.sources for worker in holding), _restored_sources(cluster)):
        assert list(sources._ledger.every()) == list(expected.every())
    records = cluster.memory.records(cluster.topics.sources)
    outcome.sources = Counter({"records of sources": len(records), "sources": len(expected.largest(99))})


def _restored_sources(cluster: Cluster) -> Sources:
    topics, log = cluster.topics, cluster.memory.log(cluster.topics.signed, 0)
    signed, verdicts, links = (
        cluster.memory.offsets("linkers", topic) for topic in (topics.signed, topics.verdicts, topics.links)
    )
    compared = Compared(cluster.config, lambda offset: log.read(offset, 1)[0][0].value or b"", 1 << 20)
    plan = cluster.link_plan._replace(allow_gap=False)
    found = restored(MemoryTransport(cluster.memory), plan, compared, Offsets(signed[0], verdicts, links))
    return next(one for one in found if isinstance(one, Restored)).sources


def check_unique(outcome: Outcome) -> None:
    """``documents.unique`` holds the kept documents and tombstones, byte for byte, in order, with the generation."""
    cluster = outcome.cluster
    header = generation_header(cluster.generation)
    kept = {*cluster.scenario.forward, "removed"}
    statuses = {
        (record.partition, line["offset"]): line["status"]
        for record in cluster.memory.records(cluster.topics.verdicts)
        for line in parse_run(record.value)
    }
    expected = [
        (*record[:1], *record[2:-1], (*record.headers, header))
        for record in cluster.memory.records(cluster.topics.documents)
        if statuses[record.partition, record.offset] in kept
    ]
    assert [record[:1] + record[2:] for record in cluster.memory.records(cluster.topics.unique)] == expected
    outcome.forwarded = len(expected)
