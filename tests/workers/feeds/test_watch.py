"""Watching feeds: what is new, what a request carries, when the next one is sent, and how the watching ends."""

import contextlib
import json
import os
import signal
import sqlite3
import threading

import pytest

from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup.stories.sources.names import source_of
from neardup_workers.outside.feeds.feed import Feed, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched, FetchError
from neardup_workers.outside.feeds.items import Item, Named
from neardup_workers.outside.feeds.lists import FeedLists
from neardup_workers.outside.feeds.schedule import WAIT_SECONDS_MAX, retry_after, wait_seconds
from neardup_workers.outside.feeds.state import FeedStates, open_states
from neardup_workers.outside.feeds.watch import watch
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.process.stop import Stop

URL = "http://feeds.example/news"
NOW = 1_700_000_000.0
TIME = "2023-11-14T22:13:20+00:00"
WATCHING = Watching(Fields(), 600.0, follow=True, items_max=3)


def item(name, text="text", time=TIME):
    return Item(f"urn:{name}", time, f"title {name}", f"http://a.example/{name}", text)


class Outside:
    """A world whose answers are a list: items, a status, or the reason of a failure."""

    def __init__(self, *answers, header=None):
        self.answers = list(answers)
        self.header = header or {}
        self.sent = []
        self.asked = []
        self.waits = []
        self.ended = threading.Event()
        self.world = World(self.fetch, self.parse, lambda: NOW, lambda: 0.5, self.wait)

    def fetch(self, url, header):
        self.sent.append(header)
        self.asked.append(url)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            raise FetchError(answer)
        if isinstance(answer, int):
            return Fetched(answer, self.header, b"", url)
        self.found = answer
        return Fetched(200, self.header, b"content %d" % len(self.asked), url)

    def parse(self, content, url, content_type):
        assert content == b"content %d" % len(self.asked)
        if self.found and isinstance(self.found[0], str | Named):
            return self.found[0] if isinstance(self.found[0], Named) else Reason(self.found[0])
        return self.found

    def wait(self, seconds):
        self.waits.append(seconds)
        return not self.answers


def polls(outside, watching=WATCHING):
    """The ids, or the reason, of each request until there are no more answers."""
    feed, results = Feed(URL, watching), []
    while outside.answers:
        polled = feed.poll(outside.world)
        results.append(polled.reason or [entry.found.id for entry in polled.entries])
        outside.waits.append(feed.wait_seconds)
    return results


def test_an_item_is_a_line_of_json_and_a_document():
    """Its fields have the names that the settings give."""
    polled = Feed(URL, WATCHING).poll(Outside([item("a")]).world)
    (entry,) = polled.entries
    assert json.loads(entry.raw) == {
        "id": "urn:a", "timestamp": TIME, "text": "text", "title": "title a", "url": "http://a.example/a", "feed": URL,
        "part": "content",
    }  # fmt: skip
    assert (entry.found.id, entry.found.text, entry.found.timestamp, entry.source) == ("urn:a", "text", NOW, URL)
    named = WATCHING._replace(fields=Fields(id="key", text="body", timestamp="at", timestamp_unit="ms"))
    (entry,) = Feed(URL, named).poll(Outside([item("a")]).world).entries
    assert json.loads(entry.raw).keys() == {"key", "body", "at", "title", "url", "feed", "part"}
    assert entry.found.timestamp == NOW


def test_an_item_without_an_address_has_the_host_of_its_feed_as_source():
    """The setting names the field; an item with a link has the host of the link."""
    outside = Outside([item("a")._replace(url=None), item("b")])
    watching = WATCHING._replace(fields=Fields(source="paper"))
    linked, bare = Feed("http://www.wire.example/feed", watching).poll(outside.world).entries
    assert (source_of(bare.found), json.loads(bare.raw)["paper"]) == ("wire.example", "wire.example")
    assert (source_of(linked.found), "paper" in json.loads(linked.raw)) == ("a.example", False)


def test_each_item_comes_once_from_the_oldest_on_and_again_when_it_changes():
    """A feed lists the newest first."""
    outside = Outside([item("b"), item("a")], [item("c"), item("b"), item("a")], [item("c"), item("b", "changed")], [])
    assert polls(outside) == [["urn:a", "urn:b"], ["urn:c"], ["urn:b"], []]


def test_the_remembered_items_are_bounded():
    """The items that were longest away are forgotten, and would come again; a feed of more items is remembered."""
    four = [item(name) for name in "dcba"]
    outside = Outside(four, four, four[:3], four)
    assert polls(outside) == [["urn:a", "urn:b", "urn:c", "urn:d"], [], [], ["urn:a"]]


