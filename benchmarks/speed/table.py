"""S3: the table alone, on random keys: cost and bytes of a document by the number of documents in the window.

Items have the shape of 18 bands of 7 rows: 18 bucket keys, an id of 20 bytes, a sketch of 126 bytes. All are distinct,
so every key is a miss: the worst case for caches, and the usual case in a stream.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.report import Result, Size, Target, checksum
from neardup.schemes.interface import NO_PAYLOADS
from neardup.window import NO_TIME, NO_WINDOW, BandTable, Items, Limits

SEED = 3
GROWTH, WINDOW = "S3-table-growth", "S3-table-window"
_BANDS, _WIDTH, _ID_BYTES = 18, 126, 20
_BATCH = 512
# Documents in the window.
GROWTH_SIZES: dict[Size, tuple[int, ...]] = {
    "smoke": (2_000, 6_000),
    "default": (10_000, 100_000, 1_000_000, 5_000_000),
    "large": (10_000, 100_000, 1_000_000, 5_000_000, 10_000_000),
}
WINDOW_SIZES: dict[Size, tuple[int, ...]] = {
    "smoke": (3_000,),
    "default": (100_000, 1_000_000),
    "large": (100_000, 1_000_000, 5_000_000),
}
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 2, "large": 3}
MICROSECONDS_MAX, MILLION = 4.0, 1_000_000
SLOWDOWN_MAX, SLOWDOWN_FROM, SLOWDOWN_TO = 2.0, 100_000, 5_000_000
LIVE_BYTES_MAX, ALLOCATED_RATIO_MAX = 512, 1.3


class Reading(NamedTuple):
    """A table at one size: mean cost of the last documents before this size, and the bytes of the table."""

    documents: int
    microseconds: float
    batch_p99: float  # microseconds a document, in the slowest batch of a hundred
    live: int
    allocated: int
    counts: dict[str, int]


def random_items(rng: np.random.Generator, count: int) -> Items:
    """Items that have nothing in common with any other."""
    width = _BANDS + 2
    return Items(
        kinds=np.zeros(count, np.uint8),
        keys=rng.integers(0, 1 << 64, count * width, np.uint64, endpoint=False),
        key_starts=np.arange(0, (count + 1) * width, width),
        added=np.full(count, width),
        payloads=NO_PAYLOADS,
        contents=rng.integers(0, 1 << 64, count, np.uint64, endpoint=False),
        times=np.full(count, NO_TIME, np.int64),
        ids=rng.integers(97, 123, count * _ID_BYTES, np.uint8),
        id_starts=np.arange(0, (count + 1) * _ID_BYTES, _ID_BYTES),
        fixed=rng.integers(0, 256, (count, _WIDTH), np.uint8),
        ragged=np.empty(0, np.uint8),
        ragged_starts=np.zeros(count + 1, np.int64),
    )


def empty_table(documents: int, *, is_shard: bool = False) -> BandTable:
    """A table with a window of so many documents, of the stream if it is a shard."""
    limits = Limits(
        window=int(NO_WINDOW), lateness=0, items=documents, bytes=1 << 40, bucket_candidates=256,
        probe_candidates=documents, copies=256, by_content=True, admit_ratio=0.0,
    )  # fmt: skip
    return BandTable(_WIDTH, limits, is_shard=is_shard)


def fill(table: BandTable, rng: np.random.Generator, count: int) -> list[tuple[int, float]]:
    """Add ``count`` items, one batch in each step; return size and seconds of each step, without making the items."""
    steps = []
    while count:
        items = random_items(rng, min(_BATCH, count))
        start = time.perf_counter()
        table.begin()
        table.probe_add(items)
        table.commit()
        steps.append((len(items.times), time.perf_counter() - start))
        count -= len(items.times)
    return steps


def read(table: BandTable, steps: Sequence[tuple[int, float]]) -> Reading:
    """The cost of consecutive steps, and the documents and bytes of the table after them."""
    live, allocated = table.memory_bytes()
    each = [seconds / count * 1e6 for count, seconds in steps]
    mean = sum(seconds for _, seconds in steps) / sum(count for count, _ in steps) * 1e6
    return Reading(table.documents, mean, float(np.quantile(each, 0.99)), live, allocated, table.counts())


def growth(sizes: Sequence[int], seed: int) -> list[Reading]:
    """One table that grows through all sizes; a measurement covers the last third of the documents up to a size.

    Heads are rebuilt each time they have grown by a half, so this third contains one whole round of rebuilds.
    """
    table, rng, out = empty_table(max(sizes)), np.random.default_rng(seed), []
    for size in sizes:
        fill(table, rng, max(size * 2 // 3 - table.documents, 0))
        out.append(read(table, fill(table, rng, size - table.documents)))
    return out


def window(size: int, seed: int) -> Reading:
    """A full window that slides by two thirds of its size: each document evicts one."""
    table, rng = empty_table(size), np.random.default_rng(seed)
    fill(table, rng, size + size // 3)
    return read(table, fill(table, rng, size * 2 // 3))


def run_growth(scenario: str, size: Size, sizes: Sequence[int] | None = None) -> Iterator[Result]:
    """Cost and bytes by size, the least of the repeats; the ratio of the costs at 5 million and at 100 thousand."""
    wanted = sorted(sizes or GROWTH_SIZES[size])
    growth([3000], SEED)  # compiles
    rounds = [growth(wanted, SEED) for _ in range(_REPEATS[size])]
    best = {reads[0].documents: min(reads, key=lambda r: r.microseconds) for reads in zip(*rounds, strict=True)}
    for documents, reading in best.items():
        limit = Target("at most", MICROSECONDS_MAX) if documents == MILLION else None
        yield from _rows(scenario, f"{documents:,} documents", reading, limit)
    if SLOWDOWN_FROM in best and SLOWDOWN_TO in best:
        ratio = best[SLOWDOWN_TO].microseconds / best[SLOWDOWN_FROM].microseconds
        name = f"cost at {SLOWDOWN_TO:,} over {SLOWDOWN_FROM:,}"
        yield Result(scenario, name, ratio, "times", Target("at most", SLOWDOWN_MAX))


def run_window(scenario: str, size: Size, sizes: Sequence[int] | None = None) -> Iterator[Result]:
    """Cost and bytes of a full window that slides, the least of the repeats."""
    window(2000, SEED)  # compiles
    for documents in sorted(sizes or WINDOW_SIZES[size]):
        reading = min((window(documents, SEED) for _ in range(_REPEATS[size])), key=lambda r: r.microseconds)
        assert reading.documents == documents, reading
        yield from _rows(scenario, f"{documents:,} documents, sliding", reading, None)


def _rows(scenario: str, name: str, reading: Reading, limit: Target | None) -> Iterator[Result]:
    counts = {key: reading.counts[key] for key in ("items", "candidates", "copies", "evicted")}
    details = {"p99 of batches us": reading.batch_p99, **counts, "checksum": checksum(reading.counts.items())}
    yield Result(scenario, f"{name}: cost", reading.microseconds, "us/document", limit, details)
    live = reading.live / reading.documents
    yield Result(scenario, f"{name}: live", live, "B/document", _at(reading, LIVE_BYTES_MAX))
    yield Result(
        scenario, f"{name}: allocated over live", reading.allocated / reading.live, "times",
        _at(reading, ALLOCATED_RATIO_MAX), {"allocated B/document": reading.allocated / reading.documents},
    )  # fmt: skip


def _at(reading: Reading, bound: float) -> Target | None:
    """The target of bytes holds from 100 thousand documents on: in smaller tables, minimal sizes of arrays dominate."""
    return Target("at most", bound) if reading.documents >= SLOWDOWN_FROM else None


SCENARIOS = {
    GROWTH: functools.partial(run_growth, GROWTH),
    WINDOW: functools.partial(run_window, WINDOW),
}
