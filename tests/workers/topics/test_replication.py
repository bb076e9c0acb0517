"""Replicas: the values for new topics, the refused values, and the warnings."""

from __future__ import annotations

import logging

import pytest
from shell_harness import Bench, settings_of

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.topics.replication import IN_SYNC_KEY, in_sync_wanted, judge_replication, replicas_wanted
from neardup_workers.outside.topics.rules import warnings
from neardup_workers.outside.transport.kafka.transport import TopicDescription
from neardup_workers.outside.transport.protocol import Replication
from neardup_workers.running.commands.topics.making import create
from neardup_workers.running.service.roles import _warn_once


@pytest.mark.parametrize(("nodes", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (9, 3, 2)])
def test_new_topics_have_as_many_replicas_as_are_safe_and_can_be_had(nodes: int, replicas: int, in_sync: int) -> None:
    """These are the defaults. The check never refuses such topics; on one node it warns."""
    settings = settings_of()
    assert (replicas_wanted(settings, nodes), in_sync_wanted(settings, nodes)) == (replicas, in_sync)
    findings = judge_replication(Replication(nodes, replicas), {IN_SYNC_KEY: str(in_sync)}, allow_single=False)
    assert not any(finding.problem for finding in findings)
    assert any(finding.warning for finding in findings) == (nodes == 1)
    given = settings_of(replication_factor=4)
    assert (replicas_wanted(given, nodes), in_sync_wanted(given, nodes)) == (4, 2)


@pytest.mark.parametrize(
    ("nodes", "replicas", "in_sync", "findings_expected"),
    [
        (3, 1, "1", ["should be at least 2: what is committed is lost with one disk"]),
        (3, 3, "1", ["should be at least 2: a write is committed when one node has it"]),
        (3, 2, "3", ["must not exceed the number of replicas, 2"]),
        (3, 1, "2", ["should be at least 2: what", "must not exceed the number of replicas, 1"]),
        (3, 2, "1", ["should be at least 2: a write"]),
        (3, 3, None, []),
    ],
)
def test_too_few_replicas_are_refused_on_several_nodes_unless_they_are_allowed(
    nodes: int, replicas: int, in_sync: str | None, findings_expected: list[str]
) -> None:
    """Allowed topics cause a warning. More replicas in sync than replicas are never allowed: every send would fail."""
    configs = {} if in_sync is None else {IN_SYNC_KEY: in_sync}
    for allow in (False, True):
        findings = judge_replication(Replication(nodes, replicas), configs, allow_single=allow)
        said = [finding.warning or finding.problem for finding in findings if finding.warning or finding.problem]
        assert [text[: len(start)] for text, start in zip(said, findings_expected, strict=True)] == findings_expected
        for finding in findings:
            assert not (finding.problem and finding.warning)
            if finding.problem.startswith("should"):
                assert not allow
                assert "on this cluster of 3 nodes allow_single_replica accepts that" in finding.problem


@pytest.mark.parametrize("role", ["sign", "match"])
def test_a_worker_refuses_one_replica_on_a_cluster_of_several_nodes(role: str) -> None:
    """The refusal names the remedy; a worker starts if the settings allow it or the topics have more replicas."""
    bench = Bench()
    bench.cluster.nodes = 3
    with pytest.raises(
        Failure, match=r"signed.*: replication.factor=1 should be at least 2.*allow_single_replica"
    ) as found:
        bench.run(role, lambda: False)
    assert found.value.code == Exit.TOPIC
    bench.run(role, lambda: bench.health[role].ready().holds, allow_single_replica=True)
    for topic in bench.cluster._topics.values():
        topic.replicas = 3
    bench.run(role, lambda: bench.health[role].ready().holds)


def test_one_node_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The worker logs one line for all its topics, however often it restarts."""
    _warn_once.cache_clear()
    bench = Bench()
    bench.cluster.fail_next("producer", times=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            bench.run("sign", lambda: bench.health["sign"].ready().holds)
    lines = [record.message for record in caplog.records if "replication.factor=1" in record.message]
    assert len(lines) == 1
    topics = bench.names.topics
    assert lines[0].startswith(f"{topics.documents}, {topics.dead}, {topics.signed}, {topics.settings}: replication")


class Admin:
    """The topics of a cluster; it creates no topic."""

    def __init__(self, nodes: int) -> None:
        self.count, self.specs = nodes, {}

    def nodes(self) -> int:
        return self.count

    def create_topics(self, specs) -> list[str]:
        self.specs = {spec.name: spec for spec in specs}
        return list(self.specs)

    def describe(self, name: str) -> TopicDescription:
        spec = self.specs[name]
        return TopicDescription(name, spec.partitions, spec.replication, spec.configs)

    def bounds(self, name: str, *, written: bool = False) -> dict[int, tuple[int, int]]:
        return {0: (0, 0)}

    def close(self) -> None:
        pass


def made_on(nodes: int, monkeypatch: pytest.MonkeyPatch, **changes: object) -> dict:
    """The request of ``topics create`` to a cluster."""
    admin = Admin(nodes)
    making = "neardup_workers.running.commands.topics.making"
    monkeypatch.setattr(f"{making}.connect", lambda settings: admin)
    monkeypatch.setattr(f"{making}.agree", lambda transport, settings, made: "")
    create(settings_of(**changes))
    return admin.specs


def test_topics_are_made_with_replicas_and_a_minimum_in_sync(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Three and two on enough nodes; one and one with a warning on one node."""
    found = {(spec.replication, spec.configs[IN_SYNC_KEY]) for spec in made_on(3, monkeypatch).values()}
    assert found == {(3, "2")}
    assert "warning" not in capsys.readouterr().out
    found = {(spec.replication, spec.configs[IN_SYNC_KEY]) for spec in made_on(1, monkeypatch).values()}
    assert found == {(1, "1")}
    assert "replication.factor=1 should be at least 2" in capsys.readouterr().out


def test_topics_with_too_few_replicas_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless allowed, the settings are refused before any request to the cluster."""
    with pytest.raises(ConfigError, match=r"replication.factor=1 should be at least 2"):
        made_on(3, monkeypatch, replication_factor=1)
    assert made_on(3, monkeypatch, replication_factor=1, allow_single_replica=True)


def test_a_warning_names_every_topic_once() -> None:
    """Topics with the same finding share a sentence."""
    [finding, _] = judge_replication(Replication(1, 1), {IN_SYNC_KEY: "1"}, allow_single=False)
    assert warnings({"a": [finding], "b": [finding]}).startswith("a, b: replication.factor=1 should be at least 2")
    assert warnings({"a": []}) == ""
