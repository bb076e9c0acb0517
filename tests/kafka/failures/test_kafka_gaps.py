"""Workers on a real broker that miss a part of a log, a whole one, or their own offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient
from kafka_deployment import wait_until
from kafka_world import Place, World, stories

from neardup_workers.doing.stages.agreement import Watch, agree, begun_again
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import FencedError, OffsetGoneError

Worlds = Callable[..., World]
DOCUMENTS = stories(90)


def verdicts(world: World) -> Counter[str]:
    """How many verdicts each document has."""
    return Counter(line["id"] for r in world.records(world.topics.verdicts) for line in parse_run(r.value))


def has(world: World, count: int) -> Callable[[], bool]:
    return lambda: len(verdicts(world)) == count


def turns_until_it_ends(linker: Place) -> None:
    for _ in range(400):
        try:
            linker.worker.turn(0.05, 500)
        except FencedError:  # the broker has not ended what the member before it left open
            linker.kill()
            linker.start()


def test_a_linker_below_the_log_of_signed_stops_and_goes_on_with_allow_gap(worlds: Worlds) -> None:
    """The sentence names the offsets; documents behind the gap get their verdicts, those in it none."""
    world = worlds(verdicts=True)
    for role in (SIGN, MATCH):
        world.place(role)
    linker = world.place(LINK)
    world.load(DOCUMENTS[:30])
    world.run(has(world, 30), "the first have a verdict")
    linker.leave()
    world.load(DOCUMENTS[30:60])
    world.settle()
    world.transport.trim(world.topics.signed, world.ends(world.topics.signed))
    linker = world.place(LINK, "1")
    with pytest.raises(OffsetGoneError, match=rf"of {world.topics.signed} are no longer in the log: .*--allow-gap"):
        turns_until_it_ends(linker)
    linker.leave()
    world.place(LINK, "2", allow_gap=True)
    world.load(DOCUMENTS[60:])
    world.run(has(world, 60), "the last have a verdict")
    assert verdicts(world) == Counter(document.id for document in DOCUMENTS[:30] + DOCUMENTS[60:])


def test_a_linker_whose_group_was_deleted_decides_no_document_twice(worlds: Worlds) -> None:
    """It starts with ``--from earliest`` behind its last verdicts, and the filter forwards each document once."""
    world = worlds(verdicts=True)
    for role in (SIGN, MATCH, FILTER):
        world.place(role)
    linker = world.place(LINK)
    world.load(DOCUMENTS[:30])
    world.run(has(world, 30), "the first have a verdict")
    linker.leave()
    with KafkaAdminClient(**world.kafka.options()) as admin:
        admin.delete_groups([world.names.group(LINK)])
    world.place(LINK, "1")
    world.load(DOCUMENTS[30:60])
    world.run(has(world, 60), "the others have a verdict")
    world.settle()
    assert set(verdicts(world).values()) == {1}
    kept = Counter(record.key for record in world.records(world.topics.unique))
    assert set(kept.values()) == {1}
    assert [place.endings for place in world.places] == [[]] * 4


def test_a_topic_that_the_tools_of_kafka_made_again_is_known_by_its_id(worlds: Worlds) -> None:
    """It has more records than the signer had read, so no offset shows it: the first of them would get no verdict."""
    world = worlds()
    signer, name = world.place(SIGN), world.topics.documents
    world.load(DOCUMENTS[:30])
    world.settle()
    watch, known = Watch(signer.transport, world.settings, SIGN), world.transport.topic_ids([name])
    watch.look()
    with KafkaAdminClient(**world.kafka.options()) as admin:
        admin.delete_topics([name])
        wait_until(lambda: not world.transport.topic_ids([name]), "it is gone")
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    assert world.transport.topic_ids([name]) != known
    assert begun_again(world.transport, world.settings) == {name}
    world.load(DOCUMENTS[30:])
    for look in (watch.look, lambda: agree(world.transport, world.settings)):
        with pytest.raises(Failure, match=f"^{name} was deleted and made again") as end:
            look()
        assert end.value.code == Exit.GAP
