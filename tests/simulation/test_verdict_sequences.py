"""Sequences of events, by name, that broke an earlier design of verdicts; they run on topics with a linker.

These need logs that the test writes, or workers that stop. ``verdict_sequences.py`` has the others as a table, which
``test_sequences_by_every_driver.py`` runs. Sequence 4 was of logs in several orders, and there is one order.
"""

from __future__ import annotations

import orjson
import pytest
from memory_transport import MemoryTransport
from sim_checks import check
from sim_cluster import FILTERS, LINKERS, MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_links import LinkWorld
from sim_scenario import Scenario
from sim_seeds import config

from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import OffsetGoneError, UnknownTopicError

FOX = "the quick brown fox jumps over the lazy dog while nothing moves at all in the small village of the north"
NEAR_FOX = FOX.replace("dog", "cat")
OWL = "an old owl sits upon the oak and says nothing until it has heard enough of what the people talk about"


class Whole(Cluster):
    """All four roles over one partition of documents and some shards."""

    def __init__(self, shards: int = 4, **scenario: object) -> None:
        habits = Habits(skew_seconds=1e5)
        plan = {"linkers": 1, "filters": 1, "shards": shards, **scenario}
        super().__init__(Scenario(config(600.0, 60.0), habits, **plan))  # type: ignore[arg-type]
        self.signer, self.matcher, self.linker, self.filter = map(self.add, (SIGNERS, MATCHERS, LINKERS, FILTERS))

    def go_on(self, *places: object, turns: int = 8) -> None:
        for _ in range(turns):
            for place in list(self.places):
                if not places or place in places:
                    self.turn(place)

    def verdicts(self) -> list[str]:
        """``id status original`` of each verdict."""
        lines = [line for record in self.memory.records(self.topics.verdicts) for line in parse_run(record.value)]
        return [" ".join(filter(None, [x.get("id"), x["status"], x.get("duplicate_of")])) for x in lines]

    def judged(self) -> list[str]:
        """Wait for quiet, check every law, and return the verdicts."""
        self.settle()
        check(self)
        return self.verdicts()


def test_2_copies_have_one_original_whatever_order_their_links_are_read_in() -> None:
    """The links of x3 are read before those of x2: the order of rows decides."""
    world = LinkWorld(shards=2)
    world.arrive(("x1", "x", 0), ("x2", "x", 1), ("x3", "x", 2))
    world.link([("x2", "x3", 1.0)], (0, 3))
    world.turns()
    world.link([("x1", "x2", 1.0)], (0, 3), shard=1)
    assert world.turns().verdicts() == ["x1 original", "x2 duplicate x1", "x3 duplicate x1"]


def test_3_a_pair_of_a_document_with_a_copy_is_that_of_the_copy() -> None:
    """A shard that knows no copy of x2 finds it with y; one table walks no bucket for it. So its copy x1 decides, which
    has the story of z."""
    world = LinkWorld(shards=2)
    world.arrive(("z", "z", 0), ("y", "y", 1), ("x1", "x", 2), ("-z", "", 0), ("x2", "x", 3), ("v", "v", 4))
    world.link([("z", "x1", 0.9), ("x1", "x2", 1.0)], (0, 6))
    world.link([("y", "x2", 0.9), ("y", "v", 0.9)], (0, 6), shard=1)
    assert world.turns().verdicts() == [
        "z original", "y original", "x1 duplicate z", "z removed", "x2 duplicate x1", "v duplicate y",
    ]  # fmt: skip


def test_5_a_pair_with_what_has_left_the_window_is_ignored_and_counted() -> None:
    """A matcher with few documents still holds an item that the linker has dropped."""
    world = LinkWorld()
    world.arrive(("old", "o", 0), ("new", "n", 1_000), ("late", "l", 950))
    world.link([("old", "late", 0.9)], (0, 3))
    assert world.turns().verdicts() == ["old original", "new original", "late original"]
    assert world.metrics.value("ignored") == 1


@pytest.mark.parametrize("removed_first", [True, False])
def test_10_an_original_is_removed_while_a_pair_with_it_is_on_its_way(removed_first: bool) -> None:
    """The order of arrivals decides: a document that arrives after the removal is an original."""
    world = LinkWorld()
    rows = [("-x", "", 0.0), ("y", "y", 1.0)]
    world.arrive(("x", "x", 0.0), *(rows if removed_first else rows[::-1]))
    world.link([("x", "y", 0.9)])
    world.link(done=(0, 3))
    verdicts = world.turns().verdicts()
    assert sorted(verdicts) == sorted(["x original", "x removed", "y original" if removed_first else "y duplicate x"])


