"""One document in every format and through every command that reads: the same id, text, time and source."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from memory_transport import MemoryTransport
from shell_harness import Bench
from warc_records import answer, record

from neardup import Signer
from neardup.documents.document import Document
from neardup.pairs.json_lines import decode_document
from neardup.stories.sources.names import source_of
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import Rows, TableRows
from neardup_workers.outside.readers.formats import FORMATS
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Settings, fields_of
from neardup_workers.outside.topics.signed import decode_signed
from neardup_workers.outside.transport.protocol import Record

pytest.importorskip("fastwarc")
pa = pytest.importorskip("pyarrow")

ID, TIME, SOURCE = "http://www.example.com/mueller?a=1", 1_700_000_000.0, "example.com"
TEXT = (
    "Die Fähre fährt heute nicht, sagt Frau Müller, und „morgen“ auch nicht, weil der Wind zu stark ist. "
    "漢字 \U0001d11e"
)
PAGE = f"<!DOCTYPE html><html><head><title>x</title></head><body><article><p>{TEXT}</p></article></body></html>"
DATE, HTTP_DATE = "2023-11-14T22:13:20Z", "Tue, 14 Nov 2023 23:13:20 +0100"
ROW = {"id": ID, "text": TEXT, "timestamp": DATE, "url": ID}
HEADER = f"Message-ID: <{ID}>\nDate: {HTTP_DATE}\nContent-Type: text/plain; charset=utf-8\n\n"


def _table(delimiter: str) -> bytes:
    sink = io.StringIO()
    csv.writer(sink, delimiter=delimiter).writerows([list(ROW), list(ROW.values())])
    return sink.getvalue().encode()


def _arrow(write: Any) -> bytes:
    sink = io.BytesIO()
    write(pa.Table.from_pylist([ROW]), sink)
    return sink.getvalue()


def _parquet() -> bytes:
    from pyarrow import parquet

    return _arrow(parquet.write_table)


def _feather() -> bytes:
    from pyarrow import feather

    return _arrow(feather.write_feather)


def _warc() -> bytes:
    return record(answer(PAGE.encode()), uri=ID, date=DATE)


# The format -> the name of a file, its content, and whether the format holds an id and a time.
KINDS: dict[str, tuple[str, Any, bool]] = {
    "lines": ("in.jsonl", lambda: json.dumps(ROW).encode() + b"\n", True),
    "array": ("in.json", lambda: json.dumps([ROW]).encode(), True),
    "csv": ("in.csv", lambda: _table(","), True),
    "tsv": ("in.tsv", lambda: _table("\t"), True),
    "parquet": ("in.parquet", _parquet, True),
    "arrow": ("in.arrow", _feather, True),
    "mail": ("in.eml", lambda: f"{HEADER}{TEXT}\n".encode(), True),
    "mbox": ("in.mbox", lambda: f"From a@example.com {HTTP_DATE}\n{HEADER}{TEXT}\n\n".encode(), True),
    "warc": ("in.warc", _warc, True),
    "html": ("in.html", PAGE.encode, False),
    "notebook": (
        "in.ipynb",
        lambda: json.dumps({"cells": [{"cell_type": "code", "source": [TEXT], "outputs": []}], "nbformat": 4}).encode(),
        False,
    ),
    "documents": ("in.txt", TEXT.encode, False),
}


@pytest.fixture
def reader():
    """Reads with the sources of documents."""
    settings = Settings()
    one = EntryReader(settings, fields_of(settings, sources=True), Stop(), lambda part: None)
    yield one
    one.close()


def write(folder: Path, kind: str) -> Path:
    name, content, _ = KINDS[kind]
    (folder / name).write_bytes(content())
    return folder / name


def test_the_matrix_has_every_format():
    """A new format has its row here."""
    assert KINDS.keys() == FORMATS.keys()


@pytest.mark.processes
@pytest.mark.parametrize("kind", KINDS)
def test_a_document_is_the_same_from_every_format(tmp_path, reader, kind):
    """Read one by one and, of tables and lines, many at a time; a format without ids has the path as the id."""
    path = write(tmp_path, kind)
    has_id = KINDS[kind][2]
    wanted = (ID, TEXT, TIME, SOURCE) if has_id else (str(path), TEXT, None, None)
    one_by_one = [entry.found for entry in reader.read([str(path)]) if entry is not None and entry.found != "header"]
    documents = [one for one in one_by_one if isinstance(one, Document)]
    assert [(one.id, one.text.strip(), one.timestamp) for one in documents] == [wanted[:3]]
    sources = [source_of(one) for one in documents]
    for part in reader.parts([str(path)]):
        if isinstance(part, Rows) and len(part):
            assert [tuple(one[:3]) for one in part.documents] == [wanted[:3]]
            sources += [source_of(one) for one in part.with_sources()] if isinstance(part, TableRows) else []
    assert set(sources) == {wanted[3]}


@pytest.mark.processes
@pytest.mark.parametrize("kind", [*KINDS, "producer"])
def test_a_document_is_the_same_through_a_topic(tmp_path, monkeypatch, kind):
    """Loaded from a file of each format, or sent by another producer: a signer reads what a command reads."""
    monkeypatch.setattr(time, "time", lambda: TIME + 3_600)  # the topic keeps a week
    bench, path = Bench(), tmp_path / KINDS.get(kind, KINDS["lines"])[0]
    settings = bench.settings
    if kind == "producer":
        records, has_id = [Record(0, 0, int(1000 * TIME), None, json.dumps(ROW).encode())], True
    else:
        write(tmp_path, kind)
        session = Session(settings, SessionOptions([], quiet=True), sources=True)
        Loader(MemoryTransport(bench.cluster), settings, session).load([str(path)])
        session.reader.close()
        records, has_id = bench.cluster.records(bench.names.topics.documents), KINDS[kind][2]
    wanted = (ID, TEXT, TIME, SOURCE) if has_id else (str(path), TEXT, None, None)
    fields, signer = fields_of(settings, sources=True), Signer(settings)
    plan = SignPlan(
        settings, fields, bench.names.topics, 1, 300.0, "earliest", verdicts=True, document_bytes_max=1 << 20
    )
    (one,) = [decode_document(record.value or b"", fields, (record.key or b"").decode()) for record in records]
    assert isinstance(one, Document)
    assert (one.id, one.text.strip(), one.timestamp, source_of(one)) == wanted
    parts = [m.value for m in sign_records(records, signer, plan).messages if m.topic == bench.names.topics.signed]
    (rows,) = [decode_signed(part, settings.signing_fingerprint, settings.plan.width) for part in parts]
    assert (rows.ids.tobytes().decode(), len(rows.times)) == (wanted[0], 1)
    assert (rows.contents == signer.sign([Document("a", TEXT)]).batch.contents).all()
    if has_id:
        assert rows.times.tolist() == [round(TIME * 1e6)]


@pytest.mark.processes
def test_every_command_reads_every_format(neardup, tmp_path):
    """Each file has the one text, so each command finds the same copies: those of formats with an id are versions."""
    paths = [write(tmp_path, kind).name for kind in KINDS]
    wholes = [KINDS[kind][0] for kind in KINDS if not KINDS[kind][2]]
    for command in ("run", "batch"):
        done = neardup(command, *paths)
        pairs = [json.loads(line) for line in done.stdout.splitlines()]
        assert {pair["newer"] for pair in pairs} >= set(wholes), done.stderr
        assert {pair["similarity"] for pair in pairs} == {1.0}
        assert b"documents: 12\n" in done.stderr
    done = neardup("probe", "--index", paths[0], *paths[1:])
    pairs = [json.loads(line) for line in done.stdout.splitlines()]
    assert {pair["newer"] for pair in pairs} >= set(wholes), done.stderr
    done = neardup("dedup", "--verdicts", "out.jsonl", *paths, "--output", "kept.jsonl")
    verdicts = [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert [one["id"] for one in verdicts] == [ID] * 9 + wholes, done.stderr
    assert [one["status"] for one in verdicts] == ["original", *["unchanged"] * 8, *["duplicate"] * 3]
