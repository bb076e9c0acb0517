"""``dedup`` and ``batch`` write Parquet: the columns unchanged, each row in one file."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from neardup import Deduplicator
from neardup_workers.outside.options.documents import BatchOptions, DedupOptions
from neardup_workers.outside.outputs import table_file
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch.corpus import run as run_batch
from neardup_workers.running.commands.dedup.command import run

WORDS = "the ferry leaves harbour at seven and returns before noon unless fog holds it in port"
SCHEMA = pa.schema({
    "id": pa.string(), "text": pa.large_string(), "timestamp": pa.timestamp("ns", "Asia/Tokyo"),
    "tags": pa.list_(pa.string()), "price": pa.decimal128(12, 2), "blob": pa.binary(),
    "kind": pa.dictionary(pa.int32(), pa.string()), "place": pa.struct({"x": pa.float32()}),
}, {"owner": "the shop"})  # fmt: skip


def table(count: int, first: int = 0) -> pa.Table:
    """Every third text is that of the row before it, every seventh is absent."""
    rows: list[dict[str, Any]] = []
    for n in range(first, first + count):
        text = " ".join(str((n + 7) * k * 7919 % 100_003) for k in range(1, 40))
        if n % 3 == 2 and rows and rows[-1]["text"]:
            text = rows[-1]["text"] + "."
        at = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=n)
        rows.append({
            "id": f"row-{n}", "text": None if n % 7 == 6 else text, "timestamp": at, "tags": [str(n), None],
            "price": None if n % 2 else datetime_price(n), "blob": bytes([n % 256, 255]), "kind": "ab"[n % 2],
            "place": {"x": n / 2},
        })  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def datetime_price(n: int) -> Any:
    from decimal import Decimal

    return Decimal(n) / 4


@pytest.fixture
def dedup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Exit]]:
    """Run the command in this process."""
    monkeypatch.chdir(tmp_path)
    interval = sys.getswitchinterval()

    def deduplicated(*paths: str, **options: Any) -> Exit:
        return run(DedupOptions(list(paths), quiet=True, **options), load({}, None))

    yield deduplicated
    sys.setswitchinterval(interval)


def files(folder: Path, *names: str) -> list[pa.Table]:
    return [pq.read_table(folder / name) for name in names]


def test_each_row_goes_to_exactly_one_of_three_files(dedup: Callable[..., Exit], tmp_path: Path) -> None:
    """Kept rows have the columns of the input, the others also say why; types, metadata and order stay."""
    given = table(400)
    pq.write_table(given, "in.parquet", row_group_size=90)
    ended = dedup("in.parquet", output="kept.parquet", removed="removed.parquet", rejects="rejects.parquet")
    assert ended == Exit.SUCCESS
    kept, removed, rejects = files(tmp_path, "kept.parquet", "removed.parquet", "rejects.parquet")
    assert kept.schema.equals(pq.read_schema("in.parquet"), check_metadata=True)
    statuses = Deduplicator().decide_table(given).column("status").to_pylist()
    for found, status in ((kept, "original"), (removed, "duplicate"), (rejects, "refused")):
        expected = given.filter(pa.array([one == status for one in statuses]))
        assert found.select(SCHEMA.names).to_pylist() == expected.to_pylist()
        assert expected.num_rows > 20
    assert set(removed.column("neardup_status").to_pylist()) == {"duplicate"}
    assert removed.column_names == [*SCHEMA.names, *table_file.VERDICT_COLUMNS]
    assert rejects.column_names == [*SCHEMA.names, "neardup_reason"]
    assert set(rejects.column("neardup_reason").to_pylist()) == {"no_text"}


def test_annotated_rows_are_all_documents_with_their_verdicts(dedup: Callable[..., Exit], tmp_path: Path) -> None:
    """The columns of verdicts are those of ``decide_table``, with four digits of a similarity as in lines."""
    given = table(60)
    pq.write_table(given, "in.parquet")
    dedup("in.parquet", output="kept.parquet", annotate=True)
    (found,) = files(tmp_path, "kept.parquet")
    verdicts = [row for row in Deduplicator().decide_table(given).to_pylist() if row["status"] != "refused"]
    names = [name.removeprefix("neardup_") for name in table_file.VERDICT_COLUMNS]
    assert [[row[f"neardup_{name}"] for name in names] for row in found.to_pylist()] == [
        [round(row[name], 4) if name == "similarity" and row[name] else row[name] for name in names] for row in verdicts
    ]


@pytest.mark.parametrize("command", ["dedup", "batch"])
def test_rows_of_scheme_passages_say_what_they_are_to_an_earlier_one(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The columns of a relation hold what lines hold; a row without one has nulls."""
    monkeypatch.chdir(tmp_path)
    report = " ".join(f"sentence {n} of a report of {n * n} words" for n in range(30))
    other = " ".join(f"something else, {n * 17} times" for n in range(60))
    rows = [("wire", report), ("other", other), ("daily", f"{other[:600]} {report}")]
    pq.write_table(pa.table({"id": [id_ for id_, _ in rows], "text": [text for _, text in rows]}), "in.parquet")
    settings = load({"scheme": "passages"}, None)
    options: dict[str, Any] = {"output": "out.parquet", "annotate": True, "quiet": True}
    if command == "dedup":
        assert run(DedupOptions(["in.parquet"], **options), settings) == Exit.SUCCESS
    else:
        assert run_batch(BatchOptions(["in.parquet"], **options), settings) == Exit.SUCCESS
    wire, one, daily = pq.read_table("out.parquet").to_pylist()
    names = [f"neardup_{name}" for name in ("relation", "relation_to", "older_fraction", "newer_fraction", "passages")]
    assert [[row[name] for name in names] for row in (wire, one)] == [[None] * 5] * 2
    relation, to, older, newer, passages = (daily[name] for name in names)
    assert (relation, to) in {("contains", "wire"), ("part_of", "wire")}
    assert older > 0.9 > newer > 0.5
    assert [set(passage) for passage in passages] == [{"older", "newer"}]
    (begin, end) = passages[0]["newer"]
    assert end - begin > 0.9 * len(report)


