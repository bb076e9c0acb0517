"""``neardup calibrate`` of judged pairs: a threshold of each signal with an interval."""

import json
import random

import pytest
from six_texts import PAIRS, jaccard
from typer.testing import CliRunner

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Failure
from neardup_workers.running.cli.app import app


def shown_by(*arguments):
    """The output of the command."""
    done = CliRunner().invoke(app, ["calibrate", *map(str, arguments)])
    assert done.exception is None, done.exception
    return done.stdout


def found_by(*arguments):
    """What the command prints as JSON."""
    return json.loads(shown_by(*arguments, "--json"))


def refused_with(*arguments):
    """The sentence of a refused command."""
    error = CliRunner().invoke(app, ["calibrate", *map(str, arguments)]).exception
    assert isinstance(error, (ConfigError, Failure))
    return str(error)


def lines_of(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def sample(tmp_path):
    """The six texts."""
    return lines_of(tmp_path / "sample.jsonl", ({"id": id_, "text": text} for id_, text in PAIRS))


def judged_file(tmp_path, *lines):
    """A file of judged pairs: two ids and the answer in each."""
    return lines_of(tmp_path / "judged.jsonl", ({"older": a, "newer": b, "same": same} for a, b, same in lines))


def test_judged_pairs_propose_a_threshold(sample, tmp_path):
    """It lies between the pair judged different and the one judged the same; the table says what it does with them."""
    judged = judged_file(tmp_path, ("a", "b", True), ("d", "c", False), ("e", "f", "no"))
    assert found_by(judged, "--documents", sample)["signals"] == {
        "text": {
            "threshold": 0.7, "low": round(jaccard("c", "d"), 4), "high": round(jaccard("a", "b"), 4),
            "same": 1, "different": 2, "missed": 0, "false": 0,
            "right": {"value": 1, "low": pytest.approx(0.4385, abs=1e-4), "high": 1},
        }
    }  # fmt: skip
    table = shown_by(judged, "--documents", sample)
    for words in ("text", "0.7 (", "0 of 1", "0 of 2", "1.000 (0.439 to"):
        assert words in table


def test_each_signal_has_its_own_threshold_by_the_pairs_that_have_it(tmp_path):
    """Titles separate the stories, vectors do so for those that have one, texts say nothing and pictures are of one
    kind; the interval holds the point at which the answers change."""
    rng = random.Random(3)
    word = lambda: "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=8))  # noqa: E731
    documents, judged = [], []
    for n in range(40):
        same, title = n % 2 == 0, [word() for _ in range(8)]
        other = [*title[:6], word(), word()] if same else [*title[:2], *(word() for _ in range(6))]
        angle = (0.6 if same else 0.9) + n / 1000
        sides = [(f"a{n}", title, [1.0, 0.0]), (f"b{n}", other, [1 - angle, angle])]
        for id_, words, vector in sides:
            line = {"id": id_, "text": " ".join(word() for _ in range(20)), "title": " ".join(words)}
            line |= {"vector": vector} if n < 30 else {}
            line |= {"model": f"M{n}", "name": title[0] if same else word()} if n >= 10 else {}
            documents.append(line | ({"picture": "ff00ff00ff00ff00"} if n == 0 else {}))
        judged.append({"a": f"a{n}", "b": f"b{n}", "same": same})
    scheme = ("--scheme", "signals:title=0.9,vector=0.99,dimension=2,picture=0.9,record=0.9,fields=name,model")
    files = lines_of(tmp_path / "judged", judged), "--documents", lines_of(tmp_path / "documents.jsonl", documents)
    found = found_by(*files, *scheme)["signals"]
    assert list(found) == ["text", "title", "vector", "picture", "record"]
    assert [(one["same"], one["different"]) for one in found.values()] == [
        (20, 20), (20, 20), (15, 15), (1, 0), (15, 15),
    ]  # fmt: skip
    assert found["picture"]["threshold"] is found["picture"]["right"] is None
    for name in ("title", "vector", "record"):
        assert (found[name]["missed"], found[name]["false"]) == (0, 0)
        assert 0 < found[name]["low"] <= found[name]["threshold"] <= found[name]["high"] <= 1
    assert 0.25 < found["title"]["threshold"] < 0.6
    assert 0.5 < found["record"]["threshold"] <= 1
    assert 0.1 < found["vector"]["low"] < found["vector"]["high"] < 0.56
    assert found["text"]["missed"] + found["text"]["false"] > 9
    assert "none" in shown_by(*files, *scheme)


def test_a_weight_of_false_pairs_moves_the_threshold(sample, tmp_path):
    """Where the answers contradict the similarities, a dear false pair raises the threshold, a dear miss lowers it."""
    judged = judged_file(tmp_path, ("a", "b", False), ("c", "d", True))
    fields = judged, "--documents", sample, "--set"
    high, low = (found_by(*fields, f"false_weight={weight}")["signals"]["text"] for weight in ("0.9", "0.1"))
    assert (high["false"], high["missed"]) == (0, 1)
    assert (low["false"], low["missed"]) == (1, 0)
    assert low["threshold"] <= jaccard("c", "d") < jaccard("a", "b") < high["threshold"]


def test_lines_that_say_nothing_are_counted(sample, tmp_path):
    """Lines of another form and pairs of other documents; a file without a pair of the documents is refused, and so is
    one whose pairs are judged alike, and one of verdicts."""
    judged = judged_file(tmp_path, ("a", "b", True), ("c", "d", False), ("a", "z", True), ("a", "c", "perhaps"))
    assert found_by(judged, "--documents", sample)["left_out"] == {
        "judged pairs of documents that were not given, or are refused": 1,
        "lines without older, newer and same (true or false)": 1,
    }
    other = judged_file(tmp_path, ("x", "y", True))
    assert "holds no judged pair (1 judged pairs of documents" in refused_with(other, "--documents", sample)
    alike = judged_file(tmp_path, ("a", "b", True))
    assert "a threshold needs pairs judged both ways" in refused_with(alike, "--documents", sample)
    assert "give --field" in refused_with(alike, "--documents", sample, "--clusters")


def test_a_refused_document_shifts_no_judged_pair(sample, tmp_path):
    """An empty text before the pair has no signature; the similarities are those of the named documents."""
    path = tmp_path / "with_empty.jsonl"
    path.write_text('{"id":"0","text":""}\n' + sample.read_text())
    judged = judged_file(tmp_path, ("a", "b", True), ("c", "d", False), ("0", "d", False))
    found = found_by(judged, "--documents", path)
    assert found["left_out"] == {"judged pairs of documents that were not given, or are refused": 1}
    text = found["signals"]["text"]
    assert jaccard("c", "d") < text["threshold"] < jaccard("a", "b")


def test_records_have_a_threshold_too(tmp_path):
    """Of a scheme with one signal, named after what it compares."""
    people = [("a", "anna berg"), ("b", "anna bergh"), ("c", "otto lind"), ("d", "olga lundqvist")]
    documents = lines_of(tmp_path / "d.jsonl", ({"id": id_, "name": name} for id_, name in people))
    judged = judged_file(tmp_path, ("a", "b", True), ("c", "d", False))
    found = found_by(judged, "--documents", documents, "--scheme", "records:keys=name,fields=name")["signals"]
    assert 0 < found["record"]["threshold"] <= 1
