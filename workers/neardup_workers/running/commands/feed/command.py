"""``neardup feed``: the items of feeds as documents, to standard output, a service or the topic of documents."""

from __future__ import annotations

import math
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from email.message import Message
from importlib.metadata import version
from typing import NamedTuple
from urllib.parse import urlencode

import orjson

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.signing import Signer
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.feeds.addresses import is_public
from neardup_workers.outside.feeds.condition import Condition, meaning_of
from neardup_workers.outside.feeds.feed import UNDATED, FeedPoll, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched, FetchError, FetchLimits, fetch
from neardup_workers.outside.feeds.lists import FeedLists
from neardup_workers.outside.feeds.parsers import Parsers
from neardup_workers.outside.feeds.schedule import Turns
from neardup_workers.outside.feeds.state import FeedStates, open_states
from neardup_workers.outside.feeds.watch import watch
from neardup_workers.outside.feeds.websub.subscriber import Subscriber
from neardup_workers.outside.options.running import FeedCommandOptions
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.outputs.output import STANDARD, OutputFile
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.settings.files import fields_of
from neardup_workers.outside.settings.kafka import FeedSettings
from neardup_workers.outside.store.blocked import read_block_list
from neardup_workers.outside.telemetry.health import Health, HealthAnswer, serve
from neardup_workers.outside.telemetry.metrics import FEED, Metrics
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.web.canonical_ids import CanonicalIds
from neardup_workers.outside.web.extraction import Extracted, Extraction
from neardup_workers.outside.web.pages import Page
from neardup_workers.running.commands.feed.robots import Robots
from neardup_workers.running.commands.feed.service import Checking

# Bytes of items that wait for those of other feeds, at most.
ROUND_BYTES_MAX = 1 << 28
_ACCEPT = {"Accept": "text/html, application/xhtml+xml, text/plain;q=0.5"}
# Characters of a Content-Type that are read.
_TYPE_CHARACTERS_MAX = 1_000
# Type of a page -> whether it is markup.
_TYPES = {"text/html": True, "application/xhtml+xml": True, "text/plain": False}


class _Output(NamedTuple):
    """Where documents go: ``add`` takes one, ``send`` ends a batch and says whether all of it has arrived; ``tell``
    takes how a feed is, ``None`` if it is watched no longer."""

    add: Callable[[Entry], None]
    send: Callable[[], bool]
    tell: Callable[[str, Condition | None], None] = lambda url, condition: None


# In which a feed is read, and in which hubs may answer that subscriptions end.
_PARSE_SECONDS_MAX, _LEAVE_SECONDS = 20.0, 5.0


def run(options: FeedCommandOptions, settings: FeedSettings) -> Exit:
    """Write the items of the feeds; returns the exit code. Raises ``Failure``."""
    if options.to_kafka and options.to_serve is not None:
        raise Failure(Exit.USAGE, "--to-kafka and --to-serve are both given: give one of them")
    if settings.websub and not options.follow:
        raise Failure(Exit.USAGE, "websub is set, and feeds are read once: give --follow, or no websub")
    lists = FeedLists(options.feeds)
    with Session(
        settings, SessionOptions(paths=[], rejects=options.rejects, quiet=options.quiet), follow=options.follow
    ) as session:
        ended = threading.Event()
        ids, lock = CanonicalIds(settings.dropped_parameters), threading.Lock()

        def canonical(id_: str) -> str:
            with lock:  # each feed has a thread
                return ids.name(id_)

        name = canonical if settings.canonical_urls else str
        watching = Watching(
            fields_of(settings, sources=True), settings.interval_seconds, options.follow, name,
            _clock(settings, options) == "arrival",
        )  # fmt: skip
        is_blocked = _blocked(settings)
        with (
            open_states(options.state) as states,
            _output(options, settings, session) as output,
            closing(Extraction(settings)) as extraction,
            closing(Parsers(_PARSE_SECONDS_MAX)) as parsers,
            _hubs(settings, states, session) as hubs,
        ):
            world = _world(settings, ended, parsers, extraction if options.pages else None)._replace(hubs=hubs)
            observe = _observer(settings, session)
            for polls in rounds(watch(lists, watching, world, session.stop, ended, states), options.follow):
                arrived = _write(polls, session, output, is_blocked)
                for polled in polls:
                    if polled.reason == "feed_list":
                        continue
                    if arrived and polled.condition is not None:
                        states.save(polled.url, polled.condition, polled.state)
                    observe(polled.url, polled.condition)
                    output.tell(polled.url, polled.condition)
        report, feeds = session.report, len(lists.addresses())
        report.say(f"{report.documents:,} items of {feeds:,} feeds, {report.refused.total():,} refused")
        for note in session.reader.unread.notes():
            report.say(f"note: {note}")
        if settings.canonical_urls:
            report.say(f"{ids.changed:,} ids changed to canonical URLs")
    return session.ended


