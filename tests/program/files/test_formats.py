"""Files whose format is no other than their content says, and readers that end no run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from command import ROOT, Run
from pyarrow import ipc, parquet

TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."
ROWS = [{"id": id_, "text": TEXT} for id_ in "ab"]
LINES = [json.dumps(row) for row in ROWS]
PAIR = [("a", "b")]


def pairs_of(stdout: bytes) -> list[tuple[str, str]]:
    return [(pair["older"], pair["newer"]) for pair in map(json.loads, stdout.splitlines())]


@pytest.mark.parametrize(
    "lines",
    [["{damaged", *LINES], ['{"_meta": 1}', *LINES], ["id,text", f'a,"{TEXT}"', f'b,"{TEXT}"']],
    ids=["damaged", "meta", "csv"],
)
def test_a_file_without_an_ending_is_read_as_most_of_its_lines_are(
    neardup: Run, tmp_path: Path, lines: list[str]
) -> None:
    """Not as one text, silently: alone and in a folder."""
    (tmp_path / "part-00000").write_text("\n".join(lines) + "\n")
    for path in ("part-00000", "."):
        done = neardup("run", path)
        assert pairs_of(done.stdout) == PAIR, done.stderr


def test_what_looks_like_json_is_refused_or_named(neardup: Run, tmp_path: Path) -> None:
    """Lines of other objects are refused; a file that was read as one text, and begins like JSON, is named."""
    (tmp_path / "docs").write_text(json.dumps({"docs": ROWS}))
    (tmp_path / "other").write_text("".join(f"{line.replace('text', 'body')}\n" for line in LINES))
    done = neardup("run", ".")
    assert b"note: files that begin like JSON were read as one text each: 1, such as ./docs;" in done.stderr
    assert b"lines_other: 1" in done.stderr


def test_a_folder_of_tables_holds_no_other_documents(neardup: Run, tmp_path: Path) -> None:
    """A README next to Parquet files is no document between their rows."""
    (tmp_path / "README.md").write_text(TEXT)
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    done = neardup("dedup", ".", "--output", "../kept.parquet")
    assert done.returncode == 0, done.stderr
    assert parquet.read_table(tmp_path.parent / "kept.parquet").to_pylist() == ROWS[:1]
    assert b"not_table: 1" in done.stderr


def test_a_batch_of_lines_refuses_a_file_of_rows_while_it_reads(neardup: Run, tmp_path: Path) -> None:
    """Not after the whole run, when the pairs are printed."""
    (tmp_path / "in.jsonl").write_text("\n".join(LINES))
    done = neardup("batch", "in.jsonl", "--output", "kept.parquet")
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert b"in.jsonl is neither" in done.stderr


def test_views_of_arrow_go_to_parquet(neardup: Run, tmp_path: Path) -> None:
    """Arrow chooses no rows of views; before, a traceback ended the run."""
    types = pa.schema({"id": pa.string(), "text": pa.string_view()})
    with pa.OSFile(str(tmp_path / "in.arrow"), "wb") as file, ipc.new_file(file, types) as writer:
        writer.write(
            pa.record_batch(
                [pa.array([row[name] for row in ROWS], types.field(name).type) for name in types.names], types
            )
        )
    done = neardup("dedup", "in.arrow", "--output", "kept.parquet")
    assert done.returncode == 0, done.stderr
    assert parquet.read_table(tmp_path / "kept.parquet").to_pylist() == ROWS[:1]


def test_a_file_of_arrow_without_a_schema_at_its_beginning_is_read(neardup: Run, tmp_path: Path) -> None:
    """As Polars writes it: only the end of the file has the schema; from a pipe as well."""
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(tmp_path / "in.arrow"), "wb") as file, ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    content = (tmp_path / "in.arrow").read_bytes()
    size = int.from_bytes(content[12:16], "little")
    content = content[:8] + b"\4" + bytes(7 + size) + content[16 + size :]
    (tmp_path / "in.arrow").write_bytes(content)
    for path in ("in.arrow", "-"):
        done = neardup("run", path, stdin=content if path == "-" else b"")
        assert pairs_of(done.stdout) == PAIR, done.stderr


def test_records_that_cannot_be_written_are_a_sentence(neardup: Run) -> None:
    """The device is always full."""
    crawl = ROOT / "docs" / "examples" / "crawl.warc.gz"
    done = neardup("dedup", crawl, "--warc-out", "/dev/full", "-q")
    assert (done.returncode, b"Traceback" in done.stderr) == (4, False), done.stderr


def test_a_reader_that_fails_ends_its_file_alone(python: Run, tmp_path: Path) -> None:
    """Whatever it raises: the next file is read, the summary counts it, and its line says what failed where."""
    (tmp_path / "a.json").write_text(f"[{LINES[0]}]")
    (tmp_path / "b.jsonl").write_text("\n".join(LINES))
    code = """
import sys
from neardup_workers.main import main
from neardup_workers.outside.readers import formats
def fails(*arguments):
    raise RecursionError("too deep")
formats.FORMATS["array"] = formats.FORMATS["array"]._replace(read=fails)
sys.argv = ["neardup", "run", "a.json", "b.jsonl"]
main()
"""
    done = python("-c", code)
    assert pairs_of(done.stdout) == PAIR, done.stderr
    assert b"reader_failed: 1" in done.stderr
    assert b"a defect of neardup (RecursionError('too deep') in fails, <string>:" in done.stderr


def test_the_line_of_a_reader_that_fails_has_no_document(python: Run, tmp_path: Path) -> None:
    """An error may hold all that was read."""
    (tmp_path / "a.json").write_text(f"[{LINES[0]}]")
    code = """
import sys
from neardup_workers.main import main
from neardup_workers.outside.readers import formats
def fails(*arguments):
    (b"secret" * 100_000 + b"\\xff").decode()
formats.FORMATS["array"] = formats.FORMATS["array"]._replace(read=fails)
sys.argv = ["neardup", "run", "a.json"]
main()
"""
    done = python("-c", code)
    assert b"a defect of neardup (UnicodeDecodeError('utf-8', b'secret" in done.stderr
    assert len(max(done.stderr.splitlines(), key=len)) < 1_000


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_table_whose_cells_have_lines_is_known_by_its_header(neardup: Run, delimiter: str) -> None:
    """Also where a block ends inside of a cell."""
    cell = f'"{TEXT}\n{TEXT * 200}"'
    rows = [("nr", "text", "time"), *((str(n), cell, "soon") for n in range(8))]
    done = neardup("run", stdin="".join(delimiter.join(row) + "\n" for row in rows).encode())
    assert (done.returncode, b"documents: 8\n" in done.stderr) == (0, True), done.stderr


def test_a_text_that_was_asked_for_is_not_meant_otherwise(neardup: Run, tmp_path: Path) -> None:
    """A name with blanks is quoted for the shell; with ``--input-format`` nothing is said."""
    (tmp_path / "my notes").write_text("one\ntwo\nthree\n")
    assert b"jq -cR '{text: .}' 'my notes' makes" in neardup("run", "my notes").stderr
    assert b"note:" not in neardup("run", "--input-format", "documents", "my notes").stderr


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_table_without_a_name_is_known_by_its_header(neardup: Run, delimiter: str) -> None:
    """On standard input each row of a table with semicolons was no JSON."""
    rows = (("nr", "text", "time"), ("7", "The ferry leaves at seven, as always.", "soon"), ("8", "A reply", "later"))
    table = "".join(delimiter.join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    done = neardup("run", stdin=table.encode())
    assert (done.returncode, b"documents: 2\n" in done.stderr) == (0, True)
