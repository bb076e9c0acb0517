"""What a walk or a count reads of a bucket is kept for the next one, which finds what a whole one finds."""

from __future__ import annotations

import random

import numpy as np
import pytest
from quick_parameters import quick_first
from table_model import NO_LIMIT, OPEN, Item, batch, item, listed

from neardup.window import NO_WINDOW, REMOVAL, BandTable
from neardup.window.chains import KEYS
from neardup.window.heads import NONE

Found = list[tuple[int, int, bool]]
Rows = np.ndarray[tuple[int], np.dtype[np.bool_]]


def flood(rng: random.Random, count: int) -> list[Item]:
    """Items of which most share a few buckets, with copies, versions and untimed ones."""
    buckets, copied, versions, untimed = rng.choice([1, 2, 5]), rng.choice([0, 0.02]), rng.choice([0, 0.05]), 0.05
    out = []
    for n in range(count):
        content = rng.randrange(max(0, n - 400), n) if n and rng.random() < copied else n
        name = rng.randrange(n) if n and rng.random() < versions else n
        shared = [f"{k}/{rng.randrange(buckets) if rng.random() < 0.9 else n}" for k in range(2)]
        out.append(item(name, content, shared, None if rng.random() < untimed else n - rng.randrange(30)))
    return out


def steps(rng: random.Random, table: BandTable, items: list[Item], removed: Rows) -> Found:
    """Add items in steps of any size, some of them undone at first; return what each finds."""
    first, found = 0, Found()
    while first < len(items):
        end = min(len(items), first + rng.randrange(1, 80))
        rows = batch(items[first:end])
        rows.kinds[removed[first:end]] = REMOVAL
        table.begin()
        if rng.random() < 0.2:
            table.probe_add(rows)
            table.undo()
            table.begin()
        found += [(first + i, slot, copy) for i, slot, copy in listed(table.probe_add(rows))]
        table.commit()
        first = end
    return found


@pytest.mark.parametrize("seed", quick_first(range(24), 6))
def test_a_walk_that_goes_on_where_one_ended_finds_what_a_whole_walk_finds(seed: int) -> None:
    """With copies, versions, removals, undone steps, expiry, late items, and buckets longer than a walk reads. The
    documents that it leaves out are counted alike."""
    rng = random.Random(seed)
    limits = OPEN._replace(
        window=rng.choice([int(NO_WINDOW), 200, 700]), lateness=rng.choice([0, 20, 300]),
        items=rng.choice([NO_LIMIT, 500]), bucket_candidates=rng.choice([4, 8, 20]),
        probe_candidates=rng.choice([6, 40, NO_LIMIT]), by_content=rng.random() < 0.8,
    )  # fmt: skip
    items = flood(rng, 900)
    removed = np.array([rng.random() < rng.choice([0, 0, 0.01]) for _ in items])
    table, whole = BandTable(8, limits), BandTable(8, limits)
    expected = Found()
    for n, one in enumerate(items):
        rows = batch([one])
        rows.kinds[removed[n : n + 1]] = REMOVAL
        whole.begin()
        whole._work.scratch.kept[:], whole._work.scratch.rests[:] = NONE, NONE
        expected += [(n, slot, copy) for _, slot, copy in listed(whole.probe_add(rows))]
        whole.commit()
    assert steps(rng, table, items, removed) == expected
    assert table.counts() == whole.counts()
    assert min(table.counts()["cuts"], table.counts()["uncompared"]) > 0


def test_a_count_reads_nothing_that_an_undone_step_has_read() -> None:
    """The numbers of its postings are given again, here to a bucket whose first count begins where one began before."""
    limits = OPEN._replace(bucket_candidates=4, probe_candidates=6)
    table, other = BandTable(8, limits), BandTable(8, limits)
    table.begin()
    table.probe_add(batch([item(n, n, ["one"]) for n in range(100)]))
    first = int(table._work.scratch.rests[KEYS, 0]) // (KEYS + 1)
    table.undo()
    items = [item(n, n, ["two" if n >= first - 1 else f"alone {n}"]) for n in range(first + 9)]
    for one in (table, other):
        one.begin()
        one.probe_add(batch(items))
    assert table.counts() == other.counts()
    assert 0 < table.counts()["uncompared"] < first


def test_a_restored_table_counts_what_one_that_ran_on_counts() -> None:
    """However many superseded postings stand in a bucket: only walks unlink them, and a restore does not walk."""
    rng, contents = random.Random(1), [0]
    for n in range(1, 5_000):
        contents.append(n if rng.random() < 0.18 else rng.choice(contents))
    items = [item(n, content, [f"{content % 2}", "every"]) for n, content in enumerate(contents)]
    limits, counts = OPEN._replace(bucket_candidates=4, probe_candidates=6), []
    for probe in (True, False):
        table = BandTable(8, limits)
        for part, is_probed in ((items[:4_600], probe), (items[4_600:], True)):
            before = table.counts()["uncompared"]
            table.begin()
            table.probe_add(batch(part), probe=is_probed)
            table.commit()
        counts.append(table.counts()["uncompared"] - before)
    assert counts[0] == counts[1] > 0
