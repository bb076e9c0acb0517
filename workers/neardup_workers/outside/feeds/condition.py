"""How a feed is: what its last requests brought, and what that says of it.

A process that watches feeds tells it to the service (``values_of``), which keeps it and names a state (``state_of``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from neardup_workers.outside.feeds.items import Item
from neardup_workers.outside.feeds.reasons import FEED_REASONS

# Worst first.
STATES = ("gone", "failing", "unreported", "silent", "ok")
# A feed is silent after so many of its usual gaps, and never before half a day: it may rest at night.
_SILENT_GAPS, _SILENT_SECONDS_MIN = 3.0, 43_200.0
# A feed is unreported after so many of its waits, and some time for the answer.
_UNREPORTED_WAITS, _UNREPORTED_SECONDS = 3.0, 60.0


class Condition(NamedTuple):
    """How a feed is. Times are in seconds since the epoch."""

    failures: int = 0  # requests in a row that failed
    newest: float | None = None  # date of its newest item; ``None`` if none has a date
    # Median time between two items that it lists, ``None`` if fewer than three have dates.
    gap_seconds: float | None = None
    asked: float | None = None  # when it was asked last
    succeeded: float | None = None  # when it was last read, or had not changed
    brought: float | None = None  # when its last new item came
    status: int | None = None  # the status of the last answer, ``None`` if there was none
    reason: str = ""  # why the last request failed, a key of ``FEED_REASONS``; empty if it did not
    address: str = ""  # where it is now, after redirects; empty before it was read
    # The time to the next request, or report of a feed that a hub pushes; ``None`` if there is none.
    wait_seconds: float | None = None


def listed(condition: Condition, items: Sequence[Item], now: float) -> Condition:
    """Return the condition with the dates of the items that a feed lists; dates ahead of the clock do not count."""
    dates = sorted(
        date for item in items if item.time and (date := datetime.fromisoformat(item.time).timestamp()) <= now
    )
    gaps = [later - earlier for earlier, later in pairwise(dates)]
    return condition._replace(newest=dates[-1] if dates else None, gap_seconds=median(gaps) if len(gaps) > 1 else None)


def state_of(condition: Condition, reported: float, now: float) -> str:
    """Return the state of a feed, one of ``STATES``."""
    wait, newest, gap = condition.wait_seconds, condition.newest, condition.gap_seconds
    if condition.reason == "feed_gone":
        return "gone"
    if condition.failures:
        return "failing"
    if wait is not None and now - reported > _UNREPORTED_WAITS * wait + _UNREPORTED_SECONDS:
        return "unreported"
    if newest is not None and gap is not None and now - newest > max(_SILENT_GAPS * gap, _SILENT_SECONDS_MIN):
        return "silent"
    return "ok"


def meaning_of(condition: Condition) -> str:
    """Return what the last request brought, as a sentence without its end.

    >>> meaning_of(Condition(status=304)), meaning_of(Condition(1, status=404, reason="fetch_status"))
    ('the feed has not changed', 'the server answered with an error: 404 Not Found')
    """
    if not condition.reason:
        return "the feed has not changed" if condition.status == HTTPStatus.NOT_MODIFIED else "the feed was read"
    said = FEED_REASONS.get(condition.reason, condition.reason)
    if condition.reason != "fetch_status" or condition.status is None:
        return said
    known = condition.status in HTTPStatus.__members__.values()
    return f"{said}: {condition.status}{f' {HTTPStatus(condition.status).phrase}' if known else ''}"


def values_of(condition: Condition, reported: float, now: float) -> dict[str, Any]:
    """Return a condition as JSON values, with its state and its meaning."""
    state = state_of(condition, reported, now)
    return {**condition._asdict(), "reported": reported, "state": state, "meaning": meaning_of(condition)}
