"""Partitions: where items go, who owns a pair, and that many tables together find what one finds."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.stream import Config, Document, Matcher, Signer
from neardup.stream.batches import Batch, bucket_keys, select, table_items
from neardup.stream.partitions import PARTITIONS_MAX, Partition, partitions_of, route, shared_limits
from neardup.stream.pipeline import match_step, table_limits
from neardup.stream.scheme_interface import Keys
from neardup.stream.schemes import SCHEMES

CONFIG = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5)
COUNTS = [1, 2, 3, 7, 8, 64]


def texts(rng: random.Random, n: int) -> list[str]:
    """Stories in variants, some of them copies."""
    words = ["".join(rng.choices("abcdefghij", k=6)) for _ in range(80)]
    out = []
    while len(out) < n:
        story = rng.choices(words, k=30)
        for _ in range(rng.randint(1, 6)):
            changed = {i: rng.choice(words) for i in rng.sample(range(30), rng.choice([0, 1, 2, 4]))}
            out.append(" ".join(changed.get(i, word) for i, word in enumerate(story)))
    rng.shuffle(out)
    return out[:n]


def signed(seed: int, n: int = 300) -> tuple[Batch, Keys]:
    documents = [Document(f"d{i}", text, float(i)) for i, text in enumerate(texts(random.Random(seed), n))]
    batch = Signer(CONFIG).sign(documents).batch
    return batch, bucket_keys(batch, CONFIG)


@given(st.lists(st.integers(0, 2**64 - 1)), st.integers(1, PARTITIONS_MAX))
def test_a_key_has_one_partition_derived_from_its_low_bits(keys: list[int], partitions: int) -> None:
    """The partition is the low 23 bits scaled to the number of partitions, in plain integers."""
    found = partitions_of(np.array(keys, np.uint64), partitions).tolist()
    assert found == [(key % 2**23) * partitions // 2**23 for key in keys]
    assert all(0 <= partition < partitions for partition in found)


@pytest.mark.parametrize("partitions", [2, 3, 8, 100])
def test_keys_are_shared_evenly(partitions: int) -> None:
    """The fullest partition of 200,000 random keys has at most a tenth more than the mean."""
    keys = np.random.default_rng(1).integers(0, 2**64, 200_000, np.uint64)
    counts = np.bincount(partitions_of(keys, partitions), minlength=partitions)
    assert counts.max() < 1.1 * len(keys) / partitions


@pytest.mark.parametrize("partitions", COUNTS)
def test_an_item_goes_to_the_partitions_of_its_keys_and_no_other(partitions: int) -> None:
    """Each item is once in each partition that one of its keys falls in, in the order of the batch."""
    _, keys = signed(1)
    owners = partitions_of(keys.values, partitions).reshape(-1, CONFIG.tuning.bands)
    routed = route(keys, partitions)
    assert len(routed) == partitions
    for partition, rows in enumerate(routed):
        assert rows.tolist() == [i for i, mine in enumerate(owners.tolist()) if partition in mine]


@given(st.lists(st.text(max_size=9), max_size=12), st.data())
def test_taking_rows_takes_all_of_each(names: list[str], data: st.DataObject) -> None:
    """Rows in any order, with repetitions: ids, times, contents and evidence go together."""
    documents = [Document(name, f"some text {i}", float(i)) for i, name in enumerate(names)]
    batch = Signer(CONFIG).sign(documents).batch
    rows = np.array(data.draw(st.lists(st.integers(0, len(names) - 1)) if names else st.just([])), np.int64)
    part = select(batch, rows)
    assert part.ids_at(np.arange(part.size)) == [names[i] for i in rows]
    for name in ("times", "contents", "fixed"):
        assert (getattr(part, name) == getattr(batch, name)[rows]).all()


@pytest.mark.parametrize("partitions", COUNTS)
def test_a_table_gets_content_id_and_its_own_keys(partitions: int) -> None:
    """A partition stores an item's content key, its id key, and the bucket keys of the partition, in order."""
    batch, keys = signed(2, 50)
    whole = table_items(batch, keys).keys.reshape(batch.size, -1)
    for number in range(partitions):
        local = table_items(batch, keys, Partition(number, partitions))
        for i in range(batch.size):
            own = keys.values[keys.starts[i] : keys.starts[i + 1]].tolist()
            mine = [key for key in own if (key % 2**23) * partitions // 2**23 == number]
            found = local.keys[local.key_starts[i] : local.key_starts[i + 1]].tolist()
            assert found == [int(whole[i, 0]), int(whole[i, 1]), *mine]


@pytest.mark.parametrize("seed", range(6))
def test_a_pair_is_met_in_all_its_partitions_and_owned_by_the_first_of_them(seed: int) -> None:
    """Two items are candidates in the partition of each common key; the first common key's partition publishes."""
    partitions = 5
    batch, keys = signed(seed, 120)
    bands = keys.values.reshape(batch.size, -1)
    owner = {}
    for number, rows in enumerate(route(keys, partitions)):
        for pair in match_step(Matcher(CONFIG, Partition(number, partitions)), select(batch, rows)).pairs():
            owner[int(pair.older[1:]), int(pair.newer[1:])] = number
    for (a, b), number in owner.items():
        common = np.flatnonzero(bands[a] == bands[b])
        first = 0 if (batch.contents[a] == batch.contents[b]).all() else common[0]
        assert number == partitions_of(bands[a, first : first + 1], partitions)[0]


@pytest.mark.parametrize(
    ("limit", "shards", "share"), [(256, 8, 55), (256, 1, 256), (256, 32, 20), (100, 100, 16), (10, 4, 10)]
)
def test_a_shard_keeps_a_share_of_a_limit_of_candidates(limit: int, shards: int, share: int) -> None:
    """A share, four standard deviations more, at least 16; copies and the window are not shared."""
    whole = table_limits(CONFIG, SCHEMES[CONFIG.scheme])._replace(bucket_candidates=limit, probe_candidates=limit)
    limits = shared_limits(whole, shards)
    assert (limits.bucket_candidates, limits.probe_candidates) == (share, share)
    assert limits == whole._replace(bucket_candidates=share, probe_candidates=share)
    exact = whole._replace(bucket_candidates=whole.items)
    assert shared_limits(exact, shards).bucket_candidates == whole.items
