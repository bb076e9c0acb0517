"""Labelled sets are read as their formats say, divided without cutting a pair, and judged as by hand."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.labelled import __main__ as labelled
from benchmarks.labelled import records, texts
from benchmarks.labelled.bring import SOURCES, Source, bring
from benchmarks.labelled.judging import choose, halves, judge
from benchmarks.labelled.records import Labelled, Score
from benchmarks.labelled.sets import ACCURACY, SETS, folder_of
from benchmarks.pages import old_books

from neardup import Document

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "RESULTS.md"
PERSON = "rec_id, given_name, surname\n"
PROSE = "the committee met in the old town hall on monday and spoke of the bridge until midnight"


def pair(a: str, b: str) -> frozenset[str]:
    return frozenset((a, b))


def test_people_in_two_files_are_matched_by_the_number_in_their_ids(tmp_path: Path) -> None:
    """FEBRL 4 has the originals in one file and a damaged record of each in the other."""
    (tmp_path / "dataset4a.csv").write_text(PERSON + "rec-1-org, ann, lee\nrec-2-org, bob, ray\n")
    (tmp_path / "dataset4b.csv").write_text(PERSON + "rec-2-dup-0, rob, ray\nrec-1-dup-0, anne, lee\n")
    found = records.people_twice(tmp_path)
    assert [document.id for document in found.added] == ["rec-1-org", "rec-2-org"]
    assert found.truth == {pair("rec-1-org", "rec-1-dup-0"), pair("rec-2-org", "rec-2-dup-0")}


def test_bibliographies_are_matched_by_their_mapping(tmp_path: Path) -> None:
    """DBLP-Scholar has other names of files and columns than DBLP-ACM; an id of Scholar may be one of DBLP."""
    head = "id,title,authors,venue,year\n"
    (tmp_path / "DBLP1.csv").write_text(head + 'conf/a,"On Sets",Ann Lee,VLDB,1999\n')
    (tmp_path / "Scholar.csv").write_bytes(
        (head + 'aKc,"On sets, r\xe9sum\xe9",A Lee,,\nconf/a,x,y,,\n').encode("latin-1")
    )
    (tmp_path / "DBLP-Scholar_perfectMapping.csv").write_text("idDBLP,idScholar\nconf/a,aKc\n")
    assert SETS["dblp-scholar"].read is not None
    found = SETS["dblp-scholar"].read(tmp_path)
    assert [document.id for document in (*found.added, *found.probed)] == [
        "DBLP/conf/a",
        "Scholar/aKc",
        "Scholar/conf/a",
    ]
    assert (found.probed[0].fields or {})["title"] == "On sets, r\xe9sum\xe9"
    assert found.truth == {pair("DBLP/conf/a", "Scholar/aKc")}


def test_offers_of_two_shops_are_matched_by_their_mapping(tmp_path: Path) -> None:
    """An id may be one of both shops; what is compared is the name."""
    (tmp_path / "data/abt-buy").mkdir(parents=True)
    for name, rows in (
        ("Abt", 'id,name\n1,"Tuner, caf\xe9"\n2,Oven\n'), ("Buy", 'id,name\n1,Oven X\n'),
        ("abt_buy_perfectMapping", "idAbt,idBuy\n2,1\n"),
    ):  # fmt: skip
        (tmp_path / f"data/abt-buy/{name}.csv").write_bytes(rows.encode("latin-1"))
    found = records.offers(tmp_path)
    assert [one[:2] for one in found.added] == [("Abt/1", "Tuner, caf\xe9"), ("Abt/2", "Oven")]
    assert [one[:2] for one in found.probed] == [("Buy/1", "Oven X")]
    assert found.truth == {pair("Abt/2", "Buy/1")}


def test_answers_are_asked_about_against_the_article_of_their_task(tmp_path: Path) -> None:
    """A row of the table has both, over several lines, and how much was taken."""
    rows = [("caf\xe9\nan answer", "the article", "0"), ("a copy", "the article", "3"), ("another", "its article", "1")]
    with (tmp_path / "plagiarism-clough&stevenson.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)
    found = texts.answers(tmp_path)
    assert [document.text for document in found.added] == ["the article", "its article"]
    assert [document.text for document in found.probed] == [row[0] for row in rows]
    assert found.truth == {pair("article 0", "answer 1"), pair("article 1", "answer 2")}
    assert found.asked == found.truth | {pair("article 0", "answer 0")}


def test_halves_share_no_document_and_cut_no_pair() -> None:
    """Chains of pairs stay together, whether they are true or only asked about."""
    added = [Document(str(n), "x") for n in range(0, 200, 2)]
    probed = [Document(str(n), "x") for n in range(1, 200, 2)]
    chains = [[str(n) for n in range(first, first + 5)] for first in range(0, 200, 5)]
    links = {frozenset(link) for chain in chains for link in pairwise(chain)}
    truth = {link for link in links if "1" in max(link)}
    first, second = halves(Labelled(added, probed, truth, links))
    ids = [{document.id for document in (*half.added, *half.probed)} for half in (first, second)]
    assert ids[0] | ids[1] == {str(n) for n in range(200)}
    assert not ids[0] & ids[1]
    assert min(map(len, ids)) >= 50
    assert (first.truth | second.truth, first.asked | second.asked) == (truth, links)


def test_pairs_are_judged_as_by_hand_and_the_best_setting_is_chosen() -> None:
    """One true pair of two is found, and one that is none; the accuracy counts the pairs that labels speak of."""
    near = PROSE.replace("midnight", "morning")
    documents = [Document("a", PROSE), Document("b", near), Document("c", near + " again"), Document("d", "else")]
    truth, asked = {pair("a", "b"), pair("a", "d")}, {pair("a", "b"), pair("a", "c"), pair("a", "d")}
    score = judge(Labelled(documents, [], truth, asked), {"scheme": "prefix", "threshold": 0.5})
    assert score == Score(0.5, 0.5, 0.5, pytest.approx(1 / 3))
    strict, loose = {"scheme": "prefix", "threshold": 0.95}, {"scheme": "prefix", "threshold": 0.5}
    whole = Labelled(documents, [], {pair("a", "b"), pair("a", "c"), pair("b", "c")})
    assert choose(whole, (strict, loose), "F1 of pairs") == loose
    assert choose(Labelled(documents, [], {pair("a", "d")}, asked), (loose, strict), ACCURACY) == strict


def test_a_set_that_is_not_there_is_refused_by_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The document keeps the row that it had, and the exit code says that a named set is missing."""
    (tmp_path / "mccormick_minhash").mkdir()
    (tmp_path / "mccormick_minhash" / "articles_1000.train").write_text(f"a {PROSE}\nb {PROSE} too\nc else\n")
    (tmp_path / "mccormick_minhash" / "articles_1000.truth").write_text("a b\n")
    document = tmp_path / "page.md"
    document.write_text("<!-- results -->\n| cora | old |\n<!-- end -->\n<!-- sets -->\n<!-- end -->\n")
    assert labelled.main(["--data", str(tmp_path), "--write", str(document), "cora", "mccormick-1000"]) == 1
    row = "| mccormick-1000 | F1 of pairs | 1.000 (1.000 / 1.000) | | | |"
    printed = capsys.readouterr()
    assert printed.out == f"{row}\n"
    assert re.fullmatch(r"cora was not run: \S+CORA\.xml is not there; --data names the folder of sets\n", printed.err)
    page = document.read_text()
    assert row in page
    assert "| cora | old |" in page
    assert "| febrl-1 | F1 of pairs | not run | | | |" in page


