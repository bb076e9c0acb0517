"""Steps: what changes state is committed or undone as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Steps(Protocol):
    """State that changes in steps, which are committed or undone: a table, or decisions."""

    def begin(self) -> None:
        """Begin a step."""

    def commit(self) -> None:
        """End the step and keep its changes."""

    def undo(self) -> None:
        """End the step and reverse its changes."""


@contextmanager
def step(steps: Steps) -> Iterator[None]:
    """A step of a table or of decisions, committed at the end and undone on any exception."""
    steps.begin()
    try:
        yield
    except BaseException:
        steps.undo()
        raise
    steps.commit()
