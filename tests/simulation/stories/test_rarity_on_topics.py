"""``measure = "jaccard_idf"`` on topics: with any failures, pairs, verdicts and counts are those of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import orjson
import pytest
from memory_transport import MemoryTransport
from quick_parameters import quick_first
from sim_cluster import LINKERS, MATCHERS, SIGNERS, Cluster, Simulation
from sim_documents import Habits
from sim_growth import growth_of
from sim_scenario import Scenario
from sim_seeds import scenario_of
from sim_verdicts import check_one_process, check_standing

from neardup import Config
from neardup.features.tokens.rarity import Rarity
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import Shard
from neardup.window import again
from neardup.window.steps import step
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.stretches import read_stretches
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.verdicts.beginning.restore import Offsets, Restored, restored
from neardup_workers.doing.stages.verdicts.evidence import Compared
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.outside.topics.signed import decode_signed, position_of

SETTINGS: dict[str, Any] = {
    "measure": "jaccard_idf", "verify": "exact", "shingles": "words", "k": 1, "threshold": 0.4, "recall": 0.5,
    "bands": 8, "rows": 2,
}  # fmt: skip


def simulated(seed: int) -> Simulation:
    """The run of a seed by other settings, with a linker."""
    scenario = scenario_of(seed)
    names = "window_seconds", "lateness_seconds", "window_documents", "novelty"
    config = Config(**SETTINGS, **{name: getattr(scenario.config, name) for name in names})
    # A slice ends with an epoch: steps of one slice would take more rounds than the wait for quiet has.
    scenario = replace(scenario, config=config, linkers=max(1, scenario.linkers), step_seconds=0.5)
    simulation = Simulation(scenario, seed)
    simulation.run()
    return simulation


def one_table(cluster: Cluster) -> tuple[Counter[tuple[str, str, float]], set[str], Matcher]:
    """The pairs that one process finds in ``signed``, by rounded similarity, the documents with a copy, and its
    matcher."""
    config, found, copied = cluster.config, Counter[tuple[str, str, float]](), set[str]()
    matcher = Matcher(config)
    for record in cluster.signed[0]:
        rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
        if rows.growth is None:
            batch, removals, _ = rows.stream()
            with step(matcher.table):
                for part in matcher.slices(batch, removals=removals):
                    pairs = part.matches
                    found.update(zip(pairs.older, pairs.newer, pairs.similarity.round(4).tolist(), strict=True))
                    is_copy = batch.contents[part.items, 1] == again.contents(matcher.table, part.slots)
                    copied.update(batch.ids_at(part.items[is_copy]))
    return found, copied, matcher


def weights_of(rarity: Rarity | None) -> tuple[object, ...]:
    """What decides all further weights."""
    assert rarity is not None
    rarity.freeze()
    columns = rarity._counts, rarity._earlier, *rarity.weights
    return *(column.tobytes() for column in columns), rarity.left


def restored_tables(cluster: Cluster) -> list[ShardTable]:
    """Each shard as a new owner restores it from what is committed."""
    log, out = cluster.memory.log(cluster.topics.signed, 0), []
    for shard, committed in cluster.memory.group(MATCHERS, cluster.topics.links).offsets.items():
        window = decode_window(committed.metadata)
        out.append(ShardTable(cluster.config, Shard(shard, cluster.scenario.shards), window))
        end = position_of(committed.offset, window.row)
        records = log.read(window.start, 1 << 30, committed.offset + (window.row > 0))[0]
        for stretch in read_stretches(records, cluster.config):
            list(out[-1].apply(stretch.until(end), publish=False))
        out[-1].commit()
    return out


def restored_linker(cluster: Cluster) -> Compared:
    """What a new linker restores."""
    log, topics = cluster.memory.log(cluster.topics.signed, 0), cluster.topics
    signed, verdicts, links = (
        cluster.memory.offsets(LINKERS, topic) for topic in (topics.signed, topics.verdicts, topics.links)
    )
    compared = Compared(cluster.config, lambda offset: log.read(offset, 1)[0][0].value or b"", 1 << 20)
    offsets = Offsets(signed[0], verdicts, links)
    found = restored(MemoryTransport(cluster.memory), cluster.link_plan, compared, offsets)
    return next(one for one in found if isinstance(one, Restored)).state.compared


@pytest.fixture(autouse=True)
def short_blocks() -> Iterator[None]:
    """Epochs of 3 documents and blocks of 12, so that windows begin within blocks, behind them and before them."""
    with (
        mock.patch("neardup.features.tokens.rarity.EPOCH_DOCUMENTS", 3),
        mock.patch("neardup.features.tokens.rarity.BLOCK_DOCUMENTS", 12),
    ):
        yield


def check(cluster: Cluster) -> None:
    """Pairs, verdicts and counts are those of one process, of each worker and of each that begins now."""
    check_one_process(cast(Any, SimpleNamespace(cluster=cluster, config=cluster.config)))
    check_standing(cast(Any, SimpleNamespace(cluster=cluster)))
    expected, copied, matcher = one_table(cluster)
    found = Counter[tuple[str, str, float]]()
    for record in cluster.memory.records(cluster.topics.candidates):
        pair = orjson.loads(record.value or b"")
        if "removed" not in pair:
            found[pair["older"], pair["newer"], pair["similarity"]] += 1
    assert not expected - found
    assert all({older, newer} & copied for older, newer, _ in found - expected)  # a shard may know no copy of it
    weights = weights_of(matcher.rarity)
    workers = [place.worker for place in cluster.places]
    tables = [table for one in workers if isinstance(one, MatchWorker) for table in one.tables.values()]
    assert len(tables) == growth_of(cluster).shards
    for table in (*tables, *restored_tables(cluster)):
        assert weights_of(table.matcher.rarity) == weights
    linkers = [one.state.compared for one in workers if isinstance(one, LinkWorker) and one.held.is_level]
    for compared in (*linkers, restored_linker(cluster)):
        assert compared.weighing is not None
        assert weights_of(compared.weighing._rarity) == weights


@pytest.mark.parametrize("seed", quick_first(range(12), 4))
def test_shards_and_linkers_weigh_as_one_process_does(seed: int) -> None:
    """Whatever fails, and whatever a step holds."""
    check(simulated(seed))


def test_logs_are_trimmed_below_the_documents_that_count() -> None:
    """The window is shorter than two blocks. The linker decides many epochs in a step."""
    config = Config(**SETTINGS, window_seconds=5.0, lateness_seconds=0.0)
    cluster = Cluster(Scenario(config, Habits(correction=0.3), linkers=1, shards=3))
    signer, matcher, linker = map(cluster.add, (SIGNERS, MATCHERS, LINKERS))
    with cluster.limits():
        for number in range(12):
            for _ in range(9):
                cluster.feed.send()
                cluster.turn(signer)
            for place in (matcher, linker) * 4:
                cluster.turn(place)
            for place in (linker, matcher):
                cluster.trim(place)
            if number == 7:
                cluster.crash(linker)
            cluster.memory.advance(6.0)
        cluster.settle()
    assert cluster.memory.log(cluster.topics.signed, 0).first > 0
    check(cluster)
