"""Forty feeds with every fault; watcher and service start ten times: each item once, each health right."""

import shutil
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from service_world import NOW, listening, world_in

from neardup_workers.outside.feeds import schedule
from neardup_workers.outside.feeds.feed import World
from neardup_workers.outside.feeds.fetch import FetchLimits, fetch
from neardup_workers.outside.feeds.items import read_items
from neardup_workers.outside.options.running import FeedCommandOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.kafka import FeedSettings
from neardup_workers.running.commands.feed import command

TURNS = 10
# Turns after which the watcher ends before it has saved what it sent.
LOST = (2, 7)
# The turn in which an item is taken down.
TAKEN_DOWN = 4
BYTES_MAX = 20_000


def items_until(name, turn, encoding="utf-8", cut=False):
    """A feed of RSS with one more item each second turn; ids are no URIs, so they follow the address of the feed."""
    listed = []
    for number in range(turn // 2 + 3)[::-1]:
        at = format_datetime(datetime.fromtimestamp(NOW - 3600 * (TURNS - number), UTC))
        words = " ".join(f"{name}{number}w{word}" for word in range(12))
        listed.append(
            f"<item><guid>{number}</guid><pubDate>{at}</pubDate><description>café {words}</description></item>"
        )
    text = f'<?xml version="1.0"?><rss version="2.0"><channel>{"".join(listed)}</channel></rss>'
    return text.encode(encoding)[: -60 if cut else None]


def answer(handler, status, body=b"", **header):
    handler.send_response(status)
    for name, value in {"Content_Length": len(body), **header}.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    handler.wfile.write(body)


def good(handler, world, name):
    tag = f'"{world.turn // 2}"'
    if handler.headers.get("If-None-Match") == tag:
        answer(handler, 304)
    else:
        answer(handler, 200, items_until(name, world.turn), ETag=tag)


def redirecting(status):
    def redirect(handler, world, name):
        path = f"/{name}/turn{world.turn}"
        world.web.answers[path] = lambda other: good(other, world, name)
        answer(handler, status, Location=path)

    return redirect


def always(status, **header):
    return lambda handler, world, name: answer(handler, status, b"", **header)


def failing_at_times(handler, world, name):
    if world.turn % 3 == 1:
        answer(handler, 500)
    else:
        good(handler, world, name)


def drip(handler, world, name):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"<rss")
    handler.wfile.flush()
    world.web.ended.wait(20)


def cut(handler, world, name):
    answer(handler, 200, items_until(name, world.turn, cut=world.turn % 2 == 0))


def wrong_charset(handler, world, name):
    answer(handler, 200, items_until(name, world.turn, "latin-1"), Content_Type="text/xml; charset=utf-8")


def resting(handler, world, name):
    """Nothing new for years."""
    at = "".join(
        f"<item><guid isPermaLink='false'>{n}</guid><pubDate>Tue, 0{n} Nov 2022 10:00:00 GMT</pubDate>"
        f"<title>{name} {n}</title></item>"
        for n in range(1, 5)
    )
    answer(handler, 200, f'<rss version="2.0"><channel>{at}</channel></rss>'.encode())


