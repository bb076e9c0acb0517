"""Programs as typed: what a row counts, how a program is run, the made titles, and what a drop loses."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.lost import __main__ as lost
from benchmarks.lost import changed, judged
from benchmarks.typed import __main__ as typed
from benchmarks.typed import programs
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
    """On the documents, in a folder of its own, at the threshold that is asked for."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "first.sh").write_text("head -1 texts.jsonl > kept.jsonl\n")
    (tmp_path / "scripts" / "fails.sh").write_text("echo 'no such | set at 0.8' >&2; exit 3\n")
    monkeypatch.setattr(programs, "_HERE", tmp_path)
    peers = {"first": Peer("First", "first.sh"), "fails": Peer("Fails", "fails.sh", threshold="0.6")}
    monkeypatch.setattr(typed, "PEERS", peers)
    documents = [Document(str(n), PROSE) for n in range(3)]
    assert programs.run(peers["first"], documents, Path(sys.executable).parent, 60).kept == {"0"}
    rows = list(typed.rows_of(["first", "fails"], documents, tmp_path, 60))
    assert rows[0].split(" | ")[4:] == ["1", "0 of 3", "0 of 3", "0", "0 |"]
    assert rows[1].startswith("| Fails | failed: no such / set at 0.6 |")


def test_a_look_at_a_session_counts_processes_that_no_other_waits_for() -> None:
    """By the process, with its memory and its processor time so far; those of other sessions are left out."""
    looked: dict[str, int] = {"of an ended process": 3}
    assert programs._looked_at(os.getsid(0), looked) > 0
    assert looked[str(os.getpid())] > 0
    assert looked["of an ended process"] == 3
    assert programs._looked_at(-1, none := {}) == 0
    assert none == {}


JUDGED = [{"newer": newer, "older": "o", "label": label} for newer, label in zip("abcd", "CCOK", strict=True)]


def test_what_was_lost_is_counted_by_the_newer_documents_of_judged_pairs() -> None:
    """Of a program that may keep the newer one of a pair, a pair without its older one is dropped too."""
    one_of_two = "0.500(0.01-0.99)"
    assert lost.judged_cell(Peer("", ""), {"b", "d", "o"}, JUDGED) == f"{one_of_two}/{one_of_two} O1"
    assert lost.judged_cell(Peer("", ""), {"a", "b", "c", "d"}, JUDGED) == "-/0.000(0.00-0.84)"
    every = lost.judged_cell(Peer("", "", first=False), {"a", "b", "c", "d"}, JUDGED)
    assert every == "0.500(0.07-0.93)/1.000(0.16-1.00) K1,O1"


def _articles(count: int) -> list[str]:
    """Articles of six sentences with numbers of their own; those of the second half have other names."""
    names = (
        ("Anderson", "Bertrand", "Castillo", "Dimitrov", "Eriksson", "Fernando"),
        ("Gallagher", "Hernandez", "Ivanovich", "Jorgensen", "Kowalski", "Lombardi"),
    )
    return [
        " ".join(f"It was {name} of town {n + 1}, who saw {7 * n + at} of them." for at, name in enumerate(row))
        for n in range(count)
        for row in [names[2 * n >= count]]
    ]


def test_a_changed_version_has_the_one_change_of_its_kind() -> None:
    """Copies say nothing new; each other kind has what is named. The stream is the same each time."""
    texts = _articles(60)
    made = changed.changed(texts)
    assert made == changed.changed(texts)
    text_of = {document.id: document.text for document in made.documents}
    assert [len(ids) for ids in made.ids.values()] == [10] * 6
    assert [document.timestamp for document in made.documents] == [10.0 * n for n in range(120)]
    for kind, ids in made.ids.items():
        for id_ in ids:
            old, new = text_of[id_.replace("changed", "first")].split(), text_of[id_].split()
            fresh = [word for word in new if word not in old]
            if kind == "reprints":
                assert " ".join(old).lower() in " ".join(new).lower()
            elif kind == "cut copies":
                assert old[: len(new)] == new
                assert len(new) < len(old)
            elif kind == "longer":
                assert new[: len(old)] == old
                assert fresh
            else:
                marks = ["CORRECTED", "-"] if kind == "corrections" else []
                assert fresh[: len(marks)] == marks
                (word,) = fresh[len(marks) :]
                assert word[0].isdigit() == (kind != "names")


def test_a_text_without_numbers_gets_another_kind_of_change() -> None:
    """So no version is equal to its first one."""
    made = changed.changed(["No figure stands here. But Anderson does, and Bertrand. It ends."] * 6)
    assert made.ids["figures"] == made.ids["corrections"] == []
    assert sum(map(len, made.ids.values())) == len(made.documents) - 6


def test_of_changed_versions_a_percentage_of_each_kind_is_dropped() -> None:
    """And first versions, which a program that keeps any one of a group may drop."""
    made = changed.Changed(
        [Document(f"{side} {n}", "") for side in ("first", "changed") for n in range(4)],
        {"reprints": ["changed 0", "changed 1"], "figures": ["changed 2"], "names": ["changed 3"]}
        | {"cut copies": [], "corrections": [], "longer": []},
    )
    kept = {"first 0", "first 1", "first 2", "changed 1", "changed 2", "changed 3"}
    assert lost.changed_cells(Peer("", ""), kept, made) == ["50", "0", "0", "0", "0", "0", "1"]
    assert lost.changed_cells(Peer("", "", first=False), kept, made) == ["50", "0", "0", "0", "100", "0", "-"]


