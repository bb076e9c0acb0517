"""``neardup evaluate`` compares pairs with a truth, by contents or by documents, and with the promised curve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.running.cli.app import app

PAIRS = [
    ("a", "b", 0.9),
    ("b", "b2", 1.0),  # a copy that was compared with no other document
    ("c", "d", 0.8),
    ("e", "f", 0.7),
]


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["evaluate", *arguments], catch_exceptions=False, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


@pytest.fixture
def emitted(tmp_path: Path) -> str:
    path = tmp_path / "pairs.jsonl"
    rows = [{"older": a, "newer": b, "similarity": s, "buckets": 3} for a, b, s in PAIRS]
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows) + b"no json\n")
    return str(path)


def truth(folder: Path, text: str) -> str:
    path = folder / "truth"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_copies_stand_for_each_other(emitted: str, tmp_path: Path) -> None:
    """A true pair counts as found if the output has the pair of a copy; both pairs together count once."""
    known = truth(tmp_path, "a,b,jaccard\na,b,.9\na,b2,.9\nb,b2,1\nc,d,.8\nx,y,.9\ne,f,.7\n")
    found = orjson.loads(invoke(emitted, "--truth", known, "--documents", "12", "--json"))
    assert found["confusion"] == {
        "true_positives": 2, "false_positives": 1, "false_negatives": 1, "true_negatives": 55 - 4,
    }  # fmt: skip
    assert found["copies"] == 1
    assert found["recall"]["value"] == pytest.approx(2 / 3)
    assert found["left_out"] == {"lines that are no JSON object": 1}
    each = orjson.loads(invoke(emitted, "--truth", known, "--documents", "12", "--json", "--each"))
    assert each["confusion"] == {
        "true_positives": 3, "false_positives": 1, "false_negatives": 2, "true_negatives": 66 - 6,
    }  # fmt: skip


def test_what_is_true_can_be_said(emitted: str, tmp_path: Path) -> None:
    """By default a pair is true from the threshold of the settings on."""
    known = truth(tmp_path, "a,b,jaccard\na,b,.9\nc,d,.8\ne,f,.7\n")
    for arguments, hits in ((["--truth-min", "0.7"], 3), (["--threshold", "0.9"], 1), ([], 2)):
        found = orjson.loads(invoke(emitted, "--truth", known, "--json", *arguments))
        assert found["confusion"]["true_positives"] == hits, arguments
        assert found["confusion"]["true_negatives"] is None


@pytest.mark.parametrize(
    "text",
    ["left,right,more\na,b,x\nd,c,x\n", '{"older": "a", "newer": "b"}\n{"older": "c", "newer": "d"}\n',
     "more,b,a\n1,b,a\n2,d,c\n"],
)  # fmt: skip
def test_a_truth_may_be_csv_or_json_lines_without_similarities(emitted: str, tmp_path: Path, text: str) -> None:
    """Then every pair of the truth is true, and there is no curve."""
    found = orjson.loads(invoke(emitted, "--truth", truth(tmp_path, text), "--json"))
    assert found["confusion"]["true_positives"] == 2
    assert found["curve"] == []


def test_rows_that_are_no_pair_are_left_out_and_counted(emitted: str, tmp_path: Path) -> None:
    """For example an id with itself, or an invalid similarity."""
    known = truth(tmp_path, "a,b,jaccard\na,b,.9\nc,c,1\ne,f,7\ng,h,\n")
    output = invoke(emitted, "--truth", known)
    assert "left out: 3 rows of the truth" in output
    assert "0.9 to 0.95" in output


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n", "holds no pair"), ("one\nx\n", "no two columns"), (None, "cannot read .*no such file|No such file"),
        ('{"id": "a", "status": "original"}\n', "is of single documents"),
        ("a,b\nx,y\n", "has a pair of 'x', and no id"),
    ],
)  # fmt: skip
def test_a_truth_that_cannot_be_used_is_refused(emitted: str, tmp_path: Path, text: str | None, sentence: str) -> None:
    """The message names the path and the error. A truth that is there, and is of no use, has exit code 12."""
    known = truth(tmp_path, text) if text is not None else str(tmp_path / "absent.csv")
    with pytest.raises(Failure, match=rf"(?s){known}.*({sentence})|({sentence}).*{known}") as ended:
        invoke(emitted, "--truth", known)
    assert ended.value.code == (Exit.INPUT if text is None else Exit.UNUSABLE)


def test_documents_in_place_of_pairs_are_refused(tmp_path: Path) -> None:
    """Each line is left out, so nothing would be compared."""
    documents = tmp_path / "documents.jsonl"
    documents.write_text('{"id": "a", "text": "some"}\n')
    with pytest.raises(
        Failure, match=r"documents\.jsonl holds lines and no pair: give what run or probe wrote"
    ) as ended:
        invoke(str(documents), "--truth", truth(tmp_path, "a,b\nc,d\n"))
    assert ended.value.code == Exit.UNUSABLE


@pytest.mark.long
def test_the_measured_curve_is_drawn_over_the_promised_one(emitted: str, tmp_path: Path) -> None:
    """The command draws it in characters and to a file, but only with similarities."""
    known = truth(tmp_path, "a,b,jaccard\na,b,.9\nc,d,.8\n")
    file = tmp_path / "curve.svg"
    output = invoke(emitted, "--truth", known, "--plot", str(file))
    assert "promised" in output
    assert "┊" in output
    assert file.read_text(encoding="utf-8").count("<path") > 10
    with pytest.raises(Failure, match="no similarities to draw"):
        invoke(emitted, "--truth", truth(tmp_path, "a,b\na,b\n"), "--plot", str(file))


@pytest.mark.long
def test_candidates_of_real_texts_follow_the_s_curve(tmp_path: Path, real_data: Callable[[str], Path]) -> None:
    """News in 55 languages: over seeds, each bin of a hundred pairs lies near the curve, and few true pairs are missed.

    The pairs of one cluster are found together, so one seed scatters by .1 in a bin of two hundred.
    """
    folder = real_data("itn_multilingual")
    pairs, known = tmp_path / "pairs.jsonl", str(folder / "pairs_j050_char5.csv")
    apart: dict[float, list[float]] = {}
    for seed in range(4):
        words = ["run", "-q", "--candidates", "--set", f"seed={seed}", str(folder / "docs.jsonl")]
        pairs.write_text(CliRunner().invoke(app, words, standalone_mode=False).stdout, encoding="utf-8")
        found = orjson.loads(invoke(str(pairs), "--truth", known, "--candidates", "--documents", "3530", "--json"))
        assert found["recall"]["low"] > 0.97
        for one in found["curve"]:
            if one["pairs"] >= 100:
                apart.setdefault(one["expected"], []).append(one["share"]["value"] - one["expected"])
    assert len(apart) >= 6
    means = {expected: sum(values) / len(values) for expected, values in apart.items()}
    assert max(map(abs, means.values())) < 0.12, means


@pytest.mark.parametrize(
    "text",
    [
        "a, b\na, b\nc, d\n",
        "a;b\na;b\nc;d\n",
        "a\tb\na\tb\nc\td\n",
        "a,b,label\na,b,1\nc,d,1\ne,f,0\ng,h,0\n",
        "a,b,match\na,b,true\nc,d,True\ne,f,False\n",
        '{"a":"a","b":"b","is_duplicate":true}\n{"a":"c","b":"d","is_duplicate":true}\n{"a":"e","b":"f","is_duplicate":false}\n',
    ],
    ids=["blanks", "semicolons", "tabs", "labels 0 and 1", "labels of words", "labels of JSON"],
)
def test_a_truth_is_read_as_other_programs_write_it(emitted: str, tmp_path: Path, text: str) -> None:
    """Blanks behind delimiters are no part of an id, and a row that is labelled as different is no pair."""
    plain = truth(tmp_path, "a,b\na,b\nc,d\n")
    expected = orjson.loads(invoke(emitted, "--truth", plain, "--json"))
    found = orjson.loads(invoke(emitted, "--truth", truth(tmp_path, text), "--json"))
    assert {**found, "left_out": 0} == {**expected, "left_out": 0}
    assert found["left_out"].get("pairs that the truth calls different", 0) == text.count("0\n") + text.lower().count(
        "false"
    )
