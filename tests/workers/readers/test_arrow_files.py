"""Parquet and Arrow files as input: the documents of the same JSON Lines, refusals with reason and row."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import clean_environment
from pyarrow import ipc

from neardup.documents.document import Document
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import TableRows
from neardup_workers.outside.readers.formats import FORMATS, choose
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "one é", "timestamp": 5.5, "url": "u"},
    {"id": "b", "text": "", "timestamp": None, "url": "v"},
    {"id": "c", "text": "three " * 200_000, "timestamp": 7.0, "url": None},
]
DOCUMENTS = [Document(row["id"], row["text"], row["timestamp"]) for row in ROWS]


def parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def arrow_file(table: pa.Table) -> bytes:
    file = io.BytesIO()
    with ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, 2)
    return file.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    file = io.BytesIO()
    with ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, 2)
    return file.getvalue()


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {
    "in.parquet": parquet,
    "in.arrow": arrow_file,
    "in.arrows": arrow_stream,
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Any]]:
    """Read contents as a file: what each entry found, and its line."""

    def found(name: str, content: bytes, fields: Fields = Fields(), **options: Any) -> list[Any]:  # noqa: B008
        (tmp_path / name).write_bytes(content)
        reader = EntryReader(Reading(**options), fields, Stop(), lambda part: None)
        return [(entry.line, entry.found) for entry in reader.read([str(tmp_path / name)]) if entry is not None]

    return found


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("stored", ["plain", "gzip", "no name"])
def test_a_file_of_arrow_holds_the_documents_of_its_rows(
    read: Callable[..., list[Any]], name: str, stored: str
) -> None:
    """The content decides, also if it is compressed or has another name."""
    content = WRITERS[name](pa.Table.from_pylist(ROWS))
    named, content = {
        "plain": (name, content), "gzip": (f"{name}.gz", gzip.compress(content)), "no name": ("in", content),
    }[stored]  # fmt: skip
    assert read(named, content) == list(enumerate(DOCUMENTS, 1))


@pytest.mark.parametrize("name", WRITERS)
def test_texts_and_ids_may_have_any_form_of_strings(read: Callable[..., list[Any]], name: str) -> None:
    """Strings with 64-bit offsets, views, dictionaries and bytes are the same documents."""
    for kind in (
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        columns = {"id": pa.array(["a", "b"]).cast(pa.string()), "text": pa.array(["one é", "two"])}
        if pa.types.is_dictionary(kind):
            columns = {key: column.dictionary_encode() for key, column in columns.items()}
        else:
            columns = {key: column.cast(kind) for key, column in columns.items()}
        assert read(name, WRITERS[name](pa.table(columns))) == [(1, Document("a", "one é")), (2, Document("b", "two"))]


TIME = datetime.datetime(2024, 2, 3, 4, 5, 6, 789_000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("column", "unit", "seconds"),
    [
        *((pa.array([TIME], pa.timestamp(unit, "Asia/Tokyo")), "s", TIME.timestamp()) for unit in ("ms", "us", "ns")),
        (pa.array([TIME.replace(tzinfo=None)], pa.timestamp("us")), "s", TIME.timestamp()),
        (pa.array([TIME.date()]), "s", datetime.datetime(2024, 2, 3, tzinfo=datetime.UTC).timestamp()),
        (pa.array([TIME.date()], pa.date64()), "s", datetime.datetime(2024, 2, 3, tzinfo=datetime.UTC).timestamp()),
        (pa.array([1_700_000_000]), "s", 1.7e9),
        (pa.array([1_700_000_000_500]), "ms", 1_700_000_000.5),
        (pa.array([1_700_000_000_000]), "s", "timestamp_unit"),
        (pa.array([TIME.isoformat()]), "s", TIME.timestamp()),
        (pa.array(["yesterday"]), "s", None),
        (pa.array([1e300]), "s", None),
        (pa.array([-np.inf]), "s", None),
        (pa.array(["1e999"]), "s", None),
        (pa.array([None]), "s", None),
        (pa.array([np.nan]), "s", None),
    ],
)  # fmt: skip
def test_a_time_is_a_timestamp_a_date_a_number_or_a_string(
    read: Callable[..., list[Any]], column: pa.Array, unit: str, seconds: Any
) -> None:
    """A timestamp has its unit and zone in its type, a date is its midnight; numbers have the unit of the option."""
    table = pa.table({"id": ["a"], "text": ["one"], "timestamp": column})
    expected = seconds if isinstance(seconds, str) else Document("a", "one", seconds)
    assert read("in.parquet", parquet(table), Fields(timestamp_unit=unit)) == [(1, expected)]


def test_an_absent_value_refuses_its_row_and_an_absent_id_is_the_place(
    read: Callable[..., list[Any]], tmp_path: Path
) -> None:
    """Whole numbers are ids; without ids of places, the row without one is refused."""
    table = pa.table({"id": pa.array([7, None, 9]), "text": ["one", "two", None]})
    assert read("in.parquet", parquet(table)) == [
        (1, Document("7", "one")), (2, Document(f"{tmp_path}/in.parquet:2", "two")), (3, "no_text"),
    ]  # fmt: skip
    assert read("in.parquet", parquet(table), line_ids=False)[1] == (2, "no_id")
    named = read("in.parquet", parquet(table.drop_columns(["id"])))
    assert [document.id for _, document in named[:2]] == [f"{tmp_path}/in.parquet:{row}" for row in (1, 2)]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"id": ["a"], "body": ["one"]}), "no_column"),
        (pa.table({"id": ["a"], "text": [1]}), "text_type"),
        (pa.table({"id": [True], "text": ["one"]}), "id_type"),
        (pa.table({"id": ["a"], "text": ["one"], "timestamp": [[1]]}), "timestamp_type"),
        (pa.table([["a"], ["b"], ["c"]], names=["id", "text", "text"]), "no_column"),
    ],
)
def test_a_column_that_cannot_be_read_refuses_the_table(
    read: Callable[..., list[Any]], table: pa.Table, reason: str
) -> None:
    """Once, not row by row."""
    assert read("in.arrow", arrow_file(table)) == [(0, reason)]


def test_values_that_are_no_texts_are_read_as_from_json(read: Callable[..., list[Any]]) -> None:
    """Tokens, ratings, vectors and records."""
    table = pa.table({
        "id": ["a"], "tokens": [["x", "y"]], "vector": pa.array([[1.0, 0.5]], pa.list_(pa.float32(), 2)), "age": [7],
        "ratings": pa.array([[("x", 4.5)]], pa.map_(pa.string(), pa.float64())),
    })  # fmt: skip
    for fields, document in (
        (Fields(kind="tokens"), Document("a", tokens=["x", "y"])),
        (Fields(kind="tokens", tokens="ratings"), Document("a", tokens={"x": 4.5})),
        (Fields(kind="vector"), Document("a", vector=[1.0, 0.5])),
        (Fields(kind="record"), Document("a", fields={"age": "7"})),
    ):
        assert read("in.parquet", parquet(table), fields) == [(1, document)]


@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_file_is_read_up_to_the_damage(read: Callable[..., list[Any]], name: str) -> None:
    """The refusal names the row; a Parquet file begins at its end, so of one that is cut off nothing is read."""
    content = WRITERS[name](pa.Table.from_pylist(ROWS))
    found = read(name, content[: len(content) * 3 // 4])
    assert found[-1] == (len(found), "table_damaged")
    assert [document for _, document in found[:-1]] == DOCUMENTS[: len(found) - 1]
    assert read(name, content[:20])[-1] == (1, "table_damaged")


def test_a_file_of_arrow_without_its_end_mark_is_cut_off(read: Callable[..., list[Any]]) -> None:
    """A stream may end after any batch."""
    table = pa.Table.from_pylist(ROWS)
    assert read("in.arrow", arrow_file(table)[:-1])[-1] == (4, "table_damaged")
    assert read("in.arrows", arrow_stream(table)[:-8]) == list(enumerate(DOCUMENTS, 1))


def test_rows_stay_in_the_buffers_until_one_is_read(tmp_path: Path) -> None:
    """Texts are no objects; an entry has its row as a line of JSON with all columns."""
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "in.parquet")
    parts = list(EntryReader(Reading(), Fields(), Stop(), lambda part: None).parts([str(tmp_path / "in.parquet")]))
    assert all(isinstance(part, TableRows) for part in parts)
    assert [len(part) for part in parts if isinstance(part, TableRows)] == [0, 2, 1]
    rows = parts[1]
    assert isinstance(rows, TableRows)
    assert json.loads(rows[0].raw or b"") == ROWS[0]
    assert rows[-1:] == list(rows)[-1:]


def test_rows_of_a_large_group_come_in_batches_of_bounded_size(tmp_path: Path) -> None:
    """By the sizes that the file gives: here rows of 100 kB, so some eighty at a time."""
    pq.write_table(
        pa.table({"text": [f"{i:06}" * 16_000 for i in range(300)]}), tmp_path / "a.parquet", use_dictionary=False
    )
    reader = EntryReader(Reading(), Fields(), Stop(), lambda part: None)
    sizes = [part.batch.nbytes for part in reader.parts([str(tmp_path / "a.parquet")]) if isinstance(part, TableRows)]
    assert sum(sizes) > 28e6
    assert max(sizes) < 9e6


def test_content_decides_the_format_before_the_name() -> None:
    """A stream of Arrow has no name on standard input."""
    table = pa.Table.from_pylist(ROWS)
    for name, write in WRITERS.items():
        content = write(table)
        assert choose("-", content, Fields(), is_stream=True) is FORMATS["parquet" if name == "in.parquet" else "arrow"]
        assert choose(name, b"", Fields()) is FORMATS["parquet" if name == "in.parquet" else "arrow"]


@pytest.mark.processes
def test_without_pyarrow_one_sentence_names_what_to_install(tmp_path: Path) -> None:
    """Other files are read."""
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"id": "x", "text": "one"}\n')
    code = "import sys; sys.modules['pyarrow'] = None\nfrom neardup_workers.running.cli.app import main\n"
    code += "raise SystemExit(main())"
    command = [sys.executable, "-c", code, "run", "a.parquet", "b.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "a.parquet: reading it needs packages that are not installed" in done.stderr
    assert "pip install 'pyarrow>=" in done.stderr
    assert "documents: 1" in done.stderr


def test_a_value_that_json_cannot_express_becomes_text_or_null(tmp_path: Path) -> None:
    """An unknown zone is UTC; a time beyond the year 9999 is its number; numbers beyond 64 bits are digits."""
    table = pa.table({
        "text": ["x"],
        "zone": pa.array([TIME], pa.timestamp("us", "Asia/Atlantis")),
        "far": pa.array([1 << 60], pa.timestamp("us")),
        "large": pa.array([10**30], pa.decimal128(38)),
        "none": [float("nan")],
        "bytes": [b"\xff"],
        "zones": pa.array([[TIME]], pa.list_(pa.timestamp("us", "Asia/Atlantis"))),
    })  # fmt: skip
    (tmp_path / "in.arrow").write_bytes(arrow_file(table))
    reader = EntryReader(Reading(), Fields(), Stop(), lambda part: None)
    (entry,) = [entry for entry in reader.read([str(tmp_path / "in.arrow")]) if entry is not None]
    assert json.loads(entry.raw or b"") == {
        "text": "x", "zone": "2024-02-03T04:05:06.789000", "far": 1 << 60, "large": str(10**30), "none": None,
        "bytes": "/w==",
    }  # fmt: skip


def test_a_place_outside_of_a_dictionary_is_damage(read: Callable[..., list[Any]]) -> None:
    """Of texts and of other columns: pyarrow does not compare the places in Parquet with the size of the dictionary."""
    head_of_two, head_of_none = b"\x4c\x15\x04\x15\x00", b"\x4c\x15\x00\x15\x00"  # how many values a dictionary has
    for name in ("text", "kind"):
        columns = {"text": pa.array(["one", "two"]), "kind": pa.array(["x", "y"])}
        columns[name] = columns[name].dictionary_encode()
        content = parquet(pa.table(columns), compression="none", use_dictionary=[name])
        assert content.count(head_of_two) == 1
        assert read("in.parquet", content.replace(head_of_two, head_of_none)) == [(1, "table_damaged")]


def test_the_thread_that_decodes_ahead_ends_with_the_reader(tmp_path: Path) -> None:
    """Also if the caller leaves the rest of a file unread."""
    pq.write_table(pa.table({"text": ["one"] * 20_000}), tmp_path / "a.parquet", row_group_size=5_000)
    parts = EntryReader(Reading(), Fields(), Stop(), lambda part: None).parts([str(tmp_path / "a.parquet")])
    assert sum(len(part) for part in (next(parts), next(parts)) if part) > 0
    assert any(thread.name.startswith("parquet") for thread in threading.enumerate())
    parts.close()
    assert not any(thread.name.startswith("parquet") for thread in threading.enumerate())
