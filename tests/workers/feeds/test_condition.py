"""How a feed is: its state, and the meaning of its last answer."""

import pytest

from neardup_workers.outside.feeds.condition import Condition, meaning_of, state_of
from neardup_workers.outside.feeds.reasons import FEED_REASONS

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("condition", "later_seconds", "state"),
    [
        (Condition(wait_seconds=600.0), 1_860, "ok"),
        (Condition(wait_seconds=600.0), 1_861, "unreported"),
        (Condition(), 10**9, "ok"),  # asked once
        (Condition(1, wait_seconds=900.0, reason="fetch_time"), 10**6, "failing"),
        (Condition(1, reason="feed_gone"), 10**6, "gone"),
        (Condition(newest=NOW - 40_000, gap_seconds=60.0), 3_200, "ok"),  # half a day is no silence
        (Condition(newest=NOW - 40_000, gap_seconds=60.0), 3_201, "silent"),
        (Condition(newest=NOW, gap_seconds=86_400.0), 3 * 86_400, "ok"),
        (Condition(newest=NOW, gap_seconds=86_400.0), 3 * 86_400 + 1, "silent"),
    ],
)
def test_a_feed_has_a_state(condition, later_seconds, state):
    """It follows from the condition, the time of the report and the present time."""
    assert state_of(condition, NOW, NOW + later_seconds) == state


def test_each_reason_has_a_meaning():
    """That of an error says which one."""
    meanings = [meaning_of(Condition(1, status=status, reason="fetch_status")) for status in (404, 429, 599)]
    assert meanings == [
        "the server answered with an error: 404 Not Found",
        "the server answered with an error: 429 Too Many Requests",
        "the server answered with an error: 599",
    ]
    assert meaning_of(Condition(status=200)) == "the feed was read"
    assert {meaning_of(Condition(1, reason=reason)) for reason in FEED_REASONS} == set(FEED_REASONS.values())
