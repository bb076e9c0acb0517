"""Ids of any type that frames have, and what else than a table of Arrow has rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from neardup import Config, ConfigError, Deduplicator

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
TEXTS = [TEXT, "Quite another text about ferries, harbours, fog and the timetable of the island.", TEXT + "!"]
UUIDS = [uuid.UUID(int=n) for n in (1 << 100, 2, 3)]
BYTES = [one.bytes for one in UUIDS]
# What the column of ids holds -> its values in Arrow, and the id of the first row.
IDS: dict[str, tuple[Any, str]] = {
    "whole numbers": (pa.array([7, 8, 9], pa.int16()), "7"),
    "numbers beyond 63 bits": (pa.array([2**64 - 1, 8, 9], pa.uint64()), str(2**64 - 1)),
    "numbers of 128 bits": (pa.array([Decimal(10**30), Decimal(8), Decimal(9)], pa.decimal128(38, 0)), str(10**30)),
    "floats": (pa.array([7.0, 8.0, 9.0]), "7"),
    "strings": (pa.array(["a", "b", "c"]), "a"),
    "long strings": (pa.array(["a", "b", "c"], pa.large_string()), "a"),
    "bytes of a UUID": (pa.array(BYTES, pa.binary(16)), str(UUIDS[0])),
    "UUIDs": (pa.uuid().wrap_array(pa.array(BYTES, pa.binary(16))), str(UUIDS[0])),
    "other bytes of a fixed width": (pa.array([b"\x01\xff", b"ab", b"cd"], pa.binary(2)), "01ff"),
}


def decided(table: Any, **names: str) -> Any:
    return Deduplicator(Config(threshold=0.7)).decide_table(table, **names)


@pytest.mark.parametrize(("ids", "first"), IDS.values(), ids=IDS)
def test_an_original_is_named_by_a_value_of_the_type_of_the_ids(ids: Any, first: str) -> None:
    """So tables can be joined on it; a pair names the id as text."""
    table = pa.table({"id": ids, "text": TEXTS})
    found = decided(table)
    assert found.schema.field("duplicate_of").type == found.schema.field("id").type == ids.type
    assert found.column("duplicate_of").to_pylist() == [None, None, ids[0].as_py()]
    pairs = Deduplicator(Config(threshold=0.7)).process_table(table.slice(0, 3))
    assert pairs.column("older").to_pylist() == [first]
    sliced = decided(pa.concat_tables([table.slice(2, 1), table]).slice(1))
    assert sliced.column("duplicate_of").to_pylist() == [None, None, ids[0].as_py()]


def test_a_frame_with_a_gap_among_its_ids_merges_with_its_verdicts() -> None:
    """pandas makes float64 of whole numbers where one is missing: 1.0 is the id 1."""
    frame = pd.DataFrame({"id": [1, None, 3], "text": TEXTS})
    verdicts = decided(frame).to_pandas()
    merged = verdicts.dropna(subset=["duplicate_of"]).merge(frame, left_on="duplicate_of", right_on="id")
    assert (str(frame["id"].dtype), merged["text"].tolist()) == ("float64", [TEXT])
    assert [pair["newer"] for pair in Deduplicator().process_table(frame).to_pylist()] == ["3"]


def test_an_original_without_an_id_is_named_by_its_row() -> None:
    """No number names it, so the column has strings."""
    verdicts = decided(pd.DataFrame({"id": [None, 2, 3], "text": TEXTS}))
    assert verdicts.column("duplicate_of").to_pylist() == [None, None, "row:1"]


def test_a_number_that_is_not_whole_is_no_id() -> None:
    """Nor one that a float64 does not have exactly."""
    verdicts = decided(pa.table({"id": [1.5, 2.0**60, float("inf")], "text": TEXTS}))
    assert verdicts.column("reason").to_pylist() == ["id_type"] * 3


ROWS = [{"id": 1, "text": TEXTS[0]}, {"text": TEXTS[1], "more": {"a": 1}}, {"id": 3, "text": TEXTS[2]}]
# What has rows -> it, and the original of the last row.
SOURCES: dict[str, tuple[Callable[[], Any], Any]] = {
    "dicts": (lambda: ROWS, 1),
    "texts": (lambda: TEXTS, "row:1"),
    "a series of pandas": (lambda: pd.Series(TEXTS), "row:1"),
    "a series of Polars": (lambda: pl.Series("body", TEXTS), "row:1"),
    "an array of Arrow": (lambda: pa.array(TEXTS), "row:1"),
    "chunks of Arrow": (lambda: pa.chunked_array([TEXTS[:1], TEXTS[1:]]), "row:1"),
    "a lazy frame": (lambda: pl.LazyFrame({"id": [1, 2, 3], "text": TEXTS}).with_columns(pl.col("id") + 1), 2),
}


@pytest.mark.parametrize(("source", "original"), SOURCES.values(), ids=SOURCES)
def test_whatever_has_rows_is_decided(source: Callable[[], Any], original: Any) -> None:
    """Without an object of Arrow made by the caller."""
    assert decided(source()).column("duplicate_of").to_pylist() == [None, None, original]


def test_a_lazy_frame_without_rows_has_no_verdicts() -> None:
    """Its columns are known."""
    empty = pl.LazyFrame({"id": [], "text": []}, {"id": pl.Int64, "text": pl.String})
    assert decided(empty).num_rows == 0


def test_a_dataset_is_decided_as_it_is_selected() -> None:
    """Its table has all rows, and an index says which of them it has."""
    datasets = pytest.importorskip("datasets", reason="needs datasets of Hugging Face")
    whole = datasets.table.InMemoryTable(pa.table({"id": [1, 2, 3, 4], "text": [TEXTS[1], *TEXTS]}))
    rows = datasets.Dataset(whole, fingerprint="x")
    found = decided(rows.select([1, 2, 3]))
    assert found.column("duplicate_of").to_pylist() == [None, None, 2]


class _Dataset:
    """What is read of a dataset of Hugging Face: its rows as tables, a few at a time, after a selection."""

    class data:
        table = pa.table({"id": [1, 2, 3, 4], "text": [TEXTS[1], *TEXTS]})

    def __init__(self, form: str | None = None) -> None:
        self.form = form

    def with_format(self, form: str) -> _Dataset:
        return _Dataset(form)

    def iter(self, rows: int) -> Iterator[pa.Table]:
        assert (self.form, rows > 0) == ("arrow", True)
        yield from (self.data.table[at : at + 1] for at in (1, 2, 3))


def test_what_a_dataset_shows_is_decided() -> None:
    """Its selected rows as they come, or the table of all its rows."""
    assert decided(_Dataset()).column("duplicate_of").to_pylist() == [None, None, 2]
    assert decided(_Dataset.data.table).column("duplicate_of").to_pylist() == [None, None, 1, 2]


@pytest.mark.parametrize("wrong", [7, "text", [1, 2], [{"text": [1, "a"]}], {"a"}], ids=repr)
def test_what_has_no_rows_is_refused_with_what_to_give(wrong: Any) -> None:
    """A sentence that names the type."""
    with pytest.raises(ConfigError, match=f"{type(wrong).__name__}.*(is no table|must hold)|column"):
        decided(wrong)
