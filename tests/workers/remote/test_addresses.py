"""Addresses of objects stand where paths do: read in ranges, again after a break, and written whole at the end."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from dedup_outputs import deduplicated
from object_server import ObjectServer, object_server
from pyarrow import parquet

from neardup_workers.outside.options.documents import DedupOptions, RunOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.remote import objects, stores
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.dedup.command import run as dedup
from neardup_workers.running.commands.run import run

TEXTS = [f"{'the same words for everyone, and some of its own: ' * (n % 2)}{n * 7919} {n * 104729}" for n in range(6)]
LINES = [
    json.dumps({"id": f"d{n}", "text": f"{text} " * 9}).encode() + b"\n" for n, text in enumerate([*TEXTS, TEXTS[1]])
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectServer]:
    """A server of objects, and the variables that name it to the stores."""
    pytest.importorskip("obstore", reason="obstore is not installed: make renews .venv")
    monkeypatch.setattr(objects, "_WAIT_SECONDS", 0.001)
    with object_server() as served:
        account = {"gcs_base_url": served.url, "disable_oauth": True, "client_email": "", "private_key": "",
                   "private_key_id": ""}  # fmt: skip
        (tmp_path / "account.json").write_text(json.dumps(account))
        for name, value in {
            "AWS_ENDPOINT": served.url, "AWS_ALLOW_HTTP": "true", "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "r",
            "GOOGLE_SERVICE_ACCOUNT": str(tmp_path / "account.json"),
            "AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ENDPOINT": served.url, "AZURE_ALLOW_HTTP": "true",
            "AZURE_SKIP_SIGNATURE": "true", "HF_ENDPOINT": served.url, "HF_TOKEN": "secret",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        stores._store.cache_clear()
        yield served
        stores._store.cache_clear()


@pytest.mark.parametrize(
    ("address", "stored"),
    [
        ("s3://b/folder/in.jsonl", "b/folder/in.jsonl"),
        ("gs://b/folder/in.jsonl", "b/folder/in.jsonl"),
        ("az://b/folder/in.jsonl", "b/folder/in.jsonl"),
        ("{url}/folder/in%20a.jsonl?signature=a%2Fb", "folder/in a.jsonl"),
        ("hf://datasets/o/n/folder/in.jsonl", "datasets/o/n/resolve/main/folder/in.jsonl"),
        ("hf://datasets/o/n@v1/in.jsonl", "datasets/o/n/resolve/v1/in.jsonl"),
        ("hf://o/n/in.jsonl", "o/n/resolve/main/in.jsonl"),
    ],
)
def test_an_address_is_read_as_a_file_is(server: ObjectServer, tmp_path: Path, address: str, stored: str) -> None:
    """Of each kind: the kept documents are those of the file, and its ids without one name the address."""
    (tmp_path / "in.jsonl").write_bytes(b"".join(LINES))
    server.objects[stored] = b"".join(LINES)
    expected = deduplicated(tmp_path / "in.jsonl", folder=tmp_path)
    out = deduplicated(address.format(url=server.url), folder=tmp_path)
    assert expected["statuses"][-1] == "duplicate"
    assert (out["kept"], out["statuses"]) == (expected["kept"], expected["statuses"])
    assert json.loads(out["verdicts"].splitlines()[0])["path"] == address.format(url=server.url)
    if address.startswith("hf"):
        assert {request[3] for request in server.requests} == {"Bearer secret"}
    if "?" in address:
        assert {request[1] for request in server.requests} == {"/folder/in%20a.jsonl?signature=a%2Fb"}


def test_a_range_is_asked_for_again_where_the_connection_breaks(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No byte is lost or doubled, of a compressed file too."""
    monkeypatch.setattr(objects, "_FIRST_BYTES", 100)
    monkeypatch.setattr(objects, "_PIECE_BYTES", 300)
    content = b"".join(LINES) * 3
    server.objects["b/in.jsonl.gz"] = gzip.compress(content, 0)
    server.broken = 3
    out = deduplicated("s3://b/in.jsonl.gz", folder=tmp_path)
    assert len(out["statuses"]) == 3 * len(LINES)
    assert server.broken == 0
    ranges = [request[2] for request in server.requests]
    assert len(ranges) > len(server.objects["b/in.jsonl.gz"]) / 300 + 3


def test_a_server_without_ranges_and_an_empty_object_are_read_whole(server: ObjectServer, tmp_path: Path) -> None:
    """What comes at once is kept meanwhile."""
    server.ranges, server.objects["in.jsonl"] = False, b"".join(LINES)
    assert len(deduplicated(f"{server.url}/in.jsonl", folder=tmp_path)["statuses"]) == len(LINES)
    server.ranges, server.objects["b/empty.jsonl"] = True, b""
    assert deduplicated("s3://b/empty.jsonl", folder=tmp_path)["statuses"] == []


