"""What costs pairs or tries the door, said in the log: at most a line in five minutes for each kind."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from neardup_workers.outside.telemetry.metrics import OF_SERVICE, Metrics

_SECONDS = 300.0
# What is counted -> what a line says; the first value is the number since the line before.
_SENTENCES = {
    "late": "documents later than lateness_seconds: %s; pairs with documents that had left the window are missed",
    "truncated": "documents with more candidates than the limits allow: %s; some pairs with a large cluster are missed",
    "evicted": "documents out of a full window: %s; copies of them are not found: raise window_documents",
    "401": "requests without a valid token: %s, the last one from %s",
    "403": "requests of tokens without the role or the collection: %s, the last one from %s",
    "429": "requests beyond the quota of their token: %s, the last one from %s",
    "421": "requests for a host that is not this machine: %s, the last one from %s",
}


class Degrading:
    """Counts in metrics, and says in the log what has grown since ``before``, the counters of the table at the start: a
    replay counts most of a window as late, which it was not. Its functions may be called from any thread."""

    def __init__(
        self, observer: Metrics, before: Mapping[str, int] | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._observer, self._now = observer, now
        self._counted = {name: (before or {}).get(name, 0) for name in OF_SERVICE}
        self._waiting: dict[str, float] = {}
        self._said: dict[str, float] = {}

    def table(self, counts: Mapping[str, int]) -> None:
        """Take the counters of the table, as they are after a step."""
        for name, counted in self._counted.items():
            grown = counts.get(name, counted) - counted
            if grown > 0:
                self._counted[name] = counted + grown
                self._observer.count(name, grown)
                if name in _SENTENCES:
                    self._say(name, grown)

    def refused(self, status: int, client: str) -> None:
        """Count a request that was refused before it reached the application."""
        self._observer.count("service_requests", 1, str(status))
        self._say(str(status), 1, client)

    def _say(self, name: str, grown: float, *values: str) -> None:
        self._waiting[name] = self._waiting.get(name, 0.0) + grown
        now = self._now()
        if now - self._said.get(name, -_SECONDS) >= _SECONDS:
            self._said[name] = now
            number = self._waiting.pop(name)
            logging.getLogger(__name__).warning(_SENTENCES[name], f"{number:,.0f}", *values)
