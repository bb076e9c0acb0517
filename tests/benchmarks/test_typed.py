"""Programs as typed: what a row counts, how a program is run, and the made titles."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from benchmarks.typed import __main__ as typed
from benchmarks.typed.data import _changed, near_duplicates

from neardup import Document

PROSE = "the committee met in the old town hall on monday and spoke of the bridge until midnight"


def test_a_row_counts_what_is_left_and_what_is_dropped_wrongly() -> None:
    """Two near pairs, of which one is left; one document is dropped without any like it, one with one of .7."""
    documents = [Document(id_, "") for id_ in "abcdef"]
    truth = {"characters": {(0, 1): 0.9, (2, 3): 0.8, (0, 4): 0.7}, "words": {(2, 3): 0.85}}
    done = typed.Run(1.25, 3_000_000, {"a", "c", "d"})
    row = typed.row_of("rensa", "0.5", documents, truth, done)
    lines = typed.lines_typed("dedup_rensa.py.txt")
    assert row == f"| rensa 0.5 | 1.2 | 3 | {lines} | 3 | 1 of 2 | 1 of 1 | 2 | 1 | no |"


def test_near_duplicates_ignore_case_and_blanks() -> None:
    """As pairs of places, by both kinds of shingles."""
    found = near_duplicates([Document("a", PROSE), Document("b", "else"), Document("c", f"  {PROSE.upper()}")])
    assert found == {"characters": {(0, 2): 1.0}, "words": {(0, 2): 1.0}}


def test_a_changed_title_is_like_the_old_one() -> None:
    """Never equal in length and words at once, whatever is drawn."""
    for seed in range(50):
        changed = _changed(PROSE, random.Random(seed))
        assert 0 < abs(len(changed) - len(PROSE)) < 25 or sorted(changed.split()) == sorted(PROSE.split())


@pytest.mark.processes
def test_a_program_is_run_and_one_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the documents, in a folder of its own."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "first.sh").write_text("head -1 texts.jsonl > kept.jsonl\n")
    (tmp_path / "scripts" / "fails.sh").write_text("echo 'no such | set' >&2; exit 3\n")
    monkeypatch.setattr(typed, "_HERE", tmp_path)
    peers = {"first": typed.Peer("First", "first.sh"), "fails": typed.Peer("Fails", "fails.sh")}
    monkeypatch.setattr(typed, "PEERS", peers)
    documents = [Document(str(n), PROSE) for n in range(3)]
    assert typed.run("first", documents, Path(sys.executable).parent, 60).kept == {"0"}
    rows = list(typed.rows_of(["first", "fails"], documents, tmp_path, 60))
    assert rows[0].split(" | ")[4:] == ["1", "0 of 3", "0 of 3", "0", "0", "no |"]
    assert rows[1].startswith("| Fails | failed: no such / set |")