def test_11_a_matcher_commits_between_the_messages_of_a_step() -> None:
    """Progress names the rows that are passed, so the linker decides no document before its last pair arrives."""
    cluster = Whole(shards=1, message_bytes=100, step_pairs=1)
    with cluster.limits():
        for i in range(6):
            cluster.feed.document(f"fox {i}", FOX if i % 2 else NEAR_FOX)
        cluster.go_on(cluster.signer)
        assert len(cluster.memory.records(cluster.topics.signed)) > 3
        cluster.turn(cluster.matcher, 1)
        cluster.turn(cluster.matcher, 1)
        cluster.go_on(cluster.linker)
        early = cluster.verdicts()
        assert 0 < len(early) < 6
        verdicts = cluster.judged()
        assert verdicts[: len(early)] == early
        assert verdicts[0] == "fox 0 original"
        assert [line.split(" ", 2)[2] for line in verdicts[1:]] == ["duplicate fox 0"] * 5


def test_12_a_linker_restarts_while_a_shard_is_idle() -> None:
    """Every shard counts as having passed the decided rows; the idle one reports the next step as usual."""
    cluster = Whole(shards=8)
    with cluster.limits():
        cluster.feed.document("fox", FOX)
        cluster.go_on()
        cluster.trim(cluster.linker)
        cluster.crash(cluster.linker)
        cluster.feed.document("near fox", NEAR_FOX)
        cluster.feed.document("owl", OWL)
        assert cluster.judged() == ["fox original", "near fox duplicate fox", "owl original"]


def test_13_a_matcher_that_is_down_holds_back_verdicts_in_bounded_memory() -> None:
    """The linker reads no rows beyond ``undecided_max``, no links far ahead, and always the slowest shard."""
    world = LinkWorld(shards=2, undecided_max=10)
    for step in range(50):
        world.arrive(*((f"d{step}-{i}", "", float(step)) for i in range(4)))
        world.link(done=(4 * step, 4 * step + 4))
    for _ in range(60):
        world.turns(1)
        assert world.linker.state.undecided <= 10
    assert world.verdicts() == []
    lag = world.linker.lag()[0]
    assert world.metrics.value("verdicts", "original") == 0
    world.memory.advance(3_600.0)
    world.linker.observe()
    assert world.metrics.value("watermark_lag_seconds", "1") == 3_600.0
    assert world.metrics.value("watermark_lag_seconds", "0") == 0.0
    for step in range(50):
        world.link(done=(4 * step, 4 * step + 4), shard=1)
    world.turns(60)
    assert len(world.verdicts()) == 200
    assert lag >= 0


def test_13_a_matcher_that_is_stopped_for_a_minute_holds_back_verdicts_and_nothing_else() -> None:
    """Meanwhile every document is signed and every row read, and no worker restarts."""
    cluster = Whole(shards=4)
    with cluster.limits():
        cluster.feed.document("first", FOX)
        cluster.go_on()
        others = cluster.signer, cluster.linker, cluster.filter
        running = [place.worker for place in others]
        for n in range(60):
            cluster.feed.document(f"d{n}", NEAR_FOX if n % 2 else OWL)
            cluster.memory.advance(1.0)
            cluster.go_on(*others, turns=2)
        assert cluster.verdicts() == ["first original"]
        assert [record.key for record in cluster.memory.records(cluster.topics.unique)] == [b"first"]
        assert [place.worker for place in others] == running
        assert isinstance(running[1], LinkWorker)
        assert running[1].state.undecided == 60
        assert len(cluster.judged()) == 61


def test_14_two_generations_stand_side_by_side() -> None:
    """Each generation has its own log, links, verdicts and clusters, so neither sees the other's pairs."""
    one, other = LinkWorld(shards=1), LinkWorld(shards=2)
    fields = ("signed", "links", "verdicts", "clusters")
    names = [{getattr(world.topics, field) for field in fields} for world in (one, other)]
    assert not names[0] & names[1]
    assert one.topics.unique == other.topics.unique


