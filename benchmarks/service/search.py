"""S21: how long a search among the stories of the service takes, and what the index of words costs.

The store holds stories of two documents, with texts. Words of a search are drawn as often as texts use them: the
frequent ones are in nearly every story, which is the slowest case. A search is a request to the application, and the
answer of 24 stories is read.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np

from benchmarks.report import Result, Size, Target
from benchmarks.texts import documents
from neardup.documents.document import Document
from neardup_workers.doing.http.server import started
from neardup_workers.outside.process.clock import ArrivalClock
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.extra import words
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import Log

SEED = 21
ID = "S21-search"
SECONDS_MAX = 0.2
_STORIES: dict[Size, int] = {"smoke": 100, "default": 100_000, "large": 1_000_000}
_SEARCHES: dict[Size, int] = {"smoke": 10, "default": 300, "large": 300}
_CHARACTERS, _STEP = 2_000, 64


def run(size: Size) -> Iterator[Result]:
    """The 95th percentile of searches; bytes and time of the index for each document that it has."""
    count = _STORIES[size]
    with tempfile.TemporaryDirectory() as folder:
        settings = ServeSettings(keep_texts=True, durability="normal", window_documents=4 * count)
        fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
        log = Log(Path(folder), fingerprints, "normal", settings)
        clock = ArrivalClock()
        keeper = Keeper(settings, log, keep_texts=True, clock=clock)
        texts = _filled(keeper, count)
        running = started(settings, keeper, lambda: None, clock)
        try:
            seconds = asyncio.run(_searches(running.app, texts, _SEARCHES[size]))
            of_index = _index_cost(log, count)
        finally:
            running.stop()
            log.close()
    details = {"median seconds": float(np.median(seconds)), "longest seconds": float(np.max(seconds)), **of_index}
    target = Target("at most", SECONDS_MAX) if size != "smoke" else None
    yield Result(ID, f"{count:,} stories", float(np.quantile(seconds, 0.95)), "s", target, details)


def _filled(keeper: Keeper, count: int) -> list[str]:
    """Add a document and a copy for each story; return some of the texts."""
    kept: list[str] = []
    step: list[Document] = []
    for first in range(0, count, 1000):
        for n, one in enumerate(documents("5kb", min(1000, count - first), SEED + first, 0.0), first):
            text = one.text[:_CHARACTERS]
            kept += [text] if n % 50 == 0 else []
            step += [Document(f"https://s{n % 500}.example/{n}", text), Document(f"https://copy.example/{n}", text)]
            if len(step) >= _STEP:
                keeper.check(step)
                step = []
    if step:
        keeper.check(step)
    return kept


async def _searches(app: object, texts: list[str], count: int) -> list[float]:
    rng = random.Random(SEED)
    seconds = []
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for n in range(count):
            asked = " ".join(rng.choice(rng.choice(texts).split()) for _ in range(1 + n % 3))
            sort = ("size", "recent", "growth", "newest")[n % 4]
            begin = time.perf_counter()
            response = await client.get("/v1/clusters", params={"q": asked, "sort": sort, "limit": 24})
            seconds.append(time.perf_counter() - begin)
            response.raise_for_status()
    return seconds


def _index_cost(log: Log, count: int) -> dict[str, float]:
    """Bytes of the index by document; the time to enter and to take out a part of it, by document."""
    part, writer = min(count, 5_000), log.writer
    [size] = writer.execute("SELECT sum(length(block)) FROM words_data").fetchone()
    first, last = writer.execute("SELECT min(place), max(place) FROM documents").fetchone()
    writer.execute("BEGIN")
    out = _microseconds(lambda: words.leave(writer, first + 2 * part)) / part
    writer.execute("INSERT INTO words (words) VALUES ('delete-all')")
    into = _microseconds(lambda: words.enter(writer, last + 1 - 2 * part)) / part
    writer.execute("ROLLBACK")
    return {"bytes a document": size / count, "microseconds in": into, "microseconds out": out}


def _microseconds(change: Callable[[], None]) -> float:
    begin = time.process_time()
    change()
    return 1e6 * (time.process_time() - begin)


SCENARIOS = {ID: run}
