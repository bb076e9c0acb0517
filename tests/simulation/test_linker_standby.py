"""A standby of the linker: kills at every call of the owner, restores while it works on, and logs that it loses."""

from __future__ import annotations

from unittest import mock

import pytest
from sim_checks import check
from sim_cluster import FILTERS, LINKERS, MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_scenario import Crash, Place, Scenario
from sim_seeds import config

from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata

HABITS = Habits(version=0.2, correction=0.1, tombstone=0.1, skew_seconds=3600.0)
# Calls of an owner in the turns of the test, about.
CALLS = 60


class Standing(Cluster):
    """A cluster with an owner and a standby, in which the owner can die before any call of its transport."""

    def __init__(self, **scenario: int) -> None:
        made = Scenario(
            config(30.0, 5.0), HABITS, documents_partitions=2, shards=2, linkers=2, filters=1, standbys=1, **scenario
        )
        super().__init__(made, "standby")
        self.left = -1  # calls before the owner dies, if it ``dies``
        self.dies = False
        for kind in (SIGNERS, MATCHERS, FILTERS, LINKERS):
            self.add(kind)
        self.owner = self.places[-1]
        self.go_on(6)
        self.standby = self.add(LINKERS)

    def between(self, place: Place, call: str) -> None:
        """Count the calls of the owner; the last one is its end."""
        if self.dies and place is self.owner:
            self.left -= 1
            if self.left == -1:
                raise Crash

    def go_on(self, rounds: int, documents: int = 2) -> None:
        """Send documents, and give every worker a turn, some rounds of one second."""
        for _ in range(rounds):
            for _ in range(documents):
                self.feed.send()
            self.memory.advance(1.0)
            for place in list(self.places):
                self.turn(place)
                self.buried()

    def buried(self) -> None:
        """No other process takes the place of an owner that has died."""
        if self.owner.worker is None and self.left == -1 and self.dies:
            self.places = [place for place in self.places if place is not self.owner]

    def of(self, place: Place) -> LinkWorker:
        """The linker in a place."""
        assert isinstance(place.worker, LinkWorker)
        return place.worker

    def levelled(self) -> None:
        """Go on until the standby has decided what the owner has committed."""
        for _ in range(40):
            self.go_on(1)
            if place_holds(self.standby):
                return
        raise AssertionError(self.of(self.standby).standby.lag())

    def lose(self) -> None:
        """The owner is gone for good; its session ends while the others work on."""
        self.crash(self.owner)
        if self.owner in self.places:
            self.places.remove(self.owner)
        self.go_on(20, documents=0)


def place_holds(place: Place) -> bool:
    """Whether the linker in a place stands by and is level with its owner."""
    return isinstance(place.worker, LinkWorker) and place.worker.standby.is_on and place.worker.held.is_level


@pytest.mark.long
@pytest.mark.parametrize("first", range(4))
def test_a_standby_takes_over_wherever_the_owner_dies(first: int) -> None:
    """Before any call: nothing is lost, repeated or wrong, and no window is read again."""
    died = 0
    for calls in range(first, CALLS, 4):
        cluster = Standing()
        with cluster.limits():
            cluster.levelled()
            before = cluster.of_linkers.takeovers.copy()
            cluster.left, cluster.dies = calls, True
            for _ in range(3):
                cluster.go_on(1)
                if cluster.owner in cluster.places:
                    cluster.trim(cluster.owner)
                    cluster.buried()
            died += cluster.owner not in cluster.places
            cluster.lose()
            assert cluster.of_linkers.takeovers - before == {"kept": 1}
            cluster.go_on(6)
            cluster.settle()
            outcome = check(cluster)
            assert outcome.verdicts["duplicate"]
    assert died >= 10


@pytest.mark.parametrize("trims", [False, True])
def test_a_standby_restores_while_the_owner_works_on(trims: bool) -> None:
    """Between any two stretches the owner decides, writes stories and its ledger, and trims: what the standby holds is
    that of one commit. Then it takes over."""
    cluster = Standing(stretch_records=1, message_bytes=100)
    with cluster.limits(), mock.patch("neardup_workers.doing.stages.verdicts.held._RESTORE_SECONDS", 0.0):
        cluster.places.remove(cluster.standby)
        cluster.go_on(12)
        cluster.places.append(cluster.standby)
        turns = 0
        while not place_holds(cluster.standby):
            turns += 1
            assert turns < 2_000
            if turns % 3 == 0:
                cluster.go_on(1, documents=turns % 2)
                cluster.trim(cluster.owner) if trims else None
            cluster.turn(cluster.standby)
        assert turns > 20
        cluster.go_on(2)
        cluster.lose()
        assert cluster.of_linkers.takeovers["kept"] == 1
        cluster.settle()
        check(cluster)


