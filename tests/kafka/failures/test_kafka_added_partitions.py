"""Partitions are added to ``documents`` while workers run: workers sign every document once."""

from __future__ import annotations

from collections.abc import Callable

from kafka_harness import add_partitions
from kafka_world import World, stories

from neardup_workers.outside.topics.names import MATCH, SIGN

Worlds = Callable[..., World]


def test_documents_in_partitions_that_are_added_are_signed(worlds: Worlds) -> None:
    """A start at the end applies to the first start only; a later signer needs no start."""
    world = worlds(start="latest", documents_partitions=2)
    documents = stories(120)
    world.load(documents[:10])
    for role in (SIGN, MATCH):
        world.place(role)
    world.run(lambda: all(len(place.running()) == 2 for place in world.places), "both have started at the end")
    world.load(documents[10:40])
    add_partitions(world.kafka, world.topics.documents, 2)
    world.settings = world.settings.model_copy(update={"documents_partitions": 4})
    world.producer.close()  # a client caches the number of partitions
    world.producer = world.transport.producer(f"{world.names.prefix}-load")
    world.load(documents[40:])
    world.run(lambda: len(world.places[0].running()) == 4, "the added partitions are read")
    world.place(SIGN, "1", start=None)
    world.settle()
    assert world.pairs() == world.expected(documents[10:])
