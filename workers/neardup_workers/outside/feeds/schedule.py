"""When a feed is asked again: after its interval, later after failures, and never before the server wants it."""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime

# A day: no wait is longer, whatever the failures and whatever the server wants.
WAIT_SECONDS_MAX = 86_400.0
# An interval varies by this fraction in both directions, so that many feeds of one server are not asked together.
_JITTER = 0.1
_DOUBLINGS_MAX = 20


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
