"""Steps: what changes state is committed or undone as a whole."""

from __future__ import annotations

from typing import Protocol


class Steps(Protocol):
    """State that changes in steps, which are committed or undone: a table, or decisions."""

    def begin(self) -> None:
        """Begin a step."""

    def commit(self) -> None:
        """End the step and keep its changes."""

    def undo(self) -> None:
        """End the step and reverse its changes."""


class step:
    """A step of a table or of decisions, committed at the end and undone on any exception; one after the other."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __enter__(self) -> None:
        self._steps.begin()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._steps.commit()
        else:
            self._steps.undo()
