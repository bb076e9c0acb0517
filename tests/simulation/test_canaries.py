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
from quick_parameters import quick_first
from sim_checks import check
from sim_cluster import FILTERS, LINKERS, MATCHERS, SIGNERS, Cluster, Simulation
from sim_seeds import scenario_of
from sim_watched import Counting

from neardup.window import again
from neardup_workers.doing.stages.matching.canaries import ShardLooks
from neardup_workers.doing.stages.matching.cursors import TRAIL_BYTES
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.stretches import Stretch
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.telemetry.observer import Values
from neardup_workers.outside.topics.signed import decode_signed, encode_signed, position_of

# Metrics that may differ: those of canaries, bytes of messages, in which they stand, and times of this machine.
NOT_COMPARED = {"canaries", "canary_probes", "canary_bands", "recall_alarm", "bytes", "sent_bytes"}
NOT_COMPARED |= {"stage_seconds", "commit_seconds"}


class Reported(Counting):
    """Notes all that the processes report, in order, but for what canaries may change."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[tuple[object, ...]] = []

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        super().count(name, amount, label)
        self._note(name, float(amount), label)

    def set(self, name: str, value: float, label: str = "") -> None:
        self._note(name, float(value), label)

    def sample(self, name: str, values: Values) -> None:
        self._note(name, np.asarray(values).tolist(), "")

    def forget(self, label: str = "", name: str = "") -> None:
        self._note(name, "forgotten", label)

    def _note(self, name: str, value: object, label: str) -> None:
        if name not in NOT_COMPARED and not label.startswith("canaries,"):
            self.reports.append((name, value, label))


def simulated(seed: int, every: int, observer: Counting | None = None) -> Simulation:
    """The schedule of a seed; bytes of steps, messages and trails bound nothing, because canaries are bytes, too."""
    unbounded = {
        "step_bytes": LIMITS.step_bytes_max,
        "messages_bytes": LIMITS.messages_bytes_max,
        "trail_bytes": TRAIL_BYTES,
    }
    simulation = Simulation(replace(scenario_of(seed), canaries_every=every, **unbounded), seed)
    if observer is not None:
        simulation.observer = simulation.of_linkers = observer
    simulation.run()
    for place in simulation.places:
        if hasattr(place.worker, "observe"):
            place.worker.observe()
    return simulation


def without_canaries(cluster: Cluster) -> list[bytes]:
    """The messages of ``signed``, with their canaries taken out."""
    config, out = cluster.config, []
    for record in cluster.signed[0]:
        rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
        out += encode_signed(rows._replace(canaries=np.empty(0, np.uint8)), config.signing_fingerprint)
    return out


def outputs(cluster: Cluster) -> dict[str, Any]:
    """Every topic, record by record with offsets and times, what every group has committed (of matchers with stream
    time and counts), the stream time and the window of every table, and what the schedule has met."""
    memory, topics = cluster.memory, cluster.topics
    found: dict[str, Any] = {topic: memory.records(topic) for topic in topics if topic != topics.signed}
    found[topics.links] = cluster.links  # with what is trimmed
    found[topics.signed] = [record._replace(value=None) for record in cluster.signed[0]]
    shared = {SIGNERS: topics.documents, MATCHERS: topics.links, LINKERS: topics.signed, FILTERS: topics.verdicts}
    groups = {kind: memory.group(kind, topic).offsets for kind, topic in shared.items()}
    workers = [(place.name, place.worker) for place in cluster.places if isinstance(place.worker, MatchWorker)]
    tables = [
        (name, shard, held.stream_time, held.matcher.table.counts(), held.committed(), window_of(held))
        for name, worker in workers
        for tables in (worker.tables, worker.standbys.tables)
        for shard, held in tables.items()
    ]
    rows = {"rows of signed": without_canaries(cluster), "events": cluster.events}
    return found | groups | rows | {"tables": tables}


def window_of(held: ShardTable) -> list[Any]:
    """The places, contents, times and evidence of all slots of a table."""
    table = held.matcher.table
    slots = np.arange(table.oldest, table.slot_end)
    columns = again.contents(table, slots), again.counted_times(table, slots), table.fixed(slots)
    return [held.places(slots).tolist(), *(column.tolist() for column in columns)]


@pytest.mark.parametrize("seed", quick_first(range(12), 1))
def test_canaries_change_no_byte_of_any_output(seed: int) -> None:
    """The same schedule of crashes, zombies, aborts and rebalances leaves the same logs, places, stream times, windows
    and metrics without canaries."""
    reported = Reported(), Reported()
    plain, watched = (simulated(seed, every, one) for every, one in zip((0, 2), reported, strict=True))
    expected, found = outputs(plain), outputs(watched)
    for name, value in expected.items():
        assert found[name] == value, name
    assert reported[0].reports == reported[1].reports
    assert not plain.observer.canaries.total()
    check(watched)


@pytest.mark.long
def test_the_schedules_have_canaries() -> None:
    """Some are written, found, and take away nothing from the comparison above."""
    reported = Reported()
    canaries = simulated(1, 2, reported).observer.canaries
    assert canaries["canaries"] > 5
    assert canaries["found"] > 10
    names = {name for name, *_ in reported.reports}
    assert {"documents", "pairs", "verdicts", "near_pairs", "event_time_lag_seconds", "watermark_lag_seconds"} <= names


@pytest.mark.long
@pytest.mark.parametrize("seed", quick_first(range(8), 2))
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
