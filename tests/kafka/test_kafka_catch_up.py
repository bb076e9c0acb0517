"""A backlog of hours is caught up without a lost pair, though lateness is minutes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import orjson
from kafka_world import World, reached

from stream import Document
from workers.topics.names import MATCH, SIGN

Worlds = Callable[..., World]
COUNT = 1_600
OUTAGE_SECONDS = 9.7 * 3_600
PARTITIONS = 8
# Partition 0 has ten times the documents of any other, partition 7 none.
SHARES = (10, 1, 1, 1, 1, 1, 1, 0)


def backlog(count: int, start: float, seconds: float) -> list[Document]:
    """Documents of distinct contents in order of time, half of them near-duplicates of one of the last twenty."""
    chance, words = random.Random(5), [f"word{i}" for i in range(4_000)]
    made: list[Document] = []
    for i in range(count):
        text = [chance.choice(words) for _ in range(40)]
        if made and chance.random() < 0.5:
            text = chance.choice(made[-20:]).text.split()
            text[chance.randrange(40)] = f"edit{i}"
        made.append(Document(f"d{i}", " ".join(text), start + seconds * i / count))
    return made


def write(world: World, documents: list[Document]) -> None:
    """As their producers did while the signers were away: each message with the time of its document."""
    chance = random.Random(7)
    world.producer.begin()
    for document in documents:
        value = orjson.dumps({"id": document.id, "text": document.text, "timestamp": document.timestamp})
        (partition,) = chance.choices(range(PARTITIONS), SHARES)
        assert document.timestamp is not None
        milliseconds = int(document.timestamp * 1000)
        world.producer.send(world.topics.documents, partition, value, document.id.encode(), milliseconds)
    world.producer.flush()
    world.producer.commit()


def test_the_pairs_of_a_backlog_are_those_of_an_undisturbed_stream(worlds: Worlds) -> None:
    """Two signers and two matchers, 9.7 hours of documents, a window of one hour and a lateness of ten minutes."""
    world = worlds(
        window_seconds=3_600.0, lateness_seconds=600.0, documents_partitions=PARTITIONS, bands_partitions=4,
    )  # fmt: skip
    documents = backlog(COUNT, time.time() - OUTAGE_SECONDS, OUTAGE_SECONDS)
    expected = world.expected(documents)
    assert len(expected) > COUNT / 2
    write(world, documents)
    for role in (SIGN, MATCH):
        for instance in ("0", "1"):
            world.place(role, instance)
    signers, ends = world.places[:2], world.ends(world.topics.documents)
    world.run(lambda: reached(signers, ends), "the backlog is signed", seconds_max=120.0)
    world.settle()
    found = world.pairs()
    assert (len(expected), len(set(expected) - set(found)), sorted(set(found) - set(expected))) == (
        len(expected),
        0,
        [],
    )
    assert found == expected
