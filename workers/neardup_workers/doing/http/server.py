"""Start and stop of the service: the address opens after the window is restored, and closes before the writer ends.

A stop by a signal, or because the writer broke, has this order: no new connections are accepted, open requests are
answered (for at most ``_GRACE_SECONDS``), the writer finishes waiting work, the log closes.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette

from neardup.pairs.batches import MICROSECONDS
from neardup.schemes.config import Config
from neardup.stories.canaries.allowance import Allowance
from neardup_workers.doing.http.access.guard import Access
from neardup_workers.doing.http.access.log import RequestLog
from neardup_workers.doing.http.access.tokens import Tokens, tokens_of
from neardup_workers.doing.http.access.tracing import traced
from neardup_workers.doing.http.answers.direct import Direct
from neardup_workers.doing.http.answers.recall import Recall
from neardup_workers.doing.http.app import Service, application, publisher
from neardup_workers.doing.http.bodies import decoding
from neardup_workers.doing.http.connections import connection_type, raise_file_limit
from neardup_workers.doing.http.degrading import Degrading
from neardup_workers.doing.http.events import Events
from neardup_workers.doing.http.figures import Figures
from neardup_workers.doing.http.outgoing.delivery import Delivery, measure_outbox
from neardup_workers.doing.http.outgoing.hook import Hook, hook_of
from neardup_workers.doing.http.window import near, window_requests
from neardup_workers.doing.http.writer import Broken, Busy, Writer
from neardup_workers.outside.process.clock import ArrivalClock
from neardup_workers.outside.process.compiling import Compiling, say
from neardup_workers.outside.process.exits import EXIT_OF_SIGNAL, Exit, Failure
from neardup_workers.outside.process.interpreter import give_back
from neardup_workers.outside.process.stop import LEFT, SILENT_SECONDS
from neardup_workers.outside.process.warming import warm
from neardup_workers.outside.settings.serve import LIMITS, ServeLimits, ServeSettings, is_loopback, is_socket
from neardup_workers.outside.store.answers import Answer
from neardup_workers.outside.store.blocked import read_block_list
from neardup_workers.outside.store.extra import audit, desk
from neardup_workers.outside.store.extra.copying import said
from neardup_workers.outside.store.extra.outbox import Outbox, Rules
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import DURABILITIES, Log, StoreFull
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.store.salvage import salvage as salvage_log
from neardup_workers.outside.telemetry.metrics import SERVE, Metrics
from neardup_workers.outside.telemetry.sources import measure_sources

_GRACE_SECONDS = 10
# An idle connection is closed after this time.
_KEEP_ALIVE_SECONDS = 5
# Connections that wait to be accepted.
_BACKLOG = 1024
# Maximum connections; further requests get 503.
_CONCURRENCY_MAX = 1000
# Maximum connections without a request, and how long one may wait for the end of a head.
_WAITING_MAX = 500
_HEAD_SECONDS_MAX = 10.0


class _Server(uvicorn.Server):
    """A server that installs no signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers: ``_serve`` has installed them."""
        yield


class Running(NamedTuple):
    """A service behind an address: the application, its events, and how it stops.

    ``stop`` finishes waiting work and ends the threads. ``error`` returns why a thread has ended, if one has.
    ``refused`` is called with the status and the client of a request that does not reach the application, ``begun``
    once the address is open, before the first request.
    """

    app: Starlette
    events: Events
    stop: Callable[[], None]
    error: Callable[[], BaseException | None]
    refused: Callable[[int, str], None]
    begun: Callable[[], object] = lambda: None


# Starts a service; the argument is what to call, from any thread, when it can no longer work.
Start = Callable[[Callable[[], None]], Running]


def serve(settings: ServeSettings, state: str, *, salvage: bool = False) -> Exit:
    """Serve the window in a folder until a signal. Raises ``Failure`` if folder, address or certificate cannot be used.

    With ``salvage``, damaged rows of the window are left out.

    Returns:
        The exit code of the signal, or ``Exit.OUTPUT`` if the outcome of a step is unknown.
    """
    tokens, hook = tokens_of(settings), hook_of(settings)
    check_certificate(settings)
    blocked = read_block_list(settings.blocked, create=True)
    address = bound(settings.host, settings.port)
    fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
    if salvage:
        salvaged = salvage_log(Path(state), settings.plan.width)
        say(f"{salvaged.sound:,} rows are sound, {salvaged.damaged:,} are left out; the file before is {salvaged.kept}")
        if salvaged.lost:
            say(said(salvaged.lost))
    compiling = Compiling(say)
    with compiling:  # the log signs the constant texts
        log = Log(Path(state), fingerprints, settings.durability, settings)
    try:
        with compiling:
            warm(Config(**{name: getattr(settings, name) for name in Config.model_fields}))
        by_arrival, meta = settings.clock == "arrival", log.meta()
        latest, kept = (meta["stream_time"], meta.get("clock", "")) if by_arrival else (None, "")
        now = ArrivalClock(None if latest is None else latest / MICROSECONDS, kept=kept)
        keeper = Keeper(
            settings, log, keep_texts=settings.keep_texts, history_seconds=settings.history_seconds,
            clock=now if by_arrival else None, blocked=blocked,
            announced=Outbox(None if hook is None else Rules(time.time), separate=settings.separate),
            sources_max=settings.sources_max, canaries_every=LIMITS.canaries_every,
            canaries_allowance=Allowance(LIMITS.canaries_per_second_max, time.monotonic),
        )  # fmt: skip

        def noted(keeper: Keeper) -> None:
            with suppress(StoreFull), log.transaction():
                log.keep_clock(now.kept if by_arrival else "")
                audit.start(log.writer, now(), settings.model_dump(mode="json", exclude={"token", "webhook_secret"}))

        give_back()  # a restart reads the window in parts that come and go
        start = partial(started, settings, keeper, now=now, hook=hook, noted=noted)
        return asyncio.run(run(settings, address, tokens, start))
    finally:
        log.close()
        address.close()


def started(
    settings: ServeSettings,
    keeper: Keeper,
    on_broken: Callable[[], None],
    now: ArrivalClock,
    hook: Hook | None = None,
    limits: ServeLimits = LIMITS,
    noted: Callable[[Keeper], None] = lambda keeper: None,
) -> Running:
    """Start the service of a window: its clock is ``now``, ``hook`` gets events, ``noted`` notes an open address."""
    reader = StoreReader(keeper.log.path, separate=settings.separate)
    observer = Metrics(SERVE, {"role": SERVE})
    recall = Recall(keeper.matcher.table.counts, keeper.canaries, keeper.losses, observer)
    figures = Figures(lambda: keeper.matcher.table.documents, lambda: writer.waiting, now, recall.values)
    events = Events(
        reader.after, keeper.log.meta()["places"] - 1, limits.event_readers_max, figures, reader.previews,
        lambda: observer.count("service_event_readers_slow"),
    )  # fmt: skip
    figures.muted |= reader.ask(desk.muted)
    publish = publisher(observer, events, keeper.take_repeating)
    degrading = Degrading(observer, keeper.matcher.table.counts())

    def on_step(answers: list[Answer]) -> None:
        publish(answers)
        degrading.table(keeper.matcher.table.counts())
        recall.count()
        if delivery is not None:
            delivery.wake()

    delivery: Delivery | None = None
    writer = Writer(
        keeper, limits.queue_documents_max, on_broken, on_step,
        lambda: observer.count("service_full"), here=not DURABILITIES[settings.durability][1],
    )  # fmt: skip
    if hook is not None:
        delivery = Delivery(reader, writer.call, hook.send, observer, now)
        delivery.start()

    def measure() -> None:
        observer.set("service_clock_jump_seconds", now.jump_seconds)
        observer.set("service_waiting_documents", writer.waiting)
        observer.set("service_window_documents", keeper.matcher.table.documents)
        recall.measure()
        _do(writer, Keeper.count_sources)
        measure_sources(observer, reader, now())
        measure_outbox(reader, observer, now())

    def stop() -> None:
        if delivery is not None:
            delivery.stop()
        writer.stop()

    service = Service(
        settings, reader, events, observer, decoding(settings, now, limits, observer.count), partial(near, writer),
        lambda: writer.alive, writer.ready, measure, now, limits,
    )  # fmt: skip
    app = application(service, window_requests(writer))
    keeper.log.check_rest(on_broken)
    begun = partial(_do, writer, noted)
    return Running(app, events, stop, lambda: writer.error or keeper.log.damage, degrading.refused, begun)


def _do(writer: Writer, function: Callable[[Keeper], object]) -> None:
    """Call a function with the keeper, if the writer takes work."""
    with suppress(Busy, Broken):
        writer.call(function).result()


async def run(settings: ServeSettings, address: socket.socket, tokens: Tokens | None, start: Start) -> Exit:
    """Serve until a signal, or until the service can no longer work.

    Raises ``Failure`` if the store is damaged, or if the service has ended by an error.
    """
    raise_file_limit()
    loop = asyncio.get_running_loop()
    ended: list[signal.Signals] = []
    broken = asyncio.Event()
    running = start(lambda: (loop.call_soon_threadsafe(broken.set), None)[1])
    any_host = is_socket(settings.host) or (settings.insecure and not is_loopback(settings.host))
    access = Access(
        running.app, tokens, any_host=any_host, open_metrics=settings.open_metrics, on_refused=running.refused
    )
    app = traced(guarded := RequestLog(access, settings.log_requests))
    direct = Direct(running.app.state.check, access, guarded) if app is guarded else None
    certificate, key = (*settings.tls, None, None)[:2]
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off",
        http=connection_type(_WAITING_MAX, _HEAD_SECONDS_MAX, direct),
        ssl_certfile=certificate, ssl_keyfile=key, limit_concurrency=_CONCURRENCY_MAX,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=_GRACE_SECONDS,
    )  # fmt: skip
    server = _Server(config)

    def stop(number: signal.Signals) -> None:
        server.force_exit = bool(ended)
        ended.append(number)
        running.events.close()
        server.should_exit = True
        loop.call_later(SILENT_SECONDS, say, LEFT.format("open requests are"))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)

    async def watch() -> None:
        await broken.wait()
        running.events.close()
        server.should_exit = True

    watching = asyncio.create_task(watch())
    try:
        await asyncio.to_thread(_listen, settings, address, running.begun)
        await server.serve([address])
    finally:
        watching.cancel()
        await asyncio.to_thread(running.stop)
    failed = running.error()
    if isinstance(failed, Failure):
        raise failed
    if failed is not None:
        raise Failure(Exit.OUTPUT, f"the service failed: {failed}; start again: it continues from what is on the disk")
    return EXIT_OF_SIGNAL[ended[0] if ended else 0]


def check_certificate(settings: ServeSettings) -> None:
    """Raise ``Failure`` if the certificate cannot be used: before the window is opened, which notes each start."""
    try:
        if settings.tls:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*settings.tls)
    except OSError as error:  # ssl.SSLError is one
        raise Failure(
            Exit.USAGE, f"cannot use the certificate: {error}; name PEM files, as in tls=CERTIFICATE,KEY"
        ) from None


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that has the address (``unix:PATH``: a file) and does not listen yet. Raises ``Failure``.

    It listens when the service can answer (``_listen``): before, clients are refused and try again.
    The socket names its protocol, because only then asyncio sets ``TCP_NODELAY``. Without it, each response of two
    parts would wait 40 ms for an acknowledgement.
    """
    try:
        if is_socket(host):
            return _bound_file(Path(host.partition(":")[2]))
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
        except BaseException:
            listening.close()
            raise
        return listening
    except OSError as error:
        raise _not_free(host, port, error) from None


def _bound_file(path: Path) -> socket.socket:
    """Return a socket of a file, for this user and its group. A file that no process listens on is replaced."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying, suppress(ConnectionRefusedError):
                trying.connect(str(path))
                raise OSError("another process listens there")
            path.unlink()
        listening.bind(str(path))
        path.chmod(0o660)
    except BaseException:
        listening.close()
        raise
    return listening


def _not_free(host: str, port: int, error: OSError) -> Failure:
    where, other = (host, "") if is_socket(host) else (f"{host}:{port}", "--port or ")
    return Failure(Exit.USAGE, f"cannot listen on {where}: {error}; choose another {other}--host")


def _listen(settings: ServeSettings, address: socket.socket, begun: Callable[[], object]) -> None:
    """Open the port, note the start, and say where it is."""
    try:
        address.listen(_BACKLOG)
    except OSError as error:
        raise _not_free(settings.host, settings.port, error) from None
    begun()
    if is_socket(settings.host):
        say(f"serving on {settings.host}")
        return
    host, port = address.getsockname()[:2]
    scheme = "https" if settings.tls else "http"
    named = f"[{host}]" if ":" in host else host
    say(f"serving on {scheme}://{named}:{port}")