def test_an_item_without_an_id_is_refused_once():
    """There is nothing that could name it."""
    outside = Outside([Item(None, None, "t", None, "x")], [Item(None, None, "t", None, "x")])
    feed = Feed(URL, WATCHING)
    assert [entry.found for entry in feed.poll(outside.world).entries] == ["no_id"]
    assert feed.poll(outside.world).entries == []


def test_a_time_far_ahead_of_the_clock_is_not_used():
    """One wrong date must not end the window of a stream; a time of long ago stays."""
    ahead = f"{2023 + 2}-01-01T00:00:00+00:00"
    outside = Outside([item("c", time="1600-01-01T00:00:00+00:00"), item("b"), item("a", time=ahead)])
    entries = Feed(URL, WATCHING).poll(outside.world).entries
    times = [entry.found.timestamp for entry in entries]
    assert times[:2] == [None, NOW]
    assert times[2] < -1e10
    assert [json.loads(entry.raw).get("undated") for entry in entries] == [ahead, None, None]


def test_the_text_of_an_item_is_that_of_its_page_if_pages_are_read():
    """Each page is asked for once; an item whose page has no text is refused with the reason."""
    pages = {"http://a.example/a": "the page", "http://a.example/b": Reason("fetch_status")}
    asked = []

    def page(url):
        asked.append(url)
        return pages[url]

    outside = Outside([item("b"), item("a")], [item("b"), item("a")])
    world = outside.world._replace(page=page)
    feed = Feed(URL, WATCHING)
    one, other = feed.poll(world).entries
    assert (one.found.text, json.loads(one.raw)["text"], one.found.id) == ("the page", "the page", "urn:a")
    assert other.found == "fetch_status"
    assert feed.poll(world).entries == []
    assert asked == ["http://a.example/a", "http://a.example/b"]


def test_a_request_carries_the_validators_of_the_last_feed_that_was_read():
    """A feed that has not changed answers 304; validators of an answer that was no feed are not kept."""
    outside = Outside([item("a")], 304, ["feed_format"], 304, header={"etag": '"x"', "last-modified": "yesterday"})
    feed = Feed(URL, WATCHING)
    assert len(feed.poll(outside.world).entries) == 1
    outside.header = {"etag": '"y"'}
    assert feed.poll(outside.world)[:4] == (URL, [], "", None)
    assert feed.poll(outside.world).reason == "feed_format"
    feed.poll(outside.world)
    validators = [{name: value for name, value in sent.items() if name.startswith("If")} for sent in outside.sent]
    assert validators == [{}, *[{"If-None-Match": '"x"', "If-Modified-Since": "yesterday"}] * 3]


def test_a_validator_that_is_too_long_is_not_sent_back():
    """The server could make every request large."""
    outside = Outside([item("a")], 304, header={"etag": "x" * 5_000})
    polls(outside)
    assert "If-None-Match" not in outside.sent[1]


def test_failures_double_the_wait_and_a_success_ends_it():
    """No wait is longer than a day, and each varies."""
    outside = Outside("fetch_time", 500, ["feed_damaged"], 304, "fetch_time")
    assert polls(outside) == ["fetch_time", "fetch_status", "feed_damaged", [], "fetch_time"]
    assert outside.waits == [900.0, 1800.0, 3600.0, 600.0, 900.0]
    assert {wait_seconds(600, n, 0, random) for n in (0, 3) for random in (0.0, 0.9)} == {540.0, 648.0, 2400.0, 4560.0}
    assert wait_seconds(600, 10_000, 0, 0.99) <= WAIT_SECONDS_MAX


def test_the_server_may_ask_for_a_longer_wait():
    """Retry-After is a number of seconds or a date, and a day at most."""
    outside = Outside(503, 503, 304, header={"retry-after": "7000"})
    polls(outside)
    assert outside.waits == [7000.0, 7000.0, 7000.0]
    assert retry_after("99999999999999999999", NOW) == WAIT_SECONDS_MAX
    assert retry_after("Tue, 14 Nov 2023 22:14:20 GMT", NOW) == 60.0
    for value in ("", "-5", "soon", "Tue, 14 Nov 0001 22:14:20 GMT", "1e400", "\u0663\u0663", "Tue, 99 Nov 2023"):
        assert retry_after(value, NOW) in (0.0, 33.0)


def test_a_feed_that_is_gone_is_not_asked_again():
    """Status 410 says for good; other errors may pass."""
    feed = Feed(URL, WATCHING)
    assert feed.poll(Outside(404).world).reason == "fetch_status"
    assert feed.wait_seconds is not None
    assert feed.poll(Outside(410).world).reason == "feed_gone"
    assert feed.wait_seconds is None