def _clock(settings: FeedSettings, options: FeedCommandOptions) -> str:
    """Return the time of items.

    A new feed, or one that failed, brings items of weeks at once. In a stream they would come after the window, so what
    is followed has the time of its arrival. A service has a clock of its own, and shows the date.
    """
    if settings.clock is not None:
        return settings.clock
    return "arrival" if options.follow and options.to_serve is None else "event"


def _observer(settings: FeedSettings, session: Session) -> Callable[[str, Condition | None], None]:
    """Serve metrics and health if a port is set; returns what takes the condition of feeds. Raises ``Failure``."""
    if settings.health_port is None:
        return lambda url, condition: None
    observer, health = Metrics(FEED, {"role": FEED}), Health(math.inf)
    port = serve(settings.health_host, settings.health_port, observer.registry, health)
    session.report.say(f"health and metrics on {settings.health_host}:{port}")
    health.beat(HealthAnswer(True, "feeds are watched"))

    def observe(url: str, condition: Condition | None) -> None:
        if condition is None:
            observer.forget(url)
            return
        observer.set("feed_failures", condition.failures, url)
        if condition.succeeded is not None:
            observer.set("feed_success_time_seconds", condition.succeeded, url)
        if condition.newest is not None:
            observer.set("feed_newest_time_seconds", condition.newest, url)
        if condition.gap_seconds is not None:
            observer.set("feed_gap_seconds", condition.gap_seconds, url)

    return observe


def _blocked(settings: FeedSettings) -> Callable[[Document], bool]:
    """Return whether a document is in the block list of the settings."""
    blocked = read_block_list(settings.blocked)
    if settings.blocked is None:
        return lambda document: False
    signer = Signer(settings)
    return lambda document: bool(blocked.refuse(signer.sign([document])._replace(refusals=[])).refusals)


def _write(
    polls: Sequence[FeedPoll], session: Session, output: _Output, is_blocked: Callable[[Document], bool]
) -> bool:
    """Write the items of results in order of time; returns whether all have arrived."""
    for polled in polls:
        if polled.reason:
            known = polled.condition  # of a push that cannot be read it has no reason
            said = meaning_of(known) if known and known.reason == polled.reason else ""
            session.refuse_entry(Entry(polled.url, 0, None, Reason(polled.reason), says=said), polled.reason)
    for entry in by_time(polls):
        if isinstance(entry.found, Reason):
            session.refuse_entry(entry, entry.found)
        elif is_blocked(entry.found):
            session.refuse_entry(entry, "blocked")
        else:
            output.add(entry)
            if (undated := orjson.loads(entry.raw or b"{}").get(UNDATED)) is not None:
                session.reader.unread(UNDATED, undated)
    arrived = output.send()
    session.rejects.flush()
    return arrived


@contextmanager
def _output(options: FeedCommandOptions, settings: FeedSettings, session: Session) -> Iterator[_Output]:
    if options.to_serve is not None:
        checking = Checking(options.to_serve, session)
        yield _Output(checking.add, checking.send, checking.tell)
        checking.tell_rest()
        said = ", ".join(f"{count:,} {status}" for status, count in sorted(checking.statuses.items()))
        session.report.say(f"the service says: {said or 'nothing'}")
    elif options.to_kafka:
        with closing(connect(settings)) as transport:
            loader = Loader(transport, settings, session)

            def send_all() -> bool:
                loader.send()
                return True

            yield _Output(loader.add, send_all)
            loader.close()
    else:
        lines: list[bytes] = []

        def write_lines() -> bool:
            written.write(b"".join(lines))
            session.report.documents += len(lines)
            lines.clear()
            return True

        with OutputFile(STANDARD, "the items") as written:
            yield _Output(lambda entry: lines.append((entry.raw or b"") + b"\n"), write_lines)


