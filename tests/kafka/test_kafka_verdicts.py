"""Verdicts on a real broker: all four roles, with crashes and takeovers of the linker and the filter."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kafka_world import World, stories
from verdict_oracle import expected_lines

from stream import Document
from workers.topics.names import FILTER, LINK, MATCH, SIGN
from workers.topics.verdicts import parse_run

Worlds = Callable[..., World]


def lines_of(world: World) -> dict[int, list[dict[str, Any]]]:
    """The committed verdicts of each partition, in order."""
    found = defaultdict(list)
    for record in world.records(world.topics.verdicts):
        found[record.partition] += parse_run(record.value)
    return found


def check(world: World) -> None:
    """The verdicts equal the model's, each once and in order; ``documents.unique`` holds the kept documents, byte for
    byte.
    """
    expected = defaultdict(list)
    arrivals, links = world.records(world.topics.arrivals), world.records(world.topics.links)
    for place, line in expected_lines(arrivals, links, world.settings):
        expected[place >> 48].append(line)
    found = lines_of(world)
    assert found == expected
    sent = world.records(world.topics.documents)
    assert [(r.partition, r.offset) for r in sent] == [(s, x["offset"]) for s in sorted(found) for x in found[s]]
    kept = {
        (s, line["offset"]) for s, lines in found.items() for line in lines if line["status"] in ("original", "removed")
    }
    unique = [record[2:] for record in world.records(world.topics.unique)]
    assert unique == [record[2:] for record in sent if (record.partition, record.offset) in kept]


def feed(count: int) -> list[Document]:
    """Send stories, some of them twice."""
    chance = random.Random(3)
    documents = stories(count)
    return [chance.choice(documents)._replace(id=f"copy-{d.id}") if chance.random() < 0.2 else d for d in documents]


def test_every_document_gets_one_verdict_after_crashes_of_linker_and_filter(worlds: Worlds) -> None:
    """Linker and filter are killed, replaced by a standby and restored from the log; the last tombstone removes a
    document.
    """
    world = worlds(verdicts=True, session_timeout_seconds=2.0)
    documents = feed(300)
    for role in (SIGN, MATCH, LINK, FILTER):
        world.place(role)
    standby = world.place(LINK, "1")
    world.load(documents[:100])
    world.settle()
    world.run(lambda: sum(map(len, lines_of(world).values())) == 100, "the first hundred have a verdict")
    _, matcher, linker, filter_, _ = world.places
    linker.leave()
    filter_.kill()
    world.load(documents[100:200])
    world.run(lambda: sum(map(len, lines_of(world).values())) == 200, "another linker has gone on", seconds_max=60)
    assert standby.worker.running
    standby.kill()
    matcher.kill()
    world.load(documents[200:])
    world.send([(documents[0].id.encode(), None), (b"k", b"{")])
    world.settle()
    world.run(lambda: sum(map(len, lines_of(world).values())) == 302, "all have a verdict")
    world.settle()
    check(world)
