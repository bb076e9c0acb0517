"""Pages against a dict, and the memory of a table while a long stream goes through a small window."""

from __future__ import annotations

import mmap
import random
from pathlib import Path

import numpy as np
import pytest
from table_model import OPEN, add, batch, item, listed

from neardup.errors import CapacityError
from neardup.window import NO_TIME, BandTable, Items, Limits, band_table
from neardup.window.chains import BYTE_PAGE_BITS, KEYS, LINK_PAGE_BITS, POSTING_PAGE_BITS, SLOT_PAGE_BITS
from neardup.window.counters import LINK_END, OLDEST, SLOT_END
from neardup.window.pages import Pages, grow, longer, spread

WINDOW = 2_000
BATCH = 500


@pytest.mark.parametrize("seed", range(20))
def test_every_number_in_the_window_has_a_place_of_its_own(seed: int) -> None:
    """A page keeps its physical page until it is released; pages never share one; the map grows and wraps."""
    rng = random.Random(seed)
    pages, indices = Pages(4), {}
    first = end = 0
    for _ in range(300):
        end += rng.randrange(200)
        pages.extend(end)
        for page in range(first >> 4, -(-end // 16)):
            physical = int(pages.map[page % len(pages.map)])
            assert indices.setdefault(page, physical) == physical
        first = rng.randint(first, end) if rng.random() < 0.5 else first
        pages.release(first)
        indices = {page: physical for page, physical in indices.items() if page >= first >> 4}
        assert len(set(indices.values())) == len(indices)
        assert pages.physical_pages == pages.free_pages + len(indices)
        assert max(indices.values(), default=-1) < pages.physical_pages


def test_released_pages_are_taken_before_new_ones() -> None:
    """A window that slides forever needs the pages of one window."""
    pages = Pages(2)
    for end in range(40, 4_000, 4):
        pages.extend(end)
        pages.release(end - 40)
    assert pages.physical_pages <= 13


def test_more_is_never_given_back_than_was_taken() -> None:
    """Numbers that were never mapped may be released; the next mapped numbers have pages."""
    pages = Pages(3)
    pages.extend(8)
    pages.release(1_000)
    pages.extend(24)
    assert (pages.physical_pages, pages.free_pages) == (2, 0)


def test_growing_keeps_the_content_and_adds_zeros() -> None:
    """Also along the first of two axes, and never makes an array shorter."""
    array = np.arange(6, dtype=np.int16).reshape(3, 2)
    array = array.copy()
    grow(array, 5)
    grow(array, 1)
    assert array.tolist() == [[0, 1], [2, 3], [4, 5], [0, 0], [0, 0]]


def test_an_array_that_is_read_at_random_stays_in_its_place() -> None:
    """It begins a cache line, and what is added is zero."""
    array = spread(1_000)
    array[:], at = 7, array.ctypes.data
    more = longer(array, 3_000_000)
    assert (at % 64, more.ctypes.data, len(more), more.nbytes) == (0, at, 3_000_000, 24_000_000)
    assert more[:1_000].tolist() == [7] * 1_000
    assert not more[1_000:].any()


def test_only_what_lies_behind_the_first_pages_asks_for_large_ones() -> None:
    """So a small window takes little memory, and a large one is read in pages of 2 MB."""
    array, flags, is_inside = spread(1), [], False
    at = array.ctypes.data
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if "-" in name:
            start, end = (int(part, 16) for part in name.split("-"))
            is_inside = start < at + (64 << 20) and end > at
        elif name == "VmFlags:" and is_inside:
            flags.append("hg" in rest)
    assert flags == [False, True]


def test_an_array_grows_where_addresses_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes what it needs, and may move."""

    def refused(*_: object, **__: object) -> None:
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refused)
    array = spread(1_000)
    array[:] = 7
    array = longer(array, 3_000_000)
    assert array[:1_000].tolist() == [7] * 1_000
    assert len(array) == 3_000_000
    assert not array[1_000:].any()


def numbered(first: int, keys: int) -> Items:
    """``BATCH`` items that share nothing, made fast; an item's time is its number."""
    numbers = np.arange(first, first + BATCH, dtype=np.uint64)
    mixed = (numbers[:, None] * np.uint64(keys) + np.arange(1, keys + 1, dtype=np.uint64)).ravel()
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return Items(
        kinds=np.zeros(BATCH, np.uint8),
        keys=(mixed ^ mixed >> np.uint64(31)) * np.uint64(0xD6E8FEB86659FD93),
        key_starts=np.arange(BATCH + 1) * keys,
        added=np.full(BATCH, keys),
        contents=numbers,
        times=numbers.astype(np.int64),
        ids=np.frombuffer(bytearray(b"".join(b"%09d" % n for n in numbers)), np.uint8),
        id_starts=np.arange(BATCH + 1) * 9,
        payloads=np.empty(0, np.uint64),
        fixed=numbers.view(np.uint8).reshape(BATCH, 8),
        ragged=np.empty(0, np.uint8),
        ragged_starts=np.zeros(BATCH + 1, np.int64),
    )


def others(items: Items) -> Items:
    """Items with other ids and contents that share all bucket keys with given items."""
    keys = items.keys.reshape(BATCH, -1).copy()
    keys[:, :2] = ~keys[:, :2]
    return items._replace(keys=keys.ravel(), contents=~items.contents, ids=items.ids + np.uint8(40))


@pytest.mark.parametrize("limits", [OPEN._replace(window=WINDOW - 1), OPEN._replace(items=WINDOW)])
def test_memory_is_bounded_by_the_window(limits: Limits) -> None:
    """200,000 items pass a window of 2,000: probes find all live items and no other, and memory does not grow."""
    table, keys, early = BandTable(8, limits), 10, 0
    for first in range(0, 200_000, BATCH):
        items = numbered(first, keys)
        table.begin()
        assert len(table.probe_add(items).slots) == 0
        table.commit()
        if first % 20_000 == 10_000:
            live = table.probe_add(others(items), add=False)
            assert live.slots.tolist() == list(range(first, first + BATCH))
            oldest = first + BATCH - WINDOW
            back = others(numbered(oldest, keys))._replace(times=np.full(BATCH, NO_TIME))
            assert table.probe_add(back, add=False).slots.tolist() == list(range(oldest, oldest + BATCH))
            gone = others(numbered(oldest - BATCH, keys))
            assert len(table.probe_add(gone, add=False).slots) == 0
            early = early or table.memory_bytes()[1]
    used, allocated = table.memory_bytes()
    assert allocated == early
    assert used <= allocated < 12 * WINDOW * (50 + 4 * keys) + (4 << 20)
    assert table.counts()["expired"] + table.counts()["evicted"] == 200_000 - WINDOW
    assert table._slots._next > 20 * table._slots.physical_pages
    assert table._postings._next > 5 * table._postings.physical_pages
    assert table._slots.physical_pages << SLOT_PAGE_BITS < 4 * WINDOW
    assert table._postings.physical_pages << POSTING_PAGE_BITS < 8 * WINDOW * keys


def test_a_key_of_one_holder_takes_no_link() -> None:
    """Only the second and later holders of a key have a link; their room follows the window."""
    table, keys = BandTable(8, OPEN._replace(items=WINDOW)), 10
    for first in range(0, 40_000, BATCH):
        table.begin()
        assert len(table.probe_add(numbered(first, keys)).slots) == 0
        table.commit()
        assert table.store.state[LINK_END] == first * (keys - KEYS)
        table.begin()
        assert table.probe_add(others(numbered(first, keys))).slots.tolist() == [*range(2 * first, 2 * first + BATCH)]
        table.commit()
    assert table._links._next > 5 * table._links.physical_pages
    assert table._links.physical_pages << LINK_PAGE_BITS <= 4 * WINDOW * (keys - KEYS)


def test_with_payloads_each_posting_has_its_link() -> None:
    """A walk that counts reads each chain to its end, so it does not look up which postings have a link."""
    table, items = BandTable(8, OPEN), numbered(0, 10)
    table.begin()
    for batch_of in (items, others(items)):
        table.probe_add(batch_of._replace(payloads=np.zeros(len(items.keys), np.uint64)))
    table.commit()
    assert table.store.state[LINK_END] == 0
    assert len(table.store.links) == len(table.store.payloads)
    assert np.count_nonzero(table.store.links) == 8 * BATCH


def test_undone_steps_take_no_memory() -> None:
    """The pages of a step that is undone serve the next one."""
    table, allocated = BandTable(8, OPEN), set()
    for _ in range(50):
        table.begin()
        table.probe_add(numbered(0, 10))
        table.undo()
        allocated.add(table.memory_bytes()[1])
    assert len(allocated) == 1
    assert table.documents == 0


@pytest.mark.parametrize("seed", range(3))
def test_ids_may_be_empty_or_long(seed: int) -> None:
    """Ids of 0 to 65,535 bytes are read back whole from any page, expire, have versions, and are removed."""
    rng = random.Random(seed)
    lengths = [0, 1, 9, 20_000, 32_767, 32_768, 32_769, 40_000, 65_534, 65_535]
    ids = ["x" * length for length in lengths] + ["x" * 39_999 + "y", "é" * 20_000]
    table, kept = BandTable(8, OPEN._replace(items=40)), []
    for _ in range(40):
        names = [rng.choice(ids) for _ in range(rng.randint(0, 12))]
        add(table, *(item(name, rng.random()) for name in names))
        kept = (kept + names)[-40:]
        slots = np.arange(table.store.state[OLDEST], table.store.state[SLOT_END])
        assert table.ids(slots) == kept
        for index in table._slots.at(slots[:1]).tolist():  # the page of the oldest id is the first that is kept
            assert table._bytes._first == table.store.id_starts[index] >> BYTE_PAGE_BITS
    for name in set(kept):
        table.begin()
        assert table.remove(batch([item(name, 0)])) == kept.count(name)
        table.commit()
    assert table._bytes.physical_pages <= 90


def test_one_long_id_does_not_cost_a_page_for_each_item_next_to_it() -> None:
    """Room for ids follows their bytes."""
    table = BandTable(8, OPEN)
    add(table, item("x" * 40_000, 0), *(item(n, n) for n in range(1, 2_000)))
    assert table._bytes.physical_pages <= 8


def test_what_does_not_fit_the_arrays_is_refused() -> None:
    """A longer id, evidence of another width, an item without its first keys, or one with others raises at once."""
    table = BandTable(8, OPEN)
    good = batch([item("a", 1, "x")])
    bad = [
        batch([item("x" * 65_536, 1)]),
        good._replace(fixed=np.zeros((1, 9), np.uint8)),
        good._replace(keys=good.keys[:1], key_starts=np.array([0, 1])),
        good._replace(added=np.array([1])),
    ]
    for items in bad:
        table.begin()
        with pytest.raises(AssertionError):
            table.probe_add(items)
        table.undo()
    assert add(table, item("a", 1, "x"), item("b", 2, "x")) == [(1, 0, False)]


def test_more_postings_than_can_be_numbered_stop_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error gives the number, the limit and the remedy; after ``undo`` the table is as before."""
    monkeypatch.setattr(band_table, "POSTINGS_MAX", 30)
    table = BandTable(8, OPEN._replace(window=100))
    add(table, *(item(n, n, "b", n) for n in range(9)))
    table.begin()
    table.probe_add(batch([item(9, 9, "b", 9)]))
    with pytest.raises(CapacityError, match=r"33 postings in the window.*at most 30: shorten the window"):
        table.probe_add(batch([item(10, 10, "b", 10)]))
    table.undo()
    assert table.documents == 9
    met = listed(table.probe_add(batch([item(10, 10, "b", 10)]), add=False))
    assert [slot for _, slot, _ in met] == list(range(8, -1, -1))
    add(table, item(10, 10, "b", 1_000))
    add(table, *(item(n, n, "b", 1_000) for n in range(11, 20)))
    assert table.documents == 10
