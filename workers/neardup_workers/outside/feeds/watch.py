"""Feeds -> their results, once or again and again.

A feed that is due gets a thread (``schedule``), so a slow server delays its own feed, and others once all threads wait.
The thread asks for the feed, reads it, and gives the caller the items that are new or have changed since the last time.
What a hub pushes is read by threads of its own, and gives the caller a result, too.

Where lists of feeds are files, a thread looks at them again and again. A feed that is listed no longer is known to the
caller at once, and ends before its next request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from neardup_workers.outside.feeds import schedule
from neardup_workers.outside.feeds.feed import Feed, FeedPoll, Watching, World
from neardup_workers.outside.feeds.lists import FeedLists
from neardup_workers.outside.feeds.state import FeedStates
from neardup_workers.outside.process.stop import Stop

# Lists of feeds are read again after so many seconds at most.
_LISTS_SECONDS = 30.0


class _Ended(NamedTuple):
    """A feed is asked no more."""

    url: str


class _Listed(NamedTuple):
    """It is time to read the lists again."""


_Result = FeedPoll | Exception | _Ended | _Listed


def watch(
    lists: FeedLists, watching: Watching, world: World, stop: Stop, ended: threading.Event, states: FeedStates
) -> Iterator[FeedPoll]:
    """Yield the results of all feeds as they come, each feed once, or until a signal if the feeds are followed.

    A feed that is listed no longer has a last result, without a condition. ``ended`` is set at the end, also if the
    caller closes the iterator: then no thread sends another request. Raises ``Failure`` if there are too many feeds.
    """
    results = schedule.Results[_Result](ended)
    feeds, wanted = dict[str, Feed](), set[str]()  # which is replaced, never changed: threads look into it
    subscribe = (lambda *offered: None) if world.hubs is None else world.hubs.offered

    def start_feeds() -> Iterator[FeedPoll]:
        nonlocal wanted
        addresses, before = lists.addresses(), wanted
        wanted = set(addresses)
        for url in (url for url in addresses if url not in before and url not in feeds):
            begins = schedule.start_seconds(len(addresses), world.random())
            feed = Feed(url, watching, states.load(url), states.condition(url), begins)
            if (seconds := feed.rest_seconds(world.now())) is not None:  # else it is gone for good
                feeds[url] = feed
                asking.add(url, seconds)
                subscribe(url, feed.offer, seconds)
        return (FeedPoll(url, ()) for url in sorted(before - wanted))

    asking = _asking(feeds, world, lambda url: not ended.is_set() and url in wanted, results.put)
    arriving, looking = _arriving(feeds, world, ended, results.put), None
    try:
        start_feeds()
        if watching.follow and lists.has_files:
            looking = _start_looking(min(watching.interval_seconds, _LISTS_SECONDS), world, results.put)
        while (feeds or looking) and stop.read(results.read, 1):
            result = results.take()
            if isinstance(result, Exception):
                raise result
            if isinstance(result, FeedPoll):
                yield from [result] if result.url in wanted else []
            elif isinstance(result, _Ended):
                del feeds[result.url]
                subscribe(result.url, None)
            else:
                yield from (FeedPoll(name, (), "feed_list") for name in lists.refresh())
                yield from start_feeds()
    finally:
        results.end()
        for each in (asking, arriving):
            each.close(waits=not stop.signal)  # after a signal, no request is waited for
        if not stop.signal:
            if looking is not None:
                looking.join()
            results.close()


def _asking(
    feeds: Mapping[str, Feed], world: World, is_wanted: Callable[[str], bool], put: Callable[[_Result], None]
) -> schedule.Asking:
    """Return what asks feeds and gives their results; the last one of a feed says that it is the last, or is an
    exception that the caller raises."""

    def ask(url: str) -> float | None:
        last: Exception | _Ended = _Ended(url)
        try:
            if is_wanted(url):
                with feeds[url].lock:  # a state follows the one before it
                    put(feeds[url].poll(world))
                if (seconds := feeds[url].wait_seconds) is not None:
                    return seconds
        except Exception as error:
            last = error
        put(last)
        return None

    return schedule.Asking(ask)


def _arriving(
    feeds: Mapping[str, Feed], world: World, ended: threading.Event, put: Callable[[_Result], None]
) -> schedule.Asking:
    """Return what gives the results of feeds that hubs push, as they come."""

    def arrive(url: str) -> None:
        if world.hubs is None or (feed := feeds.get(url)) is None:
            return
        try:
            with feed.lock:
                for pushed in world.hubs.take(url):
                    if not ended.is_set():
                        put(feed.push(pushed, world))
        except Exception as error:
            put(error)

    arriving = schedule.Asking(arrive, schedule.ARRIVING_MAX)
    if world.hubs is not None:
        world.hubs.listen(lambda url: arriving.add(url, 0.0))
    return arriving


def _start_looking(seconds: float, world: World, put: Callable[[_Result], None]) -> threading.Thread:
    """Start a thread that says again and again that it is time to read the lists."""

    def look() -> None:
        while not world.wait(seconds):
            put(_Listed())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    return thread
