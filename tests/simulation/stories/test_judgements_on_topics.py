"""What a person says of two documents on topics: a record of ``documents`` with a header, and later copies obey."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_oracle import expected_clusters, wrong_clusters
from service_world import world_in
from sim_cluster import FILTERS, LINKERS, MATCHERS, SIGNERS, Cluster, Simulation
from sim_documents import Habits, Truth
from sim_growth import add_shards
from sim_scenario import Scenario
from sim_seeds import WEIGHTS, config
from sim_verdicts import _decided, _found, _seen
from verdict_oracle import one_process

from neardup_workers.outside.topics.verdicts import parse_run

FOX = "the quick brown fox jumps over the lazy dog while nothing moves at all in the small village of the north"
NEAR_FOX = FOX.replace("dog", "cat")
OWL = "an old owl sits upon the oak and says nothing until it has heard enough of what the people talk about"


class Desk(Cluster):
    """Each role once, over one partition and two shards."""

    def __init__(self) -> None:
        plan = Scenario(config(600.0, 60.0), Habits(skew_seconds=1e5), linkers=1, filters=1, shards=2)
        super().__init__(plan)
        self.roles = list(map(self.add, (SIGNERS, MATCHERS, LINKERS, FILTERS)))

    def verdicts(self) -> list[str]:
        """``id status original`` of each verdict, after a wait for quiet."""
        self.settle()
        lines = [line for record in self.memory.records(self.topics.verdicts) for line in parse_run(record.value)]
        return [" ".join(filter(None, [x.get("id"), x["status"], x.get("duplicate_of")])) for x in lines]

    def restart(self) -> None:
        """Kill every worker."""
        for place in self.roles:
            self.crash(place)

    def grow(self) -> None:
        """Go from two shards to eight."""
        assert add_shards(self, 8) == ""


@pytest.mark.parametrize("between", [Desk.verdicts, Desk.restart, Desk.grow])
def test_later_copies_obey_what_a_person_says(between: Callable[[Desk], object]) -> None:
    """A document that is not the same begins a story, one that is the same joins one: their later copies follow them,
    also after a restart of every worker, and on more shards. What holds already changes nothing; so does what names an
    unknown id."""
    desk = Desk()
    with desk.limits():
        for name, text in (("fox", FOX), ("cat", NEAR_FOX), ("owl", OWL)):
            desk.feed.document(name, text)
        desk.feed.judge("cat", NEAR_FOX, "fox", same=False)
        desk.feed.judge("owl", OWL, "fox", same=True)
        said = ["fox original", "cat duplicate fox", "owl original", "cat original", "owl update"]
        assert desk.verdicts() == said
        between(desk)
        desk.feed.document("cat 2", NEAR_FOX)
        desk.feed.document("owl 2", OWL)
        desk.feed.judge("cat", NEAR_FOX, "fox", same=False)
        desk.feed.judge("owl 2", OWL, "none", same=False)
        said += ["cat 2 duplicate cat", "owl 2 duplicate fox", "cat unchanged", "owl 2 unchanged fox"]
        assert desk.verdicts() == said


def test_a_service_decides_the_same_with_the_same_judgements(tmp_path: Path) -> None:
    """The later one of two documents is judged, as the service chooses it; both have the same stories in the end."""
    rng, desk, ids = random.Random(7), Desk(), [f"d{n}" for n in range(14)]
    texts = {id_: f"{rng.choice((FOX, NEAR_FOX, OWL))} {rng.choice(('', 'more', 'and more'))}" for id_ in ids}
    said: list[str] = []
    found: dict[str, tuple[int, str]] = {}
    with desk.limits(), world_in(tmp_path, keep_texts=True) as service:
        for n, id_ in enumerate(ids):
            desk.feed.document(id_, texts[id_])
            answer = service.check(id_, texts[id_])
            found[id_] = answer["cluster"], answer["status"]
            if n < 2 or rng.random() < 0.5:
                continue
            other, same = rng.choice(ids[:n]), rng.random() < 0.5
            query = f"a={other}&b={id_}&replace=true"
            reply = service.ask("POST", f"/v1/{'together' if same else 'apart'}?{query}")
            desk.feed.judge(id_, texts[id_], other, same=same)
            if reply.status_code == 200:
                [latest, *_] = service.ask("GET", f"/v1/documents/{id_}").json()["versions"]
                found[id_] = latest["cluster"], latest["status"]
                said.append(id_)
        desk.settle()
    records = desk.memory.records(desk.topics.verdicts)
    lines = [line for record in records for line in parse_run(record.value)]
    last = {line["id"]: line for line in lines if line["status"] != "unchanged"}
    assert len(said) > 3
    assert {id_: last[id_]["status"] for id_ in ids} == {id_: status for id_, (_, status) in found.items()}
    clusters = [last[id_]["cluster"] for id_ in ids]
    served = [found[id_][0] for id_ in ids]
    assert [clusters.index(one) for one in clusters] == [served.index(one) for one in served]


class Judging(Simulation):
    """A schedule in which a person judges now and then."""

    def _produce(self) -> None:
        super()._produce()
        named = [one for one in self.feed.truths if one.text and one.reason is None]
        if named and self.rng.random() < 0.5:
            one, other = self.rng.choice(named), self.rng.choice(named)
            self.feed.judge(one.id, one.text or "", other.id, same=self.rng.random() < 0.5)


@pytest.mark.parametrize("seed", range(12))
def test_judgements_survive_every_failure(seed: int) -> None:
    """Under crashes and lost answers the verdicts are those of one process with the same judgements at the same
    places, each record has one, and the clusters follow from them, also those that a restart restores."""
    rng = random.Random(f"{seed}/judging")
    habits = Habits(version=0.1, correction=0.1, resent=0.1, tombstone=0.1)
    plan = Scenario(
        config(1e6, 0.0, novelty=rng.choice(["off", "off", "words"])), habits, documents_partitions=rng.randint(1, 3),
        shards=rng.choice([1, 2, 5]), signers=2, matchers=2, linkers=2, filters=1, actions=300, interleaved=0.02,
        weights=dict(WEIGHTS), message_bytes=rng.choice([100, 512 << 10]), stretch_records=rng.choice([1, 500]),
        step_pairs=rng.choice([1, 1000]), link_rows=rng.choice([1, 3, 50_000]), standbys=rng.choice([0, 1]),
    )  # fmt: skip
    world = Judging(plan, seed)
    world.run()
    expected, places = one_process(world.signed[0], world.config)
    lines = sorted((line | {"partition": at} for at, line in _found(world)), key=lambda one: one["arrival"])
    assert Counter((one["partition"], one["offset"]) for one in lines) == Counter(map(_place, world.feed.truths))
    named = [line for line in lines if line["status"] != "removed"]
    assert [_seen(line) for line in named] == [_decided(verdict, places) for verdict in expected]
    assert Counter(line["status"] for line in lines if line.get("judged")).keys() <= {"original", "update"}
    records = world.memory.records(world.topics.clusters)
    every = expected_clusters(lines, [f"{line['partition']}-{line['offset']}" for line in lines])
    assert wrong_clusters(records, every, 0.0) == []


def _place(truth: Truth) -> tuple[int, int]:
    return truth.partition, truth.offset
