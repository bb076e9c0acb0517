"""Bodies of requests: read within limits, then decoded to documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields, decode_document
from neardup_workers.outside.settings.files import fields_of
from neardup_workers.outside.settings.serve import ServeLimits, ServeSettings

JSON = ("application/json",)
JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/json")


class Refused(Exception):
    """A request that gets a problem as its answer; ``reason`` is a key of the reasons, ``field`` the refused field."""

    def __init__(self, reason: str, field: str | None = None, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.field, self.detail = Reason(reason), field, detail


class Bodies:
    """ASGI middleware that bounds the bytes of all bodies that are held at the same time: to ``bytes_max`` together.

    A request holds its body from the first byte to the end of its answer: ``read_body`` counts it.
    """

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self._app, self._bytes_max, self._bytes = app, bytes_max, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; at its end, what it has held is free."""
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            if self._bytes + size > self._bytes_max:
                raise Refused("bodies_full")
            self._bytes, own = self._bytes + size, own + size

        scope["hold"] = hold
        try:
            await self._app(scope, receive, send)
        finally:
            self._bytes -= own


class Decoding(NamedTuple):
    """Decodes a line to a document: the names of the fields, how far ahead of the clock a time may lie, whether a
    document without a time gets that of the clock (else of the writer), and what counts times that are none."""

    fields: Fields
    ahead_seconds: float
    now: Callable[[], float]
    is_event: bool
    counts: Callable[[str], object]

    @property
    def needs_text(self) -> bool:
        """Whether a document must have a text, under the name ``text``."""
        return self.fields.kind == self.fields.text == "text"

    def document(self, line: bytes) -> Document | Reason:
        """Return the document of a line, or the reason of its refusal. A time that cannot be read, or lies too far
        ahead, is none."""
        document = decode_document(line, self.fields, unread=lambda reason, value: self.counts("undated"))
        if isinstance(document, Reason):
            return document
        if document.timestamp is None and not self.is_event:
            return document
        now = self.now()
        if document.timestamp is not None:
            if document.timestamp <= now + self.ahead_seconds:
                return document
            self.counts("clamped")
        return document._replace(timestamp=now if self.is_event else None)


def decoding(
    settings: ServeSettings, now: Callable[[], float], limits: ServeLimits, counts: Callable[[str], object]
) -> Decoding:
    """Return the decoding that the settings of the service describe."""
    return Decoding(fields_of(settings, sources=True), limits.ahead_seconds, now, settings.clock == "event", counts)


async def read_body(request: Request, limits: ServeLimits, types: tuple[str, ...]) -> bytes:
    """Return the body of a request. Raises ``Refused`` if it has another type, is too large, takes too long, or if the
    requests hold too much together."""
    headers = dict(request.scope["headers"])
    given = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if given not in types:
        raise Refused("content_type", "Content-Type", f"it is {given or 'missing'}; set it to {' or '.join(types)}")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refused("encoding", "Content-Encoding")
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limits.body_bytes_max:
        said = f"it has {length.decode()} bytes, at most {limits.body_bytes_max:,} are taken"
        raise Refused("body_too_large", detail=said)
    body: bytes | None = request.scope.get("body")  # of a check that has come whole
    if body is None:
        body = await _received(request, limits)
    holder = request.scope.get("holder")  # of its token
    if holder is not None and not holder.spends("bytes", len(body)):
        raise Refused("quota")
    return body


async def _received(request: Request, limits: ServeLimits) -> bytes:
    body, more = bytearray(), True
    try:
        # A timer of each body that is there already would cost as much as reading it.
        async with nullcontext() if "whole" in request.scope else asyncio.timeout(limits.body_seconds_max):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part, more = message.get("body", b""), message.get("more_body", False)
                request.scope["hold"](len(part))
                body += part
                if len(body) > limits.body_bytes_max:
                    raise Refused("body_too_large", detail=f"at most {limits.body_bytes_max:,} bytes are taken")
    except TimeoutError:
        raise Refused("body_slow") from None
    return bytes(body)


def lines_of(body: bytes, lines_max: int) -> list[bytes]:
    """Return the lines of a batch. Raises ``Refused``."""
    lines = body.split(b"\n")
    if lines and not lines[-1].strip():
        lines.pop()
    if len(lines) > lines_max:
        raise Refused("too_many_lines", detail=f"it has {len(lines):,}, at most {lines_max:,}")
    return lines
