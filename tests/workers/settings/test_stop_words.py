"""``--set stop_words=FILE``: stop words of the user's own, from a file, in every place that settings have."""

import json

import pytest

from neardup import Config, ConfigError
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.outside.settings.value_files import STOP_WORDS_BYTES_MAX, read_stop_words

STORY = "der Hafen wird seit Montag nach neun Wochen Arbeit wieder geöffnet, das sagte die Behörde der Stadt gestern"
WORDS = b"\xef\xbb\xbf# German\r\nDer\r\n\r\n  die \r\ndas\r\nseit\r\nnach"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.txt").write_bytes(WORDS)
    return tmp_path


def test_own_stop_words_come_from_every_place_that_settings_have(monkeypatch, folder):
    """The command line, a file of settings and the environment name the file; the configuration holds the words."""
    (folder / "other.toml").write_text('shingles = "stopwords"\nstop_words = "own.txt"\n')
    found = [load({"shingles": "stopwords", "stop_words": "own.txt"}), load({}, "other.toml")]
    monkeypatch.setenv("NEARDUP_STOP_WORDS", "own.txt")
    found.append(load({"shingles": "stopwords"}))
    expected = Config(shingles="stopwords", stop_words=("das", "der", "die", "nach", "seit"))
    assert [settings.stop_words for settings in found] == [("Der", "die", "das", "seit", "nach")] * 3
    assert {settings.signing_fingerprint for settings in found} == {expected.signing_fingerprint}


def test_a_run_finds_pages_by_own_stop_words(neardup, folder):
    """German has no English stop word: without the list both pages are refused, with it they are a pair."""
    lines = [{"id": "a", "text": f"Menü {STORY}"}, {"id": "b", "text": f"{STORY} Impressum"}]
    (folder / "pages.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = ["run", "-q", "--shingles", "stopwords", "--threshold", "0.6", "--verify", "exact", "pages.jsonl"]
    assert neardup(*command).returncode == Exit.UNUSABLE
    done = neardup(*command, "--set", "stop_words=own.txt")
    assert done.returncode == Exit.SUCCESS, done.stderr
    (pair,) = map(json.loads, done.stdout.splitlines())
    assert (pair["older"], pair["newer"]) == ("a", "b")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, Failure, r"^cannot read the stop words in words.txt: No such file"),
        (
            b"",
            ConfigError,
            r"words.txt holds no stop word: write one word a line; leave it out$",
        ),
        (b"\n# nothing\n  \n", ConfigError, r"words.txt holds no stop word"),
        (
            "für\n".encode("latin-1"),
            ConfigError,
            r"words.txt is not UTF-8 from byte 1 on: convert it to UTF-8",
        ),
        (
            b"a\n" * (STOP_WORDS_BYTES_MAX // 2 + 1),
            ConfigError,
            r"words.txt is longer than 1,048,576 bytes.*a shorter file",
        ),
    ],
    ids=["missing", "empty", "comments", "not UTF-8", "long"],
)
def test_a_file_that_holds_no_stop_words_is_refused(folder, content, error, message):
    """With one sentence that has the remedy."""
    if content is not None:
        (folder / "words.txt").write_bytes(content)
    with pytest.raises(error, match=message):
        load({"shingles": "stopwords", "stop_words": "words.txt"})


def test_a_file_of_the_greatest_size_is_read(folder):
    """To its last byte."""
    (folder / "words.txt").write_bytes(b"a\n" * (STOP_WORDS_BYTES_MAX // 2))
    assert len(read_stop_words("words.txt")) == STOP_WORDS_BYTES_MAX // 2
