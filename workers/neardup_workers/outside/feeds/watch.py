"""Feeds -> their new items, once or again and again.

A feed that is due gets a thread (``schedule``), so a slow server delays its own feed, and others once all threads wait.
The thread asks for the feed, reads it, and gives the caller the items that are new or have changed since the last time.
A feed that has not changed costs an answer without a body: requests carry the ETag and the time of the last answer.

State of a feed: ``etag`` and ``modified`` of the last feed that was read, the number of failures in a row, and the last
``items_max`` items by id with a hash of each (all items of the last feed, if it has more). One thread asks it.
A result carries what the caller saves once it has taken the items (``state``), so that a restart goes on from there.

Where lists of feeds are files, a thread looks at them again and again. A feed that is listed no longer is known to the
caller at once, and ends before its next request.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import mmh3
import orjson

from neardup.documents.dates import AHEAD_SECONDS
from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields, decode_document
from neardup.stories.sources.names import host_of, source_of
from neardup_workers.outside.feeds import schedule
from neardup_workers.outside.feeds.condition import Condition, listed
from neardup_workers.outside.feeds.fetch import Fetched, FetchError
from neardup_workers.outside.feeds.items import Item, Named, without_query
from neardup_workers.outside.feeds.lists import FeedLists
from neardup_workers.outside.feeds.state import FeedState, FeedStates
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.web.extraction import Extracted

# Items of a feed that are remembered, so that each comes once; a feed of news shows some hundred at a time.
ITEMS_MAX = 10_000
# The field of an item that has the date that its feed gives, where it is none, before 1990 or ahead of the clock.
UNDATED = "undated"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S")
_ACCEPT = (
    "application/atom+xml, application/rss+xml, application/rdf+xml, application/feed+json, application/xml;q=0.9, "
    "*/*;q=0.1"
)
# Lists of feeds are read again after so many seconds at most.
_LISTS_SECONDS = 30.0
# Characters of a validator that is sent back to the server.
_VALIDATOR_CHARACTERS_MAX = 1_000


class World(NamedTuple):
    """What is outside of this module.

    Attributes:
        fetch: address and header fields -> the answer; raises ``FetchError``.
        parse: content, address and content type -> items, the feed that a page names, or why there are none.
        now: the time in seconds since the epoch.
        random: a number in [0, 1).
        wait: waits some seconds; whether the watching ended meanwhile.
        page: the address of an item -> the text of its page, or why it has none; ``None`` if texts come from feeds.
    """

    fetch: Callable[[str, Mapping[str, str]], Fetched]
    parse: Callable[[bytes, str, str], list[Item] | Named | Reason]
    now: Callable[[], float]
    random: Callable[[], float]
    wait: Callable[[float], bool]
    page: Callable[[str], Extracted] | None = None


class Watching(NamedTuple):
    """How feeds are watched: the names of fields, the interval, and the items that are remembered for each feed.

    ``name`` makes the id of a document of the id of an item. With ``by_arrival`` the time of a document is that of the
    answer, and the date of an item is the field ``published``.
    """

    fields: Fields
    interval_seconds: float
    follow: bool
    name: Callable[[str], str] = str
    by_arrival: bool = False
    items_max: int = ITEMS_MAX


class FeedPoll(NamedTuple):
    """The result of one request for a feed: its new items from the oldest on, or the reason why there are none; and
    its state after these, ``None`` if that is as before, and its condition, ``None`` if it is watched no longer or is a
    list."""

    url: str
    entries: Sequence[Entry]
    reason: str = ""
    state: FeedState | None = None
    condition: Condition | None = None


class Feed:
    """A feed and its state, see the module."""

    def __init__(
        self, url: str, watching: Watching, state: FeedState | None = None, condition: Condition | None = None
    ) -> None:
        self.url = url
        self._watching = watching
        self._address, self._etag, self._modified, seen = state or FeedState(url, "", "", {})
        self._condition = condition or Condition()
        self._later_seconds = self.begins_seconds = 0.0
        self._read = b""  # hash of the last answer that was read
        self._seen = OrderedDict(seen)

    def poll(self, world: World) -> FeedPoll:
        """Ask for the feed once."""
        before, self._later_seconds = self._condition, 0.0
        self._condition = before._replace(status=None, reason="")
        items = self._items(world)
        if isinstance(items, Reason):
            # What an answer that was no feed lists, and where it came from, is nothing to remember.
            if before.failures > 1:
                self._move(self.url)  # a feed that has moved may be back where it was
            self._condition = before._replace(
                failures=before.failures + 1, status=self._condition.status, reason=str(items)
            )
            return self._polled((), world, items)
        new = [self._with_page(self._arrived(entry, world.now()), world) for entry in items if self._is_new(entry)]
        kept = sum(1 if isinstance(entry.found, Reason) else 1 + ("?" in entry.found.id) for entry in items)
        while len(self._seen) > max(self._watching.items_max, kept):
            self._seen.popitem(last=False)
        now = world.now()
        self._condition = self._condition._replace(
            failures=0, succeeded=now, brought=now if new else self._condition.brought
        )
        read = FeedState(self._address, self._etag, self._modified, dict(self._seen)) if items else None
        return self._polled(new, world, state=read)

    def _polled(
        self, entries: Sequence[Entry], world: World, reason: str = "", state: FeedState | None = None
    ) -> FeedPoll:
        wait = self._wait_seconds(world.random())
        self._condition = self._condition._replace(asked=world.now(), wait_seconds=wait)
        return FeedPoll(self.url, entries, reason, state, self._condition)

    @property
    def wait_seconds(self) -> float | None:
        """The seconds until the next request; ``None`` if there is none."""
        return self._condition.wait_seconds

    def rest_seconds(self, now: float) -> float | None:
        """The seconds until the first request of this process, ``None`` if there is none.

        A feed that was read is asked at once, many after ``begins_seconds``. One that failed, or whose server wants a
        longer wait, is asked when that wait is over, as far as its condition is remembered; one that is gone never.
        """
        condition, interval = self._condition, self._watching.interval_seconds
        if not self._watching.follow or condition.asked is None:
            return self.begins_seconds
        if condition.reason == "feed_gone":
            return None
        wait = condition.wait_seconds or 0.0
        if not condition.failures and wait <= schedule.longest_seconds(interval):
            return self.begins_seconds
        return min(max(0.0, condition.asked + wait - now), wait)

    def _wait_seconds(self, random: float) -> float | None:
        """Return the seconds until the next request; ``None`` if there is none."""
        if self._condition.reason == "feed_gone" or not self._watching.follow:
            return None
        failures, later = self._condition.failures, self._later_seconds
        return schedule.wait_seconds(self._watching.interval_seconds, failures, later, random)

    def _items(self, world: World) -> list[Entry] | Reason:
        """Return the items of the feed from the oldest on, none if it has not changed; or the reason of a failure.

        A page instead of a feed names its feed. That one is asked for from then on, and items still follow the given
        address.
        """
        answer = self._answer(world)
        if isinstance(answer, Named) and self._address == self.url:
            self._move(answer.address)
            answer = self._answer(world)
            if isinstance(answer, Reason | Named):
                self._move(self.url)
        elif isinstance(answer, Named):
            self._move(self.url)  # the page may name another feed by now
        return Reason("feed_format") if isinstance(answer, Named) else answer

    def _move(self, address: str) -> None:
        """Ask another address from now on; validators belong to one address."""
        self._address, self._etag, self._modified = address, "", ""

    def _answer(self, world: World) -> list[Entry] | Named | Reason:
        header = {"Accept": _ACCEPT}
        if self._etag:
            header["If-None-Match"] = self._etag
        if self._modified:
            header["If-Modified-Since"] = self._modified
        try:
            answer = world.fetch(self._address, header)
        except FetchError as error:
            return Reason(error.reason)
        self._condition = self._condition._replace(status=answer.status)
        interval = self._watching.interval_seconds
        self._later_seconds = schedule.later_seconds(answer.header, answer.body, interval, world.now())
        if answer.status == 304:
            return []
        if answer.status != 200:
            return Reason("feed_gone" if answer.status == 410 else "fetch_status")
        kind = answer.header.get("content-type", "")
        read = mmh3.hash_bytes(f"{answer.url}\n{kind}\n".encode(errors="replace") + answer.body)
        # Many servers have no validators, and to read a feed takes longer than to ask for it.
        items = [] if read == self._read else world.parse(answer.body, answer.url, kind)
        if isinstance(items, Reason | Named):
            return items
        if read != self._read:
            self._condition = listed(self._condition, items, world.now())._replace(address=answer.url)
        self._read = read
        self._address = answer.moved or self._address  # for good: later requests go there at once
        self._etag, self._modified = (
            value if len(value) <= _VALIDATOR_CHARACTERS_MAX else ""
            for value in (answer.header.get("etag", ""), answer.header.get("last-modified", ""))
        )
        return [self._entry(number, item, world.now()) for number, item in reversed(list(enumerate(items, 1)))]

    def _entry(self, number: int, item: Item, now: float) -> Entry:
        """An item as a line of JSON."""
        fields, time, undated = self._watching.fields, item.time, item.undated or None
        if time is not None and datetime.fromisoformat(time).timestamp() > now + AHEAD_SECONDS:
            undated, time = time, None
        # An id that is no URI is unique in its feed only. It follows the given address, because redirects change.
        values: dict[str, str | float | None] = {
            "title": item.title,
            "url": item.url,
            "feed": self.url,
            fields.id: item.id and self._watching.name(item.id if _URI.match(item.id) else f"{self.url}#{item.id}"),
            fields.timestamp: time,
            fields.text: item.text,
            "part": item.part,
            UNDATED: undated,
        }
        if source_of(Document(str(values[fields.id] or ""), url=item.url)) is None:
            values[fields.source or "source"] = host_of(self.url)
        raw = orjson.dumps({name: value for name, value in values.items() if value is not None})
        return Entry(self.url, number, raw, decode_document(raw, fields))

    def _arrived(self, entry: Entry, now: float) -> Entry:
        """Return an item with the time that it has for those who read it."""
        if not self._watching.by_arrival:
            return entry
        fields = self._watching.fields
        value = orjson.loads(entry.raw or b"{}")
        date = value.pop(fields.timestamp, None)
        raw = orjson.dumps({**value, **({} if date is None else {"published": date}), fields.timestamp: now})
        return entry._replace(raw=raw, found=decode_document(raw, fields))

    def _with_page(self, entry: Entry, world: World) -> Entry:
        """Return an item with the text of its page, or with the reason why it has none. It is asked for once."""
        value = orjson.loads(entry.raw or b"{}")
        if world.page is None or isinstance(entry.found, Reason) or "url" not in value:
            return entry
        text = world.page(value["url"])
        if isinstance(text, Reason):
            return entry._replace(found=text)
        raw = orjson.dumps({**value, self._watching.fields.text: text, "part": "page"})
        return entry._replace(raw=raw, found=decode_document(raw, self._watching.fields))

    def _is_new(self, entry: Entry) -> bool:
        """Whether an item is new or its text has changed; remembers it.

        Dates and links may change at each fetch. So an address that differs from one that is remembered only in
        its query, with the same text, is no new item.
        """
        found = entry.found
        if isinstance(found, Reason):
            fields, value = self._watching.fields, orjson.loads(entry.raw or b"{}")
            links = (without_query(str(value.get(name, ""))) for name in (fields.id, "url"))
            digest = mmh3.hash_bytes("\n".join([*links, str(value.get("title")), str(value.get(fields.text)), found]))
            key = digest.hex()
        else:
            digest, key = mmh3.hash_bytes(found.text), found.id
        path = without_query(key)
        known = self._seen.get(key)
        is_new = known != digest and not (known is None and f"{path}?{digest.hex()}" in self._seen)
        for each in (key, f"{path}?{digest.hex()}") if path != key else (key,):
            self._seen[each] = digest
            self._seen.move_to_end(each)
        return is_new


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

    def ask(url: str) -> float | None:
        """Ask a feed; its last result says that it is the last, or is an exception that the caller raises."""
        last: Exception | _Ended = _Ended(url)
        try:
            if not ended.is_set() and url in wanted:
                results.put(feeds[url].poll(world))
                if (seconds := feeds[url].wait_seconds) is not None:
                    return seconds
        except Exception as error:
            last = error
        results.put(last)
        return None

    def start_feeds() -> Iterator[FeedPoll]:
        nonlocal wanted
        addresses, before = lists.addresses(), wanted
        wanted = set(addresses)
        for url in addresses:
            if url not in before and url not in feeds:
                feed = Feed(url, watching, states.load(url), states.condition(url))
                feed.begins_seconds = schedule.start_seconds(len(addresses), world.random())
                if (seconds := feed.rest_seconds(world.now())) is not None:  # else it is gone for good
                    feeds[url] = feed
                    asking.add(url, seconds)
        return (FeedPoll(url, ()) for url in sorted(before - wanted))

    asking, looking = schedule.Asking(ask), None
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
            else:
                yield from (FeedPoll(name, (), "feed_list") for name in lists.refresh())
                yield from start_feeds()
    finally:
        results.end()
        asking.close(waits=not stop.signal)  # after a signal, no request is waited for
        if not stop.signal:
            if looking is not None:
                looking.join()
            results.close()


def _start_looking(seconds: float, world: World, put: Callable[[_Result], None]) -> threading.Thread:
    """Start a thread that says again and again that it is time to read the lists."""

    def look() -> None:
        while not world.wait(seconds):
            put(_Listed())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    return thread
