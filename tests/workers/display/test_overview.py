"""The overview at the end of a run."""

import json

import numpy as np
from command import WORDS

from neardup.pairs.pair_rule import Matches
from neardup_workers.running.commands import run
from neardup_workers.running.commands.run import Overview

NO_TIMES = np.zeros(3, np.int64)


def matches(older, newer, similarity):
    count = len(older)
    return Matches(older, newer, NO_TIMES[:count], NO_TIMES[:count], np.array(similarity), np.ones(count, np.int32))


def test_it_shows_the_documents_of_the_most_pairs_and_a_histogram():
    """Copies have a bin of their own."""
    found = Overview()
    found.add(matches(["a", "a", "b"], ["b", "c", "c"], [0.85, 0.91, 1.0]))
    found.add(matches(["a"], ["d"], [0.999]))
    lines = found.lines()
    assert lines[:3] == ["documents with the most near-duplicates:", "       3  a", "       2  b"]
    assert [line.split() for line in lines[-3:]] == [
        ["0.8", "to", "0.9", "#" * 20, "1"], ["0.9", "to", "1.0", "#" * 40, "2"], ["1.0", "(copies)", "#" * 20, "1"],
    ]  # fmt: skip


def test_the_number_of_counted_ids_is_bounded(monkeypatch):
    """At the bound, known ids still count."""
    monkeypatch.setattr(run, "IDS_MAX", 2)
    found = Overview()
    found.add(matches(["a"], ["b"], [0.9]))
    found.add(matches(["a"], ["c"], [0.9]))
    assert found.pairs_of == {"a": 2, "b": 1}
    assert Overview().lines() == []


def test_the_command_writes_pairs_to_a_file_and_ends_with_the_overview(neardup, tmp_path):
    """Standard output stays empty; the file is named."""
    rows = [{"id": id_, "text": f"{WORDS}; " * 5} for id_ in "abc"]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = neardup("run", "in.jsonl", "--overview", "--output", "pairs.jsonl")
    assert (done.returncode, done.stdout) == (0, b"")
    assert len((tmp_path / "pairs.jsonl").read_text().splitlines()) == 2
    shown = done.stderr.decode().splitlines()
    assert "       2  b" in shown
    assert shown[-1] == "the pairs stand in pairs.jsonl"
