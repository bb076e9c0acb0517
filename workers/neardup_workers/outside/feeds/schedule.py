"""When a feed is asked again: after its interval, later after failures, and never before the server wants it."""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from heapq import heappop, heappush
from queue import SimpleQueue
from threading import Condition, Event, Lock, Semaphore, Thread
from time import monotonic
from typing import Generic, TypeVar

from neardup.stories.sources.names import host_of

T = TypeVar("T")
# A day: no wait is longer, whatever the failures and whatever the server wants.
WAIT_SECONDS_MAX = 86_400.0
# An interval varies by this fraction in both directions, so that many feeds of one server are not asked together.
_JITTER = 0.1
_DOUBLINGS_MAX = 20
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,10})(?:$|[,\s])", re.IGNORECASE)
_TTL = re.compile(rb"<ttl>\s*(\d{1,6})\s*</ttl>")
_HEAD_BYTES = 1 << 16  # it stands before the items
_FRESH_INTERVALS = 8
# Beyond so many feeds, each one spreads the first requests over so much more time.
_START_FEEDS, _START_SECONDS = 10, 0.1
# Requests to one host at the same time, and feeds that are asked at the same time: each has a thread and a connection,
# of which many systems allow 1,024. After a sleep of the machine all feeds are due.
REQUESTS_MAX, THREADS_MAX = 2, 256
# What hubs have pushed is read by so many threads: less than there are processes that read, which requests need, too.
ARRIVING_MAX = 2
_RESULTS_MAX = 64


def wait_seconds(interval_seconds: float, failures: int, retry_after_seconds: float, random: float) -> float:
    """Return the seconds until the next request. Each of the failures in a row doubles the interval; ``random`` is in
    [0, 1), and the server may have asked for more, 0 for nothing.

    >>> [wait_seconds(600, failures, 0, 0.5) for failures in (0, 1, 2, 30)]
    [600.0, 900.0, 1800.0, 64800.0]
    """
    if failures:
        longest = min(interval_seconds * 2.0 ** min(failures, _DOUBLINGS_MAX), WAIT_SECONDS_MAX)
        wait = longest * (1 + random) / 2
    else:
        wait = interval_seconds * (1 + _JITTER * (2 * random - 1))
    return min(max(wait, retry_after_seconds), WAIT_SECONDS_MAX)


def longest_seconds(interval_seconds: float) -> float:
    """Return the longest wait after a request that succeeds, if the server asks for none.

    >>> longest_seconds(600)
    660.0
    """
    return interval_seconds * (1 + _JITTER)


def rest_seconds(interval_seconds: float, calm: int) -> float:
    """Return the least time between two requests for a feed that a hub pushes: each request that finds nothing that
    was not pushed doubles it.

    >>> [rest_seconds(600, calm) for calm in (1, 2, 30)]
    [1080.0, 2160.0, 77760.0]
    """
    return min(interval_seconds * 2.0 ** min(calm, _DOUBLINGS_MAX), WAIT_SECONDS_MAX) * (1 - _JITTER)


def fresh_seconds(header: Mapping[str, str], body: bytes, interval_seconds: float) -> float:
    """Return the seconds for which an answer stays as it is: ``max-age`` of its header, or the ``ttl`` in minutes that
    a feed of RSS names, 0 for neither. Many servers name a longer time than they mean: eight intervals at most.

    >>> fresh_seconds({"cache-control": "public, max-age=1200"}, b"", 900.0)
    1200.0
    >>> fresh_seconds({"cache-control": "no-cache, max-age=1200"}, b"<rss><channel><ttl>60</ttl>", 900.0)
    3600.0
    >>> fresh_seconds({"cache-control": "max-age=99999999"}, b"", 900.0)
    7200.0
    """
    named, ttl = header.get("cache-control", ""), _TTL.search(body[:_HEAD_BYTES])
    age = None if "no-cache" in named or "no-store" in named else _MAX_AGE.search(named)
    seconds = max(float(age[1]) if age else 0.0, 60.0 * float(ttl[1]) if ttl else 0.0)
    return min(seconds, _FRESH_INTERVALS * interval_seconds, WAIT_SECONDS_MAX)


def later_seconds(header: Mapping[str, str], body: bytes, interval_seconds: float, now: float) -> float:
    """Return the seconds until the server of an answer wants the next request; 0 if it does not say."""
    asked = retry_after(header.get("retry-after", ""), now)
    return max(asked, fresh_seconds(header, body, interval_seconds))


def start_seconds(feeds: int, random: float) -> float:
    """Return when a feed is asked first: many feeds are not asked in one moment.

    >>> start_seconds(10, 0.5), start_seconds(210, 0.5)
    (0.0, 10.0)
    """
    return _START_SECONDS * max(0, feeds - _START_FEEDS) * random


