"""Lines are compressed if the name of their file says so, and are never written under the name of another format."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neardup_workers.outside.options.documents import BatchOptions, DedupOptions, RunOptions
from neardup_workers.outside.options.judging import PassagesOptions
from neardup_workers.outside.outputs.lines_file import LinesFile
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.readers.objects import json_objects
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch.corpus import run as run_batch
from neardup_workers.running.commands.dedup.command import run
from neardup_workers.running.commands.run import run as run_pairs
from neardup_workers.running.commands.templates import templates

NEWS = str(Path(__file__).parents[3] / "docs" / "examples" / "news.jsonl")
MAGICS = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("ending", MAGICS)
def test_every_output_of_lines_is_compressed_by_its_ending(ending: str) -> None:
    """What is read back is what plain files hold, and a second run makes the same bytes."""
    names = {name: f"{name}.jsonl" for name in ("output", "removed", "verdicts", "clusters")}
    packed = {name: plain + ending for name, plain in names.items()}
    for paths in (names, packed):
        run(DedupOptions([NEWS], quiet=True, **paths), load({}, None))
    for name, path in packed.items():
        assert Path(path).read_bytes().startswith(MAGICS[ending])
        left_out: Counter[str] = Counter()
        assert list(json_objects(path, left_out)) == list(json_objects(names[name], left_out)) != []
        assert not left_out
    before = Path(packed["output"]).read_bytes()
    run(DedupOptions([NEWS], quiet=True, **packed), load({}, None))
    assert Path(packed["output"]).read_bytes() == before


def test_a_compressed_file_gets_its_name_when_it_is_whole() -> None:
    """After an exception the old file is there, and no other."""
    Path("lines.gz").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), LinesFile("lines.gz") as file:
        file.write(b"new" * (1 // 0))
    assert Path("lines.gz").read_bytes() == b"old"
    assert [path.name for path in Path().iterdir()] == ["lines.gz"]


def test_lines_are_not_written_under_the_name_of_parquet() -> None:
    """The refusal names the file and what it was to hold; nothing is written."""
    with pytest.raises(Failure, match=r"x\.parquet is Parquet, but the pairs are lines of JSON"):
        run_pairs(RunOptions([NEWS], output="x.parquet", quiet=True), load({}, None))
    with pytest.raises(Failure, match=r"x\.parquet is Parquet, but the verdicts are lines of JSON"):
        run(DedupOptions([NEWS], verdicts="x.parquet", output="kept.jsonl", quiet=True), load({}, None))
    assert not Path("x.parquet").exists()


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (run_pairs, RunOptions([NEWS, "in"], output="in")),
        (run_pairs, RunOptions([NEWS, "in"], keep="./in")),
        (run_pairs, RunOptions(["in"], rejects="in")),
        (run_batch, BatchOptions([NEWS, "in"], verdicts="in")),
        (run_batch, BatchOptions([NEWS], verdicts="out", sources="out")),
        (run, DedupOptions([NEWS, "in"], clusters="in")),
        (templates, PassagesOptions([NEWS, "in"], templates=True, output="in")),
    ],
)
def test_no_command_writes_over_its_input_or_another_output(command: Any, options: Any) -> None:
    """It says so before it reads."""
    Path("in").write_bytes(b"{}")
    settings = load({"scheme": "passages"} if command is templates else {}, None)
    with pytest.raises(Failure, match=r"(in|out) is also (an input|--sources): name another file"):
        command(options, settings)
    assert [(path.name, path.read_bytes()) for path in Path().iterdir()] == [("in", b"{}")]


def test_a_file_that_is_followed_is_not_compressed() -> None:
    """A reader of a compressed file sees nothing before its end."""
    with pytest.raises(Failure, match="compressed, so no program can read the pairs while --follow writes them"):
        run_pairs(RunOptions([NEWS], output="x.gz", follow=True, quiet=True), load({}, None))
