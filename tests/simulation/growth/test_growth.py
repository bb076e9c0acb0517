"""Shards are added while a cluster runs: 2, then 8, then 12, with a failure at every call of the workers.

The documents before, between and after have copies, near-duplicates, versions and removals that cross each growth.
"""

from __future__ import annotations

import pytest
from memory_transport import MemoryTransport
from quick_parameters import quick_first
from sim_checks import Outcome, check
from sim_cluster import LINKERS, MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_growth import add_shards, growth_of
from sim_scenario import Crash, Scenario
from sim_seeds import config
from sim_watched import CRASHES

from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.outside.topics.signed import offset_and_row
from neardup_workers.outside.transport.protocol import AbortedError, Message, UnreachableError


class Growing(Cluster):
    """A cluster with two shards, which gets documents and shards."""

    def __init__(self, window: float = 600.0, **scenario: int) -> None:
        habits = Habits(version=0.15, tombstone=0.1, skew_seconds=3600.0)
        super().__init__(
            Scenario(config(window, 60.0), habits, shards=2, documents_partitions=2, **{"linkers": 1, **scenario}),
            "growth",
        )
        for kind in (SIGNERS, MATCHERS, MATCHERS, LINKERS)[: 3 + self.scenario.linkers]:
            self.add(kind)

    def go_on(self, rounds: int = 4) -> None:
        """Give every worker some turns, one a second."""
        for _ in range(rounds):
            self.memory.advance(1.0)
            for place in [*self.zombies, *self.places]:
                self.turn(place)

    def send(self, documents: int) -> None:
        """Send documents, some at a time."""
        for _ in range(documents // 4):
            for _ in range(4):
                self.feed.send()
            self.go_on(1)

    def grow(self, shards: int) -> None:
        """Add shards; no failure is left for the administrator."""
        self.memory.clear_faults()
        assert add_shards(self, shards) == ""

    def ended(self) -> Outcome:
        """Wait for quiet, and check all laws."""
        self.settle()
        outcome = check(self)
        assert outcome.uncut
        return outcome

    def offsets(self) -> dict[int, int]:
        """The committed offset of each shard in ``signed``."""
        group = self.memory.group(MATCHERS, self.topics.links)
        return {shard: committed.offset for shard, committed in group.offsets.items()}


@pytest.mark.long
def test_two_shards_become_eight_and_twelve() -> None:
    """Pairs, tables and verdicts are those of one table, and each shard of twelve has documents."""
    cluster = Growing()
    with cluster.limits():
        cluster.send(60)
        cluster.grow(8)
        cluster.send(60)
        cluster.grow(12)
        cluster.send(100)
        outcome = cluster.ended()
    assert [shards for _, shards in outcome.growth.steps] == [8, 12]
    tables = {s: t for place in cluster.places for s, t in getattr(place.worker, "tables", {}).items()}
    assert sorted(tables) == list(range(12))
    assert sum(table.matcher.table.documents > 0 for table in tables.values()) >= 8
    assert outcome.verdicts["duplicate"] > 20


def test_shards_are_added_where_there_was_one() -> None:
    """A stream that began with one table for all of it is divided like any other."""
    cluster = Cluster(Scenario(config(600.0, 60.0), Habits(version=0.1), shards=1, linkers=1), "one")
    for kind in (SIGNERS, MATCHERS, LINKERS):
        cluster.add(kind)
    with cluster.limits():
        for shards in (3, 4):
            for _ in range(60):
                cluster.feed.send()
            for place in cluster.places * 3:
                cluster.turn(place)
            assert add_shards(cluster, shards) == ""
        for _ in range(60):
            cluster.feed.send()
        cluster.settle()
    assert check(cluster).growth.shards == 4


@pytest.mark.long
@pytest.mark.parametrize("kind", [MATCHERS, LINKERS])
@pytest.mark.parametrize("call", quick_first(CRASHES, 2))
def test_a_worker_dies_at_each_call_around_a_growth(call: str, kind: str) -> None:
    """Wherever the process ends, before the row, in the step that passes it, or behind it, nothing is lost or
    repeated."""
    cluster = Growing(stretch_records=1, message_bytes=100)
    with cluster.limits():
        cluster.send(24)
        for shards in (8, 12):
            cluster.grow(shards)
            for _ in range(6):
                cluster.feed.send()
                for place in [place for place in cluster.places if place.kind == kind]:
                    for other in [other for other in cluster.places if other.kind != kind]:
                        cluster.turn(other)  # so that the place has something to do
                    cluster.memory.fail_next(call, raises=Crash())
                    cluster.turn(place)
                    cluster.memory.clear_faults()
                cluster.go_on(1)
            cluster.send(16)
        assert cluster.events["crash in a call"] >= 3
        cluster.ended()


@pytest.mark.parametrize(
    "fault", quick_first(["commit_before", "commit_after", "flush", "send_offsets", "group_offsets"], 2)
)
def test_the_step_that_passes_the_row_fails(fault: str) -> None:
    """The first offsets of new shards are committed with the step, once, whatever comes of its transaction."""
    cluster = Growing(step_pairs=1)
    with cluster.limits():
        cluster.send(24)
        cluster.grow(8)
        for _ in range(4):
            cluster.memory.fail_next(fault)
            for place in cluster.places:
                if place.kind == MATCHERS:
                    cluster.turn(place)
        cluster.send(24)
        cluster.ended()


def test_new_shards_wait_until_shard_0_has_passed_the_row() -> None:
    """Their members stay in the group, are ready, and commit nothing. With the step of shard 0 all new shards have the
    same first offset."""
    cluster = Growing()
    with cluster.limits():
        cluster.send(24)
        cluster.settle()
        cluster.grow(8)
        matchers = [place for place in cluster.places if place.kind == MATCHERS]
        owner = next(place for place in matchers if 0 in place.worker.tables)  # type: ignore[union-attr]
        (other,) = (place for place in matchers if place is not owner)
        for _ in range(6):
            cluster.memory.advance(1.0)
            cluster.turn(other)
        assert sorted(cluster.offsets()) == [0, 1]
        assert other.worker is not None
        assert other.worker.ready
        assert not cluster.memory.offsets(MATCHERS, cluster.topics.links).keys() & set(range(2, 8))
        cluster.go_on(6)
        row = offset_and_row(growth_of(cluster).steps[0][0])[0]
        assert {shard: at for shard, at in cluster.offsets().items() if shard > 1} == dict.fromkeys(range(2, 8), row)
        cluster.send(24)
        cluster.ended()


@pytest.mark.parametrize("moment", ["producer", "begin"])
def test_of_two_administrators_one_wins_and_the_other_is_refused(moment: str) -> None:
    """Both have read that there are two shards. The second is fenced, or its row comes second and does not count; more
    partitions than shards are left unused, until the next growth."""
    cluster = Growing()
    said = []

    def between(_: object, call: str) -> None:
        if call == moment and not said:
            said.append("")
            said[0] = add_shards(cluster, 8)

    with cluster.limits():
        cluster.send(24)
        cluster.between = between  # type: ignore[method-assign, assignment]
        refused = add_shards(cluster, 12)
        assert said == [""]
        assert "another administrator was first: the stream had 2 shards, and has 8 now, not 12" in refused
        cluster.send(24)
        assert "8 shards, and 4 are fewer" in add_shards(cluster, 4)
        assert "has 8 shards: name more" in add_shards(cluster, 8)
        assert cluster.ended().growth.shards == 8
        assert cluster.memory.partitions(cluster.topics.links) == 12
        assert sorted(cluster.offsets()) == list(range(8))


def test_an_administrator_waits_for_the_transaction_that_hides_the_row() -> None:
    """A signer has a transaction open before the row: no reader sees the row until it ends."""
    cluster = Growing()
    with cluster.limits():
        cluster.send(24)
        cluster.settle()
        signer = MemoryTransport(cluster.memory).producer("slow")
        signer.begin()
        signer.send(Message(cluster.topics.signed, 0, b"never committed"))
        signer.flush()
        assert add_shards(cluster, 8, lambda _: signer.abort()) == ""
        cluster.send(24)
        assert cluster.ended().growth.shards == 8


def test_partitions_without_a_shard_wait_for_one() -> None:
    """An administrator dies between the partitions and the row: the members hold the partitions, and are ready."""
    cluster = Growing()
    with cluster.limits():
        cluster.send(24)
        cluster.memory.fail_next("flush", raises=AbortedError("the broker went away"))
        assert add_shards(cluster, 8) == "the broker went away"
        cluster.send(24)
        cluster.settle()
        assert cluster.memory.partitions(cluster.topics.links) == 8
        assert all(place.worker.ready for place in cluster.places if place.kind == MATCHERS)  # type: ignore[union-attr]
        cluster.grow(8)
        cluster.send(24)
        assert cluster.ended().growth.shards == 8


def test_a_linker_waits_until_its_broker_knows_the_partitions() -> None:
    """With old metadata it decides nothing behind the row, and goes on when it learns of the new partitions; so does
    one that starts meanwhile."""
    cluster = Growing()
    with cluster.limits():
        cluster.send(24)
        cluster.settle()
        (linker,) = (place for place in cluster.places if place.kind == LINKERS)
        cluster.grow(8)
        for restarts in (False, True):
            if restarts:
                cluster.crash(linker)
                cluster.start(linker)
            assert isinstance(linker.worker, LinkWorker)
            hide(linker.worker, cluster, 2)
            decided = len(cluster.memory.records(cluster.topics.verdicts))
            cluster.send(12)
            assert len(cluster.memory.records(cluster.topics.verdicts)) == decided
        hide(linker.worker, cluster, 8)  # type: ignore[arg-type]
        cluster.ended()


def hide(linker: LinkWorker, cluster: Cluster, partitions: int) -> None:
    """Let a linker see so many partitions of links."""
    transport = linker.member.transport

    def bounds(topic: str, **of: bool) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = type(transport).__getattr__(transport, "bounds")(topic, **of)  # type: ignore[attr-defined]
        links = topic == cluster.topics.links
        return {one: at for one, at in found.items() if not links or one < partitions}

    transport.bounds = bounds  # type: ignore[method-assign]


@pytest.mark.long
def test_a_trim_keeps_what_new_shards_need() -> None:
    """The log begins at the least window of all shards, also of those that were added, while their members are away."""
    cluster = Growing(window=5.0, linkers=0)
    with cluster.limits():
        cluster.send(40)
        cluster.grow(8)
        matchers = [place for place in cluster.places if place.kind == MATCHERS]
        owner = next(place for place in matchers if 0 in getattr(place.worker, "tables", {}))
        cluster.turn(owner)
        for place in matchers:
            place.kept = {}
            if place is not owner:
                cluster.leave(place)
        cluster.memory.advance(12.0)
        worker = owner.worker
        for _ in range(60):
            cluster.feed.send()
            cluster.memory.advance(5.0)
            for place in cluster.places:
                cluster.turn(place)
            # Its new shards do not move: the member is suspended for them alone.
            for shard in [shard for shard in getattr(worker, "tables", {}) if shard > 1]:
                del worker.tables[shard]  # type: ignore[union-attr]
                worker._late.discard(shard)  # type: ignore[union-attr]
            for _ in range(2):
                cluster.trim(owner)
            first = cluster.memory.log(cluster.topics.signed, 0).first
            offsets = cluster.memory.group(MATCHERS, cluster.topics.links).offsets
            assert first <= min(decode_window(one.metadata).start for one in offsets.values())
        starts = {shard: decode_window(one.metadata).start for shard, one in offsets.items()}
        assert first == min(starts.values()) < min(starts[0], starts[1]), "new shards alone hold back the trim"
        cluster.crash(owner)
        cluster.ended()


def test_a_broker_that_is_away_during_the_step_undoes_it() -> None:
    """Shard 0 asks for known offsets before it commits first ones; without an answer its step is undone whole."""
    cluster = Growing()
    with cluster.limits():
        cluster.send(24)
        cluster.grow(8)
        cluster.memory.fail_next("group_offsets", times=3, raises=UnreachableError("away"))
        cluster.send(24)
        cluster.ended()
