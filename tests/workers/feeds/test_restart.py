"""When a restarted process asks feeds that it remembers."""

import contextlib
import itertools
import threading

import pytest

from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.feeds import schedule
from neardup_workers.outside.feeds.condition import Condition
from neardup_workers.outside.feeds.feed import Feed, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched
from neardup_workers.outside.feeds.lists import FeedLists
from neardup_workers.outside.feeds.state import FeedStates
from neardup_workers.outside.feeds.watch import watch
from neardup_workers.outside.process.stop import Stop

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


class Remembered(FeedStates):
    """The condition of one feed."""

    def __init__(self, condition: Condition) -> None:
        super().__init__()
        self._condition = condition

    def condition(self, url: str) -> Condition | None:
        return self._condition


@pytest.mark.parametrize(
    ("condition", "asked", "waited"), [(GONE, 0, []), (FAILED, 1, [600.0, 600.0]), (ASKED, 1, [0.0, 600.0])]
)
def test_no_request_is_sent_before_the_wait_is_over(
    condition: Condition, asked: int, waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watching of a feed begins with the rest of its wait. One that is gone is watched no more."""
    sent: list[str] = []
    waits: list[float] = []

    class AtOnce(schedule.Asking):
        """Asks each feed once, when it is added."""

        def add(self, url: str, seconds: float) -> None:
            waits.append(seconds)
            if len(sent) == 0 and (following := self._ask(url)) is not None:
                waits.append(following)

    def fetch(url: str, header: object) -> Fetched:
        sent.append(url)
        return Fetched(304, {}, b"", url)

    monkeypatch.setattr(schedule, "Asking", AtOnce)
    ended = threading.Event()
    world = World(fetch, lambda *_: Reason("feed_damaged"), lambda: NOW, lambda: 0.5, ended.wait)
    results = watch(FeedLists([URL]), WATCHING, world, Stop(), ended, Remembered(condition))
    with contextlib.closing(results):  # type: ignore[type-var]
        polled = list(itertools.islice(results, asked or None))
    assert (len(sent), waits, len(polled)) == (asked, waited, asked)
