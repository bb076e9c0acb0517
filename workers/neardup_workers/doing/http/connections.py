"""Connections of the service: bounds on clients that connect and send no request.

Theory of operation. A connection *waits* while it has no request: from its beginning, or from the end of a response, to
the end of the next head. A connection that waits too long is closed, and so is one whose head is too long. If too many
wait, the one that has waited longest is closed, so that a flood of idle connections does not keep out clients that send
requests.

The answer of a *plain* request, whose body comes with its head or just behind it, is begun in the call that has read
it; it needs no task as long as it waits for nothing.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from math import inf
from types import coroutine
from typing import Any, ClassVar, cast

from starlette.responses import Response
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from neardup_workers.doing.http.answers.direct import is_plain

# Open files that the process asks for: connections with and without a request, and a burst of new ones.
_FILES = 4096
# Bytes of a request that are no body, at most: those of its head, and nine for each byte of a body in small chunks.
_HEAD_BYTES_MAX, _CHUNK_BYTES_MAX = 64 << 10, 10
# The body of a plain request is waited for so long, then the application waits for it.
_BODY_SECONDS = 0.05
# Scope and body -> answer.
Answering = Callable[[Scope, bytes], Awaitable[Response]]
# How exact the time is after which a connection is closed.
_SWEEP_SECONDS = 1.0


class _Waiting:
    """The connections without a request, longest first, and when each is closed. One timer serves all of them: a timer
    for each request would cost as much as reading it."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._until: dict[HttpToolsProtocol, float] = {}
        self._is_sweeping = False

    def begin(self, connection: HttpToolsProtocol, seconds: float = inf) -> None:
        """Wait for a request of a connection, for no longer than some seconds."""
        loop, until = connection.loop, self._until
        until.pop(connection, None)
        until[connection] = loop.time() + min(seconds, self._seconds)
        if len(until) > self._most:
            self._abort(next(iter(until)))
        if not self._is_sweeping:
            self._is_sweeping = True
            self._sweep(loop)

    def end(self, connection: HttpToolsProtocol) -> None:
        """Wait no more: there is a request, or the connection has ended."""
        self._until.pop(connection, None)

    def _abort(self, connection: HttpToolsProtocol) -> None:
        self.end(connection)
        connection.transport.abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one, until in self._until.items() if until <= now]:
            self._abort(connection)
        self._is_sweeping = bool(self._until)
        if self._is_sweeping:
            loop.call_later(min(_SWEEP_SECONDS, self._seconds / 8), self._sweep, loop)


def connection_type(
    waiting_max: int, head_seconds_max: float, direct: Answering | None = None
) -> type[HttpToolsProtocol]:
    """Return the protocol of the connections of one server, of which ``waiting_max`` may be without a request, and wait
    ``head_seconds_max`` for the end of a head. ``direct`` answers plain requests; without it the application does."""

    class Connection(_Connection):
        """A connection of this server."""

        _waiting = _Waiting(waiting_max, head_seconds_max)
        _direct = None if direct is None else staticmethod(direct)
        _latest: ClassVar[list[_Connection]] = []

    return Connection


