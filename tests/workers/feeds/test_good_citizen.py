"""A watcher is a good citizen: it goes where a feed has moved, asks when the server wants, and two at a time."""

import threading

import pytest

from neardup.pairs.json_lines import Fields
from neardup_workers.outside.feeds.feed import Feed, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched, FetchError
from neardup_workers.outside.feeds.items import Item
from neardup_workers.outside.feeds.schedule import Turns
from neardup_workers.running.commands.feed.robots import Robots

URL, NEW = "http://feeds.example/news", "http://feeds.example/moved"
WATCHING = Watching(Fields(), 600.0, follow=True)


def world_of(*statuses, header=None, moved=""):
    """A world with these answers in order, and the addresses that are asked."""
    asked, left = [], list(statuses)

    def fetch(url, _):
        asked.append(url)
        return Fetched(left.pop(0), header or {}, b"", moved or url, moved)

    items = [Item("urn:a", None, "title", "http://a.example/a", "text")]
    return World(fetch, lambda *_: items, lambda: 1_700_000_000.0, lambda: 0.5, lambda _: True), asked


def test_a_feed_that_has_moved_for_good_is_asked_for_at_its_new_address():
    """Also after a restart; three failures there lead back to the address that was given."""
    world, first = world_of(200, moved=NEW)
    state = Feed(URL, WATCHING).poll(world).state
    assert (first, state.address) == ([URL], NEW)
    world, asked = world_of(200, 404, 404, 404, 200)
    again = Feed(URL, WATCHING, state)
    for _ in range(5):
        again.poll(world)
    assert asked == [NEW, NEW, NEW, NEW, URL]


@pytest.mark.parametrize(
    ("header", "expected"),
    [({}, 600.0), ({"cache-control": "max-age=1200"}, 1200.0), ({"cache-control": "no-cache, max-age=9000"}, 600.0),
     ({"cache-control": "max-age=900000"}, 4800.0), ({"cache-control": "max-age=60", "retry-after": "700"}, 700.0)],
)  # fmt: skip
def test_a_feed_is_not_asked_while_its_answer_is_fresh(header, expected):
    """``max-age`` of the answer, up to eight intervals; ``Retry-After`` counts too."""
    feed = Feed(URL, WATCHING)
    feed.poll(world_of(200, header=header)[0])
    assert feed.wait_seconds == expected


def test_two_requests_at_most_go_to_one_host_at_the_same_time():
    """Other hosts do not wait for it, and a host without requests is forgotten."""
    turns, inside, most, ends = Turns(), [0], [0], threading.Event()
    lock, waiting = threading.Lock(), threading.Barrier(3)

    def ask():
        with turns.of(URL):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            if not ends.is_set():
                waiting.wait(60)
                ends.wait(60)
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    waiting.wait(60)  # two are inside
    with turns.of("http://other.example/"):
        ends.set()
    for thread in threads:
        thread.join()
    assert most == [2]
    assert not turns._hosts


def test_a_site_says_which_pages_robots_leave_alone():
    """Its file is read once a day, and again an hour after an error, in which nothing is asked for."""
    now, asked = [0.0], []
    answers = [
        FetchError("fetch_time"), Fetched(503, {}, b"", ""),
        Fetched(200, {}, b"User-agent: *\nDisallow: /private\n\nUser-agent: neardup\nDisallow: /no\n", ""),
        Fetched(404, {}, b"", ""),
    ]  # fmt: skip

    def get(url, _):
        asked.append(url)
        answer = answers[len(asked) - 1]
        if isinstance(answer, FetchError):
            raise answer
        return answer

    robots = Robots(get, lambda: now[0])
    paths = ("/private/a", "/no/b", "/c")

    def allowed(hours):
        now[0] += 3600 * hours
        return [robots.allow(f"https://news.example{path}") for path in paths]

    assert [allowed(hours) for hours in (0, 0.5, 0.5, 1, 23, 1)] == [
        *[[False] * 3] * 3, *[[True, False, True]] * 2, [True] * 3
    ]  # fmt: skip
    assert asked == ["https://news.example/robots.txt"] * 4
