"""A worker's state over HTTP: ``/metrics``, ``/healthz`` (alive), ``/readyz`` (assigned and restored), and reports as
JSON: of a matcher ``/recall``, what its shards find of what should be; of a linker ``/sources``, its ledger.

*Alive*: the last turn of the loop is recent enough, or the start is still within its own limit. The loop also turns
while the broker is away, because it waits in short naps. *Ready*: the worker is a member of its group, and every
partition assigned to it is restored and running. A spare worker without partitions is ready. Each request has a daemon
thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import orjson
from prometheus_client import CollectorRegistry, make_wsgi_app

from neardup_workers.outside.process.exits import Exit, Failure

# A start compiles or loads the kernels, then waits for the broker several times, each within limits of the transport.
START_SECONDS_MAX = 300.0
# A client that sends nothing holds its thread this long.
_REQUEST_SECONDS = 5.0
_OK, _NOT = "200 OK", "503 Service Unavailable"


class HealthAnswer(NamedTuple):
    """Whether something holds, and the sentence that says why."""

    holds: bool
    text: str


class Health:
    """State of the worker's loop; the loop writes it, the threads of the server read it. ``reports`` are what else a
    worker says of its work, by name."""

    def __init__(self, turn_seconds_max: float, now: Callable[[], float] = time.monotonic) -> None:
        self._turn_seconds_max, self._now = turn_seconds_max, now
        self.reports: Mapping[str, Callable[[], dict[str, Any]]] = {}
        self._ready = HealthAnswer(False, "starting")
        self._sign = ("the start began", now(), START_SECONDS_MAX)  # the last sign of life: what, when, limit

    def start(self) -> None:
        """Note that a start begins: the first one, or a restart."""
        self._sign = ("the start began", self._now(), START_SECONDS_MAX)

    def beat(self, ready: HealthAnswer) -> None:
        """Note a turn of the loop; ``ready`` is the answer of ``/readyz``."""
        self._ready = ready
        self._sign = ("the loop turned", self._now(), self._turn_seconds_max)

    def alive(self) -> HealthAnswer:
        """Whether the last sign of life is within its limit."""
        what, at, seconds_max = self._sign
        ago = self._now() - at
        return HealthAnswer(ago <= seconds_max, f"{what} {ago:.1f} s ago")

    def ready(self) -> HealthAnswer:
        """Whether the worker is alive and ready."""
        alive = self.alive()
        return self._ready if alive.holds else alive


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: probes come every few seconds."""


def application(registry: CollectorRegistry, health: Health) -> Callable[..., Iterable[bytes]]:
    """Return a WSGI application with the three paths and those of reports."""
    metrics = make_wsgi_app(registry)
    answers = {"/healthz": health.alive, "/readyz": health.ready}
    plain, json = "text/plain; charset=utf-8", "application/json"

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            body: Iterable[bytes] = metrics(environ, start_response)
            return body
        reports = {f"/{name}": report for name, report in health.reports.items()}
        kind, paths = plain, ["/metrics", *answers, *reports]
        if path in answers:
            holds, text = answers[path]()
            status = _OK if holds else _NOT
        elif path in reports:
            kind, status, text = json, _OK, orjson.dumps(reports[path]()).decode()
        else:
            status, text = "404 Not Found", f"there are {', '.join(paths)}"
        start_response(status, [("Content-Type", kind)])
        return [f"{text}\n".encode()]

    return answer


def serve(host: str, port: int, registry: CollectorRegistry, health: Health) -> int:
    """Serve until the process ends; returns the port. Raises ``Failure`` if the address cannot be used."""
    try:
        server = make_server(host, port, application(registry, health), _Server, _Handler)
    except (OSError, OverflowError) as error:
        raise Failure(
            Exit.USAGE,
            f"cannot serve health and metrics on {host}:{port}: {error}; choose another --health-port (0: any that is "
            "free) or --set health_host=ADDRESS",
        ) from None
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return int(server.server_port)
