"""``neardup tune --sample`` advises a length of shingles for files of documents."""

import json
import random
import signal

import pytest
from quick_parameters import quick_first
from six_texts import PAIRS, jaccard
from typer.testing import CliRunner

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.load import load
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
    found = json.loads(shown_by("--sample", mails, "--fields", "id=mail,text=body", "--json"))
    assert (found["documents"], found["k_enough"], found["k_safe"]) == (20, 5, 7)
    assert 1900 < found["characters_median"] < 2100
    assert 17 < found["alphabet"] < 22
    assert [row["k"] for row in found["lengths"]] == [3, 4, 5, 6, 7, 8]
    assert all(row["median"] > 0.9 for row in found["lengths"])


def test_the_first_signal_ends_what_is_computed_of_a_sample(mails, monkeypatch):
    """The sample is read by then; a part of the advice is none."""
    monkeypatch.setattr(tune_sample, "_show", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        tune_sample.show(load({"fields": "id=mail,text=body"}), [str(mails)], as_json=True)


def test_the_tables_say_the_same(mails):
    """They show the two lengths as settings, and the size of the sample."""
    shown = shown_by("--sample", mails, "--fields", "id=mail,text=body")
    for words in ("--k 5", "--k 7", "20", "enough", "safe", "nine in ten"):
        assert words in shown


def test_quotes_have_thresholds_of_their_fractions_and_no_shingles(tmp_path):
    """The default threshold of the scheme is shown first; a quote of a tenth of the text is a pair from there on."""
    words = [f"{one}{other}" for one in "bdfgklmnprst" for other in ("ano", "elin", "urt", "otavi", "ische")]
    draw = random.Random(7)
    texts = [" ".join(draw.choices(words, k=300)) for _ in range(4)]
    texts[3] = f"{texts[3]} {texts[0][:200]}"
    path = tmp_path / "letters.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
    found = json.loads(shown_by("--sample", path, "--preset", "quotes", "--json"))
    assert [row["threshold"] for row in found["thresholds"]][:4] == [0.05, 0.1, 0.2, 0.3]
    assert [row["pairs"] for row in found["thresholds"]][::2][:2] == [1, 0]
    assert "lengths" not in found
    assert "shingle" not in shown_by("--sample", path, "--preset", "quotes")


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
    fields = ("--sample", mails, "--fields", "id=mail,text=body", "--json")
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
    """Keys, microseconds, and all bytes in a window: the default has 126 of evidence, up to 20 a key, and an id."""
    fields = ("--sample", mails, "--fields", "id=mail,text=body")
    found = json.loads(shown_by(*fields, "--json"))
    assert found["keys"] == 18
    assert 126 + 18 * 4 < found["bytes"] < 126 + 18 * 20 + 100
    found = json.loads(shown_by(*fields, "--scheme", "passages", "--json"))
    assert found["microseconds"] > 0
    assert found["bytes"] >= 4 + (8 + 4) * found["keys"] > 4
    shown = shown_by(*fields, "--preset", "excerpts-short")
    for words in ("keys", "bytes", "microseconds", "Scheme passages"):
        assert words in shown


@pytest.fixture
def sample(tmp_path):
    """The six texts."""
    path = tmp_path / "sample.jsonl"
    path.write_text("".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in PAIRS))
    return path


def test_a_sample_shows_pairs_around_several_thresholds(sample):
    """Each pair stands at the threshold next to its exact similarity, with both texts; the counts are those from each
    threshold on."""
    found = json.loads(shown_by("--sample", sample, "--json"))["thresholds"]
    assert [row["threshold"] for row in found] == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    alike, half = jaccard("a", "b"), jaccard("c", "d")
    assert (alike, half) == (pytest.approx(53 / 54), pytest.approx(0.4, abs=0.05))
    shown = {row["threshold"]: row["shown"] for row in found if row["shown"]}
    assert shown == {
        0.4: [{"older": "c", "newer": "d", "similarity": pytest.approx(half)}],
        **({0.9: [{"older": "a", "newer": "b", "similarity": pytest.approx(alike)}]} if alike < 0.95 else {}),
    }
    assert [row["pairs"] for row in found] == [1 + (half >= row["threshold"]) for row in found]
    tables = shown_by("--sample", sample)
    assert f"similarity {half:.4f}" in tables
    assert "and then it goes home" in tables
    assert "judged" not in tables


@pytest.mark.parametrize(
    "settings",
    [
        ("prefix",),
        ("passages:characters=40,gram=20",),
        ("minhash", "--bands", "20", "--rows", "5", "--recall", "0.9"),
    ],
)
def test_pairs_are_shown_whatever_the_scheme_of_texts(sample, settings):
    """The settings of the scheme that fix a recall or a shape at another threshold make no difference."""
    found = json.loads(shown_by("--sample", sample, "--scheme", *settings, "--json"))["thresholds"]
    assert found[0]["pairs"] >= 1
