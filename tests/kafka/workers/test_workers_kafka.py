"""The commands on a real broker: topics, up, load, tail, metrics, and an orderly end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_deployment import WAIT_SECONDS_MAX, Deployment, documents, get, pairs_in
from ports import free_port

from neardup_workers.outside.transport.kafka.transport import KafkaSettings, KafkaTransport, TopicSpec

DOCUMENTS = 2_000


@pytest.fixture
def deployment(bootstrap_servers: str, tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(bootstrap_servers, tmp_path)
    yield made
    made.close()


def test_up_finds_the_pairs_that_run_finds_and_ends_in_order(deployment: Deployment) -> None:
    """Each pair is emitted once. The workers report ready, are scraped, and stop by SIGTERM, signers first."""
    lines = "\n".join(json.dumps(document) for document in documents(DOCUMENTS))
    (deployment.folder / "documents.jsonl").write_text(lines)
    expected = pairs_in(deployment.run("run", "--quiet", "documents.jsonl").stdout)
    assert len(expected) > DOCUMENTS / 5
    assert deployment.run("topics", "describe").returncode == 7
    created = deployment.run("topics", "create")
    assert created.returncode == 0, created.stderr
    described = deployment.run("topics", "describe").stdout
    assert "UNSAFE" not in described
    assert described.count("replication.factor") == described.count("warning:") == 6  # one node
    assert described.count("min.insync.replicas") == 6

    port = free_port(count=2)
    up = deployment.start("up", "--signers", "1", "--matchers", "1", "--from", "earliest", "--health-port", str(port))
    for each in (port, port + 1):
        deployment.wait(lambda each=each: get(each, "/readyz")[0] == 200, f"{each} is ready")  # type: ignore[misc]
    loaded = deployment.run("load", "documents.jsonl")
    assert loaded.stderr == f"{DOCUMENTS:,} documents loaded, 0 refused\n"
    tail = deployment.run("tail", "--from", "earliest", "--max", str(len(expected)))
    deployment.wait(lambda: f"neardup_documents_total {DOCUMENTS}.0" in get(port, "/metrics")[1], "all are signed")
    assert pairs_in(tail.stdout) == expected
    # A worker counts what it has committed, so readers may see the pairs before the counter is raised.
    deployment.wait(lambda: f"neardup_pairs_total {len(expected)}.0" in get(port + 1, "/metrics")[1], "all are counted")
    assert 'neardup_transactions_total{outcome="unknown"} 0.0' in get(port + 1, "/metrics")[1]
    assert get(port, "/healthz")[0] == 200
    up.send_signal(signal.SIGTERM)
    assert up.wait(WAIT_SECONDS_MAX) == 0, deployment.log
    stopped = [line.split(" | ")[0] for line in deployment.log.splitlines() if ": stopped" in line]
    assert stopped == ["sign-0", "match-0"]
    assert (get(port, "/healthz")[0], get(port + 1, "/healthz")[0]) == (0, 0)


def test_workers_end_with_a_supervisor_that_was_killed(deployment: Deployment) -> None:
    """No child process survives a killed supervisor."""
    assert deployment.run("topics", "create").returncode == 0
    port = free_port(count=2)
    up = deployment.start("up", "--signers", "1", "--matchers", "1", "--from", "earliest", "--health-port", str(port))
    for each in (port, port + 1):
        deployment.wait(lambda each=each: get(each, "/readyz")[0] == 200, f"{each} is ready")  # type: ignore[misc]
    up.kill()
    up.wait()
    for each in (port, port + 1):
        deployment.wait(lambda each=each: get(each, "/healthz")[0] == 0, f"{each} has ended")  # type: ignore[misc]


def test_up_ends_with_the_code_of_what_no_start_can_mend(deployment: Deployment) -> None:
    """Missing topics cannot be mended by a restart of a worker."""
    up = deployment.start("up", "--from", "earliest", "--health-port", "0")
    assert up.wait(WAIT_SECONDS_MAX) == 7
    assert "does not exist; create it first" in deployment.log
    assert "which no restart can repair: stopping all" in deployment.log


def test_topics_that_could_lose_live_state_are_refused(deployment: Deployment, bootstrap_servers: str) -> None:
    """An existing topic with such settings stays unchanged and is reported; the command creates no such topic."""
    refused = deployment.run("topics", "create", "--lateness-seconds", "10")
    assert refused.returncode == 2
    assert "are not read in one order of time" in refused.stderr
    transport = KafkaTransport(KafkaSettings(bootstrap_servers))
    name = f"{deployment.environment['NEARDUP_TOPIC_PREFIX']}documents"
    assert transport.create_topics([TopicSpec(name, 3, configs={"cleanup.policy": "compact"})]) == [name]
    created = deployment.run("topics", "create")
    assert created.returncode == 7
    assert f"{name}: cleanup.policy=compact must be delete" in created.stderr
    assert transport.describe(name).configs["cleanup.policy"] == "compact"
    transport.close()


def test_partitions_are_added_to_all_topics_of_documents_by_one_command(deployment: Deployment) -> None:
    """With verdicts on; a topic of verdicts that has fewer is a problem before a linker ends."""
    deployment.environment["NEARDUP_VERDICTS"] = "true"
    assert deployment.run("topics", "create").returncode == 0
    grown = deployment.run("topics", "create", "--grow", "--documents-partitions", "6")
    assert grown.returncode == 0, grown.stderr
    transport = KafkaTransport(KafkaSettings(deployment.environment["NEARDUP_BOOTSTRAP_SERVERS"]))
    prefix = deployment.environment["NEARDUP_TOPIC_PREFIX"]
    assert transport.partitions(f"{prefix}documents") == transport.partitions(f"{prefix}documents.unique") == 6
    transport.set_partitions(f"{prefix}documents", 7)
    transport.close()
    status = deployment.run("status", "--json")
    assert status.returncode == 7
    assert "neardup topics create --grow --documents-partitions 7" in status.stdout


def test_a_worker_of_another_deployment_or_with_other_settings_ends_and_says_so(deployment: Deployment) -> None:
    """The first deployment of a prefix owns it; the settings that decide results are those of topics create."""
    assert deployment.run("topics", "create").returncode == 0
    for command in (("topics", "create"), ("sign", "--from", "earliest")):
        second = deployment.run(*command, "--set", "group=second")
        assert second.returncode == 7, second.stderr
        assert "belong to the deployment with group 'neardup', which made them" in second.stderr
    other = deployment.run("match", "--from", "earliest", "--window-seconds", "5000")
    assert other.returncode == 9, other.stderr
    assert "window_seconds is 5000.0, but was 1000000000.0 in the settings in force" in other.stderr
    assert deployment.run("status", "--window-seconds", "5000").returncode == 9
    port = free_port()
    up = deployment.start("sign", "--from", "earliest", "--health-port", str(port))
    deployment.wait(lambda: get(port, "/readyz")[0] == 200, "the signer is ready")
    refused = deployment.run("topics", "create", "--window-seconds", "5000")
    assert refused.returncode == 9
    assert "have members: end all workers" in refused.stderr
    up.send_signal(signal.SIGTERM)
    assert up.wait(WAIT_SECONDS_MAX) == 0, deployment.log
    changed = deployment.run("topics", "create", "--window-seconds", "5000")
    assert "settings in force: window_seconds is 5000.0, but was 1000000000.0" in changed.stdout
    old = deployment.run("sign")
    assert old.returncode == 9
