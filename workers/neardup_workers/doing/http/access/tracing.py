"""A span of OpenTelemetry for each request of a process that runs under it (``opentelemetry-instrument neardup``).

Nothing is imported otherwise. A span has no id of a document and no query, as a line of the log.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neardup_workers.doing.http.access.log import shown_path

_API, _PROPAGATE = "opentelemetry.trace", "opentelemetry.propagate"
# The answer has no end.
_STREAM = "/v1/events"


def traced(app: ASGIApp) -> ASGIApp:
    """Return an application with a span for each request; the same one where no OpenTelemetry was loaded before."""
    api = sys.modules.get(_API)
    return app if api is None else _Traced(app, api, import_module(_PROPAGATE))


class _Traced:
    """ASGI middleware; ``api`` is ``opentelemetry.trace``, ``propagate`` the module of that name."""

    def __init__(self, app: ASGIApp, api: Any, propagate: Any) -> None:
        self._app, self._api, self._propagate = app, api, propagate
        self._tracer = api.get_tracer("neardup")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on within a span, a child of the one that its header ``traceparent`` names."""
        if scope["type"] != "http" or scope["path"] == _STREAM:
            await self._app(scope, receive, send)
            return
        carried = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path, method = shown_path(scope["path"]), scope["method"]
        with self._tracer.start_as_current_span(
            f"{method} {path}",
            self._propagate.extract(carried),
            self._api.SpanKind.SERVER,
            {"http.request.method": method, "url.path": path},
        ) as span:

            async def sent(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(self._api.StatusCode.ERROR)
                await send(message)

            await self._app(scope, receive, sent)
