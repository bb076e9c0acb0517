"""How many canaries may be made now, so that they take a fixed part of the time however fast documents come."""

from __future__ import annotations

from collections.abc import Callable

# Canaries that are edited and looked up together.
TOGETHER = 8


class Allowance:
    """At most so many canaries a second, and those of one second at once; none before some time has passed. Where more
    than ``TOGETHER`` are wanted, fewer are not given: they share the cost of calls. ``clock`` returns seconds, and only
    advances.

    >>> times = iter([0.0, 60.0, 60.0, 60.5])
    >>> allowance = Allowance(40, lambda: next(times))
    >>> allowance.take(100), allowance.take(100), allowance.take(100)
    (40, 0, 20)
    """

    def __init__(self, per_second: float, clock: Callable[[], float]) -> None:
        self._per_second, self._clock = per_second, clock
        self._left, self._at = 0.0, clock()

    def take(self, wanted: int, share: float = 1.0) -> int:
        """Return how many of the wanted canaries may be made; ``share`` is the part of the stream that comes here."""
        at = self._clock()
        self._left = min(self._per_second, self._left + (at - self._at) * self._per_second * share)
        self._at = at
        taken = min(wanted, int(self._left))
        taken = taken if taken >= min(wanted, TOGETHER) else 0
        self._left -= taken
        return taken
