"""What limits cost on topics: by hour, source and cluster as in ``serve``, over restarts, and in ``neardup status``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from memory_transport import MemoryTransport
from shell_harness import Bench

from neardup import Document, Matcher, Signer
from neardup.pairs.estimates.limits import counted_documents, counted_recall
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.pairs.pipeline import match_step, match_steps
from neardup.stories.sources.losses import count_losses
from neardup_workers.doing.stages.matching.windows import KEPT_COUNTS
from neardup_workers.outside.options.running import StatusOptions
from neardup_workers.outside.telemetry.health import application
from neardup_workers.running.commands.topics.status import status

LIMITS = {"threshold": 0.7, "bucket_candidates_max": 4, "probe_candidates_max": 8, "documents_partitions": 1}
WORDS = [f"w{n}" for n in range(60)]


def flood(first: int, end: int) -> list[Document]:
    """Edits of one text, a document every ten minutes, of three sources."""
    return [
        Document(f"d{n}", " ".join([*WORDS[:n], "x", *WORDS[n + 1 :]]), 1.6e9 + 600 * n, source=f"s{n % 3}")
        for n in range(first, end)
    ]


def work(bench: Bench, documents: list[Document]) -> dict[str, Any]:
    """Let a signer and a matcher work documents off; return what the matcher says of its recall over HTTP."""
    for one in documents:
        fields = {"id": one.id, "text": one.text, "timestamp": one.timestamp, "source": one.source}
        bench.cluster.append(bench.names.topics.documents, 0, json.dumps(fields).encode(), one.id.encode())
    bench.run("sign", lambda: bench.has_taken_all("sign"))
    bench.run("match", lambda: bench.has_taken_all("match"))
    app = application(bench.metrics["match"].registry, bench.health["match"])
    body = b"".join(app({"PATH_INFO": "/recall", "REQUEST_METHOD": "GET"}, lambda status, headers: None))
    return dict(json.loads(body))


def printed(bench: Bench, capsys: pytest.CaptureFixture[str], *, as_json: bool) -> str:
    """What ``neardup status`` prints."""
    transport = MemoryTransport(bench.cluster, wait=lambda seconds: None)
    status(StatusOptions(as_json=as_json), transport, bench.settings)
    return capsys.readouterr().out


def test_limits_are_counted_by_hour_source_and_cluster_as_in_serve() -> None:
    """One shard counts what one table counts; a removed document names no cluster any more."""
    bench, documents = Bench(shards=1, verdicts=True, **LIMITS), flood(0, 60)
    found = work(bench, documents)["limits"]
    matcher, expected = Matcher(bench.settings), LossAccounts()
    batch = Signer(bench.settings).sign(documents).batch
    for part in match_steps(matcher, batch):
        count_losses(expected, matcher, batch, part, lambda item: documents[item].source or "")
    counts = matcher.table.counts()
    assert {name: found[name] for name in ("hours", "sources", "largest", "forgotten")} == expected.values()
    assert {one["source"] for one in found["sources"]} == {"s0", "s1", "s2"}
    assert len(found["hours"]) > 5
    assert found["documents"] == counted_documents(counts)
    assert (found["value"], found["truncated"], found["late"]) == (counted_recall(counts), counts["truncated"], 0)
    named = found["largest"][0]["id"]
    bench.cluster.append(bench.names.topics.documents, 0, None, named.encode())
    again = work(bench, flood(60, 61))
    assert named not in {one["id"] for one in again["limits"]["largest"]}


@pytest.mark.parametrize("shards", [1, 2])
def test_the_figures_of_limits_outlive_their_matcher(shards: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run is a process of its own; offsets, status, metric and path say the same."""
    bench = Bench(shards=shards, **LIMITS)
    found = [work(bench, flood(first, first + 20))["limits"] for first in (0, 20, 40)][-1]
    said = json.loads(printed(bench, capsys, as_json=True))["limits"]
    assert said["documents"] == found["documents"]
    assert said["pairs"] == found["value"] < 1
    assert (said["near_documents"], said["missed_pairs"]) == (found["near_documents"], found["missed"])
    assert bench.metrics["match"].value("recall_ratio", "documents,low") == found["documents"]
    if shards == 1:
        matcher = Matcher(bench.settings)
        match_step(matcher, Signer(bench.settings).sign(flood(0, 60)).batch)
        counts = matcher.table.counts()
        assert {name: said[name] for name in KEPT_COUNTS} == {name: counts[name] for name in KEPT_COUNTS}
    shown = printed(bench, capsys, as_json=False)
    assert "documents with a pair" in shown
    assert f"about {100 * said['pairs']:.2f} %" in shown


def test_a_deployment_without_pairs_has_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a fraction nor a table."""
    bench = Bench(**LIMITS)
    assert json.loads(printed(bench, capsys, as_json=True))["limits"]["documents"] is None
    assert "what limits of candidates leave" not in printed(bench, capsys, as_json=False)
