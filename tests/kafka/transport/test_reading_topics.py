"""The consumer of the page about topics runs on a real broker, as a reader of the page would run it."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from debian_packages import absent
from jars import BrokerUnavailableError, find_java, resolve_jars
from kafka_world import World, stories

from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.topics.verdicts import parse_run

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 180.0  # of the consumer: Java compiles it first


@pytest.fixture
def consumer(tmp_path: Path) -> list[str]:
    """The command that runs the consumer of the page."""
    try:
        java, jars = find_java(), resolve_jars()
    except BrokerUnavailableError as error:
        absent(f"no jars of Kafka: {error}")
    if shutil.which("javac") is None:
        absent("javac is not on the path: install a JDK")
    found = re.search(r"^```java\n(.*?)^```", (ROOT / "docs" / "TOPICS.md").read_text(encoding="utf-8"), re.M | re.S)
    assert found
    (tmp_path / "ReadTopics.java").write_text(found[1], encoding="utf-8")
    return [java, "-cp", f"{jars}/*", str(tmp_path / "ReadTopics.java")]


def lines_wanted(world: World) -> list[str]:
    """What the consumer prints about the committed records."""
    wanted = []
    for record in world.records(world.topics.verdicts):
        for line in parse_run(record.value):
            status = line["status"]
            text = {"original": f"keep {line.get('id')}"}.get(status, status)
            if "duplicate_of" in line:
                text = f"drop {line['id']}, {status} of {line['duplicate_of']}"
            wanted.append(f"verdict {record.partition}-{line['offset']} {text}")
    for record in world.records(world.topics.clusters):
        cluster = orjson.loads(record.value or b"")
        best = cluster["representatives"]
        shown = f", show {best[0]['id']}" if best else ""
        wanted.append(f"cluster {cluster['cluster']} has {cluster['members']} members{shown}")
    return sorted(wanted)


def test_the_consumer_of_the_page_prints_every_verdict_and_cluster(
    worlds: Callable[..., World], consumer: list[str]
) -> None:
    """It reads verdicts of each status and the changes of clusters, as the workers wrote them."""
    world = worlds(verdicts=True)
    for role in (SIGN, MATCH, LINK, FILTER):
        world.place(role)
    documents = stories(30)
    world.load([*documents, documents[3]._replace(id="copy"), documents[4]])
    world.send([(documents[0].id.encode(), None), (b"k", b"{")])
    world.settle()
    wanted = lines_wanted(world)
    assert {line.split()[2].rstrip(",") for line in wanted if line.startswith("verdict")} == {
        "keep", "drop", "removed", "refused",
    }  # fmt: skip
    assert any(line.startswith("cluster") for line in wanted)
    command = [*consumer, world.kafka.bootstrap_servers, world.topics.verdicts, world.topics.clusters]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        limit = threading.Timer(SECONDS_MAX, running.kill)
        limit.start()
        assert running.stdout
        found = [line.rstrip("\n") for _, line in zip(wanted, running.stdout, strict=False)]
        limit.cancel()
        running.kill()
    assert sorted(found) == wanted
