"""A line of JSON for each request, on standard error, and an id for each request.

A line has no id of a document and no query: what was removed is in no log. The id of a request is that of its header
``X-Request-ID``, or a new one; the answer has it too.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from binascii import hexlify
from datetime import UTC, datetime
from typing import TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neardup_workers.doing.http.access.guard import holder_of

# What ``log_requests`` may be -> the least status that has a line.
LEVELS = {"off": 1000, "errors": 500, "refused": 400, "all": 0}
HEADER = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# What stands behind these names a document or a source.
_NAMING = ("/v1/documents/", "/v1/sources/")


def shown_path(path: str) -> str:
    """Return the path of a request without the id that it names.

    >>> shown_path("/v1/documents/secret"), shown_path("/v1/check")
    ('/v1/documents/*', '/v1/check')
    """
    begin = next((one for one in _NAMING if path.startswith(one)), None)
    return path if begin is None else f"{begin}*"


def name_of(scope: Scope) -> bytes:
    """Return the id of a request."""
    given = dict(scope["headers"]).get(HEADER, b"")
    return given if _ID.fullmatch(given) else hexlify(os.urandom(8))


class RequestLog:
    """ASGI middleware: see the module. ``level`` is a key of ``LEVELS``; lines go to a stream, by default standard
    error."""

    def __init__(self, app: ASGIApp, level: str, stream: TextIO | None = None) -> None:
        self._app, self._least, self._stream = app, LEVELS[level], stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and say how it went."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        name = name_of(scope)
        started, status, size = time.perf_counter(), 0, 0

        async def sent(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (HEADER, name)]}
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            self.say(scope, name, status, size, time.perf_counter() - started)

    def say(self, scope: Scope, name: bytes, status: int, size: int, seconds: float) -> None:
        """Write the line of a request that has ended, if it has one; status 0 without an answer."""
        if (status or 500) < self._least:
            return
        holder = holder_of(scope)
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": "error" if not 0 < status < 500 else "warning" if status >= 400 else "info",
            "request": name.decode(),
            "client": (scope.get("client") or [None])[0],
            "token": None if holder is None else holder.name,
            "method": scope["method"],
            "path": shown_path(scope["path"]),
            "status": status,
            "bytes": size,
            "ms": round(1000 * seconds, 2),
        }
        print(json.dumps(line), file=self._stream or sys.stderr, flush=True)
