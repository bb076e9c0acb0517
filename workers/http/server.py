"""Start and stop of the service: the address opens after the window is restored, and closes before the writer ends.

A stop by a signal, or because the writer broke, has this order: no new connections are accepted, open requests are
answered (for at most ``_GRACE_SECONDS``), the writer finishes waiting work, the log closes.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from stream.config import Config
from stream.deduplicator import Deduplicator
from stream.schemes import SCHEMES
from workers.http.access import Access
from workers.http.app import application
from workers.http.events import Events, verdicts_of
from workers.http.figures import Figures
from workers.http.metrics import ServiceMetrics
from workers.http.writer import Writer
from workers.process.exits import EXIT_OF_SIGNAL, Exit, Failure
from workers.settings.serve import ServeSettings, is_loopback
from workers.store.keeper import Answer, Keeper
from workers.store.log import Log
from workers.store.reading import Reader

_GRACE_SECONDS = 10
# An idle connection is closed after this time.
_KEEP_ALIVE_SECONDS = 5
# Connections that wait to be accepted.
_BACKLOG = 1024
# Maximum concurrent requests; further clients get 503.
_CONCURRENCY_MAX = 1000
_WARM_TEXTS = ("the kernels of the service are compiled now", "the kernels of the service are compiled then")


class _Server(uvicorn.Server):
    """A server that installs no signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers: ``_serve`` has installed them."""
        yield


class Connection(H11Protocol):
    """A connection that a request can end at once, without waiting for what was not sent."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give every request of the connection the function ``abort``, in its state."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort}


def serve(settings: ServeSettings, state: str) -> Exit:
    """Serve the window in a folder until a signal. Raises ``Failure`` if folder, address or certificate cannot be used.

    Returns:
        The exit code of the signal, or ``Exit.OUTPUT`` if the outcome of a step is unknown.
    """
    token = settings.access_token()
    address = bound(settings.host, settings.port)
    fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
    log = Log(Path(state), fingerprints, settings.durability)
    try:
        warm(Config(**{name: getattr(settings, name) for name in Config.model_fields}))
        keeper = Keeper(settings, log, keep_texts=settings.keep_texts, history_seconds=settings.history_seconds)
        return asyncio.run(_serve(settings, keeper, address, token))
    finally:
        log.close()
        address.close()


def warm(config: Config) -> None:
    """Compile the kernels, or load them from disk, so that the first request does not wait for them."""
    scheme = SCHEMES[config.scheme]
    samples = [scheme.sample(text, config.plan) for text in _WARM_TEXTS]
    documents = [sample._replace(id=str(n), timestamp=0.0) for n, sample in enumerate(samples)]
    dedup = Deduplicator(config)
    dedup.decide(documents)
    dedup.probe(documents)
    dedup.explain("0", "1")
    if config.tuning.bands or SCHEMES[config.scheme].exact:
        dedup.nearest(documents, 1)
    dedup.remove("0")


async def _serve(settings: ServeSettings, keeper: Keeper, address: socket.socket, token: str | None) -> Exit:
    loop = asyncio.get_running_loop()
    ended: list[signal.Signals] = []
    table = keeper.matcher.table
    reader = Reader(keeper.log.path)
    metrics = ServiceMetrics(lambda: writer.waiting, lambda: table.documents, lambda: events.readers)
    last = keeper.log.meta()["places"] - 1
    figures = Figures(lambda: table.documents, lambda: writer.waiting)
    events = Events(
        reader.after, last, settings.event_readers_max, figures, reader.previews, metrics.slow_readers.inc
    )  # fmt: skip
    broken = asyncio.Event()

    def published(answers: list[Answer]) -> None:
        metrics.count(answers)
        events.publish(verdicts_of(answers))

    writer = Writer(keeper, settings.queue_documents_max, lambda: _call(loop, broken.set), published)
    app = application(settings, writer, reader, metrics, events)
    guarded = Access(app, token, any_host=settings.insecure and not is_loopback(settings.host))
    config = uvicorn.Config(
        guarded, log_config=None, access_log=False, server_header=False, lifespan="off", http=Connection,
        ssl_certfile=settings.tls_certfile, ssl_keyfile=settings.tls_keyfile, limit_concurrency=_CONCURRENCY_MAX,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=_GRACE_SECONDS,
    )  # fmt: skip
    server = _Server(config)

    def stop(number: signal.Signals) -> None:
        server.force_exit = bool(ended)
        ended.append(number)
        events.close()
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)

    async def watch() -> None:
        await broken.wait()
        events.close()
        server.should_exit = True

    watching = asyncio.create_task(watch())
    try:
        _load_certificate(config)
        _announce(settings, address)
        await server.serve([address])
    finally:
        watching.cancel()
        await asyncio.to_thread(writer.stop)
    if writer.error is not None:
        raise Failure(
            Exit.OUTPUT,
            f"the store failed: {writer.error}; start again: the service continues from what is on the disk",
        )
    return EXIT_OF_SIGNAL[ended[0] if ended else 0]


def _call(loop: asyncio.AbstractEventLoop, function: Any) -> None:
    loop.call_soon_threadsafe(function)


def _load_certificate(config: uvicorn.Config) -> None:
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise Failure(
            Exit.USAGE, f"cannot use the certificate: {error}; name PEM files with tls_certfile and tls_keyfile"
        ) from None


def _announce(settings: ServeSettings, address: socket.socket) -> None:
    host, port = address.getsockname()[:2]
    scheme = "https" if settings.tls_certfile else "http"
    named = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"neardup: serving on {scheme}://{named}:{port}\n")
    sys.stderr.flush()


def bound(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises ``Failure``.

    The socket names its protocol, because only then asyncio sets ``TCP_NODELAY``. Without it, each response of two
    parts would wait 40 ms for an acknowledgement.
    """
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
        return listening
    except OSError as error:
        raise Failure(Exit.USAGE, f"cannot listen on {host}:{port}: {error}; choose another --port or --host") from None
