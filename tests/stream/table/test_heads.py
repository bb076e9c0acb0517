"""The heads against a dict: what is found, how full a segment gets, and where every page is."""

from __future__ import annotations

import random

import numpy as np
import pytest
from python_calls import from_python
from quick_parameters import quick_first

from neardup.window import heads as h
from neardup.window.heads import NONE, SEGMENTS, Heads, add_pages, empty_heads, locate, make_room, put_at, rebuild

_locate, _put_at, _make_room = from_python(locate), from_python(put_at), from_python(make_room)
PAGE = 256
HIGHEST = 2**64 - 1


def in_segment(segment: int, tag: int) -> int:
    """A key by the two parts of it that are compared: 9 bits and 32."""
    return segment << 55 | tag << 23


class Map:
    """The heads, and the postings that should be found in them."""

    def __init__(self, base: int) -> None:
        self.heads = empty_heads()
        self.base = self.end = base
        self.newest: dict[int, int] = {}

    def add(self, keys: list[int]) -> None:
        """One item: room for all of its keys, then the next postings become their heads."""
        array = np.array(keys, np.uint64)
        while (segment := _make_room(self.heads, array, self.base, self.end)) != NONE:
            self.heads = add_pages(self.heads, segment, len(keys))
        for key in array:
            assert self.heads.used[int(key) >> 55] < h._LOAD_MAX * self.heads.sizes[int(key) >> 55]
            _, index = _locate(self.heads, key, self.base, self.end)
            _put_at(self.heads, key, index, self.end, self.base)
            self.newest[int(key)] = self.end
            self.end += 1

    def find(self, key: int) -> int:
        return int(_locate(self.heads, np.uint64(key), self.base, self.end)[0])

    def expire(self, base: int) -> None:
        self.base = base

    def check(self) -> None:
        """Every live key is found, no expired one is, and the counts agree with the entries."""
        for key, posting in self.newest.items():
            assert self.find(key) == (posting if posting >= self.base else NONE), hex(key)
        check_pages(self.heads)


