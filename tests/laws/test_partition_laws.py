"""Laws of partitions, for every case: many tables find together what one finds, each pair once."""

from __future__ import annotations

import random

import numpy as np
from cases import Case, every_case

from neardup.stream import Document, Signer
from neardup.stream.batches import Batch, bucket_keys, select, table_items
from neardup.stream.partitions import Partition, route
from neardup.stream.pipeline import Matcher, match_step
from neardup.stream.schemes import SCHEMES


def timed(case: Case, seed: int, size: int) -> list[Document]:
    """A stream with times that all differ, so that no pair is ordered by its arrival."""
    documents = case.stream(random.Random(seed), size)
    return [document._replace(timestamp=float(i)) for i, document in enumerate(documents)]


def pairs_of(case: Case, batch: Batch, partitions: int, sizes: list[int]) -> list[tuple[str, str, float, int]]:
    """Return the pairs that all partitions publish together for a batch in pieces."""
    config = case.config()
    keys = bucket_keys(batch, SCHEMES[config.scheme], config.plan)
    out = []
    for number, rows in enumerate(route(keys, partitions)):
        matcher = Matcher(config, Partition(number, partitions))
        for part in np.array_split(rows, np.cumsum(sizes)[np.cumsum(sizes) < len(rows)]):
            out += [tuple(pair) for pair in match_step(matcher, select(batch, part)).pairs()]
    return sorted(out)


@every_case
def test_many_tables_find_together_what_one_finds(case: Case) -> None:
    """Each pair is published by exactly one partition, with the same similarity and buckets."""
    for seed in (1, 2, 3):
        batch = Signer(case.config()).sign(timed(case, seed, 300)).batch
        one = pairs_of(case, batch, 1, [batch.size])
        assert len(one) > 50
        for partitions in (2, 3, 8):
            assert pairs_of(case, batch, partitions, [7, 50, 1]) == one, (seed, partitions)


@every_case
def test_one_partition_is_the_whole(case: Case) -> None:
    """The embedded mode keeps every key."""
    config = case.config()
    batch = Signer(config).sign(timed(case, 4, 20)).batch
    keys = bucket_keys(batch, SCHEMES[config.scheme], config.plan)
    items = table_items(batch, keys)
    assert len(items.keys) == len(keys.values) + 2 * batch.size