def test_a_removed_representative_is_followed_by_the_next_best() -> None:
    """The cluster keeps its members in order of rank, also over a restart; the verdicts stay as they are."""
    world = LinkWorld()
    world.ranks = {"x1": 1.0, "x2": 3.0, "x3": 2.0}
    world.arrive(*((f"x{n}", "x", float(n)) for n in range(1, 5)))
    world.link(done=(0, 4))
    world.turns()
    assert world.representatives() == ["x2", "x3", "x1", "x4"]
    world.memory.advance(60.0)
    world.start("two")
    world.arrive(("-x2", "", 0.0))
    world.link(done=(4, 5))
    world.turns()
    assert world.representatives() == ["x3", "x1", "x4"]
    world.arrive(("-x1", "", 0.0), ("-x3", "", 0.0), ("-x4", "", 0.0), ("x5", "x", 9.0))
    world.link(done=(5, 9))
    assert world.turns().verdicts()[-1] == "x5 original"
    assert world.representatives() == []


def test_a_cluster_ends_once_whatever_a_restart_reads() -> None:
    """A linker that restores verdicts of an ended cluster does not begin it again."""
    world = LinkWorld()
    world.arrive(("x1", "x", 0.0), ("x2", "x", 1.0))
    world.link(done=(0, 2))
    world.turns()
    world.arrive(("y", "y", 200.0))
    world.link(done=(2, 3))
    world.turns()
    world.memory.advance(60.0)
    world.start("two")
    world.arrive(("z", "z", 201.0))
    world.link(done=(3, 4))
    world.turns()
    values = [record.value for record in world.memory.records(world.topics.clusters)]
    assert values[-1] is None
    assert values.count(None) == 1


def test_the_first_linker_begins_where_all_shards_publish_links() -> None:
    """Matchers worked without ``verdicts`` before: rows that they passed get no verdict and are counted. A later hole
    is a loss, also for a linker that restarts."""
    world = LinkWorld(shards=2)
    world.arrive(*((f"d{i}", "", float(i)) for i in range(3)))
    world.arrive(("d3", "", 3.0), ("d4", "d", 4.0), ("d5", "d", 5.0), ("d6", "e", 6.0))
    world.link(done=(2, 7), shard=0)
    world.link([("d4", "d5", 0.9)], done=(4, 7), shard=1)
    world.turns()
    assert world.verdicts() == ["d4 original", "d5 duplicate d4", "d6 original"]
    committed = world.memory.offsets("linkers", world.topics.signed)[0]
    assert decode_signed_metadata(committed).skipped == 4
    world.memory.advance(60.0)
    world.start("two")
    world.arrive(("d7", "", 7.0), ("d8", "", 8.0))
    world.link(done=(8, 9), shard=0)
    with pytest.raises(OffsetGoneError, match="was not matched by shard 0"):
        world.turns()


def test_what_a_linker_trimmed_is_no_beginning() -> None:
    """A log of links whose first records are gone had a linker: the hole is a loss."""
    world = LinkWorld()
    world.arrive(("d0", "", 0.0), ("d1", "", 1.0))
    world.link(done=(0, 1))
    world.link(done=(1, 2))
    MemoryTransport(world.memory).trim(world.topics.links, {0: 1})
    with pytest.raises(OffsetGoneError, match="was not matched by shard 0"):
        world.turns()


def test_a_hole_in_the_progress_stops_the_linker_until_it_is_accepted() -> None:
    """No matcher reports rows 2 to 4; with ``allow_gap`` their verdicts are marked."""
    world = LinkWorld()
    world.arrive(*((f"d{i}", "", float(i)) for i in range(6)))
    world.link(done=(0, 2))
    world.turns()
    world.link(done=(4, 6))
    with pytest.raises(OffsetGoneError, match=r"row 2, to offset 0, row 4, .* accept that with --allow-gap"):
        world.turns()
    world.plan = world.plan._replace(allow_gap=True)
    world.memory.advance(60.0)
    world.start("two")
    world.turns()
    lines = [line for record in world.memory.records(world.topics.verdicts) for line in parse_run(record.value)]
    assert [line.get("incomplete", False) for line in lines] == [False, False, True, True, False, False]
    assert world.metrics.value("incomplete") == 2


