"""Names of fields that are paths: the same document from every format that can hold it, and from the service."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from neardup.documents.document import Document
from neardup_workers.doing.http.bodies import Decoding
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import TableRows
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Settings, fields_of

pa = pytest.importorskip("pyarrow")

ROWS = [
    {
        "meta": {"key": f"k{n}", "at": "1970-01-01T00:01:00Z", "by": "AP", "tags": None},
        "title": f"One {n}",
        "article": {"body": "Two", "parts": ["Two", "Three"]},
        "chat": [{"role": "user", "content": "Two"}, {"role": "assistant", "content": "Three"}],
    }
    for n in range(2)
]
TEXTS = {
    "article.body": "Two", "/article/body": "Two", "article.parts": "Two\n\nThree", "chat": "Two\n\nThree",
    "chat.content": "Two\n\nThree", "chat.1.content": "Three", "title,article.body": "One 0\n\nTwo",
    "title,gone": "One 0",
}  # fmt: skip


def _table(write: Any) -> bytes:
    sink = io.BytesIO()
    write(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue()


def _parquet(table: Any, sink: io.BytesIO) -> None:
    from pyarrow import parquet

    parquet.write_table(table, sink)


def _feather(table: Any, sink: io.BytesIO) -> None:
    from pyarrow import feather

    feather.write_feather(table, sink)


FILES = {
    "in.jsonl": lambda: b"".join(json.dumps(row).encode() + b"\n" for row in ROWS),
    "in.json": lambda: json.dumps(ROWS, indent=1).encode(),
    "in.parquet": lambda: _table(_parquet),
    "in.arrow": lambda: _table(_feather),
}


def settings_of(text: str) -> Settings:
    return Settings(fields=(f"text={text}", "id=meta.key", "time=meta.at", "source=meta.by"))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", TEXTS)
def test_a_document_is_the_same_from_every_format(tmp_path: Path, name: str, text: str) -> None:
    """Id, time and text; in a folder too, where the first object decides whether the file is input."""
    (tmp_path / name).write_bytes(FILES[name]())
    settings = settings_of(text)
    reader = EntryReader(settings, fields_of(settings, sources=True), Stop(), lambda part: None)
    for path in (tmp_path / name, tmp_path):
        found = [entry.found for entry in reader.read([str(path)]) if entry is not None]
        assert [one[:3] for one in found] == [("k0", TEXTS[text], 60.0), ("k1", TEXTS[text].replace("0", "1"), 60.0)]


@pytest.mark.parametrize("name", ["in.parquet", "in.arrow"])
def test_rows_of_a_table_have_the_source_at_a_path(tmp_path: Path, name: str) -> None:
    """The fast way of tables reads it as well; the rows of outputs stay as they are."""
    (tmp_path / name).write_bytes(FILES[name]())
    settings = settings_of("article.body")
    reader = EntryReader(settings, fields_of(settings, sources=True), Stop(), lambda part: None)
    parts = [part for part in reader.parts([str(tmp_path / name)]) if isinstance(part, TableRows) and len(part)]
    assert [one.source for part in parts for one in part.with_sources()] == ["AP", "AP"]
    assert all(part.batch.schema.names == list(ROWS[0]) for part in parts)


def test_several_columns_of_a_csv_are_joined(tmp_path: Path) -> None:
    """Every row is a document although no column has the whole name."""
    sink = io.StringIO()
    csv.writer(sink).writerows([["id", "title", "body"], ["a", "One", "Two"], ["b", "One", ""]])
    (tmp_path / "in.csv").write_text(sink.getvalue())
    settings = Settings(fields=("text=title", "body"))
    reader = EntryReader(settings, fields_of(settings), Stop(), lambda part: None)
    entries = [entry for entry in reader.read([str(tmp_path / "in.csv")]) if entry is not None]
    assert [entry.found[:2] for entry in entries] == [("a", "One\n\nTwo"), ("b", "One")]


@pytest.mark.parametrize("text", TEXTS)
def test_the_service_reads_the_same_document(text: str) -> None:
    """A body of a request has nested fields, too."""
    decode = Decoding(fields_of(settings_of(text), sources=True), 0.0, lambda: 100.0, False, lambda name: None)
    document = decode.document(json.dumps(ROWS[0]).encode())
    assert isinstance(document, Document)
    assert document[:3] == ("k0", TEXTS[text], 60.0)


def test_only_the_text_has_several_fields() -> None:
    """A value without a part belongs to the text before it; elsewhere it is refused."""
    assert Settings(fields=("text=title", "body", "id=key")).field_names[:2] == ("key", "title,body")
    for wrong in (("id=a", "b"), ("b",)):
        with pytest.raises(ValueError, match="must be PART=NAME"):
            Settings(fields=wrong)