def test_the_cost_of_a_document_is_that_of_the_least_turn_without_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time of 1,100 documents less that of 100."""
    seconds = iter((0.5, 3.5, 1.0, 2.5, 0.75, 4.0))
    monkeypatch.setattr(lost, "run", lambda *_: programs.Run(9.0, 0, {"0"}, next(seconds)))
    documents = [Document(str(n), "") for n in range(1100)]
    assert lost.cost(Peer("", ""), documents, Path(), 1.0, turns=3) == ({"0"}, 2000.0)


def test_one_core_is_given_back() -> None:
    """With the variables of threads as they were."""
    before, cores = dict(os.environ), os.sched_getaffinity(0)
    with lost.one_core():
        assert len(os.sched_getaffinity(0)) == 1
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert (dict(os.environ), os.sched_getaffinity(0)) == (before, cores)


@pytest.mark.processes
def test_what_was_lost_is_two_tables_of_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small stream: the copy is dropped by all, another number by the one that does not ask what is new."""
    report = f"{PROSE}; 40 people came, and the mayor said that work on it begins in spring"
    texts = {"o": report, "a": report + " again", "c": report.replace("40", "47"), "e": "else"}
    rows = [{"id": id_, "text": text, "timestamp": 1.0 * n} for n, (id_, text) in enumerate(texts.items())]
    for one in judged.SETS:
        (tmp_path / one.folder).mkdir(exist_ok=True)
        (tmp_path / one.folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        pairs = "".join(json.dumps(pair) + "\n" for pair in JUDGED if pair["newer"] in "ac")
        (tmp_path / one.folder / one.pairs).write_text(pairs)
    (tmp_path / changed.FOLDER / "data").mkdir(parents=True)
    lines = [f"t{n} {text}\n" for n, text in enumerate(_articles(12))]
    (tmp_path / changed.FOLDER / "data" / changed.FILE).write_text("".join(lines))
    monkeypatch.setitem(lost.PROGRAMS, "rensa", Peer("absent", "dedup_semhash.py.txt", settings="its own"))
    page = tmp_path / "page.md"
    page.write_text("<!-- lost -->\n<!-- end -->\n<!-- changed -->\n<!-- end -->\n")
    arguments = ["--data", str(tmp_path), "--environments", str(tmp_path / "peers"), "--write", str(page)]
    assert lost.main([*arguments, "--turns", "1", "exact", "rensa"]) == 0
    exact, absent = page.read_text().splitlines()[3:5]
    assert exact == f"| exact hash | {' | '.join(['-/0.000(0.00-0.97)'] * 3)} |"
    streams = lost.streams_in(tmp_path, None, [])._replace(changed=None)
    ((off, _),) = lost.rows_of(["news-off"], streams, tmp_path / "peers", 300, 1, "0.6")
    assert off.endswith(f"off` | {' | '.join(['0.500(0.01-0.99)/1.000(0.03-1.00) O1'] * 3)} |")
    assert absent.startswith("| absent | failed: ModuleNotFoundError: ")
    head, _, exact, absent = page.read_text().splitlines()[7:11]
    assert head.startswith("| program | settings | reprints, 2 | cut copies, 2 | figures, 2 |")
    assert exact.startswith("| exact hash | [case, blanks folded](")
    assert exact.split(" | ")[3:-1] == ["0"] * 6
    assert "failed: ModuleNotFoundError" in absent
    written = page.read_text()
    assert lost.main(["--data", str(tmp_path / "nowhere"), "--write", str(page)]) == 0
    said = capsys.readouterr().err
    assert "docs.jsonl is not there; --data names the folder of sets" in said
    assert "benchmarks.labelled.bring brings it" in said
    assert page.read_text() == written


@pytest.mark.processes
def test_what_the_preset_of_news_loses_comes_out_again(real_data: Callable[[str], Path]) -> None:
    """On the real sets, to the last digit; the other rows of the page are those of the programs of the table."""
    folders = [real_data(name) for name in (*(one.folder for one in judged.SETS), changed.FOLDER)]
    page = (Path(__file__).resolve().parents[2] / "docs" / "LOST.md").read_text(encoding="utf-8")
    streams = lost.streams_in(folders[0].parent, None, [])
    assert streams.changed
    assert lost.changed_head(streams.changed)[0] in page
    ((row, _),) = lost.rows_of(["news"], streams._replace(changed=None), folders[0], 300, 1)
    assert row in page.splitlines()
    for name in ("lost", "changed"):
        table = page.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0].splitlines()
        titles = [line.split(" | ")[0].removeprefix("| ") for line in table[2:]]
        assert all(title.startswith(peer.title) for title, peer in zip(titles, lost.PROGRAMS.values(), strict=True))