@pytest.mark.parametrize(("content", "seconds", "alive"), [("x1", (100.0, 20.0), 0), ("x", (30.0, 100.0), 1)])
def test_a_cluster_ends_no_earlier_than_its_story(content: str, seconds: tuple[float, float], alive: int) -> None:
    """Its original was updated with an earlier date, or came again between: as long as a version of it keeps the story
    alive a copy may join, also after a restart."""
    world = LinkWorld()
    world.arrive(("a", "x", seconds[0]), ("a", content, seconds[1]), ("a", "x2", 15.0), ("b", "x", 21.0))
    world.link(done=(0, 4))
    world.turns()
    world.arrive(("y", "y", 190.0))  # a document that is older than 80 counts no more
    world.link(done=(4, 5))
    world.turns()
    world.memory.advance(60.0)
    world.start("two")
    world.arrive(("c", "x", 120.0))
    world.offsets["a"], world.contents["a"] = alive, "x"
    world.link([("a", "c", 1.0)], done=(5, 6))
    assert world.turns().verdicts()[-1] == "c duplicate a"
    values = [orjson.loads(record.value or b"null") for record in world.memory.records(world.topics.clusters)]
    assert [value and (value["timestamp"], value["members"]) for value in values] == [(100.0, 2), (120.0, 3)]


def test_documents_of_a_partition_without_verdicts_are_refused_by_name() -> None:
    """Add partitions to ``verdicts`` and ``documents.unique`` before ``documents``."""
    world = LinkWorld()
    world.sent = 2 << 48
    world.arrive(("x", "x", 0.0))
    with pytest.raises(UnknownTopicError, match="has 2 partitions, but documents come from partition 2"):
        world.turns()


def test_a_linker_restores_what_trimming_left() -> None:
    """Marks advance with the window: a restart reads the verdicts that may still matter, and no older ones."""
    world = LinkWorld()
    for step in range(6):
        world.arrive((f"x{step}", "x", 40.0 * step))
        world.link(done=(step, step + 1))
        world.turns()
        world.linker.trim()
    assert world.memory.log(world.topics.links, 0).first == 5  # up to what the round before committed
    committed = world.memory.offsets("linkers", world.topics.verdicts)[0]
    assert committed.offset > 0
    world.memory.advance(60.0)
    world.start("two")
    world.arrive(("x6", "x", 240.0))
    world.link(done=(6, 7))
    assert world.turns().verdicts() == [
        "x0 original", *(f"x{n} duplicate x0" for n in range(1, 7)),
    ]  # fmt: skip


@pytest.mark.parametrize("turns", [(0, 0), (4, 0), (4, 4)])
def test_a_document_that_is_signed_again_gets_no_second_verdict(turns: tuple[int, int]) -> None:
    """In one step with the first time or in a later one: `neardup topics replay` sets signers back."""
    world = LinkWorld()
    rows = (("a", "a", 0.0), ("-gone", "", 0.0), ("b", "b", 1.0))
    world.arrive(*rows)
    world.link([("a", "b", 0.9)], (0, 3))
    world.turns(turns[0])
    world.sent = 0
    world.arrive(*rows)
    world.link([("a", "b", 0.9)], (3, 6))
    world.turns(turns[1])
    world.arrive(("c", "c", 2.0), ("b2", "b", 2.0))
    world.link([("a", "c", 0.9)], (6, 8))
    world.turns()
    assert world.verdicts() == ["a original", "gone removed", "b duplicate a", "c duplicate a", "b2 duplicate a"]
    assert world.linker.state.undecided == 0
    world.memory.advance(60.0)
    world.start("two").turn(0.0, 100)
    world.arrive(("d", "d", 3.0))
    world.link([("a", "d", 0.9)], (8, 9))
    assert world.turns(8).verdicts()[5:] == ["d duplicate a"]


def test_matchers_keep_the_evidence_of_the_window_of_a_linker_that_is_behind() -> None:
    """Their own windows are over, and the row is decided. The linker still compares it: the old one is a correction."""
    cluster = Whole(shards=2)
    with cluster.limits():
        begin = cluster.memory.now_seconds
        cluster.feed.document("x", FOX, begin)
        cluster.go_on()
        cluster.feed.document("x", NEAR_FOX, begin + 1.0)
        cluster.feed.document("y", OWL, begin + 5_000.0)
        log = cluster.memory.log(cluster.topics.signed, 0)
        for _ in range(3):
            cluster.go_on(cluster.signer, cluster.matcher)
            cluster.trim(cluster.matcher)
        assert log.first == 0
        assert cluster.judged() == ["x original", "x update", "y original"]
        for n in range(2):
            cluster.trim(cluster.linker)
            cluster.feed.document(f"z{n}", OWL, begin + 6_000.0 + n)
            cluster.go_on()
            cluster.trim(cluster.matcher)
        cluster.trim(cluster.matcher)
        assert log.first > 0
