"""Events of the outbox to a web hook, on a thread of its own.

Theory of operation. The thread reads events that are due, sends them one by one, and lets the writer store what came of
them: what was sent leaves the outbox in a transaction. A crash between the two sends events once more, under the same
ids. So each event arrives at least once.

A failed event waits, longer after each failure, and the later events of its story wait with it; those of other stories
go on. If the receiver does not answer, or says that it cannot take events now (429, 5xx), nothing is sent for a while.
An event that has failed for ``seconds_max`` is dead.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from neardup_workers.doing.http.outgoing.hook import Failed
from neardup_workers.doing.http.writer import Broken, Busy
from neardup_workers.outside.feeds.schedule import retry_after
from neardup_workers.outside.process.backoff import backoff_seconds
from neardup_workers.outside.store.extra import outbox
from neardup_workers.outside.store.extra.outbox import Event, Outcome
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import StoreFull
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.telemetry.metrics import Metrics

# Events that are sent before their outcomes are stored.
_PAGE = 100
# The longest wait of an event, and of all events of a receiver that does not answer.
_EVENT_SECONDS_MAX, _DOWN_SECONDS_MAX = 600.0, 60.0
# The wait for a busy writer or a full disk, and for events that nothing announces, such as those of removals.
_UNSETTLED_SECONDS = _IDLE_SECONDS = 1.0


class Sender(Protocol):
    """Sends an event: its id, its body, the time, and the address if it is not that of the web hook -> why it was not
    taken (``Hook.send``)."""

    def __call__(self, id_: str, body: bytes, time: float, to: str | None = None, /) -> Failed | None:
        """Send an event once."""


class Bounds(NamedTuple):
    """How long an event is tried, and how many events may wait and how many dead ones are kept.

    A receiver that fails on a Friday evening is mended within three days. The events that wait then, a kilobyte each,
    take some 100 MB of the store; dead ones are read by a person.
    """

    seconds_max: float = 259_200.0
    waiting_max: int = 100_000
    dead_max: int = 10_000


class Delivery:
    """The thread. It reads the outbox; ``call`` lets the writer call a function with the keeper (``Writer.call``),
    ``now`` is in seconds since the epoch."""

    def __init__(
        self,
        reader: StoreReader,
        call: Callable[[Callable[[Keeper], Any]], Future[Any]],
        send: Sender,
        observer: Metrics,
        now: Callable[[], float] = time.time,
        bounds: Bounds = Bounds(),  # noqa: B008 - immutable
    ) -> None:
        self._reader, self._call, self._send, self._bounds = reader, call, send, bounds
        self.observer, self._now = observer, now
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._unsettled: list[Outcome] = []
        self._down, self._is_paused = 0, False
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be new events, from any thread."""
        self._changed.set()

    def stop(self) -> None:
        """End the thread, after the request that it waits for; the writer must still work."""
        self._stopping.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                wait = self.turn()
            except Broken:
                return  # the process ends; the next one goes on
            except Exception as error:
                logging.getLogger(__name__).error("the web hook tries again, events wait: %s", error, exc_info=error)
                wait = _UNSETTLED_SECONDS
            (self._stopping if self._is_paused else self._changed).wait(wait)

    def turn(self) -> float:
        """Send what is due, and store what came of it. Returns the seconds until the next look."""
        if self._unsettled and not self._settle([]):
            return _UNSETTLED_SECONDS
        now = self._now()
        events = self._reader.ask(outbox.due, now, _PAGE)
        outcomes, pause = self._sent(events)
        self._is_paused = pause > 0
        if outcomes and not self._settle(outcomes):
            return max(pause, _UNSETTLED_SECONDS)
        if pause or events:
            return pause
        due = self._reader.ask(outbox.next_due)
        return _IDLE_SECONDS if due is None else min(max(0.0, due - now), _IDLE_SECONDS)

    def _sent(self, events: Sequence[Event]) -> tuple[list[Outcome], float]:
        """Send events in order; returns what came of them, and how long nothing is sent now."""
        outcomes: list[Outcome] = []
        waiting: set[tuple[int, str | None]] = set()
        for event in events:
            if self._stopping.is_set():
                break
            if (event.story, event.to) in waiting:
                continue
            now = self._now()
            failed = self._send(event.id, event.body, now, event.to)
            self.observer.count("service_webhook_requests", 1, "failed" if failed else "sent")
            if failed is None:
                self._down = 0 if event.to is None else self._down
                outcomes.append(Outcome(event.number))
                continue
            waiting.add((event.story, event.to))
            outcomes.append(self._failed(event, failed, now))
            if event.to is not None:  # another receiver: the web hook goes on
                continue
            if failed.status is None or failed.status == 429 or failed.status >= 500:
                self._down += 1
                wait = backoff_seconds(self._down, "webhook", _DOWN_SECONDS_MAX)
                return outcomes, max(wait, min(retry_after(failed.retry_after, now), _EVENT_SECONDS_MAX))
        return outcomes, 0.0

    def _failed(self, event: Event, failed: Failed, now: float) -> Outcome:
        if now - event.created >= self._bounds.seconds_max:
            logging.getLogger(__name__).error("the web hook has not taken %s, it is dead: %s", event.id, failed.why)
            self.observer.count("service_webhook_dead")
            return Outcome(event.number, failed.why)
        # If nothing answers, no event is at fault.
        is_away = failed.status is None and event.to is None
        wait = 0.0 if is_away else backoff_seconds(event.attempts + 1, event.id, _EVENT_SECONDS_MAX)
        return Outcome(event.number, failed.why, now + wait)

    def _settle(self, outcomes: Sequence[Outcome]) -> bool:
        """Let the writer store outcomes; what it cannot store now waits. Returns whether nothing waits."""
        self._unsettled += outcomes
        waiting_max, dead_max = self._bounds.waiting_max, self._bounds.dead_max

        def settled(keeper: Keeper) -> tuple[int, int]:
            with keeper.log.transaction():
                lost = outbox.settle(keeper.log.writer, self._unsettled, dead_max)
                died, more = outbox.bound_waiting(keeper.log.writer, waiting_max, dead_max)
            return died, lost + more

        try:
            died, lost = self._call(settled).result()
        except (Busy, StoreFull):
            return False
        self._unsettled = []
        self.observer.count("service_webhook_dead", died)
        self.observer.count("service_webhook_lost", lost)
        return True


def measure_outbox(reader: StoreReader, observer: Metrics, now: float) -> None:
    """Set the gauges of the outbox."""
    try:
        waiting, dead, created = reader.ask(outbox.count)
    except sqlite3.Error:  # the next scrape tries again
        return
    observer.set("service_webhook_waiting", waiting)
    observer.set("service_webhook_dead_kept", dead)
    observer.set("service_webhook_oldest_seconds", 0.0 if created is None else max(0.0, now - created))