class Turns:
    """Lets at most two requests of this process go to one host at the same time; threads may share one."""

    def __init__(self) -> None:
        self._lock, self._hosts = Lock(), dict[str, tuple[Semaphore, int]]()

    @contextmanager
    def of(self, url: str) -> Iterator[None]:
        """Wait for the turn of a request."""
        host = host_of(url) or ""
        with self._lock:
            turns, users = self._hosts.get(host, (Semaphore(REQUESTS_MAX), 0))
            self._hosts[host] = turns, users + 1
        try:
            with turns:
                yield
        finally:
            with self._lock:
                users = self._hosts[host][1] - 1
                if users:
                    self._hosts[host] = turns, users
                else:
                    del self._hosts[host]


class Asking:
    """Asks feeds when they are due, on threads that start as they are needed. A feed whose host has two others in
    progress waits for them without a thread, so that many feeds of one slow host hold up no other.
    ``ask`` returns the seconds until a feed is asked the next time, ``None`` for never.
    """

    def __init__(self, ask: Callable[[str], float | None], threads_max: int = THREADS_MAX) -> None:
        self._ask, self._threads_max = ask, threads_max
        self._changed, self._closed = Condition(), False
        self._due: list[tuple[float, str]] = []  # a heap: when, and which feed
        self._ready = deque[str]()
        # Of a host: how many of its feeds are ready or in progress, and those that are due and wait for them.
        self._hosts: dict[str, tuple[int, deque[str]]] = {}
        self._threads: list[Thread] = []
        self._idle, self._is_watched = 0, False  # whether a thread waits for the next feed to be due

    def add(self, url: str, seconds: float) -> None:
        """Ask a feed after some seconds."""
        with self._changed:
            heappush(self._due, (monotonic() + seconds, url))
            if not self._threads:
                self._start()
            elif self._due[0][1] == url:  # the one that watches must look again
                self._changed.notify_all()

    def close(self, *, waits: bool) -> None:
        """Ask no feed any more; ``waits`` for those that are asked."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads if waits else ():
            thread.join()

    def _start(self) -> None:
        thread = Thread(target=self._run, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
            return  # the system gives no more: those that there are ask one feed after the other
        self._threads.append(thread)

    def _run(self) -> None:
        while (url := self._next()) is not None:
            seconds = self._ask(url)
            with self._changed:
                self._leave(host_of(url) or "")
            if seconds is not None:
                self.add(url, seconds)

    def _next(self) -> str | None:
        """Wait for the next feed; ``None`` at the end."""
        with self._changed:
            while not self._closed:
                now = monotonic()
                while self._due and self._due[0][0] <= now:
                    self._enter(heappop(self._due)[1])
                if self._ready:
                    url = self._ready.popleft()
                    self._wake()
                    return url
                watches, self._is_watched = not self._is_watched, True
                self._idle += 1
                self._changed.wait(self._due[0][0] - now if watches and self._due else None)
                self._idle -= 1
                self._is_watched = self._is_watched and not watches
            return None

    def _wake(self) -> None:
        """Let another thread take the next feed."""
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < self._threads_max:
            self._start()

    def _enter(self, url: str) -> None:
        """Take a feed that is due to those that are ready, if its host has a turn for it."""
        host = host_of(url) or ""
        count, waiting = self._hosts.setdefault(host, (0, deque()))
        if count < REQUESTS_MAX:
            self._hosts[host] = count + 1, waiting
            self._ready.append(url)
        else:
            waiting.append(url)

    def _leave(self, host: str) -> None:
        """End the turn of a feed: the next one of its host is ready."""
        count, waiting = self._hosts[host]
        if waiting:
            self._ready.append(waiting.popleft())
        elif count > 1:
            self._hosts[host] = count - 1, waiting
        else:
            del self._hosts[host]


class Results(Generic[T]):
    """What threads give one other, in order, until ``ended``; so many wait at most. A signal ends the wait for a byte,
    so ``read`` is a descriptor with a byte for each result.
    """

    def __init__(self, ended: Event) -> None:
        self._ended, self._results, self._room = ended, SimpleQueue[T](), Semaphore(_RESULTS_MAX)
        self.read, self._write = os.pipe()

    def put(self, result: T) -> None:
        """Wait for room, and give a result, unless nothing is taken any more."""
        self._room.acquire()
        if not self._ended.is_set():
            self._results.put(result)
            os.write(self._write, b"\0")

    def take(self) -> T:
        """Return the next result, whose byte was read."""
        result = self._results.get()
        self._room.release()
        return result

    def end(self) -> None:
        """Say that nothing is taken any more, and let all go on that wait for room."""
        self._ended.set()
        # A feed has a result, and its end behind it; there are the lists, and what was pushed.
        self._room.release(2 * THREADS_MAX + 1 + ARRIVING_MAX)

    def close(self) -> None:
        """Close the descriptors; no thread gives a result any more."""
        os.close(self.read)
        os.close(self._write)


def retry_after(value: str, now: float) -> float:
    """Return the seconds that a field Retry-After asks for: a number of seconds or a date; 0 for anything else.

    >>> retry_after("120", 0.0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 20.0), retry_after("soon", 0.0)
    (120.0, 40.0, 0.0)
    """
    try:
        seconds = float(value) if value.strip().isdigit() else parsedate_to_datetime(value).timestamp() - now
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0
    return min(max(0.0, seconds), WAIT_SECONDS_MAX) if math.isfinite(seconds) else 0.0
