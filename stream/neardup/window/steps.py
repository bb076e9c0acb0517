"""Steps: what changes state is committed or undone as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


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


class NestedSteps:
    """Steps of several states at once, one within the other: changes are kept, or undone, with the first one.

    An exception anywhere leaves all of a step or none of it: what it interrupts is done again before the next step
    begins. A derived class has ``_begin``, which says in ``_unfinished`` what undoes it, ``_keep`` and ``_drop``; the
    last two can be called again.
    """

    def __init__(self) -> None:
        self._open = 0
        self._unfinished: Callable[[], None] | None = None

    def _begin(self) -> None:
        raise NotImplementedError

    def _keep(self) -> None:
        raise NotImplementedError

    def _drop(self) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        """Open a step, or one within the step that is open."""
        if self._open:
            self._open += 1
            return
        if self._unfinished is not None:
            self.finish()
        self._begin()
        self._open, self._unfinished = 1, None

    def commit(self) -> None:
        """Close the step that was opened last."""
        if self._open > 1:
            self._open -= 1
            return
        self._open, self._unfinished = 0, self._keep
        self._keep()
        self._unfinished = None

    def undo(self) -> None:
        """Close the step that was opened last; after an exception in ``begin`` or ``commit``, finish that."""
        if self._open > 1:
            self._open -= 1
            return
        if self._open:
            self._open, self._unfinished = 0, self._drop
        self.finish()

    def finish(self) -> None:
        """Do again what an exception has interrupted."""
        if self._unfinished is not None:
            self._unfinished()
            self._unfinished = None

    def settle(self) -> None:
        """Finish what several exceptions have left, where no step may be open: one in ``undo`` leaves a step open."""
        if self._open:
            self._open, self._unfinished = 0, self._drop
        self.finish()

    def in_step(self, change: Callable[[], _T]) -> _T:
        """Make a change in a step: all of it or, on any exception, nothing. A signal may raise in ``commit`` before its
        first line, so ``step`` does not do where signals raise."""
        try:
            self.begin()
            made = change()
            self.commit()
        except BaseException:
            self.undo()
            raise
        return made
