"""The filter forwards kept documents byte for byte and once, with any end of a step."""

from __future__ import annotations

import json
from unittest import mock

import pytest

from neardup.workers.stages.verdicts.filter import FilterPlan, FilterWorker
from neardup.workers.telemetry.metrics import Metrics
from neardup.workers.topics.names import FILTER, topic_names
from neardup.workers.transport.memory.transport import MemoryCluster, MemoryTransport
from neardup.workers.transport.protocol import OffsetGoneError, Record

TOPICS = topic_names("", "00" * 16, 1)
PLAN = FilterPlan(TOPICS, ("original",), "earliest", False)


class World:
    """Documents of one partition, with their verdicts in runs."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        for topic in (TOPICS.documents, TOPICS.verdicts, TOPICS.unique):
            self.cluster.create(topic, 1)
        self.metrics = Metrics(FILTER)

    def decide(self, *statuses: str, partition: int = 0) -> None:
        """One document for each status, and one run of verdicts for all."""
        lines, offsets = [], []
        for status in statuses:
            value = None if status == "removed" else b"the document " + status.encode()
            headers = (("status", status.encode()),)
            offsets.append(self.cluster.append(TOPICS.documents, partition, value, b"key", 1_700_000_000_000, headers))
            lines.append(json.dumps({"offset": offsets[-1], "status": status}))
        key = f"{offsets[0]}-{offsets[-1] + 1}".encode()
        self.cluster.append(TOPICS.verdicts, partition, "\n".join(lines).encode(), key)

    def worker(self, name: str = "one", **plan: object) -> FilterWorker:
        transport = MemoryTransport(self.cluster)
        consumer, producer = transport.consumer(TOPICS.verdicts, "filters", name), transport.producer(name)
        return FilterWorker(transport, consumer, producer, PLAN._replace(**plan), self.metrics)  # type: ignore[arg-type]

    def unique(self) -> list[Record]:
        return self.cluster.records(TOPICS.unique)

    def statuses(self) -> list[str]:
        return [record.headers[0][1].decode() for record in self.unique()]


def turns(worker: FilterWorker, count: int = 6) -> None:
    for _ in range(count):
        worker.turn(0.0, 100)


def test_originals_and_tombstones_go_on_as_they_came() -> None:
    """Key, value, headers and time stay the same; duplicates, unchanged versions and refused documents are not
    forwarded.
    """
    world = World()
    world.decide("original", "duplicate", "refused", "unchanged", "removed", "original")
    turns(world.worker())
    sent = world.cluster.records(TOPICS.documents)
    assert [record[2:] for record in world.unique()] == [sent[at][2:] for at in (0, 4, 5)]
    assert world.metrics.value("documents") == 3


def test_unchanged_versions_go_on_where_a_setting_says_so() -> None:
    """Readers may need an update of fields that are not compared."""
    world = World()
    world.decide("original", "unchanged", "duplicate")
    turns(world.worker(forward=("original", "unchanged")))
    assert world.statuses() == ["original", "unchanged"]


@pytest.mark.parametrize("fault", ["commit_after", "flush"])
def test_a_step_may_end_inside_a_run(fault: str) -> None:
    """The next filter continues after the last processed verdict, after a crash and after an abort."""
    world = World()
    world.decide(*["original", "duplicate"] * 6)
    with mock.patch("neardup.workers.stages.verdicts.filter._STEP_DOCUMENTS_MAX", 2):
        worker = world.worker()
        for _ in range(3):
            worker.turn(0.0, 100)
        before = len(world.unique())
        assert 0 < before < 6
        world.cluster.fail_next(fault, transactional_id="one")
        for _ in range(3):
            try:
                worker.turn(0.0, 100)
            except Exception:
                break
        world.cluster.advance(60.0)
        turns(world.worker("two"), 10)
    assert world.statuses() == ["original"] * 6


def test_a_document_that_is_gone_stops_the_filter_unless_a_gap_is_allowed() -> None:
    """Retention deleted the document: the sentence names its place, and ``allow_gap`` counts the missing documents."""
    world = World()
    world.decide("original", "original", "original")
    world.cluster.log(TOPICS.documents, 0).trim(2)
    with pytest.raises(OffsetGoneError):
        turns(world.worker())
    world.cluster.advance(60.0)
    turns(world.worker("two", allow_gap=True), 10)
    assert len(world.unique()) == 1
    assert world.metrics.value("gone") == 2


def test_verdicts_in_a_partition_that_was_added_go_on_from_its_beginning() -> None:
    """Some come before the filter sees the partition; a start at the end holds for the first start alone."""
    world = World()
    world.decide("original")
    worker = world.worker(start="latest")
    turns(worker)
    for topic in (TOPICS.unique, TOPICS.verdicts, TOPICS.documents):
        world.cluster.add_partitions(topic, 1)
    world.decide("original", "duplicate", "removed", partition=1)
    turns(worker)
    world.cluster.advance(60.0)
    turns(worker, 10)
    assert world.statuses() == ["original", "removed"]


def test_a_filter_reads_no_documents_ahead_of_their_verdicts() -> None:
    """A document without a verdict stays in its log."""
    world = World()
    world.decide("original")
    for _ in range(50):
        world.cluster.append(TOPICS.documents, 0, b"later", b"key")
    worker = world.worker()
    turns(worker)
    assert len(world.unique()) == 1
    first = worker.reader.positions()[0]
    turns(worker)
    assert worker.reader.positions()[0] == first
