"""What keeps a worker from its work, a row for each state: why, and what happens at its deadline.

One deadline holds for all: as long as a transaction may stay open, or ``stall_seconds_max``, whichever is longer. It
counts from the last progress while the broker answers. Where a restart may help, the worker restarts at its deadline,
and the second time its process ends with code 11. Where others must act, the worker keeps its tables, ``/readyz``
fails, and ``neardup status`` has code 11. A worker in none of these states is ready, and its calls have limits of their
own (``Watchdog``, ``Stall``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from neardup_workers.running.service.roles import Made


class State(NamedTuple):
    """A state of a worker.

    Attributes:
        waiting: what is in this state -> its progress; empty if the worker is not in it.
        why: the reason at the deadline.
        look: where an operator looks.
        ends: at the deadline the worker restarts, then the process ends; else ``/readyz`` fails.
    """

    waiting: Callable[[Made], Mapping[str, int]]
    why: str
    look: str
    ends: bool


def _joining(made: Made) -> Mapping[str, int]:
    return {} if made.worker.member.joined else {"the worker": 0}


def _assigned(made: Made) -> Mapping[str, int]:
    member = made.worker.member
    return {} if member.awaited else {f"partition {partition}": 0 for partition in member.waiting}


def _restoring(made: Made) -> Mapping[str, int]:
    return {"the restore": made.restored()} if made.restoring() else {}


def _awaiting(made: Made) -> Mapping[str, int]:
    return {"the linker": 0} if made.worker.member.awaited else {}


def _aborting(made: Made) -> Mapping[str, int]:
    return {"the step": 0} if made.worker.member.aborted_in_row else {}


STATES: dict[str, State] = {
    "joining": State(
        _joining, "is in no generation of its group, though the broker answers", "kafka-consumer-groups.sh --members",
        True,
    ),
    "assigned": State(
        _assigned, "has no committed offset, though the broker answers: a transaction of the group does not end",
        "kafka-python admin transactions list", True,
    ),
    "restoring": State(
        _restoring, "reads nothing more, though the broker answers: a transaction hides what was committed",
        "kafka-python admin transactions list", True,
    ),
    "awaiting": State(_awaiting, "waits for other roles", "neardup status", False),
    "aborting": State(_aborting, "has its transactions aborted", "the brokers", False),
}  # fmt: skip


def waiting(made: Made, *, ends: bool) -> dict[str, tuple[State, int]]:
    """Return what waits in states that end, or that do not, with its state and its progress."""
    return {
        what: (state, progress)
        for state in STATES.values()
        if state.ends is ends
        for what, progress in state.waiting(made).items()
    }


def begun(made: Made) -> set[str]:
    """Return what no longer waits, of what may wait again."""
    member, restoring = made.worker.member, made.restoring()
    parts = {f"partition {partition}" for partition in {*made.worker.running, *restoring}}
    joined = {"the worker"} if member.joined else set()
    return parts | joined | ({"the restore"} if made.worker.running and not restoring else set())