def test_a_table_is_read_in_ranges_and_no_byte_of_its_groups_twice(server: ObjectServer, tmp_path: Path) -> None:
    """Its end first, then one group of rows after the other; nothing is kept on the disk."""
    rows = [json.loads(line) for line in LINES]
    columns = {name: [row[name] for row in rows] for name in ("id", "text")}
    columns["picture"] = [f"{n * 7919}" * 30_000 for n in range(len(rows))]
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, compression="none", use_dictionary=False, row_group_size=2)
    server.objects["b/in.parquet"] = file.getvalue()
    assert run(RunOptions(["s3://b/in.parquet"], output=str(tmp_path / "pairs"), quiet=True), load({}, None)) == 0
    assert b'"older":"d1","newer":"d6"' in (tmp_path / "pairs").read_bytes()
    ranges = [tuple(map(int, (one[2] or "")[6:].split("-"))) for one in server.requests]
    assert max(begin for begin, _ in ranges[2:4]) > len(file.getvalue()) * 0.9
    assert sum(end - begin for begin, end in ranges) < len(file.getvalue()) + 4 * objects._FIRST_BYTES


def test_a_folder_is_listed_in_order_and_hidden_objects_are_named(server: ObjectServer, tmp_path: Path) -> None:
    """An address that ends with a slash, of a store that lists."""
    for n, line in enumerate(LINES):
        server.objects[f"b/f/{n}.jsonl"] = line
    server.objects["b/f/.hidden/x.jsonl"] = server.objects["b/other.jsonl"] = LINES[0]
    out = deduplicated("s3://b/f/", folder=tmp_path)
    verdicts = [json.loads(line) for line in out["verdicts"].splitlines()]
    assert [one["path"] for one in verdicts if "reason" not in one] == [
        f"s3://b/f/{n}.jsonl" for n in range(len(LINES))
    ]
    assert [(one["path"], one["reason"]) for one in verdicts if "reason" in one] == [
        ("s3://b/f/.hidden/x.jsonl", "hidden")
    ]


def test_an_output_is_written_whole_at_the_end_or_not_at_all(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept documents, packed by the ending; verdicts; a window, which another run begins with."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server.objects["b/in.jsonl"] = b"".join(LINES)
    options = DedupOptions(
        ["s3://b/in.jsonl"], output="s3://b/kept.jsonl.gz", verdicts="gs://c/verdicts.jsonl", keep="az://d/window",
        quiet=True,
    )  # fmt: skip
    assert dedup(options, load({}, None)) == Exit.SUCCESS
    assert gzip.decompress(server.objects["b/kept.jsonl.gz"]).splitlines() == [line.strip() for line in LINES[:-1]]
    assert len(server.objects["c/verdicts.jsonl"].splitlines()) == len(LINES)
    again = DedupOptions(["s3://b/in.jsonl"], window_from="az://d/window", output="s3://b/kept2.jsonl", quiet=True)
    assert dedup(again, load({}, None)) == Exit.SUCCESS
    assert server.objects["b/kept2.jsonl"] == b""
    before = dict(server.objects)
    server.objects["b/in.jsonl"] = before["b/in.jsonl"] = b"{\n"
    refused = DedupOptions(["s3://b/in.jsonl"], output="s3://b/kept2.jsonl", quiet=True)
    with pytest.raises(Failure, match="first refusal"):
        dedup(refused, load({"strict": True}, None))
    assert server.objects == before


def test_what_cannot_be_read_or_written_is_said_before_anything_is_done(server: ObjectServer, tmp_path: Path) -> None:
    """A missing object; an address without a file; a store that is read only; an object that is to be followed."""
    server.objects["b/in.jsonl"] = b"".join(LINES)
    for given, sentence in (
        ({"paths": ["s3://b/none.jsonl"]}, "cannot read s3://b/none.jsonl: No such file or directory"),
        ({"paths": ["hf://datasets/o"]}, "hf://datasets/o names no file: write hf://datasets/OWNER/NAME/FILE"),
        ({"paths": ["s3://b/in.jsonl"], "output": "hf://datasets/o/n/kept.jsonl"}, "can be read only"),
        ({"paths": [str(tmp_path / "in.jsonl")], "output": "s3://b/kept.jsonl", "follow": True}, "written whole"),
    ):
        (tmp_path / "in.jsonl").write_bytes(LINES[0])
        with pytest.raises(Failure) as raised:
            dedup(DedupOptions(quiet=True, **given), load({}, None))  # type: ignore[arg-type]
        assert sentence in str(raised.value)
    assert set(server.objects) == {"b/in.jsonl"}


def test_an_object_that_is_replaced_while_it_is_read_is_not_read_on(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranges would be of two versions."""
    monkeypatch.setattr(objects, "_FIRST_BYTES", 10)
    server.objects["b/in.jsonl"] = b"".join(LINES)
    with objects.RemoteFile("s3://b/in.jsonl") as file:
        server.objects["b/in.jsonl"] = b"".join(reversed(LINES))
        with pytest.raises(OSError, match="s3://b/in"):
            list(file.pieces())


def test_without_obstore_an_address_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a file named as no address is a file."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    stores._store.cache_clear()
    with pytest.raises(Failure, match=r"s3://b/in\.jsonl is read and written by obstore; it is not installed: pip"):
        run(RunOptions(["s3://b/in.jsonl"], quiet=True), load({}, None))
    assert not stores.is_address("ftp://b/in.jsonl")
