"""Feeds whose first answers list items of many days: ``dedup`` with a window finds the copies among them."""

import json
import signal
import time
from email.utils import formatdate

import pytest

from neardup import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside import feeds
from neardup_workers.outside.feeds.feed import Feed, FeedPoll, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched
from neardup_workers.outside.feeds.items import Item
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.running.commands.feed import command
from neardup_workers.running.commands.feed.command import by_time

DAY = 86_400
STORY = "The harbour was closed on Monday after a storm damaged the northern breakwater, the port authority said."
# Feed -> its items, the newest first: name, age in days, text.
FEEDS = {
    "a": [("fair", 0.1, "The spring fair has more stalls than ever before."), ("storm", 5, STORY)],
    "b": [("seals", 0.2, "Rangers counted 412 seals on the sandbanks this autumn."), ("harbour", 5.1, STORY)],
}


@pytest.fixture
def urls(web):
    """The addresses of two feeds that have one story of five days ago."""
    now = time.time()
    for name, items in FEEDS.items():
        listed = "".join(
            f"<item><guid>urn:{item}</guid><pubDate>{formatdate(now - days * DAY)}</pubDate>"
            f"<description>{text}</description></item>"
            for item, days, text in items
        )
        web.give(f"/{name}", f'<rss version="2.0"><channel>{listed}</channel></rss>'.encode())
    return [web.url(f"/{name}") for name in FEEDS]


@pytest.mark.parametrize("window", [(), ("--window-seconds", "2d")])
def test_a_story_older_than_the_window_is_kept_once(urls, neardup, window):
    """Feeds that are read once are written in order of time, so the earliest copy is the original."""
    items = neardup("feed", "--allow-private", *urls)
    assert [json.loads(line)["id"] for line in items.stdout.splitlines()] == [
        "urn:harbour", "urn:storm", "urn:seals", "urn:fair"
    ]  # fmt: skip
    kept = neardup("dedup", "--quiet", *window, "-", stdin=items.stdout).stdout
    assert [json.loads(line)["id"] for line in kept.splitlines()] == ["urn:harbour", "urn:seals", "urn:fair"]


def test_a_followed_story_older_than_the_window_is_kept_once(urls, neardup, start):
    """The recipe of docs/FEEDS.md: the time of an item is that of its arrival, and its date is in ``published``."""
    process = start("feed", "--follow", "--allow-private", *urls)
    lines = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    assert (process.communicate()[0], process.returncode) == (b"", Exit.INTERRUPTED)
    items = [json.loads(line) for line in lines]
    assert all(abs(item["timestamp"] - time.time()) < DAY for item in items)
    assert all(item["published"].startswith("20") for item in items)
    kept = neardup("dedup", "--quiet", "--window-seconds", "2d", "-", stdin=b"".join(lines)).stdout.splitlines()
    assert sorted(json.loads(line)["text"] for line in kept) == sorted({item["text"] for item in items})


def _polled(url, *times):
    return FeedPoll(
        url, [Entry(url, number, b"{}", Document(f"{url}{number}", "", time)) for number, time in enumerate(times)]
    )


def test_items_of_one_feed_stay_in_its_order():
    """An item that lists an older date than the one before it, or none, follows that one."""
    entries = by_time([_polled("a", 5.0, 2.0, None, 7.0), _polled("b", None, 4.0, 6.0)])
    assert [entry.found.id for entry in entries] == ["b0", "b1", "a0", "a1", "a2", "b2", "a3"]


def test_what_waits_for_other_feeds_has_a_bound(monkeypatch):
    """Followed feeds wait for none; others are written in parts when they reach the bound."""
    polls = [_polled(name, 1.0) for name in "abc"]
    assert list(command.rounds(polls, follow=True)) == [[polled] for polled in polls]
    assert list(command.rounds(polls, follow=False)) == [polls]
    monkeypatch.setattr(command, "ROUND_BYTES_MAX", 3)
    assert list(command.rounds(polls, follow=False)) == [polls[:2], polls[2:]]


def test_another_clock_writes_no_item_again(urls, neardup):
    """What is remembered of an item does not depend on its time of arrival."""
    first, second = (
        neardup("feed", "--allow-private", "--state", "seen", *clock, *urls) for clock in ((), ("--clock", "arrival"))
    )
    assert (len(first.stdout.splitlines()), second.stdout) == (4, b"")


@pytest.mark.parametrize("refused", [False, True])
def test_an_item_whose_text_is_unchanged_comes_once(refused, monkeypatch):
    """A date, or a token in the query of a link, changes at each fetch; another text is another version. A refused item
    is reported once in the same way."""
    if refused:
        monkeypatch.setattr(feeds.feed, "decode_document", lambda raw, fields: Reason("no_text"))
    url = "http://feeds.example/news"

    def answer(token, text="text"):
        time = f"2023-11-1{token}T00:00:00+00:00"
        links = (f"http://a.example/b?token={token}", f"http://a.example/b?token={token}&c")
        linked = [Item(link, time, "", link, text) for link, text in zip(links, (text, "other"), strict=True)]
        return [Item("urn:a", time, "", None, "text"), *linked]

    answers = [answer(1), answer(2), answer(3), answer(4, "changed")]
    world = World(
        lambda url, header: Fetched(200, {}, b"%d" % len(answers), url), lambda *_: answers.pop(0),
        lambda: 1.7e9, lambda: 0.5, lambda seconds: False,
    )  # fmt: skip
    feed = Feed(url, Watching(Fields(), 600.0, follow=True))
    found = [[entry.found for entry in feed.poll(world).entries] for _ in range(4)]
    assert [len(items) for items in found] == [3, 0, 0, 1]
    assert refused or found[3][0].id == "http://a.example/b?token=4"
