"""Shards are added while matchers stand by for each other: their tables pass the control row as those of owners do.

``SIMULATION_SEEDS=60`` runs more schedules, as ``make torture`` does.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest
from sim_checks import check
from sim_cluster import MATCHERS, Simulation
from sim_seeds import scenario_of, tally
from test_growth import Growing

from neardup_workers.doing.stages.matching.matcher import MatchWorker

SEEDS, BATCH = int(os.environ.get("SIMULATION_SEEDS", "10")), 10
_TALLY: Counter[str] = Counter()


def matchers_of(cluster: Growing) -> list[MatchWorker]:
    return [place.worker for place in cluster.places if isinstance(place.worker, MatchWorker)]


def is_covered(cluster: Growing, shards: int) -> bool:
    """Whether every shard runs in one matcher, and the other one has its table at the committed offset."""
    one, two = matchers_of(cluster)
    return {*one.tables, *two.tables} == {*range(shards)} == {*one.standbys.ready, *two.standbys.ready}


@pytest.mark.long
def test_standbys_pass_the_row_and_take_over_old_and_new_shards() -> None:
    """2, 8 and 12 shards; after each growth the matcher of shard 0 is lost for good, and no window is read again."""
    cluster = Growing(standbys=1)
    with cluster.limits():
        cluster.send(40)
        for shards in (8, 12):
            cluster.grow(shards)
            for _ in range(20):
                cluster.send(8)
                if is_covered(cluster, shards):
                    break
            assert is_covered(cluster, shards)
            tables = [table for one in matchers_of(cluster) for table in one.standbys.tables.values()]
            assert {table.growth.shards for table in tables} == {table.shard.of for table in tables} == {shards}
            lost = next(place for place in cluster.places if 0 in getattr(place.worker, "tables", {}))
            before = cluster.observer.takeovers.copy()
            cluster.crash(lost)
            cluster.places.remove(lost)
            (survivor,) = matchers_of(cluster)
            for _ in range(20):
                cluster.go_on(1)
            assert {*survivor.tables} == {*range(shards)}
            assert cluster.observer.takeovers - before == Counter(kept=shards // 2)
            cluster.add(MATCHERS)
            cluster.send(40)
        cluster.ended()


@pytest.mark.long
def test_a_member_with_its_standbys_dies_while_the_row_is_passed() -> None:
    """Wherever the row is for owner and standby, the successor applies it from there on."""
    for turns in range(8):
        cluster = Growing(standbys=1, stretch_records=1, message_bytes=100)
        with cluster.limits():
            cluster.send(24)
            cluster.grow(8)
            cluster.feed.send()
            owner = next(place for place in cluster.places if 0 in getattr(place.worker, "tables", {}))
            for place in [*cluster.places * 2][:turns]:
                cluster.turn(place)
            cluster.crash(owner)
            cluster.places.remove(owner)
            cluster.go_on(16)
            cluster.add(MATCHERS)
            cluster.send(24)
            cluster.ended()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_random_schedules_of_standbys_and_growths(first: int) -> None:
    """With every failure of the schedules, at least two matchers, a standby of each shard, and administrators."""
    for seed in range(first, min(first + BATCH, SEEDS)):
        drawn = scenario_of(seed)
        weights = {**drawn.weights, "more_shards": 2.0}
        scenario = replace(
            drawn, standbys=1, matchers=max(2, drawn.matchers), shards=min(3, drawn.shards), weights=weights
        )
        simulation = Simulation(scenario, f"standbys and growth {seed}")
        try:
            simulation.run()
            _TALLY.update(tally(simulation, check(simulation)))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_those_schedules_reach_what_they_are_for() -> None:
    """Growths, and takeovers with and without a table, in the seeds together."""
    if _TALLY["runs"] < 10:
        pytest.skip("the schedules did not run here")
    per_sixty = {name: 60 * count / _TALLY["runs"] for name, count in _TALLY.items()}
    least = {"growths": 40, "takeovers kept": 200, "takeovers restored": 100, "documents of standbys": 4_000}
    assert {name: per_sixty.get(name, 0) for name, number in least.items() if per_sixty.get(name, 0) < number} == {}