def check_pages(heads: Heads) -> None:
    """Each page is free or in one segment; a segment's size and used entries are counted right."""
    total = len(heads.entries) // PAGE
    pages = [*heads.free[: heads.free_count[0]].tolist()]
    first = int(heads.first[0])
    entries = heads.entries[first : first + total * PAGE].reshape(total, PAGE)
    assert entries.ctypes.data % 64 == 0
    for segment in range(SEGMENTS):
        assert heads.sizes[segment] % PAGE == 0
        mine = heads.pages[segment, : heads.sizes[segment] // PAGE]
        assert heads.used[segment] == np.count_nonzero(entries[mine])
        pages += mine.tolist()
    assert sorted(pages) == list(range(total))
    assert len(heads.scratch) >= heads.sizes.max()


@pytest.mark.parametrize("base", quick_first([2**32 - 3_000, 2**40 - 1, 0, 1, 2**32], 2))
@pytest.mark.parametrize("segments", quick_first([3, 1, SEGMENTS], 1))
def test_the_newest_posting_of_a_bucket_is_found(segments: int, base: int) -> None:
    """For any first posting number, while old postings expire, in few segments or in all."""
    seed = segments * 31 + base % 1_009
    rng, table = random.Random(seed), Map(base)
    for n in range(400):
        tags = [rng.randrange(1, 2_000) for _ in range(rng.randint(1, 30))]
        table.add([in_segment(SEGMENTS - 1 - rng.randrange(segments), tag) for tag in tags])
        if rng.random() < 0.1:
            table.expire(rng.randint(table.base, table.end))
        if n % 40 == 0:
            table.check()
    table.check()


@pytest.mark.parametrize("keys", quick_first([3, 700, 1, 20], 2))
def test_no_segment_fills_up(keys: int) -> None:
    """For items with any number of keys: a search in a segment always finds an end."""
    for segment in range(0, SEGMENTS, 73 if keys == 700 else 25):
        table = Map(0)
        for first in range(1, 1_200, keys):
            table.add([in_segment(segment, tag * 3_000_017 % 2**32) for tag in range(first, first + keys)])
        assert table.heads.sizes[segment] <= 4 * (1_200 + keys) // PAGE * PAGE
        assert table.heads.used[segment] == len(table.newest)
    table.check()


def test_a_segment_gives_its_pages_back() -> None:
    """After its heads have expired, a rebuild leaves the least size, and other segments can use the pages."""
    table = Map(0)
    table.add([in_segment(7, tag) for tag in range(1, 12_000)])
    length, size = len(table.heads.entries), int(table.heads.sizes[7])
    table.expire(table.end)
    assert rebuild(table.heads, 7, 0, table.base, table.end) == h.DONE
    assert (table.heads.sizes[7], table.heads.used[7]) == (PAGE, 0)
    table.add([in_segment(8, tag) for tag in range(1, 9_000)])
    table.check()
    assert len(table.heads.entries) == length
    assert table.heads.sizes[8] <= size


@pytest.mark.parametrize(("first", "later"), [(0, 7), (7, 0), (2, 5), (5, 2), (3, 3)])
def test_heads_are_found_if_growing_moves_the_array_to_another_place_in_a_cache_line(
    first: int, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries move in the array, so that its pages begin with a cache line again."""
    keys = [in_segment(n % 8, n * 3_000_017 % 2**32) for n in range(3_200)]
    monkeypatch.setattr(h, "_line_start", lambda entries: first)
    table = Map(0)
    for key in keys[:1_600]:
        table.add([key])
    length = len(table.heads.entries)
    monkeypatch.setattr(h, "_line_start", lambda entries: later)
    for key in keys[1_600:]:
        table.add([key])
    assert len(table.heads.entries) > length
    assert table.heads.first == later
    assert all(table.find(key) == posting for key, posting in table.newest.items())


def test_a_rebuild_without_pages_changes_nothing() -> None:
    """It returns ``NEEDS_PAGES``, and every head is still found."""
    table = Map(0)
    table.add([in_segment(500, tag) for tag in range(1, 200)])
    before = [array.copy() for array in table.heads[:-1]]
    assert rebuild(table.heads, 500, 100_000, table.base, table.end) == h.NEEDS_PAGES
    assert all(np.array_equal(a, b) for a, b in zip(table.heads, before, strict=False))
    table.check()


@pytest.mark.parametrize("base", [0, 2**32 - 1, 2**32])
def test_the_lowest_and_the_highest_key_are_keys_like_others(base: int) -> None:
    """No key and no posting number reads as an empty entry."""
    table = Map(base)
    assert [table.find(0), table.find(HIGHEST)] == [NONE, NONE]
    table.add([0, HIGHEST])
    table.add([in_segment(1, 0), HIGHEST])
    assert [table.find(0), table.find(HIGHEST)] == [base, base + 3]
    table.check()


def test_a_head_without_a_posting_is_expired() -> None:
    """``NONE`` as posting leaves an expired head, also at the first posting numbers; the next key reuses its entry."""
    for base in (0, 5, 2**32):
        table = Map(base)
        table.add([in_segment(3, 9)])
        _, index = _locate(table.heads, np.uint64(in_segment(3, 9)), base, table.end)
        _put_at(table.heads, np.uint64(in_segment(3, 9)), index, NONE, base)
        assert table.find(in_segment(3, 9)) == NONE
        table.newest.clear()
        table.add([in_segment(3, 10)])
        assert table.heads.used[3] == 1
        table.check()


def test_keys_that_agree_in_41_bits_share_a_head() -> None:
    """The low 23 bits are not compared, and tag 0 counts as tag 1: this costs time and never loses a pair."""
    table = Map(0)
    table.add([in_segment(1, 77)])
    table.add([in_segment(1, 77) | (1 << 23) - 1])
    table.add([in_segment(2, 0)])
    assert table.find(in_segment(1, 77)) == 1
    assert table.find(in_segment(2, 1)) == 2


@pytest.mark.long
def test_what_is_allocated_stays_near_what_lives() -> None:
    """A window that slides for long uses at most three entries for each live key."""
    rng, table = np.random.default_rng(5), Map(0)
    for _ in range(12_000):
        table.newest.clear()
        table.add(rng.integers(0, 2**64, 20, np.uint64).tolist())
        table.expire(max(table.base, table.end - 100_000))
    assert len(table.heads.entries) < 3 * 100_000
    check_pages(table.heads)


def test_a_segment_of_a_sliding_window_takes_the_pages_that_its_live_heads_need() -> None:
    """It grows by half while its window grows, and then fits the live heads, however often it is rebuilt."""
    rng, table = random.Random(6), Map(0)
    for _ in range(200):
        table.newest.clear()
        table.add([in_segment(3, rng.randrange(1, 2**32)) for _ in range(100)])
        table.expire(max(0, table.end - 4_000))
    assert 4_000 < table.heads.sizes[3] <= 4_000 / h._LOAD_FIT + 2 * PAGE
    check_pages(table.heads)


def test_an_item_of_many_keys_takes_no_room_in_each_segment_for_all() -> None:
    """A text of a thousand words brings two hundred keys, few of them to a segment."""
    rng, table = random.Random(7), Map(0)
    for _ in range(160):
        table.add([in_segment(rng.randrange(64), rng.randrange(1, 2**32)) for _ in range(200)])
    assert table.heads.sizes[:64].sum() <= 2 * len(table.newest)
    table.check()
