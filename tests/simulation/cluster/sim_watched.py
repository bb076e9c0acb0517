"""Lets the simulation act before each call of a worker to its transport, and counts what workers report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from neardup.workers.telemetry.observer import Silent

# Calls that fail, and calls in which a process ends.
FAULTS = (
    "bounds", "group_offsets", "read", "trim", "poll", "committed", "producer", "send", "flush", "send_offsets",
    "send_offsets_after", "commit_before", "commit_after", "abort", "abort_after",
)  # fmt: skip
CRASHES = ("send", "flush", "send_offsets", "send_offsets_after", "commit_before", "commit_after", "poll", "read")


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


class Counting(Silent):
    """Counts what all processes ever reported of canaries."""

    def __init__(self) -> None:
        self.canaries: Counter[str] = Counter()

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        if name in ("canaries", "canary_probes"):
            self.canaries[label or name] += int(amount)
