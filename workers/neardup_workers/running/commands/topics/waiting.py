"""What is wrong with a deployment, and what to do; and what keeps its workers from their work, by the notes that they
leave at the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.table import Table

from neardup_workers.outside.display.printing import table_of
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.telemetry.state_notes import StateNote, decode_notes
from neardup_workers.outside.topics.names import Names
from neardup_workers.outside.transport.protocol import Transport, UnknownTopicError


class Problem(NamedTuple):
    """What is wrong and what to do, and the exit code of a probe; code 0 is a remark."""

    what: str
    do: str
    code: Exit = Exit.SUCCESS


def problem_tables(problems: Sequence[Problem]) -> list[Table]:
    """Return a table of the problems, the worst first; none if there are none."""
    rows = [
        ("WRONG" if one.code else "note", one.what, one.do) for one in sorted(problems, key=lambda one: not one.code)
    ]
    return [table_of(("", "what", "what to do"), rows, justify="left", title_justify="left")] if rows else []


class Waiting(NamedTuple):
    """A member of a group that is in a state that keeps it from its work."""

    role: str
    worker: str
    note: StateNote

    def values(self) -> dict[str, Any]:
        """Return what JSON shows."""
        return {"role": self.role, "worker": self.worker, **self.note._asdict()}


def waiting_of(transport: Transport, names: Names, roles: Sequence[str], now: float) -> list[Waiting]:
    """Return the states of all members of these roles that are kept from their work; ``now`` in seconds.

    Only members count, so a worker that has ended has no state.
    """
    found = []
    for role in roles:
        try:
            members = sorted(transport.shares(names.group(role)))
        except UnknownTopicError:
            continue
        for worker in members:
            said = transport.group_offsets(worker, names.topics.settings).values()
            found += [Waiting(role, worker, note) for at in said for note in decode_notes(at.metadata, now)]
    return found


def waiting_problems(waiting: Sequence[Waiting]) -> Iterator[Problem]:
    """Yield the workers that make no progress for longer than is usual."""
    for _, worker, note in waiting:
        if note.late:
            what = f"{worker} {note.why}: {note.state} for {note.seconds:,.0f} s; it {note.says}"
            do = f"see {note.look}; without progress for {note.deadline:,.0f} s it restarts, or is not ready"
            yield Problem(what, do, Exit.STUCK)


def waiting_tables(waiting: Sequence[Waiting]) -> list[Table]:
    """Return a table of the states; none if all work."""
    rows = [
        (worker, note.state, f"{note.seconds:,.0f} s", f"{note.deadline:,.0f} s", note.says)
        for _, worker, note in waiting
    ]
    headings, title = ("worker", "state", "for", "deadline without progress", "it"), "workers that do not work yet"
    return [table_of(headings, rows, justify="left", title=title, title_justify="left")] if rows else []
