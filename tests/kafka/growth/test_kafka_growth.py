"""Shards are added on a real broker while documents come and members are killed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka_deployment import Deployment
from kafka_world import World, stories
from verdict_oracle import expected_lines

from neardup.pairs.shards import Growth
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.outside.topics.names import LINK, MATCH, SIGN
from neardup_workers.outside.topics.verdicts import parse_run

Worlds = Callable[..., World]
# Logs are kept, so that the test can read them whole.
SETTINGS = {
    "verdicts": True, "shards": 2,
}  # fmt: skip
LIMITS = {"step_messages_max": 3, "trim_seconds": 3_600.0}
PROPERTIES = {"session.timeout.ms": 3_000, "transaction.timeout.ms": 4_000}
DOCUMENTS = stories(360)


class Growing:
    """A deployment whose members are killed and started again, each under its own name."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.deployment = Deployment(world.kafka.bootstrap_servers, folder, PROPERTIES, LIMITS, **world.given)
        self.members: dict[tuple[str, str], subprocess.Popen[bytes]] = {}

    def start(self, role: str, instance: str = "0") -> None:
        self.members[role, instance] = self.deployment.start(
            role, "--instance", instance, "--from", "earliest", "--supervised"
        )

    def kill(self, role: str, instance: str = "0") -> None:
        """SIGKILL, and a successor."""
        self.members[role, instance].kill()
        self.members[role, instance].wait()
        self.start(role, instance)

    def grow(self, shards: int) -> list[str]:
        done = self.deployment.run("topics", "shards", str(shards))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def growths(self) -> dict[int, Growth]:
        """What each shard has committed."""
        offsets = self.world.transport.group_offsets(self.world.names.group(MATCH), self.world.topics.links)
        return {shard: decode_window(at.metadata).growth for shard, at in offsets.items()}

    def decided(self) -> int:
        records = self.world.records(self.world.topics.verdicts)
        return sum(len(parse_run(record.value)) for record in records)

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        self.deployment.wait(is_so, what)


@pytest.fixture
def growing(worlds: Worlds, tmp_path: Path) -> Iterator[Growing]:
    made = Growing(worlds(**SETTINGS), tmp_path)
    yield made
    made.deployment.close()


def test_shards_are_added_under_load_while_members_are_killed(growing: Growing) -> None:
    """2, 8, 12 shards: the pairs are those of one process, each once, and the verdicts follow from the logs."""
    world = growing.world
    for role, instance in ((SIGN, "0"), (MATCH, "0"), (MATCH, "1"), (LINK, "0")):
        growing.start(role, instance)
    world.load(DOCUMENTS[:60])
    growing.wait(lambda: growing.decided() == 60, "the first documents are decided by two shards")
    world.load(DOCUMENTS[60:120])
    said = growing.grow(8)
    assert said[:1] == ["before: 2 shards"]
    assert said[1].startswith("now: 8 shards, from offset ")
    assert said[2].endswith("has 8 partitions, 2 before: matchers share them within a minute")
    growing.kill(MATCH, "0")
    world.load(DOCUMENTS[120:180])
    growing.start(MATCH, "2")
    growing.kill(LINK)
    growing.wait(lambda: len(growing.growths()) == 8, "the new shards have begun")
    world.load(DOCUMENTS[180:240])
    growing.grow(12)
    growing.kill(MATCH, "1")
    world.load(DOCUMENTS[240:300])
    growing.wait(lambda: len(growing.growths()) == 12, "the last shards have begun")
    growing.kill(MATCH, "2")
    growing.kill(SIGN)
    world.load(DOCUMENTS[300:])
    growing.wait(lambda: growing.decided() == len(DOCUMENTS), "all documents are decided")
    assert world.pairs() == world.expected(DOCUMENTS)
    growing.wait(lambda: {one.shards for one in growing.growths().values()} == {12}, "all shards have passed both rows")
    check_verdicts(world)
    refused = growing.deployment.run("topics", "shards", "8")
    assert refused.returncode == 2
    assert "the stream has 12 shards, and 8 are fewer: shards never end" in refused.stderr
    described = growing.deployment.run("topics", "describe")
    assert "12 shards" in described.stdout


def check_verdicts(world: World) -> None:
    """Each document has one verdict, equal to the model's on the logs of signed and links."""
    signed, links = world.records(world.topics.signed), world.records(world.topics.links)
    expected = [line for _, line in expected_lines(signed, links, world.settings)]
    found = [line for record in world.records(world.topics.verdicts) for line in parse_run(record.value)]
    assert sorted(found, key=lambda line: line["arrival"]) == expected
    assert {line["status"] for line in found} == {"original", "duplicate"}
