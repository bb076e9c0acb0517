"""What hubs ask and push, over HTTP: ``GET`` and ``POST`` of addresses that cannot be guessed.

A proxy in front holds the certificate; whether it takes the prefix of the public address away does not matter, because
the last part of a path names the subscription. A hub gets an answer before what it pushed is read.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from neardup_workers.doing.http.connections import connection_type
from neardup_workers.outside.feeds.websub.subscriber import WAITING_BYTES_MAX, Subscriber
from neardup_workers.outside.process.exits import Exit, Failure

_LISTEN = "127.0.0.1:8471"
# Connections at most, those without a request, how long one waits for the end of a head, and for that of a body.
_CONNECTIONS_MAX, _WAITING_MAX, _HEAD_SECONDS, _BODY_SECONDS = 200, 100, 10.0, 30.0
_AGAIN = {"Retry-After": "60"}


@contextmanager
def listening(addresses: Sequence[str], subscriber: Subscriber, bytes_max: int) -> Iterator[str]:
    """Answer hubs on a thread of its own, at the addresses of the setting ``websub``; gives the one that it listens on.
    A hub pushes at most ``bytes_max`` at once. Raises ``Failure`` if an address cannot be used."""
    config = uvicorn.Config(
        application(subscriber, bytes_max), log_config=None, access_log=False, server_header=False, lifespan="off",
        http=connection_type(_WAITING_MAX, _HEAD_SECONDS), ws="none", limit_concurrency=_CONNECTIONS_MAX,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with _bound(addresses) as listens:
        thread = threading.Thread(target=server.run, args=([listens],), name="hubs", daemon=True)
        thread.start()
        try:
            host, port = listens.getsockname()[:2]
            yield f"{host}:{port}"
        finally:
            server.should_exit = True
            thread.join()


def _bound(addresses: Sequence[str]) -> socket.socket:
    public, listen = (*addresses, _LISTEN)[:2]
    try:
        given, where = urlsplit(public), urlsplit(f"//{listen}")
        if given.scheme not in ("http", "https") or not given.hostname or given.query or given.fragment:
            raise ValueError
        if not where.hostname or where.port is None:
            raise ValueError
    except ValueError:
        raise Failure(
            Exit.USAGE,
            f"websub is {','.join(addresses)}: give an address with http:// or https:// that hubs reach, and HOST:PORT "
            f"to listen on, as in websub=https://news.example/hubs,{_LISTEN}",
        ) from None
    try:
        return socket.create_server((where.hostname, where.port), family=socket.getaddrinfo(where.hostname, 0)[0][0])
    except OSError as error:
        raise Failure(
            Exit.USAGE, f"cannot listen on {listen}: {error}; name another address behind that of websub"
        ) from None


def application(subscriber: Subscriber, bytes_max: int) -> Starlette:
    """Return the application that hubs reach."""
    held = 0  # bytes of bodies that are not whole

    async def body_of(request: Request) -> bytes | None:
        """Return a body, ``None`` if there is no room for it now."""
        nonlocal held
        body = bytearray()
        try:
            async for part in request.stream():
                held += len(part)
                body += part
                if len(body) > bytes_max or held > WAITING_BYTES_MAX:
                    return None
        finally:
            held -= len(body)
        return bytes(body)

    async def answer(request: Request) -> Response:
        token = request.path_params["path"].rpartition("/")[2]
        if request.method != "POST":
            said = subscriber.answer(token, request.query_params)
            return Response(status_code=404) if said is None else _plain(said)
        if not subscriber.knows(token):
            return Response(status_code=410)
        if int(request.headers.get("content-length", "0")) > bytes_max:
            return Response(status_code=413)
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await body_of(request)
        except (TimeoutError, ClientDisconnect):
            return Response(status_code=408)
        header = request.headers
        kind, signature = header.get("content-type", ""), header.get("x-hub-signature", "")
        if body is None or not subscriber.push(token, signature, kind, body):
            return Response(status_code=503, headers=_AGAIN)
        return Response(status_code=202)

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])


def _plain(said: str) -> Response:
    """Return an answer that no browser takes for a page: its text comes from who asked."""
    return Response(said, media_type="application/octet-stream", headers={"X-Content-Type-Options": "nosniff"})
