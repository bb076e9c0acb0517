"""What degrades is counted, and said in the log without flooding it."""

import asyncio

import httpx
from service_world import opened

from neardup import Document
from neardup_workers.doing.http.degrading import Degrading
from neardup_workers.doing.http.server import started
from neardup_workers.outside.process.clock import ArrivalClock
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.telemetry.metrics import SERVE, Metrics


def test_a_kind_is_said_at_once_and_then_every_five_minutes(caplog):
    """The line after a pause has what came during it; every request is counted."""
    seconds = [0.0]
    observer = Metrics(SERVE)
    degrading = Degrading(observer, now=lambda: seconds[0])
    for n in range(600):
        seconds[0] = n / 2
        degrading.refused(401, "192.0.2.7")
    for status in (403, 421, 429):
        degrading.refused(status, "192.0.2.8")
    seconds[0] = 300.0
    degrading.refused(401, "192.0.2.9")
    assert observer.value("service_requests", "401") == 601
    assert caplog.messages == [
        "requests without a valid token: 1, the last one from 192.0.2.7",
        "requests of tokens without the role or the collection: 1, the last one from 192.0.2.8",
        "requests for a host that is not this machine: 1, the last one from 192.0.2.8",
        "requests beyond the quota of their token: 1, the last one from 192.0.2.8",
        "requests without a valid token: 600, the last one from 192.0.2.9",
    ]


def test_counters_of_the_table_are_taken_as_they_are(caplog):
    """A step adds what has grown; a step that was undone takes nothing back."""
    observer = Metrics(SERVE)
    degrading = Degrading(observer, now=lambda: 0.0)
    for evicted in (0, 3, 2, 5):
        degrading.table({"evicted": evicted, "late": 0, "truncated": 1, "items": 9})
    assert [observer.value(name) for name in ("evicted", "late", "truncated")] == [5, 0, 1]
    assert sorted(message.partition(": ")[2].split(";")[0] for message in caplog.messages) == ["1", "3"]


def test_a_restart_calls_no_document_of_the_window_late(tmp_path, caplog):
    """The stored window is replayed at the time at which it ended, so most of its documents are old then."""
    settings = ServeSettings(window_seconds=1000.0, lateness_seconds=10.0)
    keeper = opened(tmp_path / "state", settings)
    for n in range(20):
        keeper.check([Document(str(n), f"{n} is the number of this text {n * n}", 20.0 * n)])
    keeper.log.close()
    keeper = opened(tmp_path / "state", settings)
    assert keeper.matcher.table.counts()["late"] > 10
    running = started(settings, keeper, lambda: None, ArrivalClock())

    async def asked():
        transport = httpx.ASGITransport(app=running.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            for id_, time in (("in time", 381.0), ("late", 300.0)):
                document = {"id": id_, "text": f"A text of the id {id_} alone", "timestamp": time}
                (await client.post("/v1/check", json=document)).raise_for_status()
            return (await client.get("/metrics")).text

    metrics = asyncio.run(asked())
    running.stop()
    keeper.log.close()
    assert "neardup_late_total 1.0" in metrics
    assert [message for message in caplog.messages if message.startswith("documents later")] == [
        "documents later than lateness_seconds: 1; pairs with documents that had left the window are missed"
    ]
