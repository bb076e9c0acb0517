"""A check that comes whole: read and answered without a parser of everything that HTTP may be.

Theory of operation. A parser of all of HTTP (h11) takes as long over a check as the decision about it. ``read`` takes a
request only if every byte of it is plain: the line of a check, headers of printable ASCII that are named once, none of
them about how the request travels, and a body of the length that they name. Whatever else comes goes to the parser as
it is, so that it alone decides what is wrong with a request. The application sees no difference.
"""

from __future__ import annotations

import asyncio
import logging
import re
from http import HTTPStatus
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Scope

# A request of more bytes is read in parts.
_BYTES_MAX, _HEAD_BYTES_MAX = 256 << 10, 8 << 10
_LINE = re.compile(rb"POST (/v1/check)(?:\?([!-~]*))? HTTP/1\.1\r\n")
_HEADER = rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~]*)\r\n"
_EACH, _HEADERS = re.compile(_HEADER), re.compile(b"(?:%b)+" % _HEADER)
# Headers that say how a request travels, or that the client waits for a word before its body.
_TRAVEL = frozenset((
    b"connection", b"expect", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"keep-alive", b"proxy-connection",
))  # fmt: skip
_PHRASES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class Whole(NamedTuple):
    """A request with its body. Names of headers are in lower case."""

    path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


def read(data: bytes) -> Whole | bool:
    """Return the request that ``data`` is, ``True`` if it may be the beginning of one, ``False`` if it is none."""
    line = _LINE.match(data)
    end = data.find(b"\r\n\r\n", 0, _HEAD_BYTES_MAX)
    if line is None or end < 0:
        return False
    if _HEADERS.fullmatch(data, line.end(), end + 2) is None:
        return False
    headers = [(name.lower(), value.strip(b" \t")) for name, value in _EACH.findall(data, line.end(), end + 2)]
    named = dict(headers)
    if len(named) < len(headers) or b"host" not in named:
        return False
    if not _TRAVEL.isdisjoint(named) and (named.keys() & _TRAVEL != {b"connection"} or not _stays(named)):
        return False
    length = named.get(b"content-length", b"")
    if not length.isdigit() or len(length) > len(str(_BYTES_MAX)):
        return False
    begin, size = end + 4, int(length)
    if size > _BYTES_MAX or len(data) - begin > size:  # a client that does not wait for its answer
        return False
    return Whole(line[1], line[2] or b"", headers, data[begin:]) if len(data) - begin == size else True


def _stays(named: dict[bytes, bytes]) -> bool:
    return named[b"connection"].lower() == b"keep-alive"


class Exchange:
    """One request and its answer, for an application that gives its answer a length.

    Args:
        scope: of the request; it has its ``whole`` body, for readers that need no messages.
        body: of the request.
        transport: takes the answer.
        headers: in addition to those of the application.
    """

    def __init__(
        self, scope: Scope, body: bytes, transport: asyncio.WriteTransport, headers: list[tuple[bytes, bytes]]
    ) -> None:
        self._scope, self._body, self._transport, self._headers = scope, body, transport, headers
        self._is_read, self._head, self._is_begun = False, b"", False
        self._lost: asyncio.Future[None] | None = None
        self.is_complete = self.is_lost = False

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer. An error of it is logged, and ends the connection if the answer has begun."""
        try:
            await app(self._scope, self._receive, self._send)
        except Exception as error:
            logging.getLogger("uvicorn.error").error("Exception in ASGI application\n", exc_info=error)
        if self.is_complete or self.is_lost:
            return
        if not self._is_begun:
            said = b"Internal Server Error"
            typed = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(said))]
            await self._send({"type": "http.response.start", "status": 500, "headers": typed})
            await self._send({"type": "http.response.body", "body": said})
        self._transport.close()

    def lose(self) -> None:
        """Say that the connection has ended."""
        self.is_lost = True
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    async def _receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        if not self.is_lost and not self.is_complete:
            self._lost = asyncio.get_running_loop().create_future()
            await self._lost
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.is_lost:
            return
        if message["type"] == "http.response.start":
            lines = (b"%b: %b\r\n" % header for header in (*self._headers, *message["headers"]))
            self._head = b"%b%b\r\n" % (_PHRASES[message["status"]], b"".join(lines))
            return
        self._transport.write(self._head + message.get("body", b""))
        self._head, self._is_begun = b"", True
        self.is_complete = not message.get("more_body", False)