def test_the_document_has_the_sets_and_the_sources_of_the_table() -> None:
    """``make results`` would change nothing but figures, and every figure of others has its source."""
    page = RESULTS.read_text(encoding="utf-8")
    assert labelled.written(page, {}) == page, "run make results"
    assert all(other.source and 0 < other.value <= 1 for one in SETS.values() for other in one.published)
    rows = re.findall(r"^\| ([\w-]+) \| (?:F1 of \w+|accuracy|adjusted Rand index) \| (?:\d|not run)", page, re.M)
    assert set(rows) == set(SETS)


@pytest.mark.parametrize("name", ["febrl-1", "dblp-acm", "mccormick-1000", "html-articles"])
def test_the_figures_of_the_document_come_out_again(real_data: Callable[[str], Path], name: str) -> None:
    """On the real sets, to the last digit: every seed is fixed."""
    folder = folder_of(SETS[name], real_data(SETS[name].folder).parent)
    assert labelled.row_of(name, SETS[name], folder) in RESULTS.read_text(encoding="utf-8").splitlines()


def test_items_of_feeds_are_pairs_of_their_stories_and_judged_by_verdicts(tmp_path: Path) -> None:
    """In order of time; what the verdicts put into one story is found."""
    titles = [
        "Ferry stays in port as fog comes",
        "Minister resigns over a loan",
        "Ferry stays in port as the fog comes",
    ]
    (tmp_path / "backend/testdata/ground_truth").mkdir(parents=True)
    rows = [{"file": f"testdata/{n}.json", "story_gt_id": ["a", "b", "a"][n]} for n in range(3)]
    for n, title in enumerate(titles):
        item = {"title": title, "published_at": f"2026-02-0{9 - n}T08:00:00Z"}
        (tmp_path / f"backend/testdata/{n}.json").write_text(json.dumps(item))
    listed = tmp_path / "backend/testdata/ground_truth/dedup_ground_truth_items.jsonl"
    listed.write_text("\n".join(map(json.dumps, rows)))
    found = texts.feed_items(tmp_path)
    assert [document.id for document in found.added] == [f"testdata/{n}.json" for n in (2, 1, 0)]
    assert found.truth == {pair("testdata/0.json", "testdata/2.json")}
    assert judge(found, SETS["scoop-letters"].default) == Score(1, 1, 1, rand=1)
    assert judge(found, {"threshold": 1.0}).recall == 0


