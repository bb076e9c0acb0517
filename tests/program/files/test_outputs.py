"""Files that a command writes: untouched until they are complete."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from command import Run

TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."
BEFORE = b"what was here before"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two copies as lines of JSON, and a file at each name that the tests write."""
    lines = [json.dumps({"id": id_, "text": TEXT}) for id_ in ("a", "b")]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "damaged.jsonl").write_text("\n".join([*lines, "{"]) + "\n")
    for name in ("good.parquet", "out.jsonl", "rejects.jsonl", "window"):
        (tmp_path / name).write_bytes(BEFORE)
    return tmp_path


def held(folder: Path) -> set[bytes]:
    """What the files at the names of outputs hold, and nothing else is there."""
    names = {path.name for path in folder.iterdir()} - {"in.jsonl", "damaged.jsonl"}
    assert names == {"good.parquet", "out.jsonl", "rejects.jsonl", "window"}
    return {(folder / name).read_bytes() for name in names}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["dedup", "in.jsonl", "-o", "good.parquet", "--rejects", "rejects.jsonl"], 2),
        (["dedup", "damaged.jsonl", "-o", "out.jsonl", "--strict", "--rejects", "rejects.jsonl"], 13),
        (["run", "in.jsonl", "-o", "out.jsonl", "--rejects", "rejects.jsonl", "--window-from", "window"], 3),
    ],
    ids=["refused", "strict", "no window"],
)
def test_an_output_of_a_command_that_fails_is_as_it_was(
    neardup: Run, folder: Path, arguments: list[str], code: int
) -> None:
    """Whenever it fails: before the first line or in the middle."""
    done = neardup(*arguments)
    assert done.returncode == code, done.stderr
    assert held(folder) == {BEFORE}


def test_a_device_and_a_pipe_stay_what_they_are(neardup: Run, folder: Path) -> None:
    """They are written in place; a link stays, and a file keeps its permissions."""
    os.mkfifo(folder / "pipe")
    found: list[bytes] = []
    reading = threading.Thread(target=lambda: found.append((folder / "pipe").read_bytes()))
    reading.start()
    (folder / "null").symlink_to("/dev/null")
    (folder / "target").write_bytes(BEFORE)
    (folder / "target").chmod(0o640)
    (folder / "link").symlink_to("target")
    names = ["--keep", "null", "-o", "pipe", "--verdicts", "link"]
    done = neardup("dedup", "in.jsonl", "-q", *names)
    if done.returncode:
        (folder / "pipe").write_bytes(b"")
    reading.join()
    assert done.returncode == 0, done.stderr
    assert found == [(folder / "in.jsonl").read_bytes().splitlines(keepends=True)[0]]
    assert (folder / "null").is_symlink()
    assert (folder / "link").is_symlink()
    assert b'"duplicate"' in (folder / "target").read_bytes()
    assert stat.S_IMODE((folder / "target").stat().st_mode) == 0o640
