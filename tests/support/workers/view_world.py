"""A view of a deployment in this process: topics in memory, and a test that plays the linker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from memory_transport import MemoryCluster, MemoryTransport

from neardup_workers.doing.http.view.server import started_view
from neardup_workers.outside.settings.serve import LIMITS, ViewSettings
from neardup_workers.outside.store.view import View
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.protocol import Record

WAIT_SECONDS_MAX = 60.0


class Deployment:
    """A view that follows topics in memory; ``decide`` publishes verdicts as a linker does."""

    def __init__(self, folder: Path, verdict_seconds_max: float = LIMITS.verdict_seconds_max, **settings: Any) -> None:
        self.settings = ViewSettings(window_seconds=1e9, **settings)
        self.topics = names_of(self.settings).topics
        self.cluster = MemoryCluster()
        for topic in (self.topics.documents, self.topics.verdicts, self.topics.candidates):
            self.cluster.create(topic, 2)
        self.view = View(folder, {"verdicts": self.topics.verdicts}, "normal")
        transport = MemoryTransport(self.cluster, time.sleep)
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

        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.running.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
                return await client.request(method, path, **options)

        return asyncio.run(run())

    def asking(self, method: str, path: str, **options: Any) -> Future[httpx.Response]:
        """The future response to a request that waits for its verdict."""
        return self.pool.submit(self.ask, method, path, **options)

    def documents(self, count: int) -> list[Record]:
        """The documents, when there are so many."""
        until(lambda: len(self.cluster.records(self.topics.documents)) >= count)
        return self.cluster.records(self.topics.documents)

    def decide(self, record: Record, status: str, **fields: Any) -> None:
        """Publish the verdict about a record."""
        place = f"{record.partition}-{record.offset}"
        line = {"offset": record.offset, "id": (record.key or b"").decode(), "status": status, "arrival": self.decided}
        if status in ("original", "duplicate"):
            line |= {"cluster": place, "timestamp": 5.0, "content": "00"}
        self.decided += 1
        self.cluster.append(self.topics.verdicts, record.partition, json.dumps(line | fields).encode(), b"")


def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        time.sleep(0.002)
