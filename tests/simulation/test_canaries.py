"""Canaries in ``signed`` change nothing else of a cluster with failures, and each is looked up at most once a shard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from sim_checks import check
from sim_cluster import FILTERS, LINKERS, MATCHERS, SIGNERS, Cluster, Simulation
from sim_seeds import scenario_of

from neardup.workers.settings.kafka import MESSAGES_BYTES_MAX, STEP_BYTES_MAX
from neardup.workers.stages.matching.canaries import ShardLooks
from neardup.workers.stages.matching.cursors import TRAIL_BYTES
from neardup.workers.stages.matching.shard_table import ShardTable
from neardup.workers.stages.matching.stretches import Stretch
from neardup.workers.topics.signed import decode_signed, encode_signed, position_of


def simulated(seed: int, every: int) -> Simulation:
    """The schedule of a seed; bytes of steps, messages and trails bound nothing, because canaries are bytes, too."""
    unbounded = {"step_bytes": STEP_BYTES_MAX, "messages_bytes": MESSAGES_BYTES_MAX, "trail_bytes": TRAIL_BYTES}
    simulation = Simulation(replace(scenario_of(seed), canaries_every=every, **unbounded), seed)
    simulation.run()
    return simulation


def without_canaries(cluster: Cluster) -> list[bytes]:
    """The messages of ``signed``, with their canaries taken out."""
    config, out = cluster.config, []
    for record in cluster.signed[0]:
        rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
        out += encode_signed(rows._replace(canaries=np.empty(0, np.uint8)), config.signing_fingerprint)
    return out


def outputs(cluster: Cluster) -> list[Any]:
    """Every topic, record by record with offsets and times, and what every group has committed."""
    memory, topics = cluster.memory, cluster.topics
    read = (topics.candidates, topics.dead, topics.verdicts, topics.clusters, topics.unique)
    shared = {SIGNERS: topics.documents, MATCHERS: topics.links, LINKERS: topics.signed, FILTERS: topics.verdicts}
    groups = [memory.group(kind, topic).offsets for kind, topic in shared.items()]
    signed = [record._replace(value=None) for record in cluster.signed[0]]
    return [*map(memory.records, read), cluster.links, groups, cluster.events, signed, without_canaries(cluster)]


@pytest.mark.parametrize("seed", range(12))
def test_canaries_change_no_byte_of_any_output(seed: int) -> None:
    """The same schedule of crashes, zombies, aborts and rebalances leaves the same logs and places without canaries."""
    plain, watched = simulated(seed, 0), simulated(seed, 2)
    assert outputs(plain) == outputs(watched)
    assert not plain.observer.canaries.total()
    check(watched)


def test_the_schedules_have_canaries() -> None:
    """Some are written, found, and take away nothing from the comparison above."""
    canaries = simulated(1, 2).observer.canaries
    assert canaries["canaries"] > 5
    assert canaries["found"] > 10


@pytest.mark.parametrize("seed", range(8))
def test_a_shard_looks_up_each_canary_once_whatever_ends(seed: int) -> None:
    """Of no part of the log a shard looks up the canaries twice, in all processes together; without crashes and lost
    answers it leaves out none."""
    seen: dict[int, list[tuple[int, int]]] = defaultdict(list)
    look = ShardLooks.look

    def noted(self: ShardLooks, table: ShardTable, first: int, stretches: Iterable[Stretch]) -> None:
        seen[table.shard.number].append((first, table.position))
        look(self, table, first, stretches)

    with mock.patch.object(ShardLooks, "look", noted):
        simulation = simulated(seed, 2)
    events = simulation.events
    last = max((record.offset for record in simulation.signed[0]), default=-1)  # a short schedule writes nothing
    ends_early = events["crash"] + events["crash in a call"] + events["OutcomeUnknownError"] + events["zombie"]
    for spans in seen.values():
        spans.sort()
        assert all(end <= first for (_, end), (first, _) in pairwise(spans))
        if not ends_early:
            assert all(end == first for (_, end), (first, _) in pairwise(spans))
            assert spans[-1][1] >= position_of(last + 1)
