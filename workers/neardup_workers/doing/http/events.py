"""Verdicts, and figures of the present, as server-sent events.

Theory of operation. The number of an event is the place of its verdict. The newest events wait in one buffer that all
readers share. A reader is a position in it: the number of the last event that was sent to it. So memory does not depend
on how many readers there are, or how slow they are.

- A reader that names a number (``Last-Event-ID``) is behind the buffer at first. It gets events from the store, page by
  page, until it reaches the buffer. From then on it is *live*.
- The writer publishes a step after its COMMIT. What the buffer has, the store has too.
- A live reader that the buffer leaves behind is slow: its connection ends. The client may return with the number of the
  last event that it has, and loses nothing.
- A connection whose write waits longer than ``SEND_SECONDS`` ends too. Otherwise clients that read nothing would use
  up one of a limited number.
- A removed document leaves the buffer as well.
- A source that begins to repeat itself is an event without a number, behind those of the step that showed it. The store
  does not have it: who was away asks ``GET /v1/sources``.
- A reader of figures gets the present figures with the latest verdicts instead: at least each second, at most every
  ``FIGURES_SECONDS``. So its work does not depend on the rate of documents.

``publish``, ``forget`` and ``close`` may be called from any thread. A stream belongs to the event loop that runs it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from neardup.pairs.json_lines import escape_unprintable, named_collection
from neardup_workers.doing.http.bodies import Refused
from neardup_workers.doing.http.described.parameters import OF, choice
from neardup_workers.doing.http.figures import Figures
from neardup_workers.outside.store.answers import Answer

# Events of the shared buffer: two thirds of a second at the greatest rate that was measured.
BUFFER_EVENTS = 10_000
# A comment is sent after this time without an event, so that proxies and clients see that the connection works.
HEARTBEAT_SECONDS = 15.0
SEND_SECONDS = 30.0
FIGURES_SECONDS, _FIGURES_SECONDS_MAX = 0.25, 1.0
# Events of one write, and of one query of the store.
_PAGE = 500
# What a browser waits before it connects again.
_RETRY_MILLISECONDS = 1000
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_TYPE = "text/event-stream"


class _Event(NamedTuple):
    """A verdict."""

    place: int
    values: dict[str, Any]


class _Reader:
    """One connection. ``sent`` is the number of the last event that it got; ``repeating`` are hours in which sources
    began to repeat themselves, for which no event is sent yet; ``abort`` closes the connection at once."""

    def __init__(self, sent: int, abort: Callable[[], None]) -> None:
        self.sent, self.abort = sent, abort
        self.repeating: list[dict[str, Any]] = []
        self.live = self.slow = self.ended = False
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()

    def wake(self) -> None:
        """Let the stream look again, from any thread. The stream of a slow reader may wait for a write: abort it."""
        if self.slow:
            self.loop.call_soon_threadsafe(self.abort)
        self.loop.call_soon_threadsafe(self.changed.set)


class Events:
    """The buffer and its readers.

    ``after`` and ``previews`` are those of ``StoreReader``; ``last`` is the place of the newest stored verdict, -1
    without one. Beyond ``readers_max`` connections others are refused. ``on_slow`` is called on the publishing thread
    for each reader that is disconnected because it is slow. A comment is sent after ``heartbeat_seconds`` without an
    event.
    """

    def __init__(
        self,
        after: Callable[[int, int], list[dict[str, Any]]],
        last: int,
        readers_max: int,
        figures: Figures,
        previews: Callable[[list[int]], dict[int, dict[str, str | None]]] = lambda places: {},
        on_slow: Callable[[], None] = lambda: None,
        *,
        buffer_events: int = BUFFER_EVENTS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._after, self._readers_max, self._on_slow = after, readers_max, on_slow
        self._figures, self._previews = figures, previews
        self._buffer_events, self._heartbeat_seconds = buffer_events, heartbeat_seconds
        self._lock = threading.Lock()
        self._buffer: deque[_Event] = deque()
        # The buffer has every event behind ``_floor``, up to ``_last``.
        self._floor = self._last = last
        self._readers: set[_Reader] = set()
        self._closed = False

    @property
    def figures(self) -> Figures:
        """The figures that count the published verdicts."""
        return self._figures

    @property
    def readers(self) -> int:
        """The number of connections."""
        return len(self._readers)

    def publish(self, verdicts: Sequence[dict[str, Any]], repeating: Sequence[dict[str, Any]] = ()) -> None:
        """Send verdicts to all readers, in order of places, and behind them the hours in which sources began to repeat
        themselves. They must be committed."""
        self._figures.count(verdicts)
        with self._lock:
            if not (verdicts or repeating):
                return
            if verdicts:
                self._last = verdicts[-1]["place"]
            if not self._readers:  # a reader that comes later gets them from the store
                self._buffer.clear()
                self._floor = self._last
                return
            self._buffer.extend(_Event(verdict["place"], verdict) for verdict in verdicts)
            while len(self._buffer) > self._buffer_events:
                self._floor = self._buffer.popleft().place
            for reader in self._readers:
                reader.repeating += repeating
                if reader.live and not reader.ended and reader.sent < self._floor:
                    reader.slow = reader.ended = True
                    self._on_slow()
                reader.wake()

    def forget(self, id_: str, collection: str | None = None) -> None:
        """Drop the events of a removed document."""
        self._figures.forget(id_, collection)

        def names(event: _Event, value: str) -> bool:
            return bool(event.values[value] == id_ and event.values.get("collection") == collection)

        with self._lock:
            kept = [event for event in self._buffer if not names(event, "id")]
            self._buffer = deque(
                event._replace(values={**event.values, "duplicate_of": None}) if names(event, "duplicate_of") else event
                for event in kept
            )

    def named(self) -> set[tuple[str, str | None]]:
        """Return the ids that events and the latest figures name, with their collections."""
        latest = self._figures.present()["latest"]
        with self._lock:
            shown = [*latest, *(event.values for event in self._buffer)]
        return {(one[name], one.get("collection")) for one in shown for name in ("id", "duplicate_of") if one[name]}

    def close(self) -> None:
        """End all streams, and refuse new ones."""
        with self._lock:
            self._closed = True
            for reader in self._readers:
                reader.ended = True
                reader.wake()

    def response(self, request: Request) -> Response:
        """Return the stream of a request. Raises ``Refused``."""
        sent, stream = _sent(request), _STREAMS[choice(request, OF)]
        if request.method == "HEAD":
            return Response(headers=_HEADERS, media_type=_TYPE)
        abort = request.scope.get("state", {}).get("abort", lambda: None)
        reader = self._added(sent, abort)
        return _Stream(stream(self, reader), abort)

    def _added(self, sent: int | None, abort: Callable[[], None]) -> _Reader:
        with self._lock:
            if self._closed:
                raise Refused("ended")
            if len(self._readers) >= self._readers_max:
                raise Refused("too_many_readers")
            reader = _Reader(self._last if sent is None else min(sent, self._last), abort)
            self._readers.add(reader)
            return reader

    async def verdicts(self, reader: _Reader) -> AsyncIterator[bytes]:
        """Yield the events of the verdicts."""
        try:
            yield b"retry: %d\n\n" % _RETRY_MILLISECONDS
            while True:
                reader.changed.clear()
                events = await self._next(reader)
                if events is None:
                    if reader.slow:  # no end of the response, which would look as if nothing were missing
                        reader.abort()
                    return
                with self._lock:
                    hours, reader.repeating = reader.repeating, []
                if events or hours:
                    yield b"".join([*map(_encoded, events), *map(_repeating, hours)])
                    reader.sent = events[-1].place if events else reader.sent
                elif not await _waited(reader.changed, self._heartbeat_seconds):
                    yield b": heartbeat\n\n"
        finally:
            with self._lock:
                self._readers.discard(reader)

    async def present(self, reader: _Reader) -> AsyncIterator[bytes]:
        """Yield the events of the figures."""
        reader.sent = 1 << 62  # it reads no verdicts, and no buffer leaves it behind
        known: dict[int, dict[str, str | None]] = {}
        try:
            yield b"retry: %d\n\n" % _RETRY_MILLISECONDS
            while not reader.ended:
                reader.changed.clear()
                reader.repeating = []
                figures = self._figures.present()
                places = [one["place"] for one in figures["latest"]]
                known = {place: known[place] for place in places if place in known}
                known |= await run_in_threadpool(self._previews, [place for place in places if place not in known])
                figures["latest"] = [one | known.get(one["place"], {}) for one in figures["latest"]]
                yield b"event: figures\ndata: %b\n\n" % escape_unprintable(orjson.dumps(figures))
                await asyncio.sleep(FIGURES_SECONDS)
                await _waited(reader.changed, _FIGURES_SECONDS_MAX - FIGURES_SECONDS)
        finally:
            with self._lock:
                self._readers.discard(reader)

    async def _next(self, reader: _Reader) -> list[_Event] | None:
        """Return the next events of a reader, empty if there are none yet; ``None`` if its stream has ended."""
        while True:
            with self._lock:
                if reader.ended:
                    return None
                if reader.sent >= self._floor:
                    reader.live = True
                    new: list[_Event] = []
                    for event in reversed(self._buffer):
                        if event.place <= reader.sent:
                            break
                        new.append(event)
                    return new[::-1][:_PAGE]
                floor = self._floor
            verdicts = await run_in_threadpool(self._after, reader.sent, _PAGE)
            if verdicts:
                return [_Event(verdict["place"], verdict) for verdict in verdicts]
            reader.sent = floor  # the documents up to there were removed, or have left the window


_STREAMS = {"verdicts": Events.verdicts, "figures": Events.present}


class _Stream(StreamingResponse):
    """A response whose connection ends if a write takes longer than ``SEND_SECONDS``."""

    def __init__(self, content: AsyncIterator[bytes], abort: Callable[[], None]) -> None:
        super().__init__(content, headers=_HEADERS, media_type=_TYPE)
        self._abort = abort

    async def stream_response(self, send: Send) -> None:
        """Send the stream."""

        async def timed(message: Message) -> None:
            timer = asyncio.get_running_loop().call_later(SEND_SECONDS, self._abort)
            try:
                await send(message)
            finally:
                timer.cancel()

        await super().stream_response(timed)


def verdicts_of(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Return the verdicts of answers as the store returns them later (``reading.version``), without the refused."""
    return [
        {"id": answer.id, **answer.verdict, **named_collection(answer.collection)}
        for answer in answers
        if answer.verdict
    ]


def _encoded(event: _Event) -> bytes:
    return b"id: %d\nevent: verdict\ndata: %b\n\n" % (event.place, escape_unprintable(orjson.dumps(event.values)))


def _repeating(hour: dict[str, Any]) -> bytes:
    return b"event: repeating\ndata: %b\n\n" % escape_unprintable(orjson.dumps(hour))


def _sent(request: Request) -> int | None:
    """Return the number that the client names: the header that browsers send, or the parameter ``after``."""
    header = request.headers.get("last-event-id")
    field, value = ("after", request.query_params.get("after")) if header is None else ("Last-Event-ID", header)
    if value is None:
        return None
    if value == "-1":
        return -1
    if not (value.isascii() and value.isdecimal() and len(value) < 19):
        raise Refused("parameter", field, "it must be the number of an event, or -1 for all that are stored")
    return int(value)


async def _waited(changed: asyncio.Event, seconds: float) -> bool:
    """Return whether an event was set within a time."""
    try:
        async with asyncio.timeout(seconds):
            return await changed.wait()
    except TimeoutError:
        return False