@pytest.mark.processes
def test_a_public_set_is_brought_from_one_commit_of_its_repository(tmp_path: Path) -> None:
    """Here from a repository on this disk; each source is the folder of a set. A file outside of it is not asked for:
    the repository lacks it at last."""
    repository = tmp_path / "repository"
    (repository / "data").mkdir(parents=True)
    (repository / "data/one.txt").write_text("one")
    (repository / "two.txt").write_text("two")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.org")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "x"), ("rev-parse", "HEAD")):
        done = subprocess.run(["git", *command], cwd=repository, check=True, capture_output=True, text=True)
    bring(Source(str(repository), done.stdout.strip(), ("data",)), tmp_path / "set")
    assert (tmp_path / "set/data/one.txt").read_text() == "one"
    bring(Source(str(repository), done.stdout.strip(), ("*",)), tmp_path / "set")
    files = [path.relative_to(tmp_path / "set").as_posix() for path in (tmp_path / "set").rglob("*") if path.is_file()]
    assert sorted(files) == ["data/one.txt", "two.txt"]
    with pytest.raises(subprocess.CalledProcessError):
        bring(Source(str(repository), done.stdout.strip(), ("other",)), tmp_path / "none")
    subprocess.run(["git", "config", "uploadpack.allowFilter", "true"], cwd=repository, check=True)
    object_ = subprocess.run(
        ["git", "hash-object", "two.txt"], cwd=repository, check=True, capture_output=True, text=True
    )
    (repository / ".git/objects" / object_.stdout[:2] / object_.stdout[2:].strip()).unlink()
    bring(Source(str(repository), done.stdout.strip(), ("data",)), tmp_path / "part")
    assert (tmp_path / "part/data/one.txt").read_text() == "one"
    assert not (tmp_path / "none").exists()
    assert SOURCES.keys() <= {one.folder for one in SETS.values()} | set(old_books.FOLDERS)


def test_planted_copies_are_read_where_they_are_brought(tmp_path: Path) -> None:
    """In the folder of the set, or in the one of the repository below it."""
    for folder in (tmp_path / "plain", tmp_path / "brought/data"):
        folder.mkdir(parents=True)
        (folder / "articles_1000.train").write_text("t1 a text\nt2 a text\n")
        (folder / "articles_1000.truth").write_text("t1 t2\n")
    plain = texts.planted(tmp_path / "plain")
    assert plain.truth == {pair("t1", "t2")}
    assert texts.planted(tmp_path / "brought") == plain
