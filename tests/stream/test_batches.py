"""Batches: documents as columns, the limits of times and ids, and the form for tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import Config, Document, Signer
from neardup.pairs.batches import Batch, concatenate, id_columns, make_batch, table_items
from neardup.pairs.values import times_of
from neardup.schemes.interface import fixed_evidence, regular_keys
from neardup.window import NO_TIME

IDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=10)
EDGE = 2**62 // 10**6  # whole seconds, 146,000 years
SIGNER = Signer(Config())


def batch_of(*documents: Document) -> Batch:
    return SIGNER.sign(documents).batch


def times_by_place(*seconds: float | None) -> list[int | None]:
    times, keepable = times_of([Document("a", "", time) for time in seconds])
    return [time if good else None for time, good in zip(times.tolist(), keepable.tolist(), strict=True)]


def columns(batch: Batch) -> list[list[object]]:
    return [column.tolist() for column in batch]


@given(IDS)
def test_ids_come_back_from_their_columns(ids: list[str]) -> None:
    """Ids may be any Unicode, also empty; any choice of rows gives its ids."""
    data, starts = id_columns([id_.encode() for id_ in ids])
    n = len(ids)
    empty = np.zeros((n, 0), np.uint8)
    batch = make_batch(data, starts, np.zeros(n, np.int64), np.zeros((n, 2), np.uint64), fixed_evidence(empty))
    assert batch.size == n
    assert batch.ids_at(np.arange(n)) == ids
    assert batch.ids_at(np.arange(n)[::-2]) == ids[::-2]


@pytest.mark.parametrize(
    ("seconds", "microseconds"),
    [
        (None, int(NO_TIME)),
        (math.nan, int(NO_TIME)),
        (0, 0),
        (-1.5, -1_500_000),
        (1700000000.123456, 1_700_000_000_123_456),
        (0.4e-6, 0),
        (EDGE - 2, (EDGE - 2) * 10**6),
        (2 - EDGE, (2 - EDGE) * 10**6),
    ],
)
def test_times_are_whole_microseconds(seconds: float | None, microseconds: int) -> None:
    """Rounded; no time differs from all of them."""
    assert times_by_place(seconds) == [microseconds]


@pytest.mark.parametrize("seconds", [math.inf, -math.inf, EDGE, -EDGE, 1e300, 10**400, -(10**400)])
def test_times_that_cannot_be_kept_are_none(seconds: float) -> None:
    """Infinity, and distant times whose differences would not fit 64 bits."""
    assert times_by_place(seconds) == [None]
    assert times_by_place(1.5, seconds, 2.5) == [1_500_000, None, 2_500_000]


@given(st.lists(st.floats() | st.floats(-1e10, 1e10)))
def test_a_time_is_the_same_in_any_company(times: list[float]) -> None:
    """Among times of one type, and among whole numbers and missing times."""
    among_others = times_by_place(*times, 7, None)
    assert among_others == [*times_by_place(*times), 7_000_000, int(NO_TIME)]
    assert among_others == [times_by_place(time)[0] for time in [*times, 7, None]]


def test_the_difference_of_any_two_times_fits_64_bits() -> None:
    """At both ends of the accepted range."""
    for one in (1, 1.0):
        ends = times_by_place((EDGE - 2) * one, (2 - EDGE) * one)
        assert None not in ends
        assert abs(ends[0] - ends[1]) < 2**63  # type: ignore[operator]
        assert min(ends) > int(NO_TIME)  # type: ignore[type-var]


def test_items_of_a_table_have_content_and_id_before_their_buckets() -> None:
    """They are the first two keys of an item; the second half of the content is a column of its own."""
    batch = batch_of(Document("a", "some text", 1.0), Document("b", "some other text"), Document("a", "some text"))
    keys = np.arange(12, dtype=np.uint64).reshape(3, 4)
    items = table_items(batch, regular_keys(keys))
    rows = items.keys.reshape(3, 6)
    assert items.key_starts.tolist() == [0, 6, 12, 18]
    assert rows[:, 2:].tolist() == keys.tolist()
    assert rows[:, 0].tolist() == batch.contents[:, 0].tolist()
    assert items.contents.tolist() == batch.contents[:, 1].tolist()
    assert rows[0, :2].tolist() == rows[2, :2].tolist()
    assert rows[0, 1] != rows[1, 1]


def test_the_key_of_an_id_has_a_known_answer() -> None:
    """It must be the same in every process that removes documents."""
    items = table_items(batch_of(Document("a", "some text")), regular_keys(np.empty((1, 0), np.uint64)))
    assert items.keys[1] == 3214045599913176167


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_batches_one_after_the_other_are_one_batch(sizes: list[int]) -> None:
    """Each batch has one document or several."""
    documents = [Document("i" * n, f"text number {n}", n) for n in range(sum(sizes))]
    ends = np.cumsum(sizes)
    parts = [batch_of(*documents[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    assert columns(concatenate(parts)) == columns(batch_of(*documents))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_regular_keys_start_where_each_item_does(count: int) -> None:
    """Also for items without a key: each item has a start and an end."""
    assert regular_keys(np.empty((4, count), np.uint64)).starts.tolist() == [0, count, 2 * count, 3 * count, 4 * count]
