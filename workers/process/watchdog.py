"""What ends a process that neither works nor fails: a call that does not return, a partition that does not advance or
never begins.

The client's transaction calls have no timeouts, and a stalled partition looks like an idle one. So a thread of its own
looks every second whether what was guarded is over, and ends the process where it is not; nothing is cleaned up, which
is what every step of the workers is made for. Between two steps nothing is guarded.
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

from workers.process.exits import Exit

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0


def end_process(reason: str) -> NoReturn:
    """Log, show where every thread stands, and leave at once with ``Exit.STUCK``."""
    _log.critical("%s; ending the process, the next one starts from what is committed", reason)
    if sys.stderr is not None:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        sys.stderr.flush()
    os._exit(Exit.STUCK)


class Watchdog:
    """Ends the process by ``end`` when a guarded block outlasts its limit. One thread guards, another one looks."""

    def __init__(self, end: Callable[[str], None] = end_process, now: Callable[[], float] = time.monotonic) -> None:
        self._end, self._now = end, now
        self._guarded: tuple[str, float, float] | None = None  # what, since when, how long at most

    @contextmanager
    def guard(self, what: str, seconds_max: float) -> Iterator[None]:
        """Let the block last ``seconds_max`` at most."""
        self._guarded = (what, self._now(), seconds_max)
        try:
            yield
        finally:
            self._guarded = None

    def look(self) -> None:
        """End the process if what is guarded has lasted too long."""
        guarded = self._guarded
        if guarded is not None:
            what, since, seconds_max = guarded
            if self._now() - since > seconds_max:
                self._end(f"{what} has not ended after {seconds_max:g} s")

    def start(self) -> None:
        """Look every second, on a thread that ends with the process."""

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
    """Notices a partition that grows and does not advance for ``seconds_max``, from positions and ends told to it."""

    def __init__(self, seconds_max: float) -> None:
        self.seconds_max = seconds_max
        self._standing: dict[int, _Standing] = {}

    def look(self, positions: Mapping[int, int], ends: Mapping[int, int], now: float) -> int | None:
        """A partition that has stalled, if there is one.

        ``positions`` are those of the running partitions, ``ends`` where a reader of committed records would stop.
        """
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
        """Begin anew: the broker was away, so nothing could advance."""
        self._standing = {}


class Wait(NamedTuple):
    """A partition that has waited too long, and whether it had before the worker was made anew."""

    partition: int
    seconds: float
    again: bool


class Waits:
    """Notices a partition whose committed offset cannot be had although the broker answers.

    It waits for a transaction of its group to end. That of this worker's own predecessor ends when the worker is made
    anew, every other by its timeout; one that Kafka has lost the end of never does.
    """

    def __init__(self, usual_seconds: float, seconds_max: float) -> None:
        self.usual_seconds, self.seconds_max = usual_seconds, seconds_max
        self.late: tuple[int, ...] = ()  # longer than usual, at the last look
        self._since: dict[int, float] = {}
        self._before: set[int] = set()  # waited too long before the worker was made anew

    def look(self, waiting: Collection[int], begun: Collection[int], now: float) -> Wait | None:
        """The partition that has waited longest, if that is too long; ``begun`` are those that wait no more."""
        self._before.difference_update(begun)
        self._since = {partition: self._since.get(partition, now) for partition in waiting}
        self.late = tuple(sorted(p for p, since in self._since.items() if now - since > self.usual_seconds))
        partition = min(self._since, key=self._since.__getitem__, default=None)
        if partition is None or now - self._since[partition] <= self.seconds_max:
            return None
        again = partition in self._before
        self._before.add(partition)
        return Wait(partition, now - self._since[partition], again)

    def forget(self) -> None:
        """Count anew: the broker was away, or the worker is made anew. Who waited too long before is kept."""
        self._since, self.late = {}, ()
