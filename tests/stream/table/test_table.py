"""The table against the model of ``table_model``; its guarantees for copies, removals, probes and limits."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from quick_parameters import quick_first
from table_model import (
    NO_LIMIT,
    OPEN,
    WRAP,
    Item,
    Model,
    World,
    add,
    batch,
    chain,
    hidden_in,
    item,
    listed,
    run_random,
    spread,
)

from neardup.window import NO_WINDOW, BandTable, Limits, band_table
from neardup.window.chains import new_journal
from neardup.window.counters import BYTE_END, LINK_END, OLDEST, POSTING_END, SLOT_END
from neardup.window.heads import SEGMENTS


def random_limits(rng: random.Random) -> Limits:
    return Limits(
        window=rng.choice([int(NO_WINDOW), 0, 5, 30, 100]),
        lateness=rng.choice([0, 3, 40]),
        items=rng.choice([1, 2, 7, 40, NO_LIMIT]),
        bytes=rng.choice([1000, 5000, 300_000, NO_LIMIT, NO_LIMIT]),
        bucket_candidates=rng.choice([1, 2, 4, 8, NO_LIMIT]),
        probe_candidates=rng.choice([1, 3, 9, NO_LIMIT, NO_LIMIT]),
        copies=rng.choice([1, 3, NO_LIMIT, NO_LIMIT]),
        by_content=rng.random() < 0.8,
        admit_ratio=rng.choice([0.0, 0.5]),
    )


def jump(table: BandTable, state: dict[int, int]) -> None:
    """Continue with other numbers in an empty table."""
    for index, number in state.items():
        table.store.state[index] = number
    for pages, index in (
        (table._slots, SLOT_END), (table._postings, POSTING_END), (table._bytes, BYTE_END), (table._links, LINK_END)
    ):  # fmt: skip
        pages._first = pages._next = state.get(index, 0) >> pages.page_bits
    table._base = table.posting_end = state.get(POSTING_END, 0)
    table._released = state.get(OLDEST, 0), table._base


def random_run(seed: int, steps: int, state: dict[int, int], one_key_space: bool = False) -> None:
    rng = random.Random(seed)
    limits = random_limits(rng)
    if one_key_space:
        limits = limits._replace(bucket_candidates=NO_LIMIT, probe_candidates=NO_LIMIT, copies=NO_LIMIT)
    world = World(rng, one_key_space)
    hidden_may_remain = min(limits.bucket_candidates, limits.probe_candidates) != NO_LIMIT
    slot_end = state.get(SLOT_END, 0)
    model = Model(limits, slot_end, ragged=rng.random() < 0.5)
    table = BandTable(8, limits)
    jump(table, state)
    run_random(table, model, world, steps, hidden_may_remain)


@pytest.mark.parametrize("seed", quick_first(range(200), 10))
def test_the_table_answers_as_the_model_does(seed: int) -> None:
    """For any operations, limits and times: equal candidates, counts, ids, times; an undone step has no effect."""
    random_run(seed, 12, {})


@pytest.mark.parametrize("seed", quick_first(range(1_000, 1_070), 15))
def test_the_table_holds_while_its_32_bit_numbers_begin_again(seed: int) -> None:
    """Postings and slots are stored modulo 2**32; answers do not change when the numbers wrap."""
    random_run(seed, 25, WRAP)


def test_an_old_bucket_has_no_candidates_when_its_numbers_repeat() -> None:
    """Each segment of the heads is swept before 2**32 postings have passed, also if no key falls into it."""
    table = BandTable(8, OPEN)
    add(table, *(item(n, n, [n]) for n in range(2_000)))
    for number in (2**31, 2**32 - 32):
        jump(table, {POSTING_END: number, SLOT_END: 10_000, OLDEST: 10_000})
        for _ in range(SEGMENTS):
            add(table)
    add(table, *(item("new", n, "new") for n in range(10_000, 14_000)), probe=False)
    assert listed(table.probe_add(batch([item("probe", "probe", [n]) for n in range(2_000)]), add=False)) == []


@pytest.mark.parametrize("seed", quick_first(range(2_000, 2_040), 10))
def test_contents_ids_and_buckets_may_share_keys(seed: int) -> None:
    """A chain may have several kinds of postings; unlinking one loses no other."""
    random_run(seed, 12, {}, one_key_space=True)


def test_marks_of_probes_begin_again() -> None:
    """The 32-bit number of a probe restarts before it could repeat a stored number."""
    table = BandTable(8, OPEN)
    add(table, *(item(n, n, [n]) for n in range(100)), probe=False)
    probes, found = batch([item(-n, -n, [n]) for n in range(100)]), [(n, n, False) for n in range(1, 100)]
    for epoch in (1, 2**32 - 101, 2**32 - 100, 2**32 - 1):
        table._epoch = epoch
        assert listed(table.probe_add(probes, add=False))[-99:] == found
    table.store.seen[:] = np.arange(1, len(table.store.seen) + 1)
    table._epoch = 2**32 - 1
    assert listed(table.probe_add(probes, add=False))[-99:] == found


@pytest.mark.parametrize("seed", range(4_000, 4_015))
def test_a_batch_gives_what_one_by_one_gives(seed: int) -> None:
    """Twins in one batch are a pair; the split into batches makes no difference."""
    rng = random.Random(seed)
    limits, world = random_limits(rng), World(rng)
    items = [world.item() for _ in range(200)]
    whole, single = BandTable(8, limits), BandTable(8, limits)
    one_by_one = [(i, *pair[1:]) for i, x in enumerate(items) for pair in add(single, x)]
    assert add(whole, *items) == one_by_one
    assert whole.counts() == single.counts()


@pytest.mark.parametrize("seed", range(5_000, 5_020))
def test_a_probe_reports_what_adding_would_and_changes_nothing(seed: int) -> None:
    """Only the marks of probes and the counts differ afterwards, between steps and inside one."""
    rng = random.Random(seed)
    limits, world = random_limits(rng)._replace(items=NO_LIMIT), World(rng)
    table = BandTable(8, limits)
    for _ in range(5):
        add(table, *world.items())
    probes = [world.item() for _ in range(20)]
    store = table.store
    kept = store._replace(seen=store.seen[:0], state=store.state[: band_table.FIRST_TIME + 1])
    arrays = [a for a in (*kept, *kept.heads) if isinstance(a, np.ndarray)]
    before = [a.copy() for a in arrays]
    probed = listed(table.probe_add(batch(probes), add=False))
    table.begin()
    assert listed(table.probe_add(batch(probes), add=False)) == probed
    table.commit()
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    for i, x in enumerate(probes):
        table.begin()
        found = [pair[1:] for pair in listed(table.probe_add(batch([x])))]
        assert found == [pair[1:] for pair in probed if pair[0] == i]
        table.undo()


@pytest.mark.parametrize("ids", [1, 10_000])
@pytest.mark.parametrize("probe", [True, False])
@pytest.mark.parametrize("stories", [1, 2, 7])
def test_a_thousand_copies_leave_one_posting_in_each_bucket(stories: int, probe: bool, ids: int) -> None:
    """Each story has one posting in a bucket, also after a replay and with a single id."""
    table = BandTable(8, OPEN)
    for n in range(0, 1_000, 10):
        add(table, *(item((n + j) % ids, (n + j) % stories, range(20)) for j in range(10)), probe=probe)
    lengths = {len(list(chain(table, spread("bucket", b)))) for b in range(20)}
    assert lengths == {stories}
    assert table.counts()["copies"] == (1_000 - stories if probe and ids > 1 else 0)


def test_a_copy_searches_for_the_copy_before_it_no_further_than_a_probe() -> None:
    """With more newer stories than the limit, the old posting stays superseded, until a count of what is left out."""
    limits = OPEN._replace(bucket_candidates=3)
    table, model = BandTable(8, limits), Model(limits)
    items = [item(n, n % 8, "b") for n in range(40)] + [item(n, n, "b") for n in range(100, 120)]
    for x in items:
        assert add(table, x) == model.probe_add([x], True, True)
        assert not hidden_in(table, list(chain(table, spread("bucket", "b")))[:4])
    assert table.counts() == model.counts
    assert not hidden_in(table, chain(table, spread("bucket", "b")))


def test_after_the_removal_of_a_copy_the_copy_before_it_is_reported() -> None:
    """A story is reported by its newest copy that is not removed; without such a copy it is not reported."""
    table = BandTable(8, OPEN)
    add(table, item("a", 1, "x"), item("b", 1, "x"))
    for name, found in (("b", [(0, 0, False)]), ("a", [])):
        table.begin()
        assert table.remove(batch([item(name, 0)])) == 1
        table.commit()
        assert listed(table.probe_add(batch([item("c", 2, "x")]), add=False)) == found


def test_an_item_dated_in_the_future_keeps_no_other_in_the_window() -> None:
    """Slots leave in order of arrival; a late item does not find those behind the first one that have expired."""
    limits = OPEN._replace(window=100, lateness=10)
    late = batch([item("late", "content", "b", 50)])
    for first in ([], [item("future", "other", "c", 1_000)]):
        table = BandTable(8, limits)
        add(table, *first, item("old", "old", "b", 40), item("copy", "content", "b", 45), item("now", "now", "d", 900))
        assert listed(table.probe_add(late, add=False)) == []
        assert table.documents == 1 + 3 * len(first)


def test_removing_counts_every_version() -> None:
    """More versions of an id than the journal has room for are removed, counted once, back after undo."""
    table = BandTable(8, OPEN)
    for n in range(0, 1_000, 100):
        add(table, *(item("a", (n, j)) for j in range(100)))
    table._work = table._work._replace(journal=new_journal(0))
    table.begin()
    assert table.remove(batch([item("a", 0)])) == 1_000
    assert table.remove(batch([item("a", 0)])) == 0
    table.undo()
    table.begin()
    assert table.remove(batch([item("a", 0)])) == 1_000


def test_a_bucket_of_many_is_reported_whole() -> None:
    """The buffer of candidates grows with the candidates of a batch, up to any limit."""
    table = BandTable(8, OPEN._replace(bucket_candidates=int(NO_WINDOW)))
    add(table, *(item(n, n, "b") for n in range(20_000)), probe=False)
    found = table.probe_add(batch([item(n, n, "b") for n in range(-3, 0)]), add=False)
    assert found.slots.tolist() == 3 * list(range(19_999, -1, -1))
    assert found.items.tolist() == [0] * 20_000 + [1] * 20_000 + [2] * 20_000


@pytest.mark.parametrize("name", ["add_pages", "grow"])
def test_a_step_that_ran_out_of_memory_can_be_undone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each growth that fails: after undo, the same batch gives what it gives in a new table."""
    numbers = [(n // 2, 5_000 + n, *range(10_000 + n, 10_003 + n)) for n in range(1_500)]
    items = [Item(str(n), n // 2, tuple(k << 23 for k in keys)) for n, keys in enumerate(numbers)]  # one segment
    real, calls = getattr(band_table, name), []

    def count(*of: object) -> object:
        calls.append(of)
        return real(*of)

    monkeypatch.setattr(band_table, name, count)
    expected = add(BandTable(8, OPEN), *items)
    assert calls
    for growths in range(len(calls)):
        left = iter(range(growths))

        def fail(*of: object, left: Iterator[int] = left) -> object:
            if next(left, None) is None:
                raise MemoryError
            return real(*of)

        monkeypatch.setattr(band_table, name, fail)
        table = BandTable(8, OPEN)
        table.begin()
        with pytest.raises(MemoryError):
            table.probe_add(batch(items))
        table.undo()
        monkeypatch.setattr(band_table, name, real)
        assert table.documents == 0
        assert add(table, *items) == expected


@pytest.mark.parametrize("limits", [OPEN._replace(items=0), OPEN._replace(bucket_candidates=0)])
def test_limits_that_cannot_work_are_refused(limits: Limits) -> None:
    """A table for no items would wait for room forever."""
    with pytest.raises(AssertionError):
        BandTable(8, limits)
