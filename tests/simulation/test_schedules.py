"""Random schedules of a whole cluster: with any failures, the output follows from the documents.

``SIMULATION_SEEDS=5000`` runs more schedules; ``torture.py`` runs them on all cores. ``make torture`` runs 2,000.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from sim_cluster import Cluster
from sim_seeds import run, tally, verdict

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "20"))
BATCH = 20
_TALLY: Counter[str] = Counter()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_failures_lose_repeat_and_falsify_nothing(first: int) -> None:
    """After crashes, zombies, lost answers, aborts and rebalances the output follows from the committed input."""
    for seed in range(first, min(first + BATCH, SEEDS)):
        _TALLY.update(tally(*verdict(seed)))


def test_the_schedules_reach_every_failure() -> None:
    """Runs without failures, expiry or pairs would prove nothing; the seeds together contain each of them."""
    if _TALLY["runs"] < 20:
        pytest.skip("the schedules did not run here")
    per_hundred = {name: 100 * count / _TALLY["runs"] for name, count in _TALLY.items()}
    least = {
        "pairs": 1000, "FencedError": 5, "FencedError of a zombie": 20, "OutcomeUnknownError": 50,
        "crash in a call": 50, "unreachable": 100, "expired": 500, "evicted": 100, "notices": 100, "trimmed": 30,
        "late": 100, "runs in the promise": 25, "pairs of contents promised": 100, "links promised": 200,
        "verdict duplicate": 1000, "verdict unchanged": 20, "verdict removed": 50, "linkers restored": 20,
        "linkers kept": 20, "documents of standing linkers": 300,
        "clusters": 100, "clusters ended": 50, "clusters not shown by their original": 50, "forwarded": 200,
        "ends inside a message": 100, "starts inside a message": 20,
        "canaries canaries": 1000, "canaries found": 2000, "canaries evicted": 5, "canaries truncated": 5,
        "takeovers kept": 400, "takeovers restored": 400, "documents of standbys": 8_000,
        "sources": 100, "records of sources": 2_000,
    }  # fmt: skip
    assert {name: per_hundred.get(name, 0) for name, number in least.items() if per_hundred.get(name, 0) < number} == {}


@pytest.mark.long
def test_a_seed_gives_the_same_run_again() -> None:
    """A failure can be repeated: log, output and committed offsets are equal to the last byte."""

    def seen(cluster: Cluster) -> list[object]:
        memory, topics = cluster.memory, cluster.topics
        groups = [
            memory.group(kind, topic).offsets
            for kind, topic in (("signers", topics.documents), ("matchers", topics.links))
        ]
        return [memory.records(topics.candidates), memory.records(topics.dead), cluster.signed, groups, cluster.events]

    assert seen(run(7)) == seen(run(7))
