"""When a restarted process asks feeds that it remembers."""

import threading

import pytest

from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.feeds.condition import Condition
from neardup_workers.outside.feeds.fetch import Fetched
from neardup_workers.outside.feeds.watch import Feed, Watching, World, _watch_feed

URL, NOW = "https://first.example/feed", 1_700_000_000.0
WATCHING = Watching(Fields(), 600.0, follow=True, items_max=3)
ASKED = Condition(asked=NOW, wait_seconds=600.0)
FAILED = ASKED._replace(failures=2, reason="fetch_status")
GONE = ASKED._replace(failures=1, reason="feed_gone")


@pytest.mark.parametrize(
    ("condition", "later", "rest"),
    [
        (None, 0.0, 0.0), (ASKED, 0.0, 0.0), (ASKED._replace(wait_seconds=7_000.0), 1_000.0, 6_000.0),
        (FAILED, 100.0, 500.0), (FAILED, 700.0, 0.0), (FAILED, -9_000.0, 600.0), (GONE, 1e9, None),
    ],
)  # fmt: skip
def test_a_restart_keeps_the_waits_of_feeds_that_failed(
    condition: Condition | None, later: float, rest: float | None
) -> None:
    """A feed that was read is asked at once, one that is gone never; a wait is what is left of it, also if the clock
    is set back. Without ``follow`` each feed is asked once."""
    assert Feed(URL, WATCHING, None, condition).rest_seconds(NOW + later) == rest
    assert Feed(URL, WATCHING._replace(follow=False), None, condition).rest_seconds(NOW + later) == 0.0


@pytest.mark.parametrize(
    ("condition", "asked", "waited"), [(GONE, 0, []), (FAILED, 1, [600.0, 600.0]), (ASKED, 1, [600.0])]
)
def test_no_request_is_sent_before_the_wait_is_over(condition: Condition, asked: int, waited: list[float]) -> None:
    """The watching of a feed begins with the rest of its wait."""
    sent: list[str] = []
    waits: list[float] = []

    def fetch(url: str, header: object) -> Fetched:
        sent.append(url)
        return Fetched(304, {}, b"", url)

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return bool(sent)

    world = World(fetch, lambda *_: Reason("feed_damaged"), lambda: NOW, lambda: 0.5, wait)
    results: list[object] = []
    _watch_feed(Feed(URL, WATCHING, None, condition), lambda _: True, world, threading.Event(), results.append)
    assert (len(sent), waits, len(results)) == (asked, waited, asked + 1)
