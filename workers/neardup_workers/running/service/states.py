"""What keeps a worker from its work, a row for each state: what it says, why, and what happens at its deadline.

One deadline holds for all: as long as a transaction may stay open, or ``stall_seconds_max``, whichever is longer. It
counts from the last progress while the broker answers. Where a restart may help, the worker restarts at its deadline,
and the second time its process ends with code 11. Where others must act, the worker keeps its tables, ``/readyz``
fails, and ``neardup status`` has code 11. A worker in none of these states is ready, and one whose standby is not of
use yet (*preparing*); its calls have limits of their own (``Watchdog``, ``Stall``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from neardup_workers.outside.telemetry.state_notes import StateNote
from neardup_workers.running.service.roles import Made


class State(NamedTuple):
    """A state of a worker."""

    # What is in this state -> its progress; empty if the worker is not in it.
    waiting: Callable[[Made], Mapping[str, int]]
    says: Callable[[Made], str]  # what the worker says of it
    why: str  # the reason at the deadline
    look: str  # where an operator looks
    ends: bool  # at the deadline the worker restarts, then the process ends; else ``/readyz`` fails


def _assigned(made: Made) -> Mapping[str, int]:
    member = made.worker.member
    return {} if member.awaited else {f"partition {partition}": 0 for partition in member.waiting}


def _preparing(made: Made) -> Mapping[str, int]:
    done, count = made.preparing()
    return {"the standby": done} if count else {}


def _read(done: int, count: int) -> str:
    return f"has read {min(done, count):,} of about {count:,}"


_HIDDEN = "reads nothing more, though the broker answers: a transaction hides what was committed"

STATES: dict[str, State] = {
    "joining": State(
        lambda made: {} if made.worker.member.joined else {"the worker": 0},
        lambda made: "waits for the group", "is in no generation of its group, though the broker answers",
        "kafka-consumer-groups.sh --members", True,
    ),
    "assigned": State(
        _assigned, lambda made: f"asks for the offsets of partitions {sorted(made.worker.member.waiting)}",
        "has no committed offset, though the broker answers: a transaction of the group does not end",
        "kafka-python admin transactions list", True,
    ),
    "restoring": State(
        lambda made: {"the restore": made.restored()[0]} if made.restoring() else {},
        lambda made: f"{_read(*made.restored())} for partitions {made.restoring()}", _HIDDEN,
        "kafka-python admin transactions list", True,
    ),
    "preparing": State(
        _preparing, lambda made: f"{_read(*made.preparing())} as a standby, and a takeover would restore the window",
        _HIDDEN, "kafka-python admin transactions list", False,
    ),
    "awaiting": State(
        lambda made: {"the linker": 0} if made.worker.member.awaited else {},
        lambda made: f"waits for {made.worker.member.awaited}", "waits for other roles", "neardup status",
        False,
    ),
    "aborting": State(
        lambda made: {"the step": 0} if made.worker.member.aborted_in_row else {},
        lambda made: f"was refused: {made.worker.member.producer.last_error}",
        "has its transactions aborted", "the brokers", False,
    ),
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


class Lasting:
    """For how long a worker is in its states, as of each look. A restart that is short does not end a state."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._since: dict[str, float] = {}

    def look(self, made: Made, late: Collection[str], now: float) -> list[StateNote]:
        """Return the states of a worker; ``late`` is what waits for longer than usual."""
        found = {name: set(state.waiting(made)) for name, state in STATES.items()}
        self._since = {name: self._since.get(name, now) for name in found if found[name]}
        return [
            StateNote(
                name, now - since, self._deadline, STATES[name].says(made), not found[name].isdisjoint(late),
                STATES[name].why, STATES[name].look,
            )
            for name, since in self._since.items()
        ]  # fmt: skip
