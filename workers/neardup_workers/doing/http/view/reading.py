"""A second service on the window of another one: it reads what that one commits, for dashboards, and writes nothing.

SQLite lets it read the last commit from the log of changes (WAL) while the writer goes on, so the load of its clients
never reaches the writer. A thread looks for new verdicts, and for new lines of the audit log: removals, and stories
that are hidden. Both are on one machine: processes share the index of that log in memory.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from neardup.documents.document import Pair
from neardup_workers.doing.http.access.tokens import tokens_of
from neardup_workers.doing.http.app import Service, application, publisher
from neardup_workers.doing.http.bodies import Refused, decoding
from neardup_workers.doing.http.degrading import Degrading
from neardup_workers.doing.http.events import Events
from neardup_workers.doing.http.figures import Figures
from neardup_workers.doing.http.server import Running, bound, check_certificate, run
from neardup_workers.doing.http.view.requests import lacking
from neardup_workers.doing.http.window import READS, WINDOW_REQUESTS
from neardup_workers.doing.http.writer import READY
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.serve import LIMITS, ServeSettings
from neardup_workers.outside.store.answers import Answer
from neardup_workers.outside.store.disk.folder import damaged
from neardup_workers.outside.store.extra import audit, desk
from neardup_workers.outside.store.log import VERSION
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.store.rows import PLACE_MAX
from neardup_workers.outside.telemetry.metrics import SERVE, Metrics

# How often the thread looks, and verdicts that it takes at once.
_LOOK_SECONDS, _VERDICTS = 0.25, 10_000


def serve_reading(settings: ServeSettings, state: str) -> Exit:
    """Serve the window that another service keeps in a folder, until a signal; returns the exit code.

    Raises:
        Failure: there is no window, it was made with other settings, or the address cannot be used.
    """
    tokens, path = tokens_of(settings), Path(state) / "window.sqlite"
    check_certificate(settings)
    check_window(settings, path)
    address = bound(settings.host, settings.port)
    try:
        return asyncio.run(run(settings, address, tokens, partial(started_reading, settings, path)))
    finally:
        address.close()


def check_window(settings: ServeSettings, path: Path) -> None:
    """Raise ``Failure`` unless a window was made with these settings, by this version."""
    if not path.exists():
        raise Failure(Exit.USAGE, f"there is no window in {path.parent}: start serve --state there first")
    try:
        meta = StoreReader(path).ask(lambda connection: dict(connection.execute("SELECT name, value FROM meta")))
    except sqlite3.Error as error:
        raise damaged(path, str(error)) from None
    if (meta.get("version"), meta.get("signing")) != (VERSION, settings.signing_fingerprint):
        named = settings.signed_otherwise(json.loads(meta["settings"])) if "settings" in meta else ""
        why = named or "of another version"
        raise Failure(
            Exit.GENERATION, f"{path} was made with other settings ({why}): follow it with those of its service"
        )


def started_reading(settings: ServeSettings, path: Path, on_broken: Callable[[], None]) -> Running:
    """Start the service of a window that another process writes."""
    reader, observer = StoreReader(path, separate=settings.separate), Metrics(SERVE, {"role": SERVE})
    figures = Figures(reader.size, lambda: 0)
    slow = partial(observer.count, "service_event_readers_slow")
    events = Events(reader.after, reader.last(), LIMITS.event_readers_max, figures, reader.previews, slow)
    following = Following(reader, events, publisher(observer, events), on_broken)

    async def near(id_: str, collection: str | None) -> Sequence[Pair] | None:
        raise Refused("needs_window")

    service = Service(
        settings, reader, events, observer, decoding(settings, time.time, LIMITS, observer.count), near,
        lambda: following.error is None, lambda: READY,
        lambda: observer.set("service_window_documents", reader.size()),
    )  # fmt: skip
    following.start()
    return Running(
        application(service, {**dict.fromkeys(WINDOW_REQUESTS, lacking), **READS}),
        events,
        following.stop,
        lambda: following.error,
        Degrading(observer).refused,
    )


class Following(threading.Thread):
    """Publishes what another process has committed; ``error`` is why it has ended."""

    def __init__(
        self, reader: StoreReader, events: Events, publish: Callable[[list[Answer]], None],
        on_broken: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(name="following", daemon=True)
        self.error: BaseException | None = None
        self._reader, self._events, self._publish, self._on_broken = reader, events, publish, on_broken
        self._stopping = threading.Event()
        self._last = reader.last()
        events.figures.muted = reader.ask(desk.muted)
        self._line = self._newest_line()

    def run(self) -> None:
        """Look again and again."""
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self.look()
            except Exception as error:
                self.error = error
                self._on_broken()
                return

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self.join()

    def look(self) -> None:
        """Publish what is new."""
        while verdicts := self._reader.after(self._last, _VERDICTS):
            self._last = verdicts[-1]["place"]
            self._publish([Answer(one["id"], None, one, collection=one.get("collection")) for one in verdicts])
        if (line := self._newest_line()) == self._line:
            return
        lines = self._reader.ask(audit.read, PLACE_MAX, line - self._line)
        removed = {one["what"].get("id_sha256") for one in lines if one["did"] == "remove"}
        for one in self._events.named():
            if audit.hash_of(one[0]) in removed:
                self._events.forget(*one)
        self._events.figures.muted = self._reader.ask(desk.muted)
        self._line = line

    def _newest_line(self) -> int:
        lines = self._reader.ask(audit.read, PLACE_MAX, 1)
        return lines[0]["number"] if lines else 0
