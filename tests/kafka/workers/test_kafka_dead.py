"""``neardup dead`` on a real broker: what signers refused is listed, and sent again once."""

from __future__ import annotations

import json
from collections.abc import Callable

from kafka_world import World, stories
from typer.testing import CliRunner, Result

from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.topics.names import SIGN
from neardup_workers.outside.transport.protocol import Record
from neardup_workers.running.cli.app import app


def test_refused_documents_are_replayed_once_and_signed_again(worlds: Callable[..., World]) -> None:
    """A replayed document has its key, partition and headers, and one that is refused again has another letter."""
    world = worlds(documents_partitions=2)
    world.place(SIGN)
    world.load(stories(4))
    world.send([(b"bad", b"{"), (b"none", b'{"id": "none"}')])
    world.settle()
    assert len(world.letters()) == 2  # they can be read, also by the commands

    def run(action: str, *arguments: str) -> Result:
        given = ["--bootstrap-servers", world.kafka.bootstrap_servers, "--topic-prefix", world.given["topic_prefix"]]
        return CliRunner().invoke(app, ["dead", action, *arguments, *map(str, given)])

    lines = [json.loads(line) for line in run("list").stdout.splitlines()]
    assert {(line["key"], line["reason"], line["replayed"]) for line in lines} == {
        ("bad", "not_json", False), ("none", "no_text", False),
    }  # fmt: skip
    assert "the line is not JSON" in run("show", "--reason", "not_json").stdout
    for said in ("1 documents were sent again", "0 documents were sent again; 1 were replayed before"):
        replayed = run("replay", "--reason", "not_json")
        assert (replayed.exit_code, replayed.stderr.strip()) == (Exit.SUCCESS, said)
    [bad] = [line for line in lines if line["key"] == "bad"]
    origin, again = documents(world, b"bad")
    assert again.headers == (*origin.headers, ("neardup-replayed", bad["letter"].encode()))
    assert again[2:5] == origin[2:5]
    assert again.partition == origin.partition
    world.settle()
    world.letters()  # waits until what is written can be read
    lines = [json.loads(line) for line in run("list").stdout.splitlines()]
    assert sorted((line["offset"], line["replayed"]) for line in lines if line["key"] == "bad") == [
        (origin.offset, True), (again.offset, False),
    ]  # fmt: skip


def documents(world: World, key: bytes) -> list[Record]:
    """The committed records of a key, with their headers."""
    return [record for record in world.records(world.topics.documents) if record.key == key]