@contextmanager
def _hubs(settings: FeedSettings, states: FeedStates, session: Session) -> Iterator[Subscriber | None]:
    """Subscribe at hubs while feeds are watched, if the settings name an address for them. Raises ``Failure``."""
    if not settings.websub:
        yield None
        return
    from neardup_workers.running.commands.feed.callbacks import listening

    context, limits, agent = ssl.create_default_context(), _limits(settings), _agent(settings)

    def post(url: str, form: Mapping[str, str]) -> Fetched:
        header = {"User-Agent": agent, "Content-Type": "application/x-www-form-urlencoded"}
        return fetch(url, header, limits, body=urlencode(form).encode(), context=context)

    subscriber = Subscriber(settings.websub[0], states.key(), post, time.monotonic, random.random)
    with listening(settings.websub, subscriber, limits.bytes_max) as where:
        session.report.say(f"hubs reach {settings.websub[0]}; listening on {where}")
        try:
            yield subscriber
        finally:
            subscriber.close(_LEAVE_SECONDS)


def _limits(settings: FeedSettings) -> FetchLimits:
    return FetchLimits(is_allowed=(lambda number: True) if settings.allow_private else is_public)


def _agent(settings: FeedSettings) -> str:
    return f"neardup/{version('neardup')}" + (f" (+{settings.contact})" if settings.contact else "")


def _world(settings: FeedSettings, ended: threading.Event, parsers: Parsers, extraction: Extraction | None) -> World:
    limits, agent = _limits(settings), _agent(settings)
    turns, context = Turns(), ssl.create_default_context()  # to read the authorities takes longer than most requests

    def get(url: str, header: Mapping[str, str]) -> Fetched:
        with turns.of(url):
            return fetch(url, {"User-Agent": agent, **header}, limits, context=context)

    robots = Robots(get, time.monotonic)
    page = None if extraction is None else lambda url: page_text(url, get, extraction, robots.allow)
    return World(get, parsers.items_of, time.time, random.random, ended.wait, page)


def rounds(polls: Iterable[FeedPoll], follow: bool) -> Iterator[list[FeedPoll]]:
    """Yield results in groups: each alone if feeds are followed, else all at the end.

    What waits has ``ROUND_BYTES_MAX`` at most, and one result more; then it is a group before the end.
    """
    waiting: list[FeedPoll] = []
    size = 0
    for polled in polls:
        waiting.append(polled)
        size += sum(len(entry.raw or b"") for entry in polled.entries)
        if follow or size > ROUND_BYTES_MAX:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def by_time(polls: Sequence[FeedPoll]) -> list[Entry]:
    """Return the items of several results from the oldest on: a window follows the time of the documents, and each feed
    lists weeks of items. Those of one feed stay in its order: an item counts as old as the newest one before it, and so
    does one without a date."""
    timed: list[tuple[float, Entry]] = []
    for polled in polls:
        newest = -math.inf
        for entry in polled.entries:
            time = getattr(entry.found, "timestamp", None)
            newest = newest if time is None else max(newest, time)
            timed.append((newest, entry))
    return [entry for _, entry in sorted(timed, key=lambda one: one[0])]


def page_text(
    url: str, get: Callable[[str, Mapping[str, str]], Fetched], extraction: Extraction, allows: Callable[[str], bool]
) -> Extracted:
    """Return the text of the page at an address, or why it has none. ``get`` gets address and header fields, and raises
    ``FetchError``; ``allows`` says whether the site lets robots ask for an address."""
    if not allows(url):
        return Reason("page_robots")
    try:
        answer = get(url, _ACCEPT)
    except FetchError as error:
        return Reason(error.reason)
    if answer.status != 200:
        return Reason("fetch_status")
    header = Message()
    header["Content-Type"] = answer.header.get("content-type", "text/html")[:_TYPE_CHARACTERS_MAX]
    kind = header.get_content_type()
    if kind not in _TYPES:
        return Reason("page_type")
    charset = header.get_content_charset()
    return extraction.text(Page(url, answer.body, charset=charset, is_markup=_TYPES[kind]))
