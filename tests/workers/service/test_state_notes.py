"""What a worker is waiting for is in ``neardup status``: each state, for how long, why, and that it is over."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench
from waiting_brokers import Mute, Outsider, Pending

from neardup_workers.outside.options.running import StatusOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.telemetry.state_notes import StateNote, decode_notes, encode_notes
from neardup_workers.outside.transport.assignment import Offer
from neardup_workers.outside.transport.protocol import FencedError, TransportError, UnreachableError
from neardup_workers.running.commands.topics.status import status
from neardup_workers.running.service.roles import ROLES

DOCUMENTS = 4
Shown = tuple[Exit, list[dict[str, Any]], list[dict[str, Any]]]


def made(**changes: Any) -> Bench:
    """A deployment with some documents."""
    bench = Bench(**changes)
    bench.add(*((f"d{i}", f"{TEXT} {i}") for i in range(DOCUMENTS)))
    return bench


def work(bench: Bench, *roles: str, **changes: Any) -> None:
    for role in roles:
        bench.run(role, lambda role=role: bench.has_taken_all(role), **changes)


def once(is_so: Callable[[], object]) -> Callable[[], bool]:
    """A condition that stays true when it has been once: a worker that ends leaves its group."""
    held: list[bool] = []

    def has_been() -> bool:
        if not held and is_so():
            held.append(True)
        return bool(held)

    return has_been


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[[Bench], Shown]:
    """What the command shows: the exit code, the workers that wait, and the problems that they are."""

    def ask(bench: Bench) -> Shown:
        code = status(StatusOptions(as_json=True), MemoryTransport(bench.cluster, wait=lambda s: None), bench.settings)
        found = json.loads(capsys.readouterr().out)
        return code, found["waiting"], [one for one in found["problems"] if "; it " in one["what"]]

    return ask


# State -> role, the broker that keeps a worker in it, and what it says. A linker counts rows of verdicts and signed,
# and 1 each for stories and ledger.
STATES = {
    "joining": ("match", Outsider, "waits for the group"),
    "assigned": ("match", Pending, "asks for the offsets of partitions [0, 1]"),
    "restoring": ("match", Mute, "has read 0 of about "),
    "restoring of a linker": ("link", Mute, f"has read {DOCUMENTS + 2} of about {2 * DOCUMENTS} for partitions [0]"),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_shown_with_its_time_and_is_a_problem_when_it_lasts(name: str, shown: Callable) -> None:
    """It has its deadline, and after the time that is usual the reason and where to look. The worker is a member."""
    role, broker, says = STATES[name]
    bench = made(verdicts=True)
    bench.cluster.session_seconds = 1e6
    work(bench, "sign", "match", "link")
    seen: list[Shown] = []

    bench.run(
        role,
        once(lambda: seen.append(shown(bench)) or any(one["late"] for one in seen[-1][1])),
        lambda: broker(bench.cluster),
        stall_seconds_max=60.0,
    )
    early = next(waiting for _, waiting, _ in seen if waiting and waiting[0]["state"] == name.partition(" ")[0])
    assert (early[0]["role"], early[0]["worker"]) == (role, bench.names.worker(role, bench.settings.instance))
    assert early[0]["deadline"] == 60.0
    code, (late,), (problem,) = seen[-1]
    assert late["seconds"] > early[0]["seconds"]
    assert late["says"].startswith(says)
    assert code == problem["code"] == Exit.STUCK
    assert late["why"] in problem["what"]
    assert late["look"] in problem["do"]


@pytest.mark.parametrize("role", ["match", "link"])
def test_a_standby_that_is_of_no_use_yet_says_how_far_it_is(role: str, shown: Callable) -> None:
    """Its owner works; without progress it becomes a problem."""
    bench = made(verdicts=True, standbys=1, shards=1)
    bench.cluster.session_seconds = 1e6
    work(bench, "sign", "match", "link")
    owner = MemoryTransport(bench.cluster).consumer(ROLES[role].topic(bench.names.topics), bench.names.group(role), "a")
    owner.offer(Offer(1, frozenset()))
    seen: list[Shown] = []

    def is_late() -> bool:
        owner.poll(0.0, 1)
        seen.append(shown(bench))
        return any(one["late"] for one in seen[-1][1])

    bench.run(role, once(is_late), lambda: Mute(bench.cluster), stall_seconds_max=60.0)
    code, (late,), (problem,) = seen[-1]
    assert (late["state"], code, problem["code"]) == ("preparing", Exit.STUCK, Exit.STUCK)
    assert late["says"].startswith("has read ")
    assert late["says"].endswith(" as a standby, and a takeover would restore the window")


def test_a_linker_says_what_it_waits_for(shown: Callable) -> None:
    """Before its deadline that is no problem; the command says it all the same."""
    bench = made(verdicts=True)
    bench.cluster.session_seconds = 1e6
    bench.agree(verdicts=False)
    work(bench, "sign", "match", verdicts=False)
    bench.agree()
    seen: list[Shown] = []

    bench.run("link", once(lambda: seen.append(shown(bench)) or "awaiting" in {one["state"] for one in seen[-1][1]}))
    _, waiting, problems = seen[-1]
    (awaiting,) = [one for one in waiting if one["state"] == "awaiting"]
    assert awaiting["says"].startswith("waits for matchers with verdicts: those that work publish no links")
    assert problems == []


def test_the_screen_has_a_table_while_workers_wait(capsys: pytest.CaptureFixture[str], shown: Callable) -> None:
    """Only of members: what is left of a worker that has ended shows nothing."""
    bench = made()
    bench.cluster.session_seconds = 1e6
    work(bench, "sign")
    bench.run("match", once(lambda: shown(bench)[1]), lambda: Pending(bench.cluster))
    assert shown(bench)[1] == []
    MemoryTransport(bench.cluster).consumer(
        bench.names.topics.links, bench.names.group("match"), bench.names.worker("match", bench.settings.instance)
    ).poll(0.0, 1)
    status(StatusOptions(), MemoryTransport(bench.cluster, wait=lambda seconds: None), bench.settings)
    assert "workers that do not work yet" in capsys.readouterr().out


class Counting(MemoryTransport):
    """Counts the notes, by their number of states."""

    def __init__(self, cluster, notes: list[int]) -> None:
        super().__init__(cluster)
        self._notes = notes

    def set_offsets(self, group, topic, offsets):
        super().set_offsets(group, topic, offsets)
        self._notes.append(len(json.loads(offsets[0].metadata)["states"]))


def test_a_worker_that_works_takes_its_note_back_and_writes_no_more(shown: Callable) -> None:
    """Also that of a process that was killed in a state; members and offsets of the groups are as ever."""
    bench = made()
    name, notes = bench.names.worker("sign", bench.settings.instance), []
    stale = [StateNote("restoring", 1.0, 60.0, "has read 1 of 2", True, "reads nothing", "the brokers")]
    transport = MemoryTransport(bench.cluster)
    transport.set_offsets(name, bench.names.topics.settings, {0: (0, encode_notes(2e9, stale))})
    looks: list[int] = []
    bench.run("sign", lambda: looks.append(0) or len(looks) > 300, lambda: Counting(bench.cluster, notes))
    assert bench.metrics["sign"].value("documents") == DOCUMENTS
    assert notes[-1] == 0
    assert len(notes) <= 2
    at = transport.group_offsets(name, bench.names.topics.settings)[0]
    assert at.offset == transport.bounds(bench.names.topics.settings)[0][1]  # no lag for tools that show one
    assert decode_notes(at.metadata, 2e9) == []


@pytest.mark.parametrize("error", [TransportError, UnreachableError, FencedError])
def test_a_worker_whose_notes_are_refused_works_and_says_so_once(error: type, caplog) -> None:
    """Its user may lack the right, or the group of its name have a member."""
    bench = made()
    bench.cluster.fail_next("set_offsets", times=10_000, raises=error("not allowed"))
    looks: list[int] = []
    with caplog.at_level(logging.WARNING):
        bench.run("sign", lambda: looks.append(0) or len(looks) > 300)
    assert bench.metrics["sign"].value("documents") == DOCUMENTS
    assert bench.metrics["sign"].value("restarts", "fenced") == 0
    assert sum("cannot show what keeps it from its work: not allowed" in line for line in caplog.messages) == 1


def test_notes_are_read_until_they_are_old() -> None:
    """Those of a replaced process that wakes last a minute; those of another version, and of no worker, none."""
    note = StateNote("restoring", 5.04, 120.0, "x" * 9_999, False, "reads nothing", "the brokers")
    metadata = encode_notes(1_000.0, [note] * 5)
    assert len(metadata) < 4_000
    (read, *_) = decode_notes(metadata, 1_060.0)
    assert (read.seconds, len(read.says)) == (65.0, 500)
    assert decode_notes(metadata, 1_061.0) == []
    assert decode_notes(metadata, 900.0)[0].seconds == 5.0  # the clock of the worker is ahead
    for other in (metadata.replace('"version":1', '"version":2'), metadata.replace("look", "l"), "", "[1]"):
        assert decode_notes(other, 1_000.0) == []
