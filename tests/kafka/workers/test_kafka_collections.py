"""Collections, sources, URLs and titles on a real broker."""

from __future__ import annotations

from collections.abc import Callable

from collection_events import SETTINGS, CollectionEvents, said
from kafka_world import World
from ledger_replay import ledger_of
from verdict_oracle import arrivals_of

from neardup_workers.doing.stages.verdicts.sources import read_sources
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.topics.verdicts import parse_run


def test_a_deployment_decides_collections_as_one_process_does(worlds: Callable[..., World]) -> None:
    """Also behind a linker that is killed: it reads ids and collections back from its verdicts, and its ledger of
    sources from their topic."""
    world = worlds(**SETTINGS, fields=("source=said_by", "origin=set"), verdicts=True, documents_partitions=1)
    events = CollectionEvents(7)
    for role in (SIGN, MATCH, LINK, FILTER):
        world.place(role)
    records = list(zip(events.keys, events.lines(), strict=True))
    world.send(records[:30])
    world.settle()
    linker = world.places[2]
    linker.made.trim()
    assert read_sources(world.records(world.topics.sources)).step == 30
    linker.kill()
    world.send(records[30:])
    world.settle()
    lines = [line for record in world.records(world.topics.verdicts) for line in parse_run(record.value)]
    # A transaction's marker takes an offset, too: events are counted.
    offsets = {f"0-{line['offset']}": f"0-{n}" for n, line in enumerate(lines)}
    found = [{name: offsets.get(value, value) for name, value in said(line).items()} for line in lines]
    assert found == events.expected()
    ledger = ledger_of(arrivals_of(world.records(world.topics.signed), world.settings), lines)
    assert list(linker.worker.sources._ledger.every()) == list(ledger.every()) != []
    unique = [(record.key, record.value) for record in world.records(world.topics.unique)]
    kept = ("original", "update", "removed")
    assert unique == [record for record, line in zip(records, lines, strict=True) if line["status"] in kept]
