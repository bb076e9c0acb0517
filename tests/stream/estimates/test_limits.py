"""What limits cost equals a plain count over the same stream, whatever the batches, and undone steps count nothing."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document, Matcher, Signer
from neardup.pairs.batches import bucket_keys, select, table_items
from neardup.pairs.estimates.limits import counted_documents, recall_by_limits
from neardup.pairs.pipeline import match_step
from neardup.window import BandTable
from neardup.window.chains import UNCOMPARED_MAX
from neardup.window.counters import PAIR_PARTS
from neardup.window.steps import step

LIMITS = {"bucket_candidates_max": 8, "probe_candidates_max": 20}
UNLIMITED = {"bucket_candidates_max": 100_000, "probe_candidates_max": None}


def one_cluster(count: int, seed: int, of: int = 3, words: int = 60) -> list[Document]:
    """One document in ``of`` is an edit of one text; the others are edits of many."""
    rng = random.Random(seed)
    texts = [[f"w{rng.randrange(10**6)}" for _ in range(words)] for _ in range(count // 20)]
    out = []
    for i in range(count):
        text = list(texts[0] if i % of == 0 else rng.choice(texts))
        for place in rng.sample(range(words), rng.randint(1, words // 8)):
            text[place] = f"x{rng.randrange(10**6)}"
        out.append(Document(f"d{i}", " ".join(text)))
    return out


@pytest.mark.parametrize("seed", quick_first(range(6), 3))
@pytest.mark.parametrize("candidates_max", [7, 100_000])
def test_the_expected_loss_equals_a_plain_count(seed: int, candidates_max: int) -> None:
    """Of each truncated probe: the documents in its buckets that it did not compare, times the fraction of pairs among
    those that it did."""
    documents, config = one_cluster(240, seed), Config(threshold=0.6, **LIMITS)
    batch = Signer(config).sign(documents).batch
    keys = bucket_keys(batch, config)
    all_pairs = {pair[:2] for pair in Deduplicator(Config(threshold=0.6, **UNLIMITED)).process(documents)}
    table = BandTable(config.plan.width, Matcher(config).table.limits)
    with step(table):
        found = table.probe_add(table_items(batch, keys))
    buckets: dict[int, set[int]] = defaultdict(set)
    uncompared = pairs = parts = near = lone = 0
    for i in range(batch.size):
        own = keys.values[keys.starts[i] : keys.starts[i + 1]].tolist()
        met = set().union(*(buckets[key] for key in own))
        compared = set(found.slots[found.items == i].tolist())
        is_pair = sum((f"d{n}", f"d{i}") in all_pairs for n in compared)
        left = len(met - compared)
        uncompared, pairs = uncompared + left, pairs + is_pair
        near, lone = near + (is_pair > 0), lone + (left > 0 and not is_pair)
        parts += round(left * is_pair / max(1, len(compared)) * PAIR_PARTS)
        for key in own:
            buckets[key].add(i)
    matcher = Matcher(config)
    with step(matcher.table):
        losses = [part.losses for part in matcher.slices(batch, candidates_max=candidates_max)]
    counts = matcher.table.counts()
    assert uncompared > 1_000
    assert (counts["uncompared"], counts["near_pairs"], counts["missed_pairs"]) == (
        uncompared,
        pairs,
        parts // PAIR_PARTS,
    )
    assert (counts["near_documents"], counts["lone_documents"]) == (near, lone)
    assert counted_documents(counts) == near / (near + lone)
    assert sum(int(part.uncompared.sum()) for part in losses) == uncompared
    places = np.concatenate([part.items for part in losses])
    assert (np.diff(places) > 0).all()
    oldest = np.concatenate([part.oldest for part in losses]).tolist()
    assert oldest == [found.slots[found.items == i].min() for i in places]


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_does_not_depend_on_batches_and_an_undone_step_has_none(seed: int) -> None:
    """Parts of pairs are whole numbers, so their sum has no order."""
    rng, config = random.Random(seed), Config(threshold=0.6, **LIMITS)
    batch = Signer(config).sign(one_cluster(300, seed)).batch
    whole, parted = Matcher(config), Matcher(config)
    match_step(whole, batch)
    bounds = sorted({0, 300, *rng.sample(range(300), 9)})
    for first, end in pairwise(bounds):
        part = select(batch, np.arange(first, end))
        parted.table.begin()
        before = parted.table.counts()
        parted.match(part)
        parted.table.undo()
        assert parted.table.counts() == before
        match_step(parted, part)
    assert parted.table.counts() == whole.table.counts()
    assert whole.table.counts()["missed_pairs"] > 100


@pytest.mark.parametrize("seed", range(3))
def test_where_one_cluster_has_most_of_the_pairs_the_recall_is_within_three_hundredths(seed: int) -> None:
    """The limits lose most of the pairs, and the count says how many."""
    documents = one_cluster(900, seed)
    limited = Deduplicator(Config(threshold=0.6, bucket_candidates_max=32, probe_candidates_max=64))
    found = len(limited.process(documents))
    truth = found / len(Deduplicator(Config(threshold=0.6, **UNLIMITED)).process(documents))
    counts = limited.counts()
    estimate = recall_by_limits(counts["near_pairs"], counts["missed_pairs"]).value
    assert truth < 0.6
    assert abs(estimate - truth) <= 0.03


def test_a_probe_counts_no_more_than_its_bound() -> None:
    """So a flood costs each probe the same, however long it lasts. It leaves buckets of documents that it has met."""
    config = Config(threshold=0.6, bucket_candidates_max=1, probe_candidates_max=1)
    documents = one_cluster(UNCOMPARED_MAX + 60, 1, of=1)
    dedup = Deduplicator(config)
    dedup.process(documents)
    before = dedup.counts()["uncompared"]
    dedup.process([Document("new", documents[0].text + " more")])
    assert 0.95 * UNCOMPARED_MAX <= dedup.counts()["uncompared"] - before <= UNCOMPARED_MAX


def test_no_pairs_have_no_recall() -> None:
    """Nothing found and nothing missed says nothing."""
    assert counted_documents({"near_documents": 0, "lone_documents": 0}) is None
    assert np.isnan(recall_by_limits(0, 0).value)
    assert recall_by_limits(3, 1) == (0.75, 0.75, 0.75)
