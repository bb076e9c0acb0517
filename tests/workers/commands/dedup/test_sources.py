"""``neardup dedup --sources`` writes what each source published."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from neardup_workers.outside.options.documents import BatchOptions, DedupOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch.corpus import run as batch
from neardup_workers.running.commands.dedup.command import run

TEXT = "The ferry to the island sails again on Friday, after eleven weeks of repairs to its hull; tickets are on sale."
LINES = [
    {"id": "1", "url": "https://www.first.example/a", "text": TEXT, "timestamp": 7200},
    {"id": "https://second.example/b", "text": TEXT, "timestamp": 3600},
    {"id": "3", "source": "First.example", "text": TEXT + " More.", "timestamp": 7300},
    {"id": "4", "source": "first.example", "text": " "},
    {"id": "5", "text": "Nothing of the kind was reported from the mountains, where it snows in every month."},
]


def found(path: Path, name: str, **settings: object) -> str:
    """Run the command on a file; return the file of sources."""
    run(
        DedupOptions([str(path)], quiet=True, output=str(path.parent / "kept"), sources=str(path.parent / name)),
        load(settings, None),
    )
    return (path.parent / name).read_text()


def written(folder: Path) -> Path:
    """The lines in a file."""
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + "no json\n")
    return path


def test_lines_have_each_source_with_its_hours(tmp_path: Path) -> None:
    """First by arrival and first by date are two answers; a refused document counts for its source if it has one."""
    rows = {row["source"]: row for row in map(json.loads, found(written(tmp_path), "s.jsonl").splitlines())}
    assert list(rows) == ["first.example", None, "second.example"]
    first, second = rows["first.example"], rows["second.example"]
    names = ("documents", "originals", "duplicates", "refused", "own", "first_by_arrival", "first_by_date")
    assert [first[name] for name in names] == [3, 1, 1, 1, 1, 1, 0]
    assert [second[name] for name in names] == [1, 0, 1, 0, 0, 0, 1]
    assert [hour["hour"] for hour in first["hours"]] == [None, 7200]
    assert first["later_in"] == [{"source": "second.example", "documents": 1}]
    assert second["lag_seconds_by_date"] == pytest.approx(-3600, rel=0.05)
    assert second["lag_seconds_by_arrival"] is None
    assert (rows[None]["documents"], rows[None]["refused"]) == (2, 1)


def test_a_table_has_a_row_for_each_source(tmp_path: Path) -> None:
    """Without what is a list; ``fields`` names it."""
    rows = list(csv.DictReader(found(written(tmp_path), "s.csv", fields=("source=id",)).splitlines()))
    assert {row["source"]: row["documents"] for row in rows} == {
        "1": "1", "https://second.example/b": "1", "3": "1", "4": "1", "5": "1", "": "1"
    }  # fmt: skip
    assert not {"hours", "earlier_in", "later_in"} & set(rows[0])


def test_rows_of_parquet_have_sources(tmp_path: Path) -> None:
    """By the column of the field, else by that of URLs, else by ids."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {name: [line.get(name) for line in LINES] for name in ("id", "text", "url", "source")}
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.table(table), path)
    rows = {row["source"]: row["documents"] for row in map(json.loads, found(path, "s.jsonl").splitlines())}
    assert rows == {"first.example": 3, None: 1, "second.example": 1}


def test_beyond_sources_max_the_summary_says_what_was_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source with the fewest documents leaves; the largest keep their counts."""
    path, summary = written(tmp_path), tmp_path / "summary.json"
    options = DedupOptions(
        [str(path)], output=str(tmp_path / "kept"), sources=str(tmp_path / "s.jsonl"), summary_json=str(summary)
    )
    run(options, load({"sources_max": 2}, None))
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert {row["source"] for row in rows} == {"first.example", None}, "a new source begins with the number of the old"
    assert json.loads(summary.read_text())["sources_exceeded"] == {"sources": 1}
    assert "has forgotten 1 sources: raise sources_max" in capsys.readouterr().err


def test_the_file_of_sources_is_no_other_file(tmp_path: Path) -> None:
    """It would destroy an input."""
    path = written(tmp_path)
    with pytest.raises(Failure, match=r"--sources .* is also an input") as failed:
        found(path, "in.jsonl")
    assert failed.value.code == Exit.USAGE


def test_a_source_that_repeats_itself_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An hour of 200 documents with one text, of different ids, is a warning at the end of the summary."""
    path = tmp_path / "in.jsonl"
    rows = [{"id": f"{n}", "source": source, "text": TEXT * (1 + (source == "a")), "timestamp": 7200 + n}
            for source in "ab" for n in range(200 if source == "a" else 199)]  # fmt: skip
    path.write_text("".join(json.dumps(row | {"id": row["source"] + row["id"]}) + "\n" for row in rows))
    sources = str(tmp_path / "s.csv")
    options = DedupOptions([str(path)], output=str(tmp_path / "kept"), sources=sources, allow_loss=True)
    assert run(options, load({}, None)) == Exit.SUCCESS
    warned = [line for line in capsys.readouterr().err.splitlines() if "same source" in line]
    assert len(warned) == 1
    assert warned[0].startswith("warning: 199 of 200 documents of a in the hour of 1970-01-01 02:00 UTC are duplicates")


@pytest.mark.parametrize("name", ["s.jsonl", "s.csv"])
def test_batch_writes_the_same(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], name: str) -> None:
    """Also of refused lines, and next to the kept documents."""
    path, (one, other) = written(tmp_path), (tmp_path / name, tmp_path / f"batch_{name}")
    found(path, name)
    for output in (None, str(tmp_path / "kept")):
        batch(BatchOptions([str(path)], quiet=True, sources=str(other), output=output), load({}, None))
        assert other.read_bytes() == one.read_bytes()
    assert b'"older"' in capfdbinary.readouterr().out


def test_batch_counts_no_sources_in_another_order(tmp_path: Path) -> None:
    """Who was first by arrival is not known if the longest text is the original; so it is on a cluster."""
    options = BatchOptions([str(written(tmp_path))], quiet=True, sources=str(tmp_path / "s"), prefer="longest")
    with pytest.raises(Failure, match="--prefer longest decides in another order"):
        batch(options, load({}, None))
