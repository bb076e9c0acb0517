"""Recall in the figures, the metrics and the log of a service."""

import numpy as np
import pytest
from service_world import opened

from neardup.stream import Document
from neardup.stream.table.chains import KEYS
from neardup.workers.http.answers.recall import Recall
from neardup.workers.settings.serve import ServeSettings
from neardup.workers.telemetry.metrics import SERVE, Metrics


def documents(count, first=0):
    return [
        Document(f"d{n}", " ".join(f"w{n * 31 + k}" for k in range(40)), float(n)) for n in range(first, first + count)
    ]


@pytest.fixture
def watched(tmp_path):
    """A window with canaries for one document in three, and its recall."""
    keeper = opened(tmp_path / "state", ServeSettings(canaries_every=3, threshold=0.7))
    observer = Metrics(SERVE)
    yield keeper, observer, Recall(keeper.matcher.table.counts, keeper.canaries, observer)
    keeper.log.close()


def test_canaries_are_counted_and_measured(watched):
    """The gauges have the interval, the counter every outcome."""
    keeper, observer, recall = watched
    for n in range(0, 600, 30):
        keeper.check(documents(30, n))
        recall.count()
    recall.measure()
    found = recall.values()["canaries"]
    assert found["trials"] > 100
    assert found["faults"] == 0
    for bound in ("value", "low", "high"):
        assert observer.value("recall_ratio", f"canaries,{bound}") == found["recall"][bound]
    assert observer.value("canary_probes", "found") == found["outcomes"]["found"] > found["trials"]
    assert observer.value("recall_alarm") == 0
    exported = {sample.name: sample.labels for family in observer.collect() for sample in family.samples}
    assert exported["neardup_recall_ratio"] == {"estimate": "canaries", "bound": "high"}


def test_a_fault_is_said_in_the_log(watched, caplog):
    """The sentence has the number of misses and what to do."""
    keeper, observer, recall = watched
    add = keeper.matcher.table.probe_add

    def without_a_band(items, **options):
        if options.get("add", True):
            keys = items.keys.copy()
            keys[items.key_starts[:-1] + KEYS] ^= np.uint64(1 << 40)
            keys.flags.writeable = items.keys.flags.writeable
            items = items._replace(keys=keys)
        return add(items, **options)

    keeper.matcher.table.probe_add = without_a_band
    for n in range(0, 900, 30):
        keeper.check(documents(30, n))
        recall.count()
    assert observer.value("canary_probes", "fault") > 0
    assert any("was not found" in message and "restart the service" in message for message in caplog.messages)


def test_the_store_of_a_service_is_the_same_with_and_without_canaries(tmp_path):
    """Answers, rows, counters and stream time do not depend on what canaries look up, also after a restart."""
    found = []
    for every in (0, 2):
        settings, answers = ServeSettings(canaries_every=every, threshold=0.7), []
        for first in (0, 120):
            keeper = opened(tmp_path / f"state-{every}", settings)
            for n in range(first, first + 120, 20):
                answers += keeper.check(documents(20, n) + documents(3, max(0, n - 10)))
            keeper.remove("d7")
            rows = [row for rows in keeper.log.rows() for row in rows]
            counts = keeper.counts()
            keeper.log.close()
        erased = [row._replace(id=b"") if row.gone else row for row in rows]
        found.append((answers, erased, {name: counts[name] for name in counts if "bytes" not in name}))
    assert found[0] == found[1]


def test_a_restored_window_has_canaries_of_its_newest_documents(tmp_path):
    """So a table that lacks the last step is noticed."""
    settings = ServeSettings(canaries_every=5, threshold=0.7)
    keeper = opened(tmp_path / "state", settings)
    keeper.check(documents(60))
    keeper.log.close()
    again = opened(tmp_path / "state", settings)
    again.check(documents(60, 60))
    assert again.canaries.values()["trials"] > 0
    assert again.canaries.values()["faults"] == 0
    again.log.close()
