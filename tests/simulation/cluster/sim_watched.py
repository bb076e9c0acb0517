"""Lets the simulation act before each call of a worker to its transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Watched:
    """A transport, consumer or producer that calls ``before`` ahead of every call."""

    def __init__(self, inner: Any, before: Callable[[str], None]) -> None:
        self._inner, self._before = inner, before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._before(name)
            made = found(*args, **named)
            if name == "reader":  # of all that a reader does only this waits for the broker
                poll = made.poll
                made.poll = lambda *what: (self._before("read"), poll(*what))[1]
            return made

        return call
