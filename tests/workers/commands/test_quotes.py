"""``neardup quotes``: a table, lines of JSON and a page of the quotes that files share."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.recall.passages import prose
from command import Run

from neardup import Config, Document, Signer
from neardup.errors import ConfigError
from neardup.pairs.pair_rule import Matches
from neardup.pairs.pipeline import Matcher, match_step
from neardup.pairs.quotes import covered, covering, quotes
from neardup.schemes.interface import Shared
from neardup.schemes.kinds.parts import Part
from neardup_workers.outside.options.judging import QuotesOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.quotes import run

SENTENCE = "It was the best of times, it was the worst of times, it was the age of Wisdom & foolishness"
SETTINGS = load({"scheme": "parts"}, None)


def files(folder: Path, *texts: str) -> list[str]:
    """The paths of files that hold these texts."""
    paths = [folder / f"{name}.txt" for name, _ in zip("abcdefgh", texts, strict=False)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return list(map(str, paths))


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """A book, and a text that quotes it with a word changed and in capitals."""
    quoted = SENTENCE.upper().replace("WORST", "BADDEST")
    return files(tmp_path, f"Book the First.\n\n{SENTENCE}.\nThe end <of it>.", f"Dickens wrote: «{quoted}»!")


def test_a_line_of_json_has_both_texts_as_they_were_given(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With positions, score and depth."""
    run(QuotesOptions(two, as_json=True), SETTINGS)
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["older"], line["newer"], line["depth"], line["phrase"]) == (*two, 1, False)
    assert line["score"] >= 18
    for side, path in (("older", two[0]), ("newer", two[1])):
        text = Path(path).read_text(encoding="utf-8")
        assert text[slice(*line["quote"][side]["given"])] == line["quote"][side]["text"]
    assert line["quote"]["older"]["text"] == SENTENCE
    assert line["quote"]["newer"]["text"] == SENTENCE.upper().replace("WORST", "BADDEST")