# Fault -> what the server does, the items that arrive until the last turn, and the health after it.
FAILS = "failing"
LAST = TURNS - 1
EVERY = range(LAST // 2 + 3)
FAULTS = {
    "good": (good, EVERY, ("ok", 304, "")),
    "301": (redirecting(301), EVERY, ("ok", 304, "")),
    "302": (redirecting(302), EVERY, ("ok", 304, "")),
    "404": (always(404), (), (FAILS, 404, "fetch_status")),
    "410": (always(410), (), ("gone", 410, "feed_gone")),
    "429": (always(429, Retry_After="120"), (), (FAILS, 429, "fetch_status")),
    "500": (failing_at_times, EVERY, ("ok", 304, "")),
    "drip": (drip, (), (FAILS, None, "fetch_time")),
    "cut": (cut, EVERY, ("ok", 200, "")),
    "charset": (wrong_charset, EVERY, ("ok", 200, "")),
    "huge": (lambda handler, *_: answer(handler, 200, b" " * (BYTES_MAX + 1)), (), (FAILS, None, "fetch_too_large")),
    "silent": (lambda handler, world, name: world.web.ended.wait(20), (), (FAILS, None, "fetch_time")),
    "resting": (resting, range(1, 5), ("silent", 200, "")),
}
FEEDS = [(f"{fault}-{n}", fault) for fault in FAULTS for n in range(4 if fault == "good" else 3)]


class Watched:
    """The server of the feeds, and the turn that it is in."""

    def __init__(self, web):
        self.web, self.turn = web, 0
        for name, fault in FEEDS:
            behave = FAULTS[fault][0]
            web.answers[f"/{name}"] = lambda handler, name=name, behave=behave: behave(handler, self, name)

    def fetch(self, url, header):
        seconds = 0.3 if "/drip" in url or "/silent" in url else 60.0
        return fetch(url, header, FetchLimits(BYTES_MAX, seconds, 3, lambda number: True))


@pytest.mark.processes
def test_each_item_of_forty_feeds_arrives_once_whatever_fails(web, tmp_path, monkeypatch):
    """A takedown holds, also when the watcher has lost what it knew; the service knows how each feed is."""
    assert len(FEEDS) == 40
    watched, blocked = Watched(web), str(tmp_path / "blocked.jsonl")
    state, lists = tmp_path / "seen", tmp_path / "feeds.txt"
    lists.write_text("".join(f"{web.url(f'/{name}')}\n" for name, _ in FEEDS))
    world_of = lambda settings, ended, parsers, extraction: World(  # noqa: E731
        watched.fetch, read_items, lambda: NOW, lambda: 0.5, ended.wait
    )
    monkeypatch.setattr(command, "_world", world_of)
    monkeypatch.setattr(schedule, "_START_SECONDS", 0.01)
    taken_down = f"{web.url('/good-0')}#1"
    expected = {f"{web.url(f'/{name}')}#{n}" for name, fault in FEEDS for n in FAULTS[fault][1]} - {taken_down}
    for turn in range(TURNS):
        watched.turn = turn
        if turn in LOST:
            shutil.copy(state, tmp_path / "before")
        with world_in(tmp_path / "window", blocked=blocked, threshold=0.9) as service:
            with listening(service.guarded) as (host, port):
                url = f"http://{host}:{port}"
                options = FeedCommandOptions([str(lists)], state=str(state), to_serve=url, quiet=True)
                assert command.run(options, FeedSettings(allow_private=True)) in (Exit.SUCCESS, Exit.UNUSABLE)
            if turn == TAKEN_DOWN:
                assert service.ask("DELETE", "/v1/documents", params={"id": taken_down, "block": "true"}).is_success
            known = service.ask("GET", "/v1/feeds?limit=100").json()["feeds"]
            stored = service.ask("GET", "/v1/documents?limit=1000").json()["documents"]
        if turn in LOST:
            shutil.copy(tmp_path / "before", state)
    assert sorted(one["id"] for one in stored if not one["repeated"]) == sorted(expected)
    assert {one["id"] for one in stored} == expected
    healths = {feed["url"]: (feed["state"], feed["status"], feed["reason"]) for feed in known}
    assert healths == {web.url(f"/{name}"): FAULTS[fault][2] for name, fault in FEEDS}
    failures = {feed["url"]: feed["failures"] for feed in known}
    assert failures[web.url("/404-0")] == TURNS - len(LOST)
    assert failures[web.url("/500-0")] == 0
    brought = {feed["url"]: feed["brought"] for feed in known}
    assert (brought[web.url("/good-0")], brought[web.url("/404-0")]) == (NOW, None)
