"""``neardup evaluate`` compares clusters with labels and with known pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.running.cli.app import app

# id, status, cluster: b and c are duplicates of a, e is a duplicate of d, f is a version of a.
VERDICTS = [
    ("a", "original", 0), ("b", "duplicate", 0), ("c", "duplicate", 0), ("d", "original", 3), ("e", "duplicate", 3),
    ("a", "unchanged", 0), (None, "refused", None), ("g", "original", 7),
]  # fmt: skip
TRUTH = "a,b,jaccard\na,b,.9\nb,c,.8\na,c,.6\nd,e,.7\nx,a,.9\n"


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


@pytest.fixture
def verdicts(tmp_path: Path) -> Path:
    rows = [{"id": id_, "status": status, "cluster": cluster} for id_, status, cluster in VERDICTS]
    (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "truth.csv").write_text(TRUTH)
    (tmp_path / "labels.csv").write_text("id,label,kind\na,one,x\nb,one,x\nc,two,x\nd,two,y\ne,two,y\n")
    return tmp_path / "verdicts.jsonl"


def test_clusters_are_compared_with_the_pairs_of_an_exact_join(verdicts: Path, tmp_path: Path) -> None:
    """Two of four pairs in clusters reach the threshold; c and e have no similar kept document."""
    found = json.loads(invoke(verdicts, "--clusters", "--truth", tmp_path / "truth.csv", "--json"))
    assert (found["precision"]["value"], found["recall"]["value"]) == (0.5, 1.0)
    assert found["b3_precision"]["value"] == pytest.approx((2 / 3 + 1 + 2 / 3 + 1 / 2 + 1 / 2 + 1) / 6)
    assert found["unsupported"]["value"] == pytest.approx(2 / 3)
    assert [(row["size_min"], row["clusters"], row["purity"]["value"]) for row in found["purity"]] == [
        (2, 1, 0.5), (3, 1, 1.0),
    ]  # fmt: skip
    assert [(one["id"], one["size"], one["lowest_similarity"]) for one in found["largest"]] == [
        ("a", 3, 0.6), ("d", 2, 0.7), ("g", 1, 1.0),
    ]  # fmt: skip
    assert found["left_out"] == {
        "later versions of an id": 1, "refused documents": 1, "known pairs with an id that has no verdict": 1,
    }  # fmt: skip


def test_clusters_are_compared_with_labels(verdicts: Path, tmp_path: Path) -> None:
    """There are two clusters and two classes; an option names the field of the label."""
    found = json.loads(invoke(verdicts, "--labels", tmp_path / "labels.csv", "--json"))
    assert (found["precision"]["value"], found["recall"]["value"]) == (0.5, 0.5)
    assert found["unsupported"] is None
    assert found["left_out"]["documents without a label"] == 1
    found = json.loads(invoke(verdicts, "--labels", tmp_path / "labels.csv", "--label-field", "kind", "--json"))
    assert found["adjusted_rand"]["value"] == 1.0


def test_a_person_reads_tables_and_a_picture(verdicts: Path, tmp_path: Path) -> None:
    """The report shows measures with intervals, the largest clusters, and the sizes."""
    shown = invoke(verdicts, "--clusters", "--truth", tmp_path / "truth.csv", "--plot", tmp_path / "sizes.svg")
    for words in (
        "B-cubed precision",
        "adjusted Rand index",
        "dropped without support",
        "Largest clusters",
        "0.600",
        "Purity by size",
    ):
        assert words in shown
    assert "size of the cluster" in shown
    assert (tmp_path / "sizes.svg").read_bytes().lstrip().startswith(b"<?xml")


def test_what_cannot_be_compared_ends_with_a_sentence(verdicts: Path, tmp_path: Path) -> None:
    """Each sentence names the missing part."""
    with pytest.raises(Failure, match="evaluate needs what is true"):
        invoke(verdicts)
    others = tmp_path / "others.csv"
    others.write_text("a,b\nx,y\n")
    for sentence, given in (
        ("labels no document: give rows with id and sort",
         (verdicts, "--labels", tmp_path / "labels.csv", "--label-field", "sort")),
        ("holds no verdict", (tmp_path / "truth.csv", "--clusters", "--truth", tmp_path / "truth.csv")),
        ("has a pair of 'x', and no id that", (verdicts, "--clusters", "--truth", others)),
    ):  # fmt: skip
        with pytest.raises(Failure, match=sentence) as ended:
            invoke(*given)
        assert ended.value.code == Exit.UNUSABLE
