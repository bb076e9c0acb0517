"""Linkers: floods, offsets of idle weeks, and starts without what a linker knew."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import pytest
from jsonschema import Draft202012Validator
from sim_links import LinkWorld

from neardup_workers.outside.transport.protocol import OffsetGoneError

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"


def test_a_flood_of_copies_and_near_copies_that_waited_takes_linear_time() -> None:
    """Each pair was tried with each copy of its documents: 12,000 documents that waited never ended."""
    calls = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for count in (10, 1_000):  # the first loads the kernels
        world, calls = LinkWorld(), 0
        near = [chr(0x400 + i) for i in range(count)]
        world.arrive(*(row for i in range(count) for row in ((f"x{i}", "x", i / 100), (near[i], near[i], i / 100))))
        world.link([(f"x{i}", near[i], 0.9) for i in range(count)], (0, 2 * count))
        before = sys.getprofile()
        sys.setprofile(counted)
        world.turns()
        sys.setprofile(before)
    verdicts = world.verdicts()
    assert sum(line.split()[1] == "original" for line in verdicts) == 1
    assert len(verdicts) == 2 * count
    assert calls < 400 * count


def test_documents_that_were_signed_without_verdicts_are_named_and_get_one(caplog: pytest.LogCaptureFixture) -> None:
    """The sentence promised verdicts that are marked as incomplete; there were none, and nothing said so."""
    unmatched = " from offset 1, row 0, to offset 2, row 0, was not matched by shard 0: the verdicts of these documents"
    world = LinkWorld()
    world.arrive(("d0", "d", 0), ("e0", "e", 1))
    world.link([], (0, 2))
    world.turns()
    world.arrive(("s", "s", 2), ("t", "t", 2))
    world.arrive(("d1", "d", 2))
    world.link([], (4, 5))
    with pytest.raises(Exception, match=re.escape(unmatched)):
        world.turns()
    world.plan = world.plan._replace(allow_gap=True)
    world.memory.advance(60.0)
    world.start("two")
    world.turns()
    assert world.verdicts() == ["d0 original", "e0 original", "s original", "t original", "d1 duplicate d0"]
    assert unmatched in caplog.text


def test_rows_that_were_trimmed_are_passed_with_allow_gap() -> None:
    """A linker below the beginning of the log ended with code 8, with ``--allow-gap`` too."""
    world = LinkWorld()
    world.arrive(("d0", "d", 0), ("e0", "e", 1))
    world.link([], (0, 2))
    world.turns()
    world.arrive(("lost", "l", 2))
    world.arrive(("lost too", "l", 3))
    world.linker.member.transport.trim(world.topics.signed, {0: 3})
    world.arrive(("d1", "d", 4))
    world.link([("lost", "d1", 0.9)], (2, 5))
    gone = r"^offsets 1 to 3 of signed.*send them again, and go on with --allow-gap$"
    world.memory.advance(60.0)
    world.start("two")
    with pytest.raises(OffsetGoneError, match=gone):
        world.turns()
    world.plan = world.plan._replace(allow_gap=True)
    world.memory.advance(60.0)
    world.start("three")
    world.turns()
    assert world.verdicts() == ["d0 original", "e0 original", "d1 duplicate d0"]


def test_a_linker_whose_group_was_deleted_goes_on_behind_its_verdicts() -> None:
    """With ``--from earliest`` it decided a second time what was decided, and the filters stopped."""
    world = LinkWorld()
    world.arrive(("-z", "", 0), ("x", "x", 0), ("y", "y", 1))
    world.link([("x", "y", 0.9)], (0, 3))
    world.turns()
    world.arrive(("z", "z", 2))
    for topic in (world.topics.signed, world.topics.links, world.topics.verdicts):
        world.memory.group("linkers", world.topics.signed).offsets_of(topic).clear()
    world.memory.advance(60.0)
    world.start("two")
    world.arrive(("x2", "x", 3))
    world.link([], (3, 5))
    world.turns()
    assert world.verdicts() == ["z removed", "x original", "y duplicate x", "z original", "x2 duplicate x"]


def test_offsets_of_an_idle_linker_are_committed_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka drops offsets of topics that a group does not subscribe to after a week, although the group lives."""
    world = LinkWorld()
    cluster = world.memory
    committed: dict[str, float] = {}
    write = cluster.write_offsets

    def noted(producer: object, topic: str, offsets: Mapping[int, object], membership: object) -> None:
        committed.update((f"{topic.partition('-')[0]} {partition}", cluster.now_seconds) for partition in offsets)
        write(producer, topic, offsets, membership)

    monkeypatch.setattr(cluster, "session_seconds", 1e9)
    monkeypatch.setattr(cluster, "write_offsets", noted)
    world.arrive(("a", "a", 0), ("b", "b", 1))
    world.link([], (0, 2))
    world.turns()
    world.linker.trim()
    for _ in range(8 * 24):
        cluster.advance(3600.0)
        world.turns(1)
        world.linker.trim()
    recent = sorted(topic for topic, at in committed.items() if cluster.now_seconds - at < 86_400)
    assert recent == sorted(committed) == ["links 0", "signed 0", "verdicts 0"]


def test_lines_of_verdicts_and_clusters_match_the_schemas_of_their_topics() -> None:
    """``verdict.json`` and ``cluster.json`` describe files; each topic needs a schema of its own."""
    world = LinkWorld()
    world.ranks = {"a": 1.5, "b": 2.5}
    world.arrive(("a", "a", 0), ("b", "b", 1), ("c", "c", 2), ("!", "", 0), ("d", "a", 3), ("-c", "", 0))
    world.link([("a", "b", 0.8), ("b", "c", 0.75)], (0, 6))
    world.turns()
    world.offsets["b"] = 1
    world.arrive(("b", "b", 4), ("e", "e", 400))
    world.link([], (6, 8))
    world.turns()
    lines = {
        topic: [
            json.loads(line)
            for record in world.memory.records(name)
            if record.value
            for line in record.value.splitlines()
        ]
        for topic, name in (("verdicts", world.topics.verdicts), ("clusters", world.topics.clusters))
    }
    statuses = {line["status"] for line in lines["verdicts"]}
    assert statuses == {"original", "duplicate", "unchanged", "removed", "refused"}
    assert lines["clusters"]
    rows = re.findall(r"\((\w+\.json)\) \| (.*) \|", (SCHEMAS / "README.md").read_text(encoding="utf-8"))
    for topic, written in lines.items():
        (name,) = [name for name, of in rows if f"topic `{topic}`" in of]
        validator = Draft202012Validator(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))
        for line in written:
            validator.validate(line)
