"""A view of a deployment in this process: topics in memory, and a test that plays the linker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from memory_transport import MemoryTransport
from service_world import ask_all
from topics_world import TopicsWorld

from neardup_workers.doing.http.view.server import started_view
from neardup_workers.outside.settings.serve import LIMITS, ViewSettings
from neardup_workers.outside.store.view import View
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.protocol import Record

WAIT_SECONDS_MAX = 60.0


class Deployment(TopicsWorld):
    """A view that follows topics in memory; ``decide`` publishes verdicts as a linker does."""

    def __init__(self, folder: Path, verdict_seconds_max: float = LIMITS.verdict_seconds_max, **settings: Any) -> None:
        self.settings = ViewSettings(window_seconds=1e9, **settings)
        self.topics = names_of(self.settings).topics
        super().__init__(dict.fromkeys((self.topics.documents, self.topics.verdicts, self.topics.candidates), 2))
        self.view = View(folder, {"verdicts": self.topics.verdicts}, "normal")
        transport = MemoryTransport(self.memory, time.sleep)
        self.ended: list[int] = []
        limits = LIMITS._replace(verdict_seconds_max=verdict_seconds_max)
        self.running = started_view(self.settings, transport, self.view, lambda: self.ended.append(1), limits=limits)
        self.pool = ThreadPoolExecutor(4)
        self.decided = 0

    def close(self) -> None:
        self.pool.shutdown()
        self.running.stop()
        self.view.close()

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The response to a request."""
        [response] = ask_all(self.running.app, [(method, path, options)])
        return response  # type: ignore[no-any-return]

    def asking(self, method: str, path: str, **options: Any) -> Future[httpx.Response]:
        """The future response to a request that waits for its verdict."""
        return self.pool.submit(self.ask, method, path, **options)

    def documents(self, count: int) -> list[Record]:
        """The documents, when there are so many."""
        until(lambda: len(self.memory.records(self.topics.documents)) >= count)
        return self.memory.records(self.topics.documents)

    def decide(self, record: Record, status: str, **fields: Any) -> None:
        """Publish the verdict about a record."""
        place = f"{record.partition}-{record.offset}"
        line = {"offset": record.offset, "id": (record.key or b"").decode(), "status": status, "arrival": self.decided}
        if status in ("original", "duplicate"):
            line |= {"cluster": place, "timestamp": 5.0, "content": "00"}
        self.decided += 1
        self.memory.append(self.topics.verdicts, record.partition, json.dumps(line | fields).encode(), b"")


def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        time.sleep(0.002)
