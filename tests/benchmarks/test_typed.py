"""Programs as typed: what a row counts, how a program is run, the made titles, and what a drop loses."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.typed import __main__ as typed
from benchmarks.typed import lost, programs
from benchmarks.typed.data import _changed, near_duplicates
from benchmarks.typed.programs import PEERS, Peer

from neardup import Document

PROSE = "the committee met in the old town hall on monday and spoke of the bridge until midnight"


def test_a_row_counts_what_is_left_and_what_is_dropped_wrongly() -> None:
    """Two near pairs, of which one is left; one document is dropped without any like it, one with one of .7."""
    documents = [Document(id_, "") for id_ in "abcdef"]
    truth = {"characters": {(0, 1): 0.9, (2, 3): 0.8, (0, 4): 0.7}, "words": {(2, 3): 0.85}}
    done = programs.Run(1.25, 3_000_000, {"a", "c", "d"})
    row = typed.row_of(PEERS["rensa"], "rensa 0.5", documents, truth, done)
    lines = programs.lines_typed("dedup_rensa.py.txt")
    assert row == f"| rensa 0.5 | 1.2 | 3 | {lines} | 3 | 1 of 2 | 1 of 1 | 2 | 1 |"


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
    monkeypatch.setattr(programs, "_HERE", tmp_path)
    peers = {"first": Peer("First", "first.sh"), "fails": Peer("Fails", "fails.sh")}
    monkeypatch.setattr(typed, "PEERS", peers)
    documents = [Document(str(n), PROSE) for n in range(3)]
    assert programs.run(peers["first"], documents, Path(sys.executable).parent, 60).kept == {"0"}
    rows = list(typed.rows_of(["first", "fails"], documents, tmp_path, 60))
    assert rows[0].split(" | ")[4:] == ["1", "0 of 3", "0 of 3", "0", "0 |"]
    assert rows[1].startswith("| Fails | failed: no such / set |")


JUDGED = [{"newer": newer, "older": "o", "label": label} for newer, label in zip("abcd", "CCOK", strict=True)]


def test_what_was_lost_is_counted_by_the_newer_documents_of_judged_pairs() -> None:
    """Of a program that may keep the newer one of a pair, a pair without its older one is dropped too."""
    assert lost.scored(Peer("", ""), {"b", "d", "o"}, JUDGED) == "0.500/0.500 (2)"
    assert lost.scored(Peer("", ""), {"a", "b", "c", "d"}, JUDGED) == "-/0.000 (0)"
    assert lost.scored(Peer("", "", first=False), {"a", "b", "c", "d"}, JUDGED) == "0.500/1.000 (4)"


@pytest.mark.processes
def test_what_was_lost_is_a_table_of_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small stream: the copy is dropped by all, another number by the one that does not ask what is new."""
    report = f"{PROSE}; 40 people came, and the mayor said that work on it begins in spring"
    texts = {"o": report, "a": report + " again", "c": report.replace("40", "47"), "e": "else"}
    rows = [{"id": id_, "text": text, "timestamp": 1.0 * n} for n, (id_, text) in enumerate(texts.items())]
    for one in lost.SETS:
        (tmp_path / one.folder).mkdir(exist_ok=True)
        (tmp_path / one.folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        pairs = "".join(json.dumps(pair) + "\n" for pair in JUDGED if pair["newer"] in "ac")
        (tmp_path / one.folder / one.pairs).write_text(pairs)
    monkeypatch.setitem(lost.PROGRAMS, "rensa", Peer("absent", "dedup_semhash.py.txt"))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- lost -->\n<!-- end -->\n")
    arguments = ["--data", str(tmp_path), "--environments", str(tmp_path / "peers"), "--write", str(page)]
    assert lost.main([*arguments, "news-off", "news-numbers", "rensa"]) == 0
    off, numbers, absent = page.read_text().splitlines()[4:7]
    assert off.endswith(f"off` | {' | '.join(['0.500/1.000 (2)'] * 3)} |")
    assert numbers.endswith(f"numbers` | {' | '.join(['1.000/1.000 (1)'] * 3)} |")
    assert absent.startswith("| absent | failed: ModuleNotFoundError: ")
    written = page.read_text()
    assert lost.main(["--data", str(tmp_path / "nowhere"), "--write", str(page)]) == 0
    assert "docs.jsonl is not there; --data names the folder of sets" in capsys.readouterr().err
    assert page.read_text() == written


@pytest.mark.processes
def test_what_the_preset_of_news_loses_comes_out_again(real_data: Callable[[str], Path]) -> None:
    """On the real sets, to the last digit; the other rows of the page are those of the programs of the table."""
    folders = [real_data(one.folder) for one in lost.SETS]
    page = (Path(__file__).resolve().parents[2] / "docs" / "RESULTS.md").read_text(encoding="utf-8")
    (row,) = lost.rows_of(["news"], folders[0].parent, folders[0], 300)
    assert row in page.splitlines()
    table = page.partition("<!-- lost -->\n")[2].partition("<!-- end -->")[0].splitlines()
    titles = [line.split(" | ")[0].removeprefix("| ") for line in table[2:]]
    assert all(title.startswith(peer.title) for title, peer in zip(titles, lost.PROGRAMS.values(), strict=True))
