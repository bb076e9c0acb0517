"""A service in this process: the application with its writer and its log, called without a socket."""

import asyncio
import contextlib
import sqlite3
import threading
from functools import partial

import httpx
import uvicorn

from neardup_workers.doing.http.access.guard import Access
from neardup_workers.doing.http.access.tokens import tokens_of
from neardup_workers.doing.http.app import Service, application, publisher
from neardup_workers.doing.http.bodies import decoding
from neardup_workers.doing.http.connections import connection_type
from neardup_workers.doing.http.events import Events
from neardup_workers.doing.http.figures import Figures
from neardup_workers.doing.http.server import bound
from neardup_workers.doing.http.window import near, window_requests
from neardup_workers.doing.http.writer import Writer
from neardup_workers.outside.settings.serve import LIMITS, ServeSettings
from neardup_workers.outside.store.blocked import read_block_list
from neardup_workers.outside.store.disk.sums import sums_path
from neardup_workers.outside.store.extra import desk
from neardup_workers.outside.store.extra.outbox import Outbox, Rules
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import DURABILITIES, Log
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.telemetry.metrics import SERVE, Metrics

TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."
NEAR = TEXT.replace("Sunday", "Monday")
NOW = 1_700_000_000.0


def opened(folder, settings, clock=None, canaries_every=LIMITS.canaries_every, rules=None):
    """The window in a folder; ``rules`` say when a story has grown."""
    fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
    return Keeper(
        settings,
        Log(folder, fingerprints, "normal"),
        keep_texts=settings.keep_texts,
        history_seconds=settings.history_seconds,
        clock=clock,
        blocked=read_block_list(settings.blocked, create=True),
        announced=Outbox(rules or (Rules(lambda: NOW) if settings.webhook else None), separate=settings.separate),
        canaries_every=canaries_every,
    )


@contextlib.contextmanager
def edited(path):
    """A connection that changes the database of a service that has ended, by hand: its checksums go."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        yield connection
    sums_path(path).unlink(missing_ok=True)


async def _asked(app, requests):
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        return await asyncio.gather(*(client.request(*request[:2], **request[2]) for request in requests))


def ask_all(app, requests):
    """The responses of an application to requests (method, path, options) that are sent at the same time."""
    return asyncio.run(_asked(app, requests))


class World:
    """A service that tests can query; ``broken`` lists why its writer ended. ``given``: settings, and limits."""

    def __init__(self, folder, events=None, threshold=0.7, rules=None, **given):
        limits = LIMITS._replace(**{name: given.pop(name) for name in LIMITS._fields if name in given})
        self.settings = ServeSettings(threshold=threshold, **given)
        clock = (lambda: NOW) if self.settings.clock == "arrival" else None
        self.keeper = opened(folder, self.settings, clock, limits.canaries_every, rules)
        self.broken = []
        self.observer = Metrics(SERVE)
        reader = StoreReader(self.keeper.log.path, separate=self.settings.separate)
        last, count = self.keeper.log.meta()["places"] - 1, self.observer.count
        figures = Figures(lambda: self.keeper.matcher.table.documents, lambda: self.writer.waiting)
        figures.muted |= reader.ask(desk.muted)
        self.events = Events(
            reader.after, last, limits.event_readers_max, figures, reader.previews,
            lambda: count("service_event_readers_slow"), **(events or {}),
        )  # fmt: skip
        self.writer = Writer(
            self.keeper, limits.queue_documents_max, lambda: self.broken.append(1),
            publisher(self.observer, self.events, self.keeper.take_repeating), lambda: count("service_full"),
            here=not DURABILITIES[self.settings.durability][1],
        )  # fmt: skip
        self.decoding = decoding(self.settings, lambda: NOW, limits, self.observer.count)
        service = Service(
            self.settings, reader, self.events, self.observer, self.decoding,
            partial(near, self.writer), lambda: self.writer.alive, self.writer.ready, lambda: None,
            lambda: NOW, limits,
        )  # fmt: skip
        self.app = application(service, window_requests(self.writer))
        self.guarded = Access(self.app, tokens_of(self.settings), open_metrics=self.settings.open_metrics)

    def ask_all(self, requests):
        """The responses to requests (method, path, options) that are sent at the same time."""
        return ask_all(self.guarded, requests)

    def ask(self, method, path, **options):
        """The response to one request."""
        [response] = self.ask_all([(method, path, options)])
        return response

    def check(self, id_, text, query="", **more):
        """The answer for one document."""
        return self.ask("POST", f"/v1/check{query}", json={"id": id_, "text": text, **more}).json()

    def close(self):
        """End the writer and release the folder for another process."""
        self.writer.stop()
        self.keeper.log.close()


@contextlib.contextmanager
def world_in(folder, **settings):
    """A service in a folder, closed at the end."""
    world = World(folder, **settings)
    try:
        yield world
    finally:
        world.close()


@contextlib.contextmanager
def listening(app, direct=None):
    """The address of an application that runs in a thread; ``direct`` answers plain requests."""
    with bound("127.0.0.1", 0) as address:
        address.listen()
        http = connection_type(100, 60.0, direct)
        server = uvicorn.Server(uvicorn.Config(app, http=http, log_config=None, lifespan="off"))
        thread = threading.Thread(target=asyncio.run, args=(server.serve([address]),))
        thread.start()
        try:
            yield address.getsockname()
        finally:
            server.should_exit = server.force_exit = True
            thread.join()
