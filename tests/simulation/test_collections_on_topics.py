"""Collections, sources, URLs and titles on topics: all roles decide as one process does."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from collection_events import COLLECTIONS, FIELDS, SETTINGS, CollectionEvents, said
from sim_cluster import FILTERS, LINKERS, MATCHERS, SIGNERS, Cluster
from sim_documents import Habits
from sim_scenario import Scenario

from neardup import Config
from neardup_workers.outside.topics.messages import key_of
from neardup_workers.outside.topics.verdicts import parse_run


class Apart(Cluster):
    """All four roles over one partition of documents, with collections and sources."""

    def __init__(self) -> None:
        super().__init__(Scenario(Config(**SETTINGS), Habits(skew_seconds=1e9), linkers=1, filters=1))
        self.sign_plan = self.sign_plan._replace(fields=FIELDS)
        self.all = list(map(self.add, (SIGNERS, MATCHERS, LINKERS, FILTERS)))

    def send(self, events: CollectionEvents, crashed: int) -> None:
        """Send and decide everything; all roles die behind an event."""
        for n, (key, line) in enumerate(zip(events.keys, events.lines(), strict=True)):
            self.memory.append(self.topics.documents, 0, line, key)
            if n == crashed:
                self.turns()
                for place in self.all:
                    self.crash(place)
        self.turns()

    def turns(self) -> None:
        for _ in range(40):
            for place in self.all:
                self.turn(place)

    def lines(self) -> list[dict[str, Any]]:
        return [line for record in self.memory.records(self.topics.verdicts) for line in parse_run(record.value)]

    def check_others(self, lines: list[dict[str, Any]]) -> None:
        """Pairs, notices and clusters are within a collection, and have the keys of their documents."""
        collections = {f"0-{line['offset']}": line.get("collection") for line in lines}
        pairs = [(r.key, orjson.loads(r.value or b"{}")) for r in self.memory.records(self.topics.candidates)]
        for key, pair in pairs:
            id_ = pair.get("newer", pair.get("removed"))
            assert key == key_of(f"{pair.get('collection', '')}\x1f{id_}".encode(), separate=True)
        assert {pair.get("collection") for _, pair in pairs if "newer" in pair} == set(COLLECTIONS)
        for record in self.memory.records(self.topics.clusters):
            if record.value:
                cluster = orjson.loads(record.value)
                members = [cluster["cluster"], *(one["place"] for one in cluster["representatives"])]
                assert {collections[place] for place in members} == {cluster.get("collection")}
                assert "\x1f" not in cluster["id"] + cluster["earliest"]


@pytest.mark.parametrize("seed", range(4))
def test_ids_belong_to_a_collection_in_every_worker(seed: int) -> None:
    """Verdicts, versions and removals are those of one process, also after a restart of all roles; a line says its
    collection, source, URL and title."""
    events, cluster = CollectionEvents(seed), Apart()
    with cluster.limits():
        cluster.send(events, crashed=30)
        lines = cluster.lines()
    assert list(map(said, lines)) == events.expected()
    assert {line["status"] for line in lines} >= {"original", "duplicate", "removed"}
    cluster.check_others(lines)
    old = {f"0-{n}" for n, value in enumerate(events.values) if value.get("set") == "old"}
    assert {line["status"] for line in lines if f"0-{line['offset']}" in old} <= {"original", "unchanged"}
    assert any(line.get("matched") in old and line["similarity"] < 1 for line in lines if "similarity" in line)
    kept = [event for event, line in zip(zip(events.keys, events.lines(), strict=True), lines, strict=True)
            if line["status"] in ("original", "removed")]  # fmt: skip
    assert [(record.key, record.value) for record in cluster.memory.records(cluster.topics.unique)] == kept
