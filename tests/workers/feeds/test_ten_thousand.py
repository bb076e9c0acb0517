"""One process watches ten thousand feeds: what each costs, and what holds the others up."""

import contextlib
import itertools
import json
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from unittest.mock import Mock

import pytest
from urllib3.exceptions import ConnectTimeoutError

from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.feeds import schedule
from neardup_workers.outside.feeds.condition import Condition
from neardup_workers.outside.feeds.feed import Feed, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched
from neardup_workers.outside.feeds.items import Item
from neardup_workers.outside.feeds.lists import FEEDS_MAX, FeedLists
from neardup_workers.outside.feeds.parsers import Parsers
from neardup_workers.outside.feeds.schedule import THREADS_MAX, Asking
from neardup_workers.outside.feeds.state import FeedStates
from neardup_workers.outside.feeds.watch import watch
from neardup_workers.outside.process.stop import Stop
from neardup_workers.running.commands.feed.service import Checking

NOW = 1_700_000_000.0
URL = "http://feeds.example/news"
WATCHING = Watching(Fields(), 600.0, follow=True)
RSS = b"<rss version='2.0'><channel><item><guid>a:%d</guid><title>words</title></item></channel></rss>"


def children():
    """The processes of this one."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def started(parsers):
    """The processes that a pool holds."""
    with parsers._free.mutex:
        return [each._process.pid for each in parsers._free.queue if each is not None]


@pytest.fixture
def parsers():
    with contextlib.closing(Parsers(60.0, 2)) as parsers:
        yield parsers


@pytest.mark.processes
def test_a_process_reads_one_feed_after_the_other(parsers):
    """It is started with the first one; of two that are never needed together, one starts. It ends with the pool."""
    before = children()
    assert [parsers.items_of(RSS % n, URL, "")[0].id for n in range(3)] == ["a:0", "a:1", "a:2"]
    [pid] = started(parsers)
    assert children() - before == {str(pid)}
    parsers.close()
    assert children() == before
    for _ in range(2):
        parsers._free.put(None)


@pytest.mark.processes
def test_what_a_feed_does_to_its_process_is_not_felt_by_the_next(parsers):
    """After a feed that was refused, took too long or killed the process, another one starts."""
    parsers.items_of(RSS % 1, URL, "")
    [first] = started(parsers)
    assert parsers.items_of(b"no feed", URL, "") == "feed_format"
    assert started(parsers) == []
    assert parsers.items_of(RSS % 2, URL, "")[0].id == "a:2"
    [second] = started(parsers)
    os.kill(second, signal.SIGKILL)
    assert parsers.items_of(RSS % 3, URL, "") == "feed_damaged"
    assert parsers.items_of(RSS % 4, URL, "")[0].id == "a:4"
    with contextlib.closing(Parsers(0.3, 1)) as hasty:
        assert hasty.items_of(b"<rss><channel>" + b"<item>" * 1_000_000, URL, "text/xml") == "feed_slow"
        assert started(hasty) == []
    assert first != second


def test_an_answer_that_was_read_is_not_read_again():
    """Many servers have no validators. Another body, address or type is read; the condition stays; a failure between
    changes nothing."""
    answers = [
        Fetched(200, {}, b"one", URL), Fetched(200, {}, b"one", URL), Fetched(500, {}, b"", URL),
        Fetched(200, {"etag": '"e"'}, b"one", URL), Fetched(200, {"content-type": "text/xml"}, b"one", URL),
        Fetched(200, {"content-type": "text/xml"}, b"two", URL),
    ]  # fmt: skip
    read, sent = [], []

    def fetch(url, header):
        sent.append(header.get("If-None-Match"))
        return answers[len(sent) - 1]

    def parse(content, url, kind):
        read.append((content, kind))
        return [Item("urn:a", "2023-11-14T22:00:00+00:00", "title", "http://a.example/a", content.decode())]

    world = World(fetch, parse, lambda: NOW, lambda: 0.5, lambda _: True)
    feed = Feed(URL, WATCHING)
    polled = [feed.poll(world) for _ in answers]
    assert read == [(b"one", ""), (b"one", "text/xml"), (b"two", "text/xml")]
    assert [len(each.entries) for each in polled] == [1, 0, 0, 0, 0, 1]
    assert [each.reason for each in polled] == ["", "", "fetch_status", "", "", ""]
    assert sent == [None, None, None, None, '"e"', None]
    assert {each.condition.newest for each in polled} == {NOW - 800.0}
    assert [each.condition.failures for each in polled] == [0, 0, 1, 0, 0, 0]


def test_a_feed_that_cannot_be_read_is_read_again():
    """It may have been the fault of this machine."""
    read = []

    def parse(*given):
        read.append(given)
        return Reason("feed_slow")

    world = World(lambda url, _: Fetched(200, {}, b"one", url), parse, lambda: NOW, lambda: 0.5, lambda _: True)
    feed = Feed(URL, WATCHING)
    assert [feed.poll(world).reason for _ in range(2)] == ["feed_slow"] * 2
    assert len(read) == 2


class Asked:
    """What is asked, when it may answer, and how many are asked at the same time, in all and of a host."""

    def __init__(self, **options):
        self.lock, self.goes = threading.Lock(), defaultdict(threading.Event)
        self.now, self.most, self.order = Counter(), Counter(), []
        self.asking = Asking(self.ask, **options)

    def ask(self, url):
        host = url.split("/")[2]
        with self.lock:
            self.order.append(url)
            for name in (host, "all"):
                self.now[name] += 1
                self.most[name] = max(self.most[name], self.now[name])
            goes = self.goes[host]
        goes.wait(60)
        with self.lock:
            self.now.subtract((host, "all"))

    def until(self, count):
        for _ in range(6000):
            if len(self.order) >= count:
                return
            time.sleep(0.01)
        raise AssertionError(self.order)


def test_many_feeds_of_a_slow_host_hold_up_no_other():
    """Two of them are asked, the others wait without a thread; the threads are bounded and not more than are needed."""
    asked = Asked(threads_max=4)
    try:
        for n in range(20):
            asked.asking.add(f"http://slow.example/{n}", 0.0)
        asked.until(2)
        for n in range(20):
            asked.goes[f"h{n}.example"].set()
            asked.asking.add(f"http://h{n}.example/", 0.0)
        asked.until(22)
        assert asked.order[:2] == ["http://slow.example/0", "http://slow.example/1"]
        assert not any("slow" in url for url in asked.order[2:])
        asked.goes["slow.example"].set()
        asked.until(40)
        assert asked.most["slow.example"] == 2
        assert asked.most["all"] <= 4
        assert sorted(asked.order[22:]) == sorted(f"http://slow.example/{n}" for n in range(2, 20))
    finally:
        asked.asking.close(waits=True)
    assert not asked.asking._hosts


def test_feeds_are_asked_when_they_are_due(monkeypatch):
    """Also one that is added later and due earlier; nothing is asked after the end."""
    now, asked = time.monotonic(), Asked(threads_max=1)
    monkeypatch.setattr(schedule, "monotonic", lambda: now)  # all are added at one moment, however long it takes
    asked.goes = defaultdict(lambda: Mock(wait=lambda seconds: True))
    for name, seconds in (("c", 0.6), ("z", 60.0), ("a", 0.2), ("b", 0.4)):
        asked.asking.add(f"http://{name}.example/", seconds)
    monkeypatch.undo()
    asked.until(3)
    assert [url[7] for url in asked.order] == ["a", "b", "c"]
    asked.asking.close(waits=True)
    asked.asking.add("http://d.example/", 0.0)
    time.sleep(0.1)
    assert len(asked.order) == 3


@pytest.mark.parametrize(("seed", "threads_max"), [(1, 1), (2, 3), (3, 64)])
def test_feeds_of_random_hosts_are_all_asked_and_none_too_early(seed, threads_max):
    """Whatever the hosts, the waits and the number of threads; two of a host at most."""
    rng, lock, now, wrong = random.Random(seed), threading.Lock(), Counter(), []
    left = {f"http://h{rng.randrange(20)}.example/{n}": rng.randint(1, 5) for n in range(100)}
    due = dict.fromkeys(left, 0.0)

    def ask(url):
        host, at = url.split("/")[2], time.monotonic()
        with lock:
            now[host] += 1
            wrong.extend([url] if now[host] > 2 or at < due[url] - 0.001 else [])
            left[url] -= 1
            busy, wait, again = rng.random() * 0.01, rng.random() * 0.2, left[url] > 0
        time.sleep(busy)
        with lock:
            now[host] -= 1
            due[url] = time.monotonic() + wait
        return wait if again else None

    asking = Asking(ask, threads_max)
    for url in left:
        asking.add(url, 0.0)
    for _ in range(6000):
        if not any(left.values()):
            break
        time.sleep(0.01)
    asking.close(waits=True)
    assert (sum(left.values()), wrong, asking._hosts) == (0, [], {})


def test_a_system_that_gives_few_threads_is_enough(monkeypatch):
    """Feeds are asked one after the other then; without a single thread the error is raised."""
    start, given = threading.Thread.start, []

    def refuse(thread):
        if len(given) == most:
            raise RuntimeError("can't start new thread")
        given.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    most, asked = 1, Asked()
    for n in range(5):
        asked.goes[f"h{n}.example"].set()
        asked.asking.add(f"http://h{n}.example/", 0.0)
    asked.until(5)
    asked.asking.close(waits=True)
    most = 1
    with pytest.raises(RuntimeError):
        Asked().asking.add("http://a.example/", 0.0)


def test_reports_of_many_feeds_wait_while_the_service_is_away():
    """One is tried in ten seconds, with all that the service has not heard; at the end the rest is reported."""
    now, reported, answers = [0.0], [], [None, 503, 200, 200, None, 200]

    class Pool:
        def request(self, method, url, *, body, headers, timeout):
            reported.append(sorted(feed["url"][-1] for feed in json.loads(body)["feeds"]))
            if (status := answers[len(reported) - 1]) is None:
                raise ConnectTimeoutError
            return Mock(status=status)

    checking = Checking("http://service.example", Mock(), lambda: now[0])
    checking._pool = Pool()
    for name, at in (("a", 0), ("b", 5), ("c", 11), ("d", 20), ("e", 22), ("f", 22), ("g", 23), ("h", 24)):
        now[0] = at
        checking.tell(f"http://feeds.example/{name}", Condition())
    assert reported == [["a"], ["a", "b", "c"], ["a", "b", "c", "d", "e"], ["f"], ["g"]]
    checking.tell_rest()
    assert reported[-1] == ["g", "h"]
    checking.tell_rest()
    assert len(reported) == 6


@pytest.mark.long
def test_ten_thousand_feeds_take_little_memory_and_end_at_once(monkeypatch):
    """Each is asked, keeps its thirty items, and rests without a thread."""
    monkeypatch.setattr(schedule, "_START_SECONDS", 0.0004)
    ended, turn = threading.Event(), itertools.count()

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def parse(content, url, kind):
        name = url.rpartition("/")[2]
        return [Item(f"urn:{name}:{n}", None, f"t{n}", f"http://a.example/{name}/{n}", "words") for n in range(30)]

    fetch, random = lambda url, _: Fetched(200, {}, b"feed", url), lambda: next(turn) % FEEDS_MAX / FEEDS_MAX
    world = World(fetch, parse, lambda: NOW, random, ended.wait)
    addresses = FeedLists([f"http://h{n}.example/{n}" for n in range(FEEDS_MAX)])
    before, earlier = resident(), set(threading.enumerate())
    results = watch(addresses, WATCHING, world, Stop(), ended, FeedStates())
    with contextlib.closing(results):
        asked = [(each.url, len(each.entries)) for _, each in zip(range(FEEDS_MAX), results, strict=False)]
        assert sorted(asked) == sorted((url, 30) for url in addresses.addresses())
        assert len(set(threading.enumerate()) - earlier) <= THREADS_MAX
        assert (resident() - before) / FEEDS_MAX < 25_000
    assert not set(threading.enumerate()) - earlier  # threads of earlier tests may end meanwhile
