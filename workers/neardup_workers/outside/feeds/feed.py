"""A feed -> its new items, at each request and whatever a hub pushes.

A feed that has not changed costs an answer without a body: requests carry the ETag and the time of the last answer.

State of a feed: ``etag`` and ``modified`` of the last feed that was read, the number of failures in a row, and the last
``items_max`` items by id with a hash of each (all items of the last feed, if it has more). One thread at a time asks
it, or gives it what was pushed.
A result carries what the caller saves once it has taken the items (``state``), so that a restart goes on from there.

A hub that pushed something new is believed, while its subscription is live: each request that finds nothing else
doubles the time to the next one, up to a day. One that finds what was not pushed ends that.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
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
from neardup_workers.outside.feeds.state import FeedState
from neardup_workers.outside.feeds.websub.discovery import offer_of
from neardup_workers.outside.feeds.websub.subscriber import Subscriber
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
# Characters of a validator that is sent back to the server.
_VALIDATOR_CHARACTERS_MAX = 1_000


class World(NamedTuple):
    """What is outside of this module."""

    fetch: Callable[[str, Mapping[str, str]], Fetched]  # address and header fields -> the answer; raises ``FetchError``
    # Content, address and content type -> items, the feed that a page names, or why there are none.
    parse: Callable[[bytes, str, str], list[Item] | Named | Reason]
    now: Callable[[], float]  # the time in seconds since the epoch
    random: Callable[[], float]  # a number in [0, 1)
    wait: Callable[[float], bool]  # waits some seconds; whether the watching ended meanwhile
    # The address of an item -> the text of its page, or why it has none; ``None`` if texts come from feeds.
    page: Callable[[str], Extracted] | None = None
    hubs: Subscriber | None = None  # subscribes to feeds; ``None`` if they are only asked


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
        self,
        url: str,
        watching: Watching,
        state: FeedState | None = None,
        condition: Condition | None = None,
        begins_seconds: float = 0.0,
    ) -> None:
        self.url, self.lock = url, threading.Lock()
        self._watching = watching
        self._address, self._etag, self._modified, seen, self.offer = state or FeedState(url, "", "", {})
        self._condition = condition or Condition()
        self._later_seconds, self._begins_seconds = 0.0, begins_seconds
        self._read = b""  # hash of the last answer that was read
        self._seen, self._listed = OrderedDict(seen), 0  # what is remembered of the last feed that was read
        # Requests in a row that brought nothing new since a hub last did; 0 if it has to show that it pushes.
        self._calm = 0

    def poll(self, world: World) -> FeedPoll:
        """Ask for the feed once, unless a hub pushes it and it was asked lately."""
        if self._rests(world):
            return FeedPoll(self.url, (), condition=self._condition)
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
        self._listed = sum(1 if isinstance(entry.found, Reason) else 1 + ("?" in entry.found.id) for entry in items)
        new = self._new(items, world, max(self._watching.items_max, self._listed))
        self._condition = self._condition._replace(failures=0)
        if self._calm and world.hubs is not None:
            self._calm = 0 if new else self._calm + 1
            if new:
                world.hubs.missed(self.url)
        return self._polled(new, world, state=self._state() if items else None)

    def push(self, pushed: Fetched, world: World) -> FeedPoll:
        """Take what a hub has pushed: the feed, or what is new in it. If it cannot be read, the feed has not failed.

        More items are remembered than for a request, whose answer lists those that are still there.
        """
        kind = pushed.header.get("content-type", "")
        items = world.parse(pushed.body, self._condition.address or self._address, kind)
        if isinstance(items, Reason | Named):
            reason = "feed_format" if isinstance(items, Named) else str(items)
            return FeedPoll(self.url, (), reason, condition=self._condition)
        new = self._new(self._entries(items, world), world, self._listed + self._watching.items_max)
        if new:
            self._calm = max(1, self._calm)
        return FeedPoll(self.url, new, state=self._state() if new else None, condition=self._condition)

    def _new(self, items: Sequence[Entry], world: World, seen_max: int) -> list[Entry]:
        """Return those of items that are new, as they are written."""
        new = [self._with_page(self._arrived(entry, world.now()), world) for entry in items if self._is_new(entry)]
        while len(self._seen) > seen_max:
            self._seen.popitem(last=False)
        now = world.now()
        self._condition = self._condition._replace(succeeded=now, brought=now if new else self._condition.brought)
        return new

    def _state(self) -> FeedState:
        return FeedState(self._address, self._etag, self._modified, dict(self._seen), self.offer)

    def _rests(self, world: World) -> bool:
        """Whether a hub that has shown that it pushes makes a request needless for now."""
        asked = self._condition.asked
        if world.hubs is None or asked is None or not self._calm or self._condition.failures:
            return False
        seconds = schedule.rest_seconds(self._watching.interval_seconds, self._calm)
        return world.now() < asked + seconds and world.hubs.is_live(self.url)

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

        A feed that was read is asked after its ``begins_seconds``. One that failed, or whose server wants a longer
        wait, is asked when that wait is over, as far as its condition is remembered; one that is gone never.
        """
        condition, interval = self._condition, self._watching.interval_seconds
        if not self._watching.follow or condition.asked is None:
            return self._begins_seconds
        if condition.reason == "feed_gone":
            return None
        wait = condition.wait_seconds or 0.0
        if not condition.failures and wait <= schedule.longest_seconds(interval):
            return self._begins_seconds
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
            if world.hubs is not None:
                self.offer = offer_of(answer)
                world.hubs.offered(self.url, self.offer)
        self._read = read
        self._address = answer.moved or self._address  # for good: later requests go there at once
        self._etag, self._modified = (
            value if len(value) <= _VALIDATOR_CHARACTERS_MAX else ""
            for value in (answer.header.get("etag", ""), answer.header.get("last-modified", ""))
        )
        return self._entries(items, world)

    def _entries(self, items: Sequence[Item], world: World) -> list[Entry]:
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
