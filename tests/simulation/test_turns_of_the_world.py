"""The world changes at unlikely moments: between two calls of a start, while a worker keeps its tables.

Each test is one schedule that random schedules reach too seldom; the final checks are the same (``sim_checks``).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sim_checks import check
from sim_cluster import MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_scenario import Place, Scenario
from sim_seeds import config

FOX = "the quick brown fox jumps over the lazy dog while nothing moves at all in the small village of the north"
NEAR_FOX = FOX.replace("dog", "cat")
OWL = "an old owl sits upon the oak and says nothing until it has heard enough of what the people talk about"
HOUR_SECONDS = 3600.0


class Turned(Cluster):
    """One signer and one matcher on one partition; ``meanwhile`` runs once, before the named call of a place."""

    def __init__(self, window_seconds: float = 600.0) -> None:
        habits = Habits(skew_seconds=HOUR_SECONDS)
        super().__init__(Scenario(config(window_seconds, 60.0), habits, shards=1, stretch_records=1))
        self._meanwhile: dict[tuple[Place, str], Callable[[], None]] = {}
        self.signer, self.matcher = self.add(SIGNERS), self.add(MATCHERS)
        self.go_on()

    def meanwhile(self, place: Place, call: str, happens: Callable[[], None]) -> None:
        self._meanwhile[place, call] = happens

    def between(self, place: Place, call: str) -> None:
        happens = self._meanwhile.pop((place, call), None)
        if happens is not None:
            happens()

    def go_on(self, *places: Place) -> None:
        """Give the listed places, or all places, some turns."""
        for _ in range(6):
            for place in places or list(self.places):
                self.turn(place)

    def hour(self) -> None:
        """Let an hour pass in steps that keep every polling member in its group."""
        self.memory.advance(HOUR_SECONDS)

    def take_over(self, then: Callable[[Place], None]) -> None:
        """The session of the matcher ends and another one works in its place, until it leaves."""
        self.memory.advance(self.memory.session_seconds + 1)
        heir = self.add(MATCHERS)
        self.go_on(self.signer, heir)
        then(heir)
        self.leave(heir)
        self.memory.advance(self.memory.session_seconds + 1)

    def pairs(self) -> list[str]:
        """Wait for quiet, check every law, and return the pairs."""
        self.settle()
        assert not self._meanwhile, "a call never came"
        return sorted(f"{said.older} {said.newer}" for said in check(self).said)


@pytest.mark.parametrize("call", ["bounds", "committed", "read"])
def test_a_log_trimmed_between_the_calls_of_a_start_is_no_gap(call: str) -> None:
    """Others take over, commit a later window and trim to it at any point of the start; the starting matcher continues.

    The matcher reads the first offset before the committed offset, so the first offset is never ahead of a window that
    is committed later.
    """
    cluster = Turned()

    def go_an_hour_on(heir: Place) -> None:
        cluster.hour()
        cluster.feed.document("owl", OWL)
        cluster.go_on(cluster.signer, heir)
        cluster.trim(heir)
        cluster.trim(heir)  # below the least of this round and the one before
        assert cluster.memory.log(cluster.topics.signed, 0).first > 0

    with cluster.limits():
        cluster.feed.document("fox", FOX)
        cluster.go_on()
        cluster.crash(cluster.matcher)
        cluster.meanwhile(cluster.matcher, call, lambda: cluster.take_over(go_an_hour_on))
        cluster.go_on()
        cluster.feed.document("near owl", OWL.replace("people", "elders"))
        assert cluster.pairs() == ["owl near owl"]


@pytest.mark.parametrize("fault", ["commit_before", "commit_after"])
@pytest.mark.parametrize("goes_on", [True, False], ids=["others went on", "nothing came"])
def test_tables_behind_the_committed_offsets_catch_up(fault: str, goes_on: bool) -> None:
    """A matcher whose commit had no answer keeps its tables; only the log contains the later work of others."""
    cluster = Turned()

    def match_another(heir: Place) -> None:
        if goes_on:
            cluster.feed.document("owl", OWL)
            cluster.feed.document("owl 2", OWL)
        cluster.go_on(cluster.signer, heir)

    with cluster.limits():
        cluster.feed.document("fox", FOX)
        cluster.go_on(cluster.signer)
        cluster.memory.fail_next(fault, transactional_id=cluster.matcher.name)
        cluster.turn(cluster.matcher)
        assert cluster.matcher.kept, "the tables are kept for the worker made next"
        cluster.take_over(match_another)
        cluster.go_on()
        cluster.feed.document("near fox", NEAR_FOX)
        cluster.feed.document("owl 3", OWL)
        assert cluster.pairs() == (["fox near fox", "owl 2 owl 3", "owl owl 2"] if goes_on else ["fox near fox"])


def test_a_zombie_that_reads_what_others_have_trimmed_is_fenced() -> None:
    """The zombie slept while its successor matched and trimmed. The log has no gap, so the zombie restarts."""
    cluster = Turned()
    with cluster.limits():
        cluster.feed.document("fox", FOX)
        cluster.go_on()
        cluster.abandon(cluster.matcher)
        (zombie,) = cluster.zombies
        for name in ("owl", "near owl"):
            cluster.hour()
            cluster.feed.document(name, OWL)
            cluster.go_on()
            cluster.trim(cluster.matcher)
        cluster.trim(cluster.matcher)
        assert cluster.memory.log(cluster.topics.signed, 0).first > 1
        cluster.turn(zombie)
        assert cluster.events["FencedError of a zombie"] == 1
        assert cluster.pairs() == []


@pytest.mark.parametrize("call", ["begin", "send_offsets", "commit"])
@pytest.mark.parametrize("commits", [True, False], ids=["the heir committed", "the heir only restored"])
def test_a_matcher_of_older_settings_that_wakes_up_trims_nothing(call: str, commits: bool) -> None:
    """The old matcher slept in its trim while a successor with a longer, earlier window took over."""
    cluster = Turned()

    def restore_more(heir: Place) -> None:
        if commits:
            cluster.feed.document("owl 2", OWL)
            cluster.go_on(cluster.signer, heir)

    def take_over() -> None:
        cluster.config = config(3 * HOUR_SECONDS, 60.0)
        cluster.match_plan = cluster.match_plan._replace(config=cluster.config)
        cluster.take_over(restore_more)

    with cluster.limits():
        cluster.feed.document("fox", FOX)
        cluster.go_on()
        cluster.hour()
        cluster.feed.document("owl", OWL)
        cluster.go_on()
        cluster.meanwhile(cluster.matcher, call, take_over)
        cluster.trim(cluster.matcher)
        cluster.crash(cluster.matcher)  # and restarts with the settings of its successor
        cluster.feed.document("near fox", NEAR_FOX)
        assert cluster.memory.log(cluster.topics.signed, 0).first == 0
        assert "fox near fox" in cluster.pairs()


def test_a_matcher_of_new_settings_trims_nothing_before_its_first_commit() -> None:
    """The committed window follows the older settings; a longer window needs earlier records."""
    cluster = Turned()
    with cluster.limits():
        cluster.feed.document("fox", FOX)
        cluster.go_on()
        cluster.hour()
        cluster.feed.document("owl", OWL)
        cluster.go_on()
        cluster.config = config(3 * HOUR_SECONDS, 60.0)
        cluster.match_plan = cluster.match_plan._replace(config=cluster.config)
        for _ in range(2):
            cluster.crash(cluster.matcher)
            cluster.go_on()
            cluster.trim(cluster.matcher)
        cluster.feed.document("near fox", NEAR_FOX)
        assert cluster.pairs() == ["fox near fox"]
