"""When a feed is asked again: after its interval, later after failures, and never before the server wants it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from threading import Lock, Semaphore

from neardup.stories.sources.names import host_of

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
# Requests to one host at the same time.
REQUESTS_MAX = 2


def wait_seconds(interval_seconds: float, failures: int, retry_after_seconds: float, random: float) -> float:
    """Return the seconds until the next request.

    Args:
        interval_seconds: the time between two requests that succeed.
        failures: requests in a row that failed. Each one doubles the wait.
        retry_after_seconds: what the server asked for, 0 for nothing.
        random: a number in [0, 1).

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
