"""Workers on a real broker are killed or stopped right after a call of their producer; each pair is emitted once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dying_worker
import pytest
from kafka_deployment import Deployment
from kafka_world import World, stories

from neardup_workers.outside.topics.names import MATCH, SIGN

DYING = [sys.executable, dying_worker.__file__]
CALLS = ("send", "flush", "send_offsets", "commit")
DOCUMENTS = stories(240)
LIMITS = {"step_documents_max": 15, "step_messages_max": 3}
PROPERTIES = {"session.timeout.ms": 3_000, "transaction.timeout.ms": 4_000}
Worlds = Callable[..., World]


class Processes:
    """Runs workers of a world as processes."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.deployment = Deployment(world.kafka.bootstrap_servers, folder, PROPERTIES, LIMITS, **world.given)
        del self.deployment.environment["NEARDUP_START"]

    def dying(self, role: str, number: int, *calls: str) -> None:
        """Start worker 0, which is hit by the signal after each of the calls."""
        self.deployment.start(role, "0", str(int(number)), *calls, command=DYING)

    def ordinary(self, role: str, instance: str) -> None:
        self.deployment.start(role, "--instance", instance, "--from", "earliest", "--supervised")

    def struck(self, role: str) -> list[tuple[str, int]]:
        """The call after which the signal hits each worker of a role, and its process id."""
        starts = [line.split() for line in self.deployment.log.splitlines() if line.startswith(f"{role} ")]
        return [(call, int(pid)) for _, call, pid in starts]

    def wait(self, is_so: Callable[[], object], what: str) -> None:
        self.deployment.wait(is_so, what)

    def is_done(self) -> bool:
        """Whether all documents are signed and matched."""
        return self.world.unread(SIGN) == 0 and self.world.unread(MATCH) == 0


@pytest.fixture
def processes(worlds: Worlds, tmp_path: Path) -> Iterator[Processes]:
    made = Processes(worlds(), tmp_path)
    yield made
    made.deployment.close()


def test_workers_killed_after_each_call_of_a_step_lose_nothing_and_repeat_nothing(processes: Processes) -> None:
    """SIGKILL hits a signer and a matcher after send, flush, send_offsets and commit; successors finish the work."""
    world = processes.world
    world.load(DOCUMENTS)
    for role in (SIGN, MATCH):
        processes.dying(role, signal.SIGKILL, *CALLS)
    for role in (SIGN, MATCH):
        processes.wait(lambda role=role: len(processes.struck(role)) == len(CALLS) + 1, f"{role} died four times")  # type: ignore[misc]
        assert [call for call, _ in processes.struck(role)] == [*CALLS, "ordinary"]
    processes.wait(processes.is_done, "everything is matched")
    assert world.pairs() == world.expected(DOCUMENTS) != []


def test_workers_stopped_for_longer_than_session_and_transaction_are_fenced(processes: Processes) -> None:
    """SIGSTOP hits a worker in an open step, and other workers finish. The broker fences the woken worker, which
    restarts.
    """
    world = processes.world
    world.load(DOCUMENTS[:200])
    for role in (SIGN, MATCH):
        processes.dying(role, signal.SIGSTOP, "flush")
    stopped = []
    for role in (SIGN, MATCH):
        processes.wait(lambda role=role: processes.struck(role), f"{role} has started")  # type: ignore[misc]
        stopped.append(processes.struck(role)[0][1])
        processes.wait(lambda: is_stopped(stopped[-1]), f"{role} is stopped")
        processes.ordinary(role, "1")
    processes.wait(processes.is_done, "others have done everything")
    assert all(map(is_stopped, stopped))
    assert world.pairs() == world.expected(DOCUMENTS[:200]) != []
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    processes.wait(lambda: processes.deployment.log.count("restarting from the committed offsets") >= 2, "both restart")
    world.load(DOCUMENTS[200:])
    processes.wait(processes.is_done, "what came later is matched")
    assert world.pairs() == world.expected(DOCUMENTS)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