def test_a_page_that_names_its_feed_stands_for_it():
    """The feed is asked for from then on, the items follow the given address; a page that leads to no feed is none."""
    named = Named("http://a.example/feed")
    outside = Outside([named], [item("a")._replace(id="7")], 304, header={"etag": '"x"'})
    feed = Feed(URL, WATCHING)
    assert [entry.found.id for entry in feed.poll(outside.world).entries] == [f"{URL}#7"]
    assert feed.poll(outside.world).reason == ""
    assert outside.asked == [URL, named.address, named.address]
    outside = Outside([named], [named], [named], 500)
    feed = Feed(URL, WATCHING)
    assert [feed.poll(outside.world).reason for _ in range(2)] == ["feed_format", "fetch_status"]
    assert outside.asked == [URL, named.address] * 2
    outside = Outside([named], [item("a")], [named], [named], [item("b")], header={"etag": '"x"'})
    feed = Feed(URL, WATCHING)
    assert [feed.poll(outside.world).reason for _ in range(3)] == ["", "feed_format", ""]
    assert outside.asked == [URL, named.address, named.address, URL, named.address]
    assert ["If-None-Match" in sent for sent in outside.sent] == [False, False, True, False, False]


def test_a_new_time_of_arrival_makes_no_item_new():
    """The date of the item is in ``published``."""
    outside = Outside([item("a")], [item("a")], [item("a", "changed")])
    feed = Feed(URL, WATCHING._replace(by_arrival=True))
    world = outside.world._replace(now=lambda: NOW)
    first = feed.poll(world).entries
    later = world._replace(now=lambda: NOW + 60)
    assert [entry.found.timestamp for entry in first] == [NOW]
    assert feed.poll(later).entries == []
    assert [entry.found.timestamp for entry in feed.poll(later).entries] == [NOW + 60]


def test_the_condition_of_a_feed_is_that_of_its_dates_and_failures():
    """The median gap, whatever the order; dates ahead and items without a date do not count; a failure keeps both, and
    says what the server answered."""
    times = ("2023-11-14T22:00:00+00:00", "2023-11-14T19:00:00+00:00", "2023-11-14T20:00:00+00:00")
    dated = [item(str(n), time=time) for n, time in enumerate((*times, None, "2024-01-01T00:00:00+00:00"))]
    outside = Outside(dated, 500, "fetch_time", 304, ["feed_format"], [item("a")])
    feed = Feed(URL, WATCHING)
    found = [feed.poll(outside.world._replace(now=lambda n=n: NOW + 60 * n)).condition for n in range(6)]
    read, gap, minutes = NOW - 800, 1.5 * 3600, [NOW + 60 * n for n in range(6)]
    assert found == [
        (0, read, gap, minutes[0], minutes[0], minutes[0], 200, "", URL, 600.0),
        (1, read, gap, minutes[1], minutes[0], minutes[0], 500, "fetch_status", URL, 900.0),
        (2, read, gap, minutes[2], minutes[0], minutes[0], None, "fetch_time", URL, 1800.0),
        (0, read, gap, minutes[3], minutes[3], minutes[0], 304, "", URL, 600.0),
        (1, read, gap, minutes[4], minutes[3], minutes[0], 200, "feed_format", URL, 900.0),
        (0, NOW, None, minutes[5], minutes[5], minutes[5], 200, "", URL, 600.0),
    ]


def test_a_restart_goes_on_where_the_state_ends(tmp_path):
    """With the validators and the items that were saved; the time between answer and save counts as not written."""
    path = str(tmp_path / "state")
    outside = Outside([item("b"), item("a")], 304, [item("c"), item("b"), item("a")], header={"etag": '"x"'})
    with open_states(path) as states:
        polled = Feed(URL, WATCHING, states.load(URL)).poll(outside.world)
        assert states.load(URL) is None
        states.save(URL, polled.condition, polled.state)
    with open_states(path) as states:
        assert states.condition(URL) == polled.condition
        feed = Feed(URL, WATCHING, states.load(URL), states.condition(URL))
        assert feed.poll(outside.world).entries == []
        assert outside.sent[-1]["If-None-Match"] == '"x"'
        assert [entry.found.id for entry in feed.poll(outside.world).entries] == ["urn:c"]


@pytest.mark.long
def test_a_state_is_for_one_process_and_for_nothing_else(tmp_path):
    """Another database, a file that is none, and one that is open are refused in a sentence."""
    path, other = str(tmp_path / "state"), tmp_path / "other"
    with open_states(path), pytest.raises(Failure, match="another process has it open"):
        open_states(path).__enter__()
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(Failure, match="another program"):
        open_states(str(other)).__enter__()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Failure, match="cannot write the state"), open_states(str(tmp_path / "no" / "folder")):
        pass
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(Failure, match="cannot use the state"), open_states(str(tmp_path / "text")):
        pass


OPML = """<?xml version="1.0"?><opml version="2.0"><head><title>Mine</title></head><body>
<outline text="News"><outline type="rss" text="A" xmlUrl="http://a.example/feed"/>
<outline type="rss" xmlUrl="http://b.example/feed"/></outline><outline text="no feed"/></body></opml>"""


