"""The answer of a check that has come whole, without the layers of ASGI: they take longer than all else of a request.

The same functions refuse it, answer it and write its line of the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from neardup_workers.doing.http.access.guard import Access
from neardup_workers.doing.http.access.log import HEADER, RequestLog, name_of

PATH = "/v1/check"
# Of a body. Larger ones are counted: see ``Bodies``.
_BYTES_MAX = 16 << 10
# A request with one of these headers is not plain: the server answers them, or knows the client by them.
_HEADERS = {b"expect", b"transfer-encoding", b"x-forwarded-for", b"x-forwarded-proto"}


def is_plain(scope: Scope) -> bool:
    """Whether a request may be answered here: a check without a query, with a small body."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    is_check = scope["path"] == PATH and scope["method"] == "POST" and not scope["query_string"]
    return is_check and not headers.keys() & _HEADERS and int(headers.get(b"content-length", 0)) <= _BYTES_MAX


class Direct:
    """Answers checks; see the module."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]], access: Access, log: RequestLog) -> None:
        self._answer, self._access, self._log = answer, access, log

    async def __call__(self, scope: Scope, body: bytes) -> Response:
        """Return the answer of a plain request."""
        scope["body"] = body
        name, started, status, size = name_of(scope), time.perf_counter(), 0, 0
        try:
            response = await self._response(scope)
            response.raw_headers.append((HEADER, name))
            status, size = response.status_code, len(response.body)
            return response
        finally:
            self._log.say(scope, name, status, size, time.perf_counter() - started)

    async def _response(self, scope: Scope) -> Response:
        try:
            return self._access.refusal(scope) or await self._answer(Request(scope))
        except Exception as error:
            logging.getLogger(__name__).error("Exception in the answer of a check", exc_info=error)
            return PlainTextResponse("Internal Server Error", 500)
