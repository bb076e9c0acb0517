"""Connections of the service: bounds on clients that connect and send no request, and checks that come whole.

Theory of operation. A connection *waits* while it has no request: from its beginning, or from the end of a response, to
the end of the next head. A connection that waits too long is closed. If too many wait, the one that has waited longest
is closed, so that a flood of idle connections does not keep out clients that send requests.

A check that comes whole (``plain``) is answered here; everything else goes to the parser. One whose body has not come
whole waits for it ``_PATIENCE_SECONDS``: many clients send head and body one after the other.
"""

from __future__ import annotations

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from neardup_workers.doing.http.wire.plain import Exchange, Whole, read

# Open files that the process asks for: connections with and without a request, and a burst of new ones.
_FILES = 4096
_PATIENCE_SECONDS = 0.05
# How exact the time is after which a connection is closed.
_SWEEP_SECONDS = 1.0


class _Waiting:
    """The connections without a request, longest first, and when each is closed. One timer serves all of them: a timer
    for each request would cost as much as reading it."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._until: dict[H11Protocol, float] = {}
        self._is_sweeping = False

    def begin(self, connection: H11Protocol, seconds: float | None = None) -> None:
        """Wait for a request of a connection, for at most so many seconds."""
        loop, until = connection.loop, self._until
        until.pop(connection, None)
        until[connection] = loop.time() + (self._seconds if seconds is None else min(seconds, self._seconds))
        if len(until) > self._most:
            self._abort(next(iter(until)))
        if not self._is_sweeping:
            self._is_sweeping = True
            self._sweep(loop)

    def end(self, connection: H11Protocol) -> None:
        """Wait no more: there is a request, or the connection has ended."""
        self._until.pop(connection, None)

    def _abort(self, connection: H11Protocol) -> None:
        self.end(connection)
        connection.transport.abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one, until in self._until.items() if until <= now]:
            self._abort(connection)
        self._is_sweeping = bool(self._until)
        if self._is_sweeping:
            loop.call_later(min(_SWEEP_SECONDS, self._seconds / 8), self._sweep, loop)


def connection_type(waiting_max: int, head_seconds_max: float) -> type[H11Protocol]:
    """Return the protocol of the connections of one server.

    Args:
        waiting_max: connections without a request at most.
        head_seconds_max: how long a connection may wait for the end of a head.
    """

    class Connection(_Connection):
        """A connection of this server."""

        _waiting = _Waiting(waiting_max, head_seconds_max)

    return Connection


class _Connection(H11Protocol):
    """A connection that a request can end at once, without reading the rest of its body."""

    _waiting: _Waiting
    _task: asyncio.Task[None]
    _exchange: Exchange | None = None
    # What the parser has not got: the beginning of a check, or what came while one was answered.
    _kept = b""
    _patience: asyncio.TimerHandle | None = None
    _is_ending = _is_parsing = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give every request of the connection the function ``abort``, in its state."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort}
        self._waiting.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._waiting.end(self)
        self._end_patience()
        if self._exchange is not None:
            self._exchange.lose()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; the end of a head ends the wait."""
        if self._kept:
            data = self._kept + data
        if self._exchange is not None:
            self._kept = data
            self.flow.pause_reading()
            return
        found = read(data) if self._takes_whole() else False
        self._kept = data if found is True else b""
        if found is True:
            self._patience = self._patience or self.loop.call_later(_PATIENCE_SECONDS, self._give_up)
            return
        self._end_patience()
        if found is False:
            self._parse(data)
        else:
            self._begin(found)

    def _give_up(self) -> None:
        """Let the parser read what has come: it bounds bodies that are slow."""
        data, self._kept, self._patience = self._kept, b"", None
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._is_parsing = True
        super().data_received(data)
        if self._has_request():
            self._waiting.end(self)

    def _takes_whole(self) -> bool:
        """Whether the parser has no part of a request, and the server has room for one more."""
        if self._is_parsing:
            if self._has_request() or self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]:
                return False
            self._is_parsing = False
        most = self.limit_concurrency
        return most is None or max(len(self.connections), len(self.tasks)) < most

    def _begin(self, request: Whole) -> None:
        """Let the application answer a request."""
        self._unset_keepalive_if_required()
        self._waiting.end(self)
        path = request.path.decode()
        scope = {
            "type": "http", "asgi": {"version": self.asgi_version, "spec_version": "2.3"}, "http_version": "1.1",
            "server": self.server, "client": self.client, "scheme": self.scheme, "method": "POST",
            "root_path": self.root_path, "path": self.root_path + path,
            "raw_path": self.root_path.encode("ascii") + request.path, "query_string": request.query,
            "headers": request.headers, "state": self.app_state.copy(), "whole": request.body,
        }  # fmt: skip
        self._exchange = Exchange(scope, request.body, self.transport, self.server_state.default_headers)
        self._task = self.loop.create_task(self._answer(self._exchange))
        self.tasks.add(self._task)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await exchange.run(self.app)
            if self.flow.write_paused and not exchange.is_lost:
                await self.flow.drain()
        finally:
            self.tasks.discard(self._task)
            self._exchange = None
            self.server_state.total_requests += 1
            if self._is_ending:
                self.transport.close()
            if not self.transport.is_closing():
                self._waiting.begin(self, self.timeout_keep_alive)
                if self._kept:
                    self.flow.resume_reading()
                    self.data_received(b"")

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def shutdown(self) -> None:
        """End the connection behind its answer."""
        if self._exchange is None:
            super().shutdown()
        else:
            self._is_ending = True

    def on_response_complete(self) -> None:
        """Wait for the next request, unless the client has sent it already."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._has_request():
            self._waiting.begin(self)

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def raise_file_limit() -> None:
    """Raise the limit of open files of this process, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