def test_rows_are_written_in_groups_of_bounded_size(
    dedup: Callable[..., Exit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several files of the same columns become one."""
    monkeypatch.setattr(table_file, "_GROUP_ROWS", 100)
    for n in range(3):
        pq.write_table(table(200, 200 * n), f"in-{n}.parquet", row_group_size=64)
    dedup("in-0.parquet", "in-1.parquet", "in-2.parquet", output="kept.parquet")
    metadata = pq.read_metadata("kept.parquet")
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sum(sizes) > 300
    assert all(100 <= size <= 300 for size in sizes[:-1])


def test_a_table_without_rows_leaves_files_with_its_columns(dedup: Callable[..., Exit], tmp_path: Path) -> None:
    """Also of a stream of Arrow."""
    with ipc.new_stream("in.arrows", SCHEMA) as writer:
        writer.write_table(table(0))
    dedup("in.arrows", output="kept.parquet", rejects="rejects.parquet")
    kept, rejects = files(tmp_path, "kept.parquet", "rejects.parquet")
    assert (kept.num_rows, kept.schema.names) == (0, SCHEMA.names)
    assert (rejects.num_rows, rejects.schema.names) == (0, [*SCHEMA.names, "neardup_reason"])


def test_rows_become_lines_where_the_output_is_no_table(dedup: Callable[..., Exit], tmp_path: Path) -> None:
    """Each line has all columns; a verdict is the last key of a removed one."""
    given = table(60)
    pq.write_table(given, "in.parquet")
    dedup(
        "in.parquet", output="kept.jsonl", removed="removed.jsonl", rejects="rejects.jsonl", verdicts="verdicts.jsonl"
    )
    found = {
        name: [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_bytes().splitlines()]
        for name in ("kept", "removed", "rejects", "verdicts")
    }
    assert sorted(row["id"] for name in ("kept", "removed", "rejects") for row in found[name]) == sorted(
        given.column("id").to_pylist()
    )
    assert len(found["verdicts"]) == given.num_rows
    assert found["kept"][0] == {
        "id": "row-0", "text": given.column("text")[0].as_py(), "timestamp": "2024-01-01T09:00:00+09:00",
        "tags": ["0", None], "price": "0.00", "blob": "AP8=", "kind": "a", "place": {"x": 0.0},
    }  # fmt: skip
    assert {row["neardup"]["status"] for row in found["removed"]} == {"duplicate"}


@pytest.mark.parametrize(
    ("paths", "options", "sentence"),
    [
        (("b.jsonl",), {"output": "k.parquet"}, "--output k.parquet is Parquet, which holds rows of Parquet"),
        (("a.parquet", "b.jsonl"), {"removed": "k.parquet"}, "b.jsonl is neither"),
        (("b.jsonl",), {"rejects": "k.parquet"}, "--rejects k.parquet is Parquet"),
        (("a.parquet", "c.parquet"), {"output": "k.parquet"}, "c.parquet has other columns"),
        (("d.parquet",), {"output": "k.parquet", "annotate": True}, "has a column 'neardup_status'"),
        (("a.parquet",), {"output": "a.parquet"}, "--output a.parquet is also an input"),
        (("a.parquet",), {"output": "nowhere/k.parquet"}, "the kept documents to nowhere/k.parquet"),
        (("e.arrows",), {"output": "k.parquet"}, "cannot hold the columns of the input"),
    ],
)
def test_rows_that_do_not_fit_a_file_end_the_run_by_a_sentence(
    dedup: Callable[..., Exit], paths: tuple[str, ...], options: dict[str, Any], sentence: str
) -> None:
    """It names the value, the rule and the remedy."""
    rows = table(8)
    pq.write_table(rows, "a.parquet")
    Path("b.jsonl").write_text(f'{{"id": "x", "text": "{WORDS}"}}\n{{"id": "y"}}\n')
    pq.write_table(rows.drop_columns(["tags"]), "c.parquet")
    pq.write_table(rows.append_column("neardup_status", rows.column("id")), "d.parquet")
    odd = pa.table({"id": ["a"], "text": [WORDS], "odd": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with ipc.new_stream("e.arrows", odd.schema) as writer:
        writer.write_table(odd)
    with pytest.raises(Failure) as failed:
        dedup(*paths, **options)
    assert sentence in str(failed.value)


@pytest.mark.parametrize("output", ["kept.parquet", "kept.jsonl"])
def test_a_batch_writes_the_rows_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Any, output: str
) -> None:
    """They are those that its verdicts name, by the preference, in the order of the input."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(200), "a.parquet", row_group_size=50)
    pq.write_table(table(50, 180), "b.parquet")
    options = BatchOptions(
        ["a.parquet", "b.parquet"], quiet=True, verdicts="verdicts.jsonl", prefer="longest", output=output
    )
    assert run_batch(options, load({}, None)) == Exit.SUCCESS
    verdicts = [json.loads(line) for line in Path("verdicts.jsonl").read_bytes().splitlines()]
    expected = [verdict["id"] for verdict in verdicts if verdict["status"] == "original"]
    kept = (
        pq.read_table(output).to_pylist()
        if output == "kept.parquet"
        else list(map(json.loads, Path(output).read_bytes().splitlines()))
    )
    assert [row["id"] for row in kept] == expected
    assert 50 < len(expected) < 200
    assert "row-2" in expected  # longer than row-1, of which it is a copy
    assert "row-1" not in expected


def test_a_batch_annotates_rows_as_dedup_does(dedup: Callable[..., Exit], tmp_path: Path) -> None:
    """In order of arrival the files are equal; refused rows are in neither."""
    pq.write_table(table(200), "a.parquet", row_group_size=50)
    pq.write_table(table(50, 180), "b.parquet")
    dedup("a.parquet", "b.parquet", output="expected.parquet", annotate=True)
    options = BatchOptions(["a.parquet", "b.parquet"], quiet=True, output="found.parquet", annotate=True)
    assert run_batch(options, load({}, None)) == Exit.SUCCESS
    expected, found = files(tmp_path, "expected.parquet", "found.parquet")
    assert found.equals(expected)
    assert found.column_names == [*SCHEMA.names, *table_file.VERDICT_COLUMNS]
    assert 0 < found.num_rows < 250


@pytest.mark.parametrize(
    ("paths", "options", "sentence"),
    [
        (("-",), {}, "- can be read once"),
        (("k.parquet",), {}, "is also an input"),
        (("a.parquet",), {"candidates": True}, "--output is decided by the pairs"),
    ],
)
def test_a_batch_that_cannot_write_its_rows_says_so_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: tuple[str, ...], options: dict[str, Any], sentence: str
) -> None:
    """Nothing is read before."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.parquet", "k.parquet"):
        pq.write_table(table(8), name)
    with pytest.raises(Failure) as failed:
        run_batch(BatchOptions(list(paths), quiet=True, output="k.parquet", **options), load({}, None))
    assert sentence in str(failed.value)


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "brotli", "lz4", "none"])
def test_the_output_is_compressed_as_the_input_is(dedup: Callable[..., Exit], tmp_path: Path, compression: str) -> None:
    """A folder of zstd stays as small as it was; the note of it is no metadata of the output."""
    given = table(60)
    pq.write_table(given, "in.parquet", compression=compression)
    assert dedup("in.parquet", output="kept.parquet", removed="removed.parquet") == Exit.SUCCESS
    for name in ("kept.parquet", "removed.parquet"):
        metadata = pq.read_metadata(tmp_path / name)
        assert (
            metadata.row_group(0).column(0).compression
            == pq.read_metadata("in.parquet").row_group(0).column(0).compression
        )
        assert (pq.read_schema(tmp_path / name).metadata or {}).keys() == {b"owner"}


def test_ids_of_any_frame_are_read_from_files(dedup: Callable[..., Exit], tmp_path: Path) -> None:
    """UUIDs, floats without a fraction and numbers of 128 bits; their columns stay as they are."""
    texts = table(2).column("text").to_pylist()
    for kind, values in (
        (pa.binary(16), [b"a" * 16, b"b" * 16]),
        (pa.float64(), [1.0, None]),
        (pa.uint64(), [1, 1 << 63]),
    ):
        pq.write_table(pa.table({"id": pa.array(values, kind), "text": texts}), "in.parquet")
        assert dedup("in.parquet", output="kept.parquet") == Exit.SUCCESS
        assert pq.read_table("kept.parquet").column("id").to_pylist() == values


def test_a_refusal_names_the_column_and_its_type(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Once for the table."""
    pq.write_table(pa.table({"id": [True, False], "text": ["one", "two"]}), tmp_path / "in.parquet")
    assert (
        run(DedupOptions([str(tmp_path / "in.parquet")], verdicts=str(tmp_path / "said")), load({}, None))
        == Exit.UNUSABLE
    )
    assert capfd.readouterr().err.count("in.parquet: column 'id' is bool, but must hold strings, whole numbers") == 1
