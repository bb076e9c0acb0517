"""Recall in the figures, the metrics and the log of a service."""

import pytest
from benchmarks.recall.canaries import lose_a_band_of
from service_world import opened

from neardup import Document, Matcher, Signer
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.pairs.pipeline import match_steps
from neardup.stories.sources.losses import count_losses
from neardup_workers.doing.http.answers.recall import Recall
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.log import StoreFull
from neardup_workers.outside.telemetry.metrics import SERVE, Metrics


def documents(count, first=0):
    return [
        Document(f"d{n}", " ".join(f"w{n * 31 + k}" for k in range(40)), float(n), source=f"s{n % 4}")
        for n in range(first, first + count)
    ]


@pytest.fixture
def watched(tmp_path):
    """A window with canaries for one document in three, and its recall."""
    keeper = opened(tmp_path / "state", ServeSettings(threshold=0.7), canaries_every=3)
    observer = Metrics(SERVE)
    yield keeper, observer, Recall(keeper.matcher.table.counts, keeper.canaries, keeper.losses, observer)
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
    lose_a_band_of(keeper.matcher.table)
    for n in range(0, 900, 30):
        keeper.check(documents(30, n))
        recall.count()
    assert observer.value("canary_probes", "fault") > 0
    assert any("was not found" in message and "restart the service" in message for message in caplog.messages)


def test_what_limits_cost_is_known_by_hour_source_and_cluster(tmp_path):
    """As a run counts it; a removed document names no cluster any more, and a step that failed counts for nothing."""
    limits = {"bucket_candidates_max": 4, "probe_candidates_max": 8}
    base = [f"w{n}" for n in range(60)]
    flood = [
        Document(f"d{n}", " ".join([*base[:n], "x", *base[n + 1 :]]), n * 600.0, source=f"s{n % 3}") for n in range(60)
    ]
    settings = ServeSettings(threshold=0.7, **limits)
    keeper, matcher, expected = (
        opened(tmp_path / "state", settings, canaries_every=3),
        Matcher(settings),
        LossAccounts(),
    )
    recall = Recall(keeper.matcher.table.counts, keeper.canaries, keeper.losses, Metrics(SERVE))
    for first in range(0, 60, 20):
        batch = Signer(settings).sign(flood[first : first + 20]).batch
        for part in match_steps(matcher, batch):
            count_losses(expected, matcher, batch, part, lambda item, first=first: flood[first + item].source)
        keeper.check(flood[first : first + 20])
    found = recall.values()["limits"]
    assert {name: found[name] for name in ("hours", "sources", "largest", "forgotten")} == expected.values()
    assert [one["hour"] for one in found["hours"]] == [3600 * hour for hour in range(1, 10)]
    assert {one["source"] for one in found["sources"]} == {"s0", "s1", "s2"}
    assert sum(one["missed_pairs"] for one in found["hours"]) == pytest.approx(found["missed"], abs=10)
    named = found["largest"][0]["id"]
    keeper.remove(named)
    assert named not in {one["id"] for one in recall.values()["limits"]["largest"]}
    before = keeper.losses.values()

    def full(*_):
        raise StoreFull("no room")

    keeper.log.append = full
    with pytest.raises(StoreFull):
        keeper.check([one._replace(id=f"e{n}", timestamp=36_000.0) for n, one in enumerate(flood)])
    assert keeper.losses.values() == before
    keeper.log.close()


def test_a_restored_window_has_canaries_of_its_newest_documents(tmp_path):
    """So a table that lacks the last step is noticed."""
    settings = ServeSettings(threshold=0.7)
    keeper = opened(tmp_path / "state", settings, canaries_every=5)
    keeper.check(documents(60))
    keeper.log.close()
    again = opened(tmp_path / "state", settings, canaries_every=5)
    again.check(documents(60, 60))
    assert again.canaries.values()["trials"] > 0
    assert again.canaries.values()["faults"] == 0
    again.log.close()
