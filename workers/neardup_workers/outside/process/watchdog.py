"""Ends a process that hangs: a call does not return, or a partition does not advance or never begins.

The client's transaction calls have no timeouts, and a stalled partition looks like an idle one. So a separate thread
checks once a second whether a guarded block has exceeded its limit, and then ends the process without any clean-up.
Workers tolerate this end at any moment, like any crash. There is no guard between two turns of the loop.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from neardup_workers.outside.process.exits import Exit

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0


def end_process(reason: str) -> NoReturn:
    """Log the reason and the stack of every thread, and end the process at once with ``Exit.STUCK``."""
    _log.critical("%s; ending the process: the next one starts from the committed offsets", reason)
    if sys.stderr is not None:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        sys.stderr.flush()
    os._exit(Exit.STUCK)


class Watchdog:
    """Calls ``end`` when a guarded block exceeds its limit. One thread runs the block, another one checks."""

    def __init__(self, end: Callable[[str], None] = end_process, now: Callable[[], float] = time.monotonic) -> None:
        self._end, self._now = end, now
        self._guarded: tuple[str, float, float] | None = None  # what, since when, limit in seconds

    @contextmanager
    def guard(self, what: str, seconds_max: float) -> Iterator[None]:
        """Limit the block to ``seconds_max``."""
        self._guarded = (what, self._now(), seconds_max)
        try:
            yield
        finally:
            self._guarded = None

    def look(self) -> None:
        """Call ``end`` if the guarded block has exceeded its limit."""
        guarded = self._guarded
        if guarded is not None:
            what, since, seconds_max = guarded
            if self._now() - since > seconds_max:
                self._end(f"{what} has not ended after {seconds_max:g} s")

    def start(self) -> None:
        """Check every second, on a thread that ends with the process."""

        def run() -> None:
            while True:
                time.sleep(_LOOK_SECONDS)
                self.look()

        threading.Thread(target=run, name="watchdog", daemon=True).start()


class _Standing(NamedTuple):
    position: int
    end: int
    since: float


class Stall:
    """Finds a partition whose end grows and whose position does not advance for ``seconds_max``."""

    def __init__(self, seconds_max: float) -> None:
        self.seconds_max = seconds_max
        self._standing: dict[int, _Standing] = {}

    def look(self, positions: Mapping[int, int], ends: Mapping[int, int], now: float) -> int | None:
        """Return a running partition whose position has stalled before its end for readers of committed records, or
        ``None``; ``now`` is in seconds of any clock."""
        standing, self._standing = self._standing, {}
        for partition, position in positions.items():
            end = ends.get(partition, position)
            before = standing.get(partition)
            if before is None or before.position != position or end <= position:
                before = _Standing(position, end, now)
            self._standing[partition] = before
            if end > before.end and now - before.since > self.seconds_max:
                return partition
        return None

    def forget(self) -> None:
        """Forget all positions: the broker was away, so nothing could advance."""
        self._standing = {}


class Wait(NamedTuple):
    """What has waited too long; ``again``: also before the last restart of the worker."""

    what: str
    seconds: float
    again: bool


class Waits:
    """Finds what waits without progress although the broker answers: a partition, a restore, a whole worker.

    A partition waits for a transaction of its group to end. A restart of this worker ends the transaction of its own
    predecessor; the timeout ends every other one. A transaction whose end marker Kafka has lost never ends.
    """

    def __init__(self, usual_seconds: float, seconds_max: float) -> None:
        self.usual_seconds, self.seconds_max = usual_seconds, seconds_max
        self.late: tuple[str, ...] = ()  # longer than usual, at the last look
        self._since: dict[str, tuple[int, float]] = {}  # progress, and since when it is the same
        self._before: set[str] = set()  # what waited too long before the last restart

    def look(self, waiting: Mapping[str, int], begun: Collection[str], now: float) -> Wait | None:
        """Return what has waited longest, if its wait is too long; ``waiting`` has the progress of each, ``begun`` what
        no longer waits."""
        self._before.difference_update(begun)
        known = {what: self._since.get(what, (progress, now)) for what, progress in waiting.items()}
        self._since = {w: known[w] if known[w][0] == progress else (progress, now) for w, progress in waiting.items()}
        self.late = tuple(sorted(w for w, (_, since) in self._since.items() if now - since > self.usual_seconds))
        what = min(self._since, key=lambda one: self._since[one][1], default=None)
        if what is None or now - self._since[what][1] <= self.seconds_max:
            return None
        again = what in self._before
        self._before.add(what)
        return Wait(what, now - self._since[what][1], again)

    def forget(self) -> None:
        """Restart the count after an outage or a restart; the record of what waited too long stays."""
        self._since, self.late = {}, ()
