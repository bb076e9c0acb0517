"""Connections of the service: bounds on clients that connect and send no request, and who may send one.

Theory of operation. A connection *waits* while it has no request: from its beginning, or from the end of a response, to
the end of the next head. A connection that waits too long is closed. If too many wait, the one that has waited longest
is closed, so that a flood of idle connections does not keep out clients that send requests.

Access control: a token if other machines reach the address; without a token, a check of the header ``Host``. A web page
in a browser can send requests to this machine under the page's own host name (DNS rebinding). So without a token the
header ``Host`` must be an address or ``localhost``. ``/healthz`` and ``/readyz`` need no token, because probes have
none; ``open_metrics`` opens ``/metrics`` too.
"""

from __future__ import annotations

import asyncio
import hmac
import resource
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from neardup_workers.doing.http.problems import problem

OPEN_PATHS = ("/healthz", "/readyz")
# The page has no data in it. It asks for the token, and sends it with each request for data.
PAGE_PATHS = ("/", "/docs")


class Access:
    """ASGI middleware that refuses requests without the token, or under a foreign name.

    ``on_refused`` is called with the status and the address of the client.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        *,
        any_host: bool = False,
        open_metrics: bool = False,
        on_refused: Callable[[int, str], None] = lambda status, client: None,
    ) -> None:
        self._app, self._any_host, self._on_refused = app, any_host, on_refused
        self._open = (*OPEN_PATHS, "/metrics") if open_metrics else OPEN_PATHS
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in self._open:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            if self._token is not None:
                if not _is_page(scope["path"]) and not _holds(headers.get(b"authorization", b""), self._token):
                    return await self._refuse("no_token", "Authorization", scope, receive, send)
            elif not self._any_host and not _is_address(headers.get(b"host", b"localhost")):
                return await self._refuse("host", "Host", scope, receive, send)
        return await self._app(scope, receive, send)

    async def _refuse(self, reason: str, field: str, scope: Scope, receive: Receive, send: Send) -> None:
        response = problem(reason, field=field)
        self._on_refused(response.status_code, str((scope.get("client") or ["unknown"])[0]))
        await response(scope, receive, send)


def _is_page(path: str) -> bool:
    return path in PAGE_PATHS or path.startswith("/page/")


def _holds(header: bytes, token: bytes) -> bool:
    """Whether a header has the token, compared in constant time."""
    scheme, _, given = header.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


@lru_cache(maxsize=64)  # clients send few, again and again
def _is_address(host: bytes) -> bool:
    name = host.decode("latin-1").strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name in ("localhost", "")
    return True


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
