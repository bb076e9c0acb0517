"""S22: a stream divided by document: bytes of a document over all shards, and its cost in each shard.

The same items go to one table and to every table of 8 and of 32 shards. They have the shape of 18 bands of 7 rows. Of
ten, two are edited copies of an item at most 10,000 back (each key is kept with a probability of .5) and one is a copy;
so a shard has to know copies of documents of others: a filter says which (``neardup.pairs.seen``), one for each
process, here for all shards. A table has the keys of a row ready, as the shards of one process share them.

``used`` counts what documents take. ``allocated`` adds the slack of the tables; small tables have more of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.report import Result, Size, Target, checksum
from benchmarks.speed.table import empty_table, random_items
from neardup.pairs.seen import Seen
from neardup.pairs.shards import shards_of
from neardup.window import FOREIGN, OWN, Items
from neardup_workers.doing.stages.matching.cursors import SEEN_PART

SEED = 22
ID = "S22-shards"
_DOCUMENTS: dict[Size, int] = {"smoke": 6_000, "default": 1_000_000, "large": 5_000_000}
SHARDS = (1, 8, 32)
_BATCH, _BACK = 2_000, 10_000
_EDITED, _COPIED, _KEPT = 0.2, 0.1, 0.5
# Of the bytes in one table, with at least so many documents: heads lie in pages, which small tables do not fill.
USED_RATIO_MAX, TARGET_DOCUMENTS = 1.15, 1_000_000


class Shards(NamedTuple):
    """What a number of shards took: bytes used and allocated over all tables, seconds in all tables, pairs, slots; of
    the filter, bytes and seconds."""

    used: int
    allocated: int
    seconds: float
    pairs: int
    slots: int
    filter_bytes: int
    filter_seconds: float


def batches(documents: int, seed: int) -> Iterator[Items]:
    """Items in order of arrival, some of them like an earlier one."""
    rng = np.random.default_rng(seed)
    before: list[Items] = []
    for first in range(0, documents, _BATCH):
        items = random_items(rng, min(_BATCH, documents - first))
        if before:
            known = np.concatenate([part.keys.reshape(len(part.times), -1) for part in before])
            contents = np.concatenate([part.contents for part in before])
            keys = items.keys.reshape(len(items.times), -1)
            kind = rng.random(len(keys))
            source = rng.integers(0, len(known), len(keys))
            copied, edited = kind < _COPIED, (kind >= _COPIED) & (kind < _COPIED + _EDITED)
            kept = (rng.random(keys.shape) < _KEPT) & edited[:, None]
            kept[:, :2] = False
            kept[copied] = True
            kept[:, 1] = False  # every id is new
            keys[kept] = known[source][kept]
            items.contents[copied] = contents[source[copied]]
        before = [*before, items][-_BACK // _BATCH :]
        yield items


def measure(documents: int, shards: int) -> Shards:
    """Give all items to every shard."""
    tables = [empty_table(documents, is_shard=shards > 1) for _ in range(shards)]
    seen = Seen(tables[0].limits)
    seconds, filter_seconds, pairs = 0.0, 0.0, 0
    for items in batches(documents, SEED):
        owners = shards_of(items.contents, shards)
        start = time.perf_counter()
        seen.mark(items, np.zeros(len(items.times), np.bool_))
        filter_seconds += time.perf_counter() - start
        for number, table in enumerate(tables):
            part = items._replace(kinds=np.where(owners == number, OWN, FOREIGN) | items.kinds)
            start = time.perf_counter()
            table.begin()
            pairs += len(table.probe_add(part).items)
            table.commit()
            seconds += time.perf_counter() - start
        if seen.is_small:
            seen.grow(sum(table.memory_bytes()[1] for table in tables) // SEEN_PART)
    used, allocated = (sum(sizes) for sizes in zip(*(table.memory_bytes() for table in tables), strict=True))
    slots = sum(table.documents for table in tables)
    return Shards(used, allocated, seconds, pairs, slots, seen.memory_bytes, filter_seconds)


def run(size: Size) -> Iterator[Result]:
    """Bytes and cost with 1, 8 and 32 shards."""
    documents = _DOCUMENTS[size]
    measure(3_000, 2)  # compiles
    found = {shards: measure(documents, shards) for shards in SHARDS}
    one, is_judged = found[1], documents >= TARGET_DOCUMENTS
    for shards, reading in found.items():
        name = f"{documents:,} documents, {shards} shards"
        check = checksum([(shards, reading.pairs, reading.slots)])
        details = {"pairs": reading.pairs, "slots per document": reading.slots / documents, "checksum": check}
        limit = Target("at most", USED_RATIO_MAX * one.used / documents) if is_judged and shards > 1 else None
        yield Result(ID, f"{name}: used", reading.used / documents, "B/document", limit, details)
        yield Result(ID, f"{name}: allocated", reading.allocated / documents, "B/document")
        yield Result(ID, f"{name}: filter of a process", reading.filter_bytes / documents, "B/document")
        yield Result(ID, f"{name}: cost in the filter", reading.filter_seconds / documents * 1e6, "us/document")
        cost = reading.seconds / documents / shards * 1e6
        yield Result(ID, f"{name}: cost in a shard", cost, "us/document")
        yield Result(ID, f"{name}: cost in all shards", cost * shards, "us/document")


SCENARIOS = {ID: run}
