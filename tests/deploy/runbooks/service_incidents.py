"""Incidents of the service and of the watcher of feeds: both are the real ones, on loopback."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
from benchmarks.recall.canaries import lose_a_band_of
from hook_world import SECRET, Receiver
from incident_place import Place
from service_world import NOW, TEXT, listening, opened
from worker_incidents import unlike

from neardup.pairs.json_lines import Fields
from neardup_workers.doing.http.access.guard import Access
from neardup_workers.doing.http.access.tokens import tokens_of
from neardup_workers.doing.http.outgoing.delivery import Bounds
from neardup_workers.doing.http.outgoing.hook import hook_of
from neardup_workers.doing.http.server import started
from neardup_workers.outside.feeds.feed import Feed, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched, FetchError
from neardup_workers.outside.feeds.items import Item
from neardup_workers.outside.process.clock import ArrivalClock
from neardup_workers.outside.settings.kafka import FeedSettings
from neardup_workers.outside.settings.serve import LIMITS, ServeLimits, ServeSettings
from neardup_workers.outside.telemetry.health import Health
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.names import MATCH
from neardup_workers.running.commands.feed.command import _observer

TOKEN = "a token that no guess finds"
FEED = "http://feeds.example/news"


class Serving:
    """A service with its window in the folder of a place; ``late_seconds`` is how far its clock is ahead."""

    def __init__(self, place: Place, limits: ServeLimits = LIMITS, **settings: Any) -> None:
        self.began, self.late_seconds = time.monotonic(), 0.0
        self.settings = ServeSettings(threshold=0.7, **settings)
        self.keeper = opened(place.folder / "state", self.settings, self.now, limits.canaries_every)
        hook = hook_of(self.settings)
        self.running = started(
            self.settings, self.keeper, lambda: None, ArrivalClock(None, self.now, self.now), hook=hook, limits=limits
        )
        tokens, refused = tokens_of(self.settings), self.running.refused
        guarded = Access(self.running.app, tokens, open_metrics=True, on_refused=refused)
        host, port = place.closing.enter_context(listening(guarded))
        place.target = f"{host}:{port}"
        place.closing.callback(self.keeper.log.close)
        place.closing.callback(self.running.stop)
        self.client = place.closing.enter_context(httpx.Client(base_url=f"http://{place.target}", timeout=60))

    def now(self) -> float:
        return NOW + time.monotonic() - self.began + self.late_seconds

    def slow_down(self, seconds: float) -> None:
        """Let each commit take so much longer."""
        commit = self.keeper.log.commit

        def late() -> None:
            time.sleep(seconds)
            commit()

        self.keeper.log.commit = late  # type: ignore[method-assign]

    def check(self, *documents: dict[str, Any]) -> list[int]:
        """Send documents one by one; returns the statuses."""
        return [self.client.post("/v1/check", json=document).status_code for document in documents]

    def check_batch(self, documents: list[dict[str, Any]]) -> None:
        lines = "\n".join(map(json.dumps, documents))
        self.client.post("/v1/check:batch", content=lines, headers={"Content-Type": "application/x-ndjson"})


def numbered(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    """Documents that nothing is like."""
    return [{"id": f"d{n}", "text": unlike(n), **more} for n in range(first, first + count)]


def full_disk(place: Place) -> Iterator[None]:
    """The file of the window may not grow: SQLite says what it says on a full disk."""
    serving = Serving(place)
    serving.check(*numbered(0, 3))
    connection = serving.keeper.log._writer
    yield
    connection.execute("PRAGMA max_page_count = 1")
    first = 10
    while True:
        serving.check_batch([{**each, "text": each["text"] * 20} for each in numbered(first, 40)])
        first += 40
        yield


def busy(place: Place) -> Iterator[None]:
    """Four clients send at once, two documents may wait, and the disk is slow."""
    serving = Serving(place, LIMITS._replace(queue_documents_max=2))
    serving.check(*numbered(0, 3))
    numbers = itertools.count(10, 3)
    serving.slow_down(0.02)
    with ThreadPoolExecutor(6) as clients:
        yield
        while True:
            list(clients.map(lambda first: serving.check(*numbered(first, 3)), itertools.islice(numbers, 12)))
            yield


def slow(place: Place) -> Iterator[None]:
    """The disk takes long for each commit."""
    serving = Serving(place)
    serving.check(*numbered(0, 3))
    numbers = itertools.count(10, 3)
    yield
    serving.slow_down(0.1)
    while True:
        serving.check(*numbered(next(numbers), 3))
        yield


def guessed(place: Place) -> Iterator[None]:
    """Somebody tries tokens."""
    serving = Serving(place, token=TOKEN)
    yield
    while True:
        for n in range(10):
            serving.client.get("/v1/figures", headers={"Authorization": f"Bearer guess{n}"})
        yield


def with_canaries(place: Place) -> tuple[Serving, Metrics]:
    """A service that looks canaries up, and the metrics of a matcher."""
    serving, matcher = Serving(place, LIMITS._replace(canaries_every=3)), Metrics(MATCH)
    place.show(matcher, Health(1e9))
    serving.check_batch(numbered(0, 30))
    return serving, matcher


def canary_fault(place: Place) -> Iterator[None]:
    """The table of a service loses a band of each document, and a matcher has seen a fault."""
    serving, matcher = with_canaries(place)
    yield
    lose_a_band_of(serving.keeper.matcher.table)
    matcher.count("canary_probes", 1, "fault")
    for first in itertools.count(30, 60):
        serving.check_batch(numbered(first, 60))
        yield


def recall_below(place: Place) -> Iterator[None]:
    """The alarm of a service hears of misses that chance does not explain."""
    serving, matcher = with_canaries(place)
    yield
    matcher.set("recall_alarm", 1)
    alarm = serving.keeper.canaries.looks.alarm
    while not alarm.rings:
        alarm.add(is_missed=True, chance=0.05)
    while True:
        yield


def repeats(place: Place) -> Iterator[None]:
    """An extractor returns one page for all documents of a source."""
    serving = Serving(place)
    serving.check_batch(numbered(0, 20, source="wire.example"))
    yield
    serving.check_batch([{"id": f"p{n}", "text": TEXT, "source": "page.example"} for n in range(300)])
    while True:
        yield


def hook_waits(place: Place) -> Iterator[None]:
    """The receiver of the web hook refuses everything, for an hour."""
    receiver = Receiver(lambda number: 503)
    place.closing.callback(receiver.close)
    serving = Serving(place, webhook=receiver.url, webhook_secret=SECRET)
    yield
    serving.check(*numbered(0, 3))
    serving.late_seconds = 3_600.0
    while True:
        yield


def hook_dead(place: Place) -> Iterator[None]:
    """The receiver refuses each event until its time is over."""
    receiver = Receiver(lambda number: 400)
    place.closing.callback(receiver.close)
    serving = Serving(place, webhook=receiver.url, webhook_secret=SECRET)
    first = 0
    yield
    while True:
        serving.check(*numbered(first, 3))
        first += 3
        serving.late_seconds += Bounds().seconds_max + 60.0
        yield


def watched(place: Place) -> tuple[Any, dict[str, Any]]:
    """A feed that a real watcher asks; returns what asks it once, and what it answers."""
    said: list[str] = []
    session: Any = SimpleNamespace(report=SimpleNamespace(say=said.append))
    observe = _observer(FeedSettings(health_port=0), session)
    place.target = f"127.0.0.1:{said[0].rpartition(':')[2]}"
    answer: dict[str, Any] = {"items": [], "late": 0.0}

    def fetch(url: str, header: Any) -> Fetched:
        if answer["items"] is None:
            raise FetchError("fetch_failed")
        return Fetched(200, {}, repr(answer["items"]).encode(), url)

    def clock() -> float:
        return time.time() - float(answer["late"])

    world = World(fetch, lambda *given: answer["items"], clock, lambda: 0.5, lambda seconds: False)
    feed = Feed(FEED, Watching(Fields(), 600.0, follow=True, items_max=3))

    def ask() -> None:
        observe(FEED, feed.poll(world).condition)

    return ask, answer


def items(age_seconds: float) -> list[Item]:
    """Items of every ten minutes, the newest of so long ago."""
    times = [time.time() - age_seconds - 600 * n for n in range(4)]
    shown = [time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at)) for at in times]
    return [Item(f"urn:{at}", at, "title", f"http://a.example/{at}", "text") for at in shown]


def feed_fails(place: Place) -> Iterator[None]:
    """The address of a feed answers no more, for two hours."""
    ask, answer = watched(place)
    answer["items"] = items(600)
    ask()
    yield
    answer["late"] = 7_200.0
    ask()
    answer["items"] = None
    for _ in range(3):
        ask()
    while True:
        yield


def feed_silent(place: Place) -> Iterator[None]:
    """A feed stays readable and is no longer filled."""
    ask, answer = watched(place)
    answer["items"] = items(600)
    ask()
    yield
    answer["items"] = items(60_000)
    ask()
    while True:
        yield
