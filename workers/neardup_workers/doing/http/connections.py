"""Connections of the service: bounds on clients that connect and send no request.

Theory of operation. A connection *waits* while it has no request: from its beginning, or from the end of a response, to
the end of the next head. A connection that waits too long is closed. If too many wait, the one that has waited longest
is closed, so that a flood of idle connections does not keep out clients that send requests.
"""

from __future__ import annotations

import asyncio
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

# Open files that the process asks for: connections with and without a request, and a burst of new ones.
_FILES = 4096


def connection_type(waiting_max: int, head_seconds_max: float) -> type[H11Protocol]:
    """Return the protocol of the connections of one server.

    Args:
        waiting_max: connections without a request at most.
        head_seconds_max: how long a connection may wait for the end of a head.
    """
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}  # longest first

    def end(connection: H11Protocol) -> None:
        timer = waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def abort(connection: H11Protocol) -> None:
        end(connection)
        connection.transport.abort()

    def wait(connection: H11Protocol) -> None:
        end(connection)
        waiting[connection] = connection.loop.call_later(head_seconds_max, abort, connection)
        if len(waiting) > waiting_max:
            abort(next(iter(waiting)))

    class Connection(H11Protocol):
        """A connection that a request can end at once, without reading the rest of its body."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Give every request of the connection the function ``abort``, in its state."""
            super().connection_made(transport)
            self.app_state = {**self.app_state, "abort": transport.abort}
            wait(self)

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the connection."""
            end(self)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Read data; the end of a head ends the wait."""
            super().data_received(data)
            if self._has_request():
                end(self)

        def on_response_complete(self) -> None:
            """Wait for the next request, unless the client has sent it already."""
            super().on_response_complete()
            if not self.transport.is_closing() and not self._has_request():
                wait(self)

        def _has_request(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

    return Connection


def raise_file_limit() -> None:
    """Raise the limit of open files of this process, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