def test_a_standby_decides_nothing_that_its_owner_has_not_committed() -> None:
    """Rows and links are there; it waits for the commit."""
    cluster = Standing()
    with cluster.limits():
        cluster.levelled()
        cluster.places.remove(cluster.owner)
        decided = cluster.of(cluster.standby).state.arrivals
        cluster.go_on(3)
        assert cluster.of(cluster.standby).state.arrivals == decided
        committed = cluster.memory.offsets(LINKERS, cluster.topics.signed)[0]
        assert decided == decode_signed_metadata(committed).arrivals
        assert cluster.of(cluster.standby).state.undecided > 0
        cluster.places.append(cluster.owner)
        cluster.go_on(2, documents=0)
        assert cluster.of(cluster.standby).state.arrivals > decided


def test_what_its_owner_has_written_of_the_ledger_is_no_change_of_a_standby() -> None:
    """It is the same ledger, and holds as few changes as that of the owner."""
    cluster = Standing()
    with cluster.limits():
        cluster.levelled()
        for _ in range(4):
            cluster.go_on(6)
            cluster.trim(cluster.owner)
            assert cluster.of(cluster.standby).sources.is_changed
            cluster.go_on(2, documents=0)
            assert not cluster.of(cluster.standby).sources.is_changed
        owner, standby = (cluster.of(place).sources._ledger for place in (cluster.owner, cluster.standby))
        assert list(owner.every()) == list(standby.every()) != []


def test_a_standby_counts_for_itself_what_its_owner_has_not_written() -> None:
    """It was suspended while the owner decided, wrote its ledger and decided more: the changes since are its own."""
    cluster = Standing()
    with cluster.limits():
        cluster.levelled()
        cluster.places.remove(cluster.standby)
        cluster.go_on(3)
        cluster.trim(cluster.owner)
        cluster.go_on(3)
        cluster.places.append(cluster.standby)
        cluster.go_on(3, documents=0)
        owner, standby = (cluster.of(place).sources for place in (cluster.owner, cluster.standby))
        assert sorted(map(repr, standby._ledger._before)) == sorted(map(repr, owner._ledger._before)) != []
        assert standby._changed == owner._changed


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_standby_that_trims_have_passed_begins_again(rounds: int) -> None:
    """A suspended standby goes on after one trim; after more of them links that it needs are gone: it restores. The
    verdicts are right."""
    cluster = Standing()
    with cluster.limits():
        cluster.levelled()
        before = cluster.of(cluster.standby).state
        cluster.places.remove(cluster.standby)
        for _ in range(rounds):
            cluster.go_on(3)
            cluster.trim(cluster.owner)
        cluster.places.append(cluster.standby)
        cluster.go_on(1)
        cluster.levelled()
        assert (cluster.of(cluster.standby).state is before) == (rounds == 1)
        cluster.lose()
        cluster.settle()
        check(cluster)


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_standby_that_is_ahead_of_the_commit_restores(takes_over: bool) -> None:
    """Brokers can lose a committed offset: the window is restored, as without a standby."""
    cluster = Standing()
    with cluster.limits():
        cluster.levelled()
        group = cluster.memory.group(LINKERS, cluster.topics.signed)
        topics = cluster.topics.signed, cluster.topics.verdicts, cluster.topics.links
        earlier = {topic: dict(group.offsets_of(topic)) for topic in topics}
        cluster.go_on(4)
        if takes_over:
            cluster.crash(cluster.owner)
            cluster.memory.advance(cluster.memory.session_seconds + 1.0)
        ahead = cluster.of(cluster.standby).state
        for topic, offsets in earlier.items():
            group.offsets_of(topic).update(offsets)
        for _ in range(1 + 8 * takes_over):
            cluster.turn(cluster.standby)
        assert cluster.of(cluster.standby).state is not ahead
        assert cluster.of(cluster.standby).held.is_empty is not takes_over
        assert cluster.of_linkers.takeovers == ({"restored": 2, "kept": 1} if takes_over else {"restored": 1})
