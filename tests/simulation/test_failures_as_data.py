"""Failures as data: the input, the failures between its records, and the complete output.

Two signers and two matchers play each list over two shards. A string is a document; the part before
the dash names its story (``fox-2`` is the second copy of "fox"; ``fox*`` is a near-duplicate of it). ``!`` removes an
id.
"""

from __future__ import annotations

from enum import Enum, auto

import pytest
from quick_parameters import quick_first
from sim_checks import check
from sim_cluster import MATCHERS, SIGNERS, Cluster, Crash
from sim_documents import Habits
from sim_scenario import Scenario
from sim_seeds import config

STORIES = {
    "fox": "the quick brown fox jumps over the lazy dog while nothing moves at all in the small village of the north",
    "fox*": "the quick brown fox jumps over the lazy cat while nothing moves at all in the small village of the north",
    "owl": "an old owl sits upon the oak and says nothing until it has heard enough of what the people talk about",
    "sea": "ships that pass in the night and speak each other in passing only a signal shown and a distant voice",
}


class Failure(Enum):
    """What can go wrong between two documents."""

    CRASH = auto()  # every worker dies at once; their successors have the same names
    CRASH_IN_SEND = auto()  # a worker dies after it sends the next record of a transaction
    CRASH_BEFORE_COMMIT = auto()  # a worker dies when everything is sent but not committed
    CRASH_AFTER_COMMIT = auto()  # a worker dies after the commit, before its answer
    ABORT = auto()  # the next flush fails
    REFUSED_OFFSETS = auto()  # the broker refuses the offsets
    NO_ANSWER = auto()  # the commit succeeds, its answer is lost
    NO_REQUEST = auto()  # the request to commit is lost
    REBALANCE = auto()  # one more signer and one more matcher
    PAUSE = auto()  # every worker sleeps longer than its session, others take its place, then it wakes up
    TWINS = auto()  # a second process starts under the name of every worker, and the first continues
    AWAY = auto()  # the broker is away for a while
    TRIM = auto()  # the log is trimmed to the committed windows
    HOUR = auto()  # an hour passes: the window is empty


CRASH, CRASH_IN_SEND, CRASH_BEFORE_COMMIT, CRASH_AFTER_COMMIT, ABORT, REFUSED_OFFSETS, NO_ANSWER, NO_REQUEST = list(
    Failure
)[:8]
REBALANCE, PAUSE, TWINS, AWAY, TRIM, HOUR = list(Failure)[8:]
_IN_A_CALL = {
    CRASH_IN_SEND: ("send", Crash()),
    CRASH_BEFORE_COMMIT: ("commit_before", Crash()),
    CRASH_AFTER_COMMIT: ("commit_after", Crash()),
    ABORT: ("flush", None),
    REFUSED_OFFSETS: ("send_offsets", None),
    NO_ANSWER: ("commit_after", None),
    NO_REQUEST: ("commit_before", None),
}
Script = list[str | Failure]


class Played(Cluster):
    """A cluster that follows a list."""

    def __init__(self, static: bool = True) -> None:
        habits = Habits(skew_seconds=3600.0)
        scenario = Scenario(
            config(600.0, 60.0), habits, documents_partitions=2, shards=2, static=static, stretch_records=1
        )
        super().__init__(scenario)
        for kind in (SIGNERS, SIGNERS, MATCHERS, MATCHERS):
            self.add(kind)
        self.go_on()

    def go_on(self, rounds: int = 4) -> None:
        """Give every worker some turns, one a second."""
        for _ in range(rounds):
            self.memory.advance(1.0)
            for place in [*self.zombies, *self.places]:
                self.turn(place)

    def play(self, script: Script) -> list[str]:
        """Play the list to its end; return every pair and every notice, in order of their names."""
        with self.limits():
            for part in script:
                if isinstance(part, Failure):
                    self.fail(part)
                elif part.startswith("!"):
                    self.feed.remove(part[1:])
                else:
                    self.feed.document(part, STORIES[part.split("-")[0]])
                if part not in _IN_A_CALL:
                    self.go_on()
            self.settle()
        outcome = check(self)
        return sorted(
            [*(f"{said.older} {said.newer}" for said in outcome.said), *(f"!{id_}" for id_ in outcome.notices)]
        )

    def fail(self, what: Failure) -> None:
        """Cause a failure."""
        if what in _IN_A_CALL:
            call, raises = _IN_A_CALL[what]
            for kind in (SIGNERS, MATCHERS):
                for place in self.places:
                    if place.kind == kind:
                        self.memory.fail_next(call, transactional_id=place.name, raises=raises)
        elif what is CRASH:
            for place in self.places:
                self.crash(place)
        elif what is REBALANCE:
            self.add(SIGNERS)
            self.add(MATCHERS)
        elif what is PAUSE:
            self.pause()
        elif what is TWINS:
            for place in self.places:
                self.abandon(place)
        elif what is AWAY:
            self.memory.reachable = False
            self.go_on(2)
            self.memory.reachable = True
        elif what is TRIM:
            for place in self.places:
                self.trim(place)
        elif what is HOUR:
            self.memory.advance(3600.0)

    def pause(self) -> None:
        """All workers sleep past their session; others take over in the meantime."""
        sleeping, self.places = self.places, []
        self.memory.advance(self.memory.session_seconds + 1)
        self.add(SIGNERS)
        self.add(MATCHERS)
        self.go_on()
        self.places = sleeping + self.places


