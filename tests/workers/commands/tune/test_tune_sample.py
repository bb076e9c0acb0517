"""``neardup tune --sample`` advises a length of shingles for files of documents."""

import json
import random

import pytest
from quick_parameters import quick_first
from typer.testing import CliRunner

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Failure
from neardup_workers.running.cli.app import app
from neardup_workers.running.commands.tune import sample as tune_sample

WORDS = "the quick brown fox jumps over the lazy dog while seven wizards boil their jugs of liquid in a quiet corner "


def shown_by(*arguments):
    """The output of a command."""
    done = CliRunner().invoke(app, ["tune", *map(str, arguments)])
    assert done.exception is None, done.exception
    return done.stdout


def refused_with(*arguments):
    """The sentence of a refused command."""
    error = CliRunner().invoke(app, ["tune", *map(str, arguments)]).exception
    assert isinstance(error, (ConfigError, Failure))
    return str(error)


@pytest.fixture
def mails(tmp_path):
    """Twenty mails of about 2,000 characters, with the lines of one file under other names; one line is no document."""
    lines = [{"mail": str(i), "body": (WORDS[i:] + WORDS[:i]) * 18} for i in range(20)]
    path = tmp_path / "mails.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n{}\n")
    return path


def test_mails_are_advised_five_characters_a_shingle(mails):
    """Their alphabet has about 20 letters, so five are enough; the command measures the neighbouring lengths."""
    found = json.loads(shown_by("--sample", mails, "--id-field", "mail", "--text-field", "body", "--json"))
    assert (found["documents"], found["k_enough"], found["k_safe"]) == (20, 5, 7)
    assert 1900 < found["characters_median"] < 2100
    assert 17 < found["alphabet"] < 22
    assert [row["k"] for row in found["lengths"]] == [3, 4, 5, 6, 7, 8]
    assert all(row["median"] > 0.9 for row in found["lengths"])


def test_the_tables_say_the_same(mails):
    """They show the two lengths as settings, and the size of the sample."""
    shown = shown_by("--sample", mails, "--id-field", "mail", "--text-field", "body")
    for words in ("--k 5", "--k 7", "20", "enough", "safe", "nine in ten"):
        assert words in shown


@pytest.mark.long
def test_texts_as_long_as_research_articles_are_advised_nine(real_data):
    """Addresses of 37,000 characters stand in for articles. 9 is safe: strangers have similarity .06, with 5 they have
    .25.
    """
    paths = sorted(real_data("sotu").glob("*.txt"))
    found = json.loads(shown_by(*(part for path in paths for part in ("--sample", path)), "--json"))
    assert (found["documents"], found["k_safe"]) == (233, 9)
    assert found["alphabet"] == pytest.approx(18.8, abs=0.1)
    at = {row["k"]: row["median"] for row in found["lengths"]}
    assert at[5] > 0.2 > 0.1 > at[9]


def test_a_sample_is_read_as_far_as_it_is_needed(mails, monkeypatch):
    """A limit of documents or of characters ends the sample."""
    fields = ("--sample", mails, "--id-field", "mail", "--text-field", "body", "--json")
    monkeypatch.setattr(tune_sample, "SAMPLE_DOCUMENTS_MAX", 7)
    assert json.loads(shown_by(*fields))["documents"] == 7
    monkeypatch.setattr(tune_sample, "SAMPLE_CHARACTERS_MAX", 4000)
    assert json.loads(shown_by(*fields))["documents"] == 3


def test_what_gives_no_advice_is_refused(mails, tmp_path):
    """A missing path, documents without a text, a picture without data."""
    assert "no-such" in refused_with("--sample", tmp_path / "no-such")
    assert "the sample holds no text" in refused_with("--sample", mails)
    assert "leave out --family and --plot" in refused_with("--sample", mails, "--plot", "x.svg")


@pytest.mark.parametrize("words", quick_first([20, 2000], 1))
def test_the_recall_of_grouped_signatures_is_measured_on_the_sizes_of_a_sample(tmp_path, words):
    """Small documents leave most bands without a key; documents of some thousand shingles keep the promise."""
    path = tmp_path / "texts.jsonl"
    rng = random.Random(1)
    texts = [" ".join(f"{rng.randrange(10**5)}" for _ in range(words)) for _ in range(20)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    arguments = ("--sample", path, "--scheme", "grouped")
    recall = json.loads(shown_by(*arguments, "--json"))["recall_at_threshold"]
    assert ("one_permutation" in shown_by(*arguments)) == (words == 20)
    assert (recall >= 0.95) == (words == 2000)
    assert "recall_at_threshold" not in json.loads(shown_by("--sample", path, "--json"))


def test_a_sample_says_what_a_document_of_the_scheme_costs(mails):
    """Keys, bytes of evidence and microseconds: 4 bytes of length and 8 a place for passages, 126 of the default."""
    fields = ("--sample", mails, "--id-field", "mail", "--text-field", "body")
    found = json.loads(shown_by(*fields, "--json"))
    assert (found["keys"], found["bytes"]) == (18, 126)
    found = json.loads(shown_by(*fields, "--scheme", "passages", "--json"))
    assert found["microseconds"] > 0
    assert found["bytes"] >= 4 + 8 * found["keys"] > 4
    shown = shown_by(*fields, "--preset", "excerpts-short")
    for words in ("keys", "bytes", "microseconds", "Scheme passages"):
        assert words in shown