class _Connection(HttpToolsProtocol):
    """A connection that a request can end at once, without reading the rest of its body.

    It is the transport of its answers, too. The head of an answer of known length waits for the body: both are one
    packet. The connection closes behind an answer when the rest of the request's body is read: with bytes unread a
    client would get a reset, and never the answer. That wait has the bound of all waits.
    """

    _waiting: _Waiting
    _direct: Answering | None
    _latest: ClassVar[list[_Connection]]  # the connection of the latest plain request
    _held: RequestResponseCycle | None = None  # of a plain request without a body so far
    _is_reading = False
    _closes = _is_read = False  # it ends when all of its last request has come; which has come
    _come = _body = 0  # bytes that have come of a request without an end, and those of its body
    _head = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give every request of the connection the function ``abort`` and the open requests, in its state."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort, "open": self.tasks}
        self._waiting.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._waiting.end(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; the end of a head ends the wait."""
        self._come += len(data)
        self._is_reading = True
        super().data_received(data)
        self._is_reading = False
        if (cycle := self._held) is not None:
            if not cycle.more_body:
                self._answer(cycle)
            elif cycle.body:
                self._go_on(cycle)
            else:  # many clients send it behind the head
                self.loop.call_later(_BODY_SECONDS, self._go_on, cycle)
        if self._has_request():
            self._waiting.end(self)
        if self._come <= _HEAD_BYTES_MAX + _CHUNK_BYTES_MAX * self._body or self.transport.is_closing():
            return
        if self._has_request():
            self.transport.abort()
        else:
            self.send_400_response(f"A head has at most {_HEAD_BYTES_MAX:,} bytes.")

    def on_headers_complete(self) -> None:
        """Begin the answer; a request of HTTP/1.1 names one host, or it is no request and the parser stops. A host in
        the target is the one that counts (RFC 9112, 3.2.2)."""
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request names one host")
        if b"://" in self.url and not self.url.startswith(b"/"):
            authority = self.url.partition(b"://")[2].partition(b"/")[0].rpartition(b"@")[2]
            self.headers[:] = [*(one for one in self.headers if one[0] != b"host"), (b"host", authority)]
        self._is_read = False
        super().on_headers_complete()
        self.cycle.transport = self  # type: ignore[assignment]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin an answer, or hold a plain request until what has come is read."""
        is_free = self._is_reading and self._direct is not None and app is self.app and not self.flow.write_paused
        if is_free and cycle.keep_alive and is_plain(cast("Scope", cycle.scope)):
            self._held = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _go_on(self, cycle: RequestResponseCycle) -> None:
        """Let the application answer a request that was held and has no answer."""
        if self._held is cycle:
            self._held = None
            super()._start_asgi_task(cycle, self.app)

    def _answer(self, cycle: RequestResponseCycle) -> None:
        """Answer a plain request."""
        self._held, latest = None, self._latest
        cycle.scope["again"] = latest == [self]  # type: ignore[typeddict-unknown-key]
        latest[:] = [self]
        answered = self._answered(cycle)
        with suppress(StopIteration):
            task = self.loop.create_task(_rest(answered, answered.send(None)))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _answered(self, cycle: RequestResponseCycle) -> None:
        try:
            response = await self._direct(cast("Scope", cycle.scope), bytes(cycle.body))  # type: ignore[misc]
        except (Exception, asyncio.CancelledError) as error:
            self.logger.error("Exception in the answer of a plain request", exc_info=error)
            response, cycle.keep_alive = Response("Internal Server Error", 500), False
        cycle.response_complete = True
        if self.transport.is_closing():
            return
        content = [STATUS_LINE[response.status_code]]
        for name, value in (*self.server_state.default_headers, *response.raw_headers):
            content += name, b": ", value, b"\r\n"
        content += (b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", bytes(response.body))
        self.transport.write(b"".join(content))
        if not cycle.keep_alive:
            self.transport.close()
        elif self.pipeline:
            super().on_response_complete()
        else:
            self._waiting.begin(self, self.timeout_keep_alive)

    def write(self, data: bytes) -> None:
        """Send a part of an answer."""
        if not self._head and data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data:
            self._head = data
        else:
            self.transport.write(self._head + data)
            self._head = b""

    def is_closing(self) -> bool:
        """Whether the connection ends, so that nothing more can be sent."""
        return self.transport.is_closing()

    def close(self) -> None:
        """End the connection behind an answer."""
        self._closes = True
        self.write(b"")
        if self._is_read or not self.cycle.response_complete:
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Say that the body is ``whole``: who reads it need not bound the time that it takes."""
        self._come = self._body = 0
        super().on_message_complete()
        self.scope["whole"] = self._is_read = True  # type: ignore[typeddict-unknown-key]
        if self._closes:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless the client has sent it already."""
        if self._head:  # without a body
            self.write(b"")
        super().on_response_complete()
        if not self.transport.is_closing() and not self._has_request():
            self._waiting.begin(self)

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


@coroutine
def _rest(running: Coroutine[Any, None, None], awaited: Any) -> Generator[Any, None, None]:
    """Go on with a coroutine that has run up to what it awaits."""
    with suppress(StopIteration):
        while True:
            try:
                yield awaited
            except BaseException as error:
                awaited = running.throw(error)
            else:
                awaited = running.send(None)


def raise_file_limit() -> None:
    """Raise the limit of open files of this process, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