def test_lists_are_opml_or_an_address_a_line(tmp_path):
    """Each address once, in order. What is no list is refused with its name; later it stays as it was."""
    (tmp_path / "mine.opml").write_text(OPML)
    (tmp_path / "mine.txt").write_text("# news\n\nhttp://b.example/feed\n HTTPS://c.example/feed \n", "utf-8-sig")
    lists = FeedLists([str(tmp_path / "mine.opml"), URL, str(tmp_path / "mine.txt")])
    known = ["http://a.example/feed", "http://b.example/feed", URL, "HTTPS://c.example/feed"]
    assert lists.addresses() == known
    (tmp_path / "mine.txt").write_text("http://d.example/")
    assert (lists.refresh(), lists.addresses()) == ([], [*known[:3], "http://d.example/"])
    (tmp_path / "mine.opml").write_text(OPML[:-30])
    assert lists.refresh() == [str(tmp_path / "mine.opml")]
    assert lists.addresses()[:2] == known[:2]
    for content, words in (("<opml><body>", "is no OPML"), ("file:///etc/passwd", "an address begins with")):
        (tmp_path / "bad").write_text(content)
        with pytest.raises(Failure, match=words):
            FeedLists([str(tmp_path / "bad")])
    with pytest.raises(Failure, match="cannot read the list of feeds"):
        FeedLists([str(tmp_path / "missing")])


def test_a_feed_that_is_added_to_a_list_is_watched(tmp_path):
    """The lists are read again between the requests. What is listed no longer is said at once."""
    path, again = tmp_path / "feeds.txt", threading.Event()
    path.write_text("http://a.example/")
    ended = threading.Event()

    def fetch(url, header):
        return Fetched(200, {}, url.encode(), url)

    def parse(content, url, content_type):
        return [item(content.decode())]

    def wait(seconds):  # of a feed until the end, of the lists until the test goes on
        if seconds > 30:
            return ended.wait()
        again.wait()
        again.clear()
        return ended.is_set()

    world = Outside().world._replace(fetch=fetch, parse=parse, wait=wait)
    with contextlib.closing(watch(FeedLists([str(path)]), WATCHING, world, Stop(), ended, FeedStates())) as results:
        try:
            assert next(results).url == "http://a.example/"
            path.write_text("http://b.example/\n")
            again.set()
            unlisted, polled = next(results), next(results)
            assert (unlisted.url, unlisted.condition, polled.url) == ("http://a.example/", None, "http://b.example/")
            path.unlink()
            again.set()
            polled = next(results)
            assert (polled.url, polled.reason) == (str(path), "feed_list")
        finally:
            ended.set()
            again.set()


def test_without_follow_each_feed_is_asked_once(web):
    """The iterator ends when all feeds have answered; one that is named twice is asked once."""
    outside = Outside([item("a")], [item("a")])
    ended = threading.Event()
    results = list(
        watch(FeedLists([URL, URL]), WATCHING._replace(follow=False), outside.world, Stop(), ended, FeedStates())
    )
    assert [[entry.found.id for entry in polled.entries] for polled in results] == [["urn:a"]]
    assert ended.is_set()
    assert len(outside.answers) == 1


def test_feeds_are_watched_until_the_caller_ends_it():
    """Closing the iterator ends the waits and the threads."""
    outside = Outside(*[[item(str(n))] for n in range(4)], *[304] * 4)
    ended = threading.Event()
    world = outside.world._replace(wait=ended.wait)
    before = set(threading.enumerate())
    results = watch(FeedLists([URL]), WATCHING, world, Stop(), ended, FeedStates())
    assert next(results).entries[0].found.id == "urn:0"
    results.close()
    assert set(threading.enumerate()) <= before
    assert len(outside.answers) == 7


def test_an_error_of_the_program_ends_the_watching():
    """It is raised to the caller, not lost in a thread."""
    outside = Outside()
    ended = threading.Event()
    with pytest.raises(IndexError):
        list(watch(FeedLists([URL]), WATCHING, outside.world, Stop(), ended, FeedStates()))


def test_a_signal_ends_the_wait_for_results():
    """Also while a server does not answer."""
    ended, asked = threading.Event(), threading.Event()

    def fetch(url, header):
        asked.set()
        ended.wait()
        raise FetchError("fetch_time")

    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop.install()
    try:
        threading.Thread(target=lambda: (asked.wait(), os.kill(os.getpid(), signal.SIGTERM))).start()
        world = Outside().world._replace(fetch=fetch, wait=ended.wait)
        assert list(watch(FeedLists([URL]), WATCHING, world, stop, ended, FeedStates())) == []
        assert stop.signal == signal.SIGTERM
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