@pytest.mark.parametrize("failure", Failure, ids=lambda failure: failure.name.lower())
@pytest.mark.parametrize("place", quick_first([1, 2, 0, 3], 2))
@pytest.mark.parametrize("static", quick_first([True, False], 1), ids=["static", "dynamic"])
def test_one_failure_anywhere_changes_nothing(failure: Failure, place: int, static: bool) -> None:
    """With any failure before, between or after the documents, the same pairs join the contents.

    Different copies may represent the story, so all copies have one name here. The shards of the two contents may each
    find their pair, once.
    """
    if failure is HOUR and place in (1, 2):
        pytest.skip("an hour between the documents is a different input")
    script: Script = ["fox", "fox*", "fox-2"]
    script.insert(place, failure)
    found = sorted(pair.replace("-2", "") for pair in Played(static).play(script))
    assert found[0] == "fox fox"
    assert found[1:] in (["fox fox*"], ["fox* fox"], ["fox fox*", "fox* fox"])


@pytest.mark.parametrize(
    ("script", "output"),
    [
        (["fox", CRASH, "owl", CRASH, "fox*"], ["fox fox*"]),
        (["fox", ABORT, "fox-2", NO_ANSWER, "fox-3"], ["fox fox-2", "fox-2 fox-3"]),
        (["fox", ABORT, ABORT, ABORT, "fox*", CRASH_BEFORE_COMMIT, "owl", "owl-2"], ["fox fox*", "owl owl-2"]),
        (["fox", NO_REQUEST, "fox*", PAUSE, "owl", REBALANCE, "owl-2"], ["fox fox*", "owl owl-2"]),
        (["fox", TRIM, CRASH, "fox*"], ["fox fox*"]),
        (["fox", REBALANCE, CRASH, REBALANCE, TRIM, PAUSE, "fox*"], ["fox fox*"]),
        (["fox", HOUR, "owl", TRIM, CRASH, "fox*"], []),
        (["fox", HOUR, TRIM, CRASH, "fox*", "fox*-2"], ["fox* fox*-2"]),
        (["fox", "!fox", CRASH, "fox*"], ["!fox"]),
        (["fox", "fox-2", "!fox-2", CRASH, "fox*"], ["!fox-2", "fox fox*", "fox fox-2"]),
        (["fox", "!fox", TRIM, HOUR, CRASH, "fox", "fox*"], ["!fox", "fox fox*"]),
        (["!fox", "fox", ABORT, "fox*", NO_ANSWER, "!fox", CRASH, "fox-2"], ["!fox", "!fox", "fox fox*", "fox* fox-2"]),
        (["fox", TWINS, "fox*", TWINS, "fox-2", TWINS, "sea"], ["fox fox*", "fox fox-2", "fox* fox-2"]),
        (
            ["fox", CRASH_AFTER_COMMIT, "fox*", CRASH_AFTER_COMMIT, "fox-2"],
            ["fox fox*", "fox fox-2", "fox* fox-2"],
        ),
    ],
    ids=lambda value: " ".join(str(getattr(x, "name", x)) for x in value),
)
def test_failures_in_a_row(script: Script, output: list[str]) -> None:
    """Several failures, one after the other, with the complete output.

    Two shards hold "fox" and "fox*", so their contents have a second pair, with the later copy.
    """
    assert Played().play(script) == output