def test_a_packed_text_has_the_quotes_of_the_plain_one(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As other commands read it; at most line_bytes_max of it are unpacked."""
    packed = f"{two[1]}.gz"
    Path(packed).write_bytes(gzip.compress(Path(two[1]).read_bytes()))
    run(QuotesOptions([two[0], packed], as_json=True), SETTINGS)
    run(QuotesOptions(two, as_json=True), SETTINGS)
    of_packed, of_plain = capsys.readouterr().out.splitlines()
    assert of_packed == of_plain.replace(two[1], packed)
    with pytest.raises(Failure, match=r"b.txt.gz is longer than line_bytes_max=20: raise it"):
        run(QuotesOptions([packed, packed], as_json=True), load({"scheme": "parts", "line_bytes_max": 20}, None))


@pytest.mark.parametrize("option", ["--threshold", "--min-similarity", "--window-seconds"])
def test_settings_of_pairs_are_refused(neardup: Run, two: list[str], option: str) -> None:
    """A quote has a score, whatever part of a text it is, and the texts have no window."""
    done = neardup("quotes", *two, option, "0.9")
    assert (done.returncode, option.encode() in done.stderr) == (Exit.USAGE, True)


def test_a_page_holds_both_texts_with_the_quotes_marked_and_linked(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names no other file, escapes what is markup, and has a picture."""
    run(QuotesOptions(two, page=str(tmp_path / "page.html")), SETTINGS)
    assert "quotes: 1" in capsys.readouterr().out
    written = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The end &lt;of it&gt;" in written
    assert "Wisdom &amp; foolishness</a>" in written
    links = re.findall(r'<a id="(\w+-\d+)" href="#(\w+-\d+)">', written)
    assert links == [("o0-0", "n0-0"), ("n0-0", "o0-0")]
    assert "<svg" in written
    assert "http" not in written


def test_texts_without_a_quote_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the table and on the page."""
    paths = files(tmp_path, "one thing", "something else")
    run(QuotesOptions(paths, page=str(tmp_path / "page.html")), SETTINGS)
    assert capsys.readouterr().out == "no quotes\n"
    assert "share no quotes" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "more", "code"),
    [
        (["a.txt"], {}, Exit.USAGE),
        (["a.txt", "missing.txt"], {}, Exit.INPUT),
        (["a.txt", "latin.txt"], {}, Exit.UNUSABLE),
        (["a.txt", "empty.txt"], {}, Exit.UNUSABLE),
        (["a.txt", "torn.gz"], {}, Exit.INPUT),
        (["a.txt", "a.txt"], {"page": "a.txt"}, Exit.USAGE),
        (["a.txt", "a.txt"], {"page": "no/folder.html"}, Exit.OUTPUT),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    names: list[str], more: dict[str, Any], code: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the exit code of the reason."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(SENTENCE)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "torn.gz").write_bytes(gzip.compress(SENTENCE.encode())[:-9])
    with pytest.raises(Failure) as caught:
        run(QuotesOptions(names, **more), SETTINGS)
    assert caught.value.code == code
    if "empty.txt" in names:
        assert str(caught.value) == "empty.txt has no quotes: the text is empty after normalisation"


def test_books_of_more_characters_than_other_texts_may_have_are_read_whole(neardup: Run, tmp_path: Path) -> None:
    """By the command with any settings, and with the preset by run; the quote stands behind five million characters."""
    longer = "0 " * 2_600_000 + SENTENCE
    paths = files(tmp_path, f"He said: {SENTENCE}!", longer)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": Path(path).read_text()}) + "\n" for path in paths))
    (quote,) = map(json.loads, neardup("quotes", "--json", *paths).stdout.splitlines())
    assert quote["quote"]["newer"]["given"] == [len(longer) - len(SENTENCE), len(longer)]
    (pair,) = map(json.loads, neardup("run", "--quiet", "--preset", "quotes", "in.jsonl").stdout.splitlines())
    assert pair["passages"][0]["newer"] == [len(longer) - len(SENTENCE), len(longer)]


def test_another_scheme_finds_no_quotes() -> None:
    """It is refused by its name."""
    with pytest.raises(ConfigError, match="one_permutation"):
        quotes(["a", "b"], Config())


def test_a_stretch_is_shown_twice_at_most_and_its_depth_counts_all() -> None:
    """The best parts are shown, in their order."""
    found = [[Part((10, 100), (0, 90), score)] for score in (20.0, 50.0, 30.0)]
    found[0].append(Part((200, 260), (300, 360), 19.0))
    assert [(older, part.score, depth) for older, part, depth in covering(found, 300)] == [
        (1, 50.0, 3), (2, 30.0, 3), (0, 19.0, 1)
    ]  # fmt: skip


def test_lines_of_run_and_batch_mark_the_pairs_that_cover_a_text(neardup: Run, tmp_path: Path) -> None:
    """Two of five documents with one quote, and the only one with another; also where times turn pairs round, and in a
    corpus that passes several tables."""
    rng = random.Random(45)
    said, other = (prose(rng, "az", 300) for _ in range(2))
    texts = [f"{prose(rng, 'az', 400)} {said} {prose(rng, 'az', 90)}" for _ in range(5)]
    texts += [f"{other} {prose(rng, 'az', 400)}", f"{prose(rng, 'az', 90)} {said} {prose(rng, 'az', 90)} {other}"]
    rows = [{"id": f"d{n}", "text": text, "timestamp": n - 20 * (n == 4)} for n, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = "in.jsonl", "--quiet", "--preset", "quotes"
    lines = neardup("run", *given, "--lateness-seconds", "60").stdout
    marked: dict[str, list[bool]] = {}
    for line in map(json.loads, lines.splitlines()):
        marked.setdefault(line["newer"], []).append(line["cover"])
    assert {newer: sum(of) for newer, of in marked.items()} == {"d0": 1, "d1": 2, "d2": 3, "d3": 3, "d6": 3}
    assert {newer: len(of) for newer, of in marked.items()} == {"d0": 1, "d1": 2, "d2": 3, "d3": 4, "d6": 6}
    assert sorted(neardup("batch", *given).stdout.splitlines()) == sorted(lines.splitlines())


def test_runs_of_a_pair_that_overlap_count_once() -> None:
    """One text said the middle in two places, so each of its runs goes on into the other; of two layers of a text it is
    one."""
    spans = [[0, 400, 0, 400], [500, 900, 100, 500], [0, 450, 50, 500], [0, 450, 50, 500]]
    shared = Shared(np.array([[0.9, 0.9], [0.8, 0.8], [0.8, 0.8]]), np.array(spans), np.array([0, 2, 3, 4]))
    times = np.arange(3)
    found = Matches(["a", "b", "c"], ["d"] * 3, times, times, np.array([0.9, 0.8, 0.8]), np.ones(3, np.int32), shared)
    marked = covered(found, np.full(3, 3)).cover
    assert marked is not None
    assert marked.tolist() == [True, True, False]


def test_a_short_part_that_many_texts_have_is_a_phrase() -> None:
    """Four texts before it have it."""
    said = "the ministry of foreign affairs announced on Monday that it would not say more"
    texts = [f"{n} {said} {n}{n}" for n in "abcdefg"]
    depths = {quote.newer: (quote.depth, quote.is_phrase) for quote in quotes(texts, SETTINGS)}
    assert depths[1] == (1, False)
    assert depths[3] == (3, False)
    assert depths[4] == (4, True)


def test_phrases_cover_no_text_but_copies_do() -> None:
    """A sentence of a form that four texts before have, and the copy of a text that is as short."""
    rng = random.Random(46)
    said = "the ministry of foreign affairs announced on Monday that it would not say more"
    texts = [f"{prose(rng, 'az', 300)} {said} {prose(rng, 'az', 300)}" for _ in range(7)]
    texts += [*[f"{said} today {n}" for n in "abcdef"], texts[0][:500]]
    batch = Signer(SETTINGS).sign([Document(str(n), text) for n, text in enumerate(texts)]).batch
    matches = match_step(Matcher(SETTINGS), batch)
    marked = covered(
        matches, np.array([max(int(a), int(b)) for a, b in zip(matches.older, matches.newer, strict=True)])
    )
    assert marked.cover is not None
    found = Counter(name for name, is_shown in zip(marked.newer, marked.cover.tolist(), strict=True) if is_shown)
    assert [found[str(n)] for n in range(1, 7)] == [1, 2, 2, 0, 0, 0]
    assert [found[str(n)] for n in range(7, 14)] == [2, 2, 2, 2, 2, 2, 1]
