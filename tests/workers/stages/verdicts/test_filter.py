"""The filter forwards kept documents byte for byte and once, with any end of a step."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from shell_harness import Bench
from topics_world import TopicsWorld, turns

from neardup.errors import ConfigError
from neardup_workers.doing.stages.filtering.filter import FilterPlan, FilterWorker
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.names import FILTER, Names, generation, topic_names
from neardup_workers.outside.transport.protocol import OffsetGoneError, Record, sent_bytes

TOPICS = topic_names("", generation("00" * 16, 1))
# Generation 0b decides the same documents.
OTHER = Names(topic_names("", generation("11" * 16, 1)), "0b" * 6, "neardup")
PLAN = FilterPlan(Names(TOPICS, "0a" * 6, "neardup"), ("original",), "earliest", False)


class World(TopicsWorld):
    """Documents of one partition, with their verdicts in runs."""

    def __init__(self) -> None:
        read = TOPICS.documents, TOPICS.verdicts, TOPICS.unique, OTHER.topics.verdicts
        super().__init__(dict.fromkeys(read, 1))
        self.metrics = Metrics(FILTER)

    def decide(self, *statuses: str, partition: int = 0) -> None:
        """One document for each status, and one run of verdicts for all."""
        lines, offsets = [], []
        for status in statuses:
            value = None if status == "removed" else b"the document " + status.encode()
            headers = (("status", status.encode()),)
            offsets.append(self.memory.append(TOPICS.documents, partition, value, b"key", 1_700_000_000_000, headers))
            lines.append(json.dumps({"offset": offsets[-1], "status": status}))
        key = f"{offsets[0]}-{offsets[-1] + 1}".encode()
        self.memory.append(TOPICS.verdicts, partition, "\n".join(lines).encode(), key)

    def worker(self, name: str = "one", **plan: object) -> FilterWorker:
        made = PLAN._replace(**plan)  # type: ignore[arg-type]
        return FilterWorker(self.member(made.names.topics.verdicts, made.names.group(FILTER), name, self.metrics), made)

    def decide_again(self, first: int, end: int, status: str = "original") -> None:
        """The other generation decides some of the documents."""
        lines = [json.dumps({"offset": offset, "status": status}) for offset in range(first, end)]
        self.memory.append(OTHER.topics.verdicts, 0, "\n".join(lines).encode(), f"{first}-{end}".encode())

    def unique(self) -> list[Record]:
        return self.memory.records(TOPICS.unique)

    def statuses(self) -> list[str]:
        return [record.headers[0][1].decode() for record in self.unique()]


def test_originals_and_tombstones_go_on_as_they_came() -> None:
    """Key, value and time stay the same, and the headers before one with the generation; duplicates, unchanged versions
    and refused documents are not forwarded.
    """
    world = World()
    world.decide("original", "duplicate", "refused", "unchanged", "removed", "original")
    turns(world.worker())
    sent = world.memory.records(TOPICS.documents)
    header = (("neardup-generation", b"0a" * 6),)
    assert [record[2:] for record in world.unique()] == [
        sent[at]._replace(headers=(*sent[at].headers, *header))[2:] for at in (0, 4, 5)
    ]
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
    with mock.patch("neardup_workers.doing.stages.filtering.filter._STEP_DOCUMENTS_MAX", 2):
        worker = world.worker()
        for _ in range(3):
            worker.turn(0.0, 100)
        before = len(world.unique())
        assert 0 < before < 6
        world.memory.fail_next(fault, transactional_id="one")
        for _ in range(3):
            try:
                worker.turn(0.0, 100)
            except Exception:
                break
        world.memory.advance(60.0)
        turns(world.worker("two"), count=10)
    assert world.statuses() == ["original"] * 6


def test_a_document_that_is_gone_stops_the_filter_unless_a_gap_is_allowed() -> None:
    """Retention deleted the document: the sentence names its place, and ``allow_gap`` counts the missing documents."""
    world = World()
    world.decide("original", "original", "original")
    world.memory.log(TOPICS.documents, 0).trim(2)
    with pytest.raises(OffsetGoneError):
        turns(world.worker())
    world.memory.advance(60.0)
    turns(world.worker("two", allow_gap=True), count=10)
    assert len(world.unique()) == 1
    assert world.metrics.value("gone") == 2


def test_verdicts_in_a_partition_that_was_added_go_on_from_its_beginning() -> None:
    """Some come before the filter sees the partition; a start at the end holds for the first start alone."""
    world = World()
    world.decide("original")
    worker = world.worker(start="latest")
    turns(worker)
    for topic in (TOPICS.unique, TOPICS.verdicts, TOPICS.documents):
        world.memory.add_partitions(topic, 1)
    world.decide("original", "duplicate", "removed", partition=1)
    turns(worker)
    world.memory.advance(60.0)
    turns(worker, count=10)
    assert world.statuses() == ["original", "removed"]


def test_a_filter_reads_no_documents_ahead_of_their_verdicts() -> None:
    """A document without a verdict stays in its log."""
    world = World()
    world.decide("original")
    for _ in range(50):
        world.memory.append(TOPICS.documents, 0, b"later", b"key")
    worker = world.worker()
    turns(worker)
    assert len(world.unique()) == 1
    first = worker.reader.positions()[0]
    turns(worker)
    assert worker.reader.positions()[0] == first


FOLLOWING = {"names": OTHER, "follows": PLAN.names}


def stopped(world: World) -> World:
    """The first filter has forwarded what is decided, and its session has ended."""
    turns(world.worker())
    world.memory.advance(60.0)
    return world


def test_a_filter_follows_another_generation_at_its_last_document() -> None:
    """The position is inside of a run of the one that follows, which also survives its own restart there."""
    world = World()
    world.decide("original", "original", "duplicate")
    stopped(world).decide("duplicate", "duplicate")
    world.decide_again(0, 2)
    world.decide_again(2, 5)
    turns(world.worker("two", **FOLLOWING))
    world.memory.advance(60.0)
    turns(world.worker("three", **FOLLOWING))
    assert world.statuses() == ["original", "original", "duplicate", "duplicate"]
    assert [record.headers[-1][1] for record in world.unique()] == [b"0a" * 6] * 2 + [b"0b" * 6] * 2


def test_a_filter_follows_no_filter_that_works_and_none_that_never_worked() -> None:
    """Two filters would forward the same documents; a wrong name would forward all again."""
    world = World()
    world.decide("original")
    world.decide_again(0, 1)
    with pytest.raises(ConfigError, match="no filter has worked in group neardup-filter-0a0a0a0a0a0a"):
        turns(world.worker("two", **FOLLOWING))
    turns(world.worker())
    with pytest.raises(ConfigError, match="1 filters of generation 0a0a0a0a0a0a still work"):
        turns(world.worker("two", **FOLLOWING))
    assert world.statuses() == ["original"]


def test_a_filter_that_follows_stops_at_documents_without_a_verdict_of_its_own() -> None:
    """The new generation began later than the old filters stopped: the documents between would be lost."""
    world = World()
    world.decide("original")
    stopped(world).decide("original", "original")
    world.decide_again(2, 3)
    with pytest.raises(OffsetGoneError, match="begin at offset 2 of documents, and the filters before stopped at 1"):
        turns(world.worker("two", **FOLLOWING))
    world.memory.advance(60.0)
    turns(world.worker("three", allow_gap=True, **FOLLOWING))
    assert len(world.unique()) == 2


def test_a_filter_sends_the_longest_document_that_a_signer_takes() -> None:
    """The header that it adds counts: one byte more is a dead letter."""
    bench = Bench(verdicts=True, documents_partitions=1)
    line = json.dumps({"id": "a", "text": "some words ", "timestamp": 1_600_000_000}).encode()
    taken = bench.settings.client.request_bytes_max - 256 - sent_bytes(None, None, (("neardup-generation", bytes(12)),))
    for size in (taken, taken + 1):
        bench.cluster.append("documents", 0, line.ljust(size))
    bench.cluster.record_bytes_max = bench.settings.client.request_bytes_max - 256  # as the producer on Kafka
    for role in ("sign", "match", "link", "filter"):
        bench.run(role, lambda role=role: bench.has_taken_all(role))
    assert [len(record.value or b"") for record in bench.cluster.records("documents.unique")] == [taken]
    (letter,) = bench.cluster.records("documents.dead")
    assert json.loads(letter.value or b"")["reason"] == "message_too_large"


def test_a_filter_that_joins_with_verdicts_at_hand_waits_in_its_polls() -> None:
    """Its steps would be refused; without a wait it turns thousands of times until others join."""
    world = World()
    one, two = world.worker("one"), world.worker("two")
    for _ in range(4):
        turns(one, count=1)
        turns(two, count=1)
    newcomer = world.worker("newcomer")
    turns(newcomer, count=1)
    world.decide("original")
    with mock.patch.object(one.member.consumer, "poll", wraps=one.member.consumer.poll) as poll:
        for _ in range(4):
            one.turn(0.5, 100)
    assert [call.args[0] for call in poll.call_args_list] == [0.5] * 4
    assert not world.unique()
    for _ in range(4):
        turns(two, count=1)
        turns(newcomer, count=1)
        turns(one, count=1)
    assert world.statuses() == ["original"]
