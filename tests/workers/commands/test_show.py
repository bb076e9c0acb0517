"""``neardup show`` prints the texts of pairs side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rapidfuzz.distance import Indel, Opcodes
from rich.console import Console

from neardup.deduplicator import Deduplicator
from neardup.documents.document import Document, Explanation
from neardup_workers.outside.display.side_by_side import PairLine, nearest, side_by_side
from neardup_workers.outside.options.judging import ShowOptions
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.files import Settings
from neardup_workers.running.commands.show import run

TEXTS = {"a": "a red house by the sea", "b": "a blue house by the sea", "c": "a blue house by the lake"}


def lines(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], pairs: list[dict[str, object]], number: int = 20) -> str:
    documents = lines(tmp_path / "documents.jsonl", [{"id": id_, "text": text} for id_, text in TEXTS.items()])
    options = ShowOptions(lines(tmp_path / "pairs.jsonl", pairs), [documents], number=number)
    run(options, Settings(threshold=0.7))
    return capsys.readouterr().out


def explain(settings: Settings, older: str, newer: str) -> Explanation:
    return Deduplicator(settings).explain(Document("older", older), Document("newer", newer))


def pair(older: str, newer: str, similarity: float) -> dict[str, object]:
    return {"older": older, "newer": newer, "similarity": similarity, "buckets": 1}


def test_both_texts_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under their ids, with the similarity; a pair without its texts and a line that is none are counted."""
    out = shown(tmp_path, capsys, [pair("a", "b", 0.8123), pair("a", "gone", 0.9), {"older": 1}])
    (line,) = [line for line in out.splitlines() if "sea" in line]
    assert line.index(TEXTS["a"]) < line.index(TEXTS["b"])
    for words in ("similarity 0.8123", "1 pairs of documents that no PATH holds", "1 lines of pairs without older"):
        assert words in out


def test_the_pairs_around_the_threshold_are_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On both sides of it, in order of similarity."""
    pairs = [PairLine("a", str(n), n / 10) for n in range(10)]
    assert [one.similarity for one in nearest(iter(pairs), 0.52, 3)] == [0.4, 0.5, 0.6]
    out = shown(tmp_path, capsys, [pair("a", "b", 0.99), pair("b", "c", 0.71)], number=1)
    assert "0.7100" in out
    assert "0.9900" not in out


def test_new_words_are_marked_with_novelty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the newer text, also where it repeats the older one elsewhere; the title has the two numbers of the rule."""
    older, newer = "seven dead in the port of Ancona", "eight dead in the port of Volterra, Ancona"
    settings = Settings(threshold=0.45, verify="exact", novelty="words")
    explained = explain(settings, older, newer)
    added = explained.novelty
    assert added is not None
    assert [word.text for word in added.new] == ["eight", "Volterra"]
    console = Console(width=200, force_terminal=True, color_system="standard", no_color=False)
    with console.capture() as capture:
        console.print(side_by_side(PairLine("a", "b", 0.5), older, newer, explained))
    marked = re.findall(r"\x1b\[([0-9;]*)m([^\x1b]*)", capture.get())
    assert [text for style, text in marked if "7" in style.split(";")] == ["eight", "Volterra"]
    assert f"similarity 0.5000, said {added.said:.4f}, new numbers 1" in capture.get()
    assert explain(Settings(threshold=0.45), older, newer).novelty is None
    assert explain(settings, "", newer).novelty is None
    documents = lines(tmp_path / "documents.jsonl", [{"id": "a", "text": older}, {"id": "b", "text": newer}])
    run(ShowOptions(lines(tmp_path / "pairs.jsonl", [pair("a", "b", 0.5)]), [documents]), settings)
    assert "new numbers 1" in capsys.readouterr().out


def test_of_long_texts_the_quote_is_shown_and_its_changed_words() -> None:
    """With a scheme that finds parts: words that stand in both texts by chance are of one text."""
    quote = "the harbour master said that no ship of the northern line had left the bay since the storm of last winter"
    older = f"{'one two three four five six seven eight nine ten ' * 20}{quote} and nothing more was heard"
    newer = f"so it begins: {quote.replace('northern', 'southern')}, {'four two ten three nine one six five ' * 20}"
    explained = explain(Settings(scheme="parts"), older, newer)
    console = Console(width=200, force_terminal=True, color_system="standard", no_color=False)
    with console.capture() as capture:
        console.print(side_by_side(PairLine("a", "b", 0.5), older, newer, explained))
    styled = re.findall(r"\x1b\[([0-9;]*)m([^\x1b]*)", capture.get())
    common = " ".join(text.strip() for style, text in styled if style == "36")
    assert "the harbour master said" in common
    assert not {"two", "ten"} & set(common.split())
    assert {text.strip() for style, text in styled if style in {"1;31", "1;32"}} >= {"northern", "southern"}
    assert capture.get().count("[…]") == 2


@pytest.mark.parametrize("scheme", ["one_permutation", "parts"])
def test_texts_are_compared_word_by_word_once(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole texts, or the part that the scheme found, and not both."""
    calls: list[int] = []
    opcodes = Indel.opcodes

    def counted(*sides: list[str]) -> Opcodes:
        calls.append(len(sides[0]))
        return opcodes(*sides)

    monkeypatch.setattr(Indel, "opcodes", counted)
    quote = "the committee of inquiry found that several witnesses contradicted themselves under questioning"
    texts = {"a": f"before it {quote} and after", "b": f"elsewhere {quote} or so"}
    documents = lines(tmp_path / "documents.jsonl", [{"id": id_, "text": text} for id_, text in texts.items()])
    options = ShowOptions(lines(tmp_path / "pairs.jsonl", [pair("a", "b", 0.9)]), [documents])
    run(options, Settings(scheme=scheme))
    assert len(calls) == 1
    assert "committee" in capsys.readouterr().out


def test_what_both_have_has_another_colour_than_what_one_has() -> None:
    """And a passage that is too long loses its middle on both sides."""
    console = Console(width=200, force_terminal=True, color_system="standard", no_color=False)
    with console.capture() as capture:
        console.print(side_by_side(PairLine("a", "b", 0.5), f"red {'x ' * 400}", f"blue {'x ' * 400}"))
    out = capture.get()
    assert "\x1b[1;31mred" in out
    assert "\x1b[1;32mblue" in out
    assert out.count("\x1b[36m") >= 2
    assert out.count("[…]") == 2


def test_what_is_no_pair_of_texts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pairs of vectors, and a file without a pair."""
    with pytest.raises(Failure, match="holds no pair: give the output of neardup run") as ended:
        shown(tmp_path, capsys, [])
    assert ended.value.code == 12
    with pytest.raises(Failure, match="show compares texts, but documents of hyperplane bring none"):
        run(ShowOptions("p", ["d"]), Settings(scheme="hyperplane:dimension=3"))


def test_pairs_of_other_documents_end_with_code_12_and_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No text of any pair is there, so nothing could be shown."""
    with pytest.raises(Failure, match=r"no PATH holds a document of the pairs .* such as 'x1': give the") as ended:
        shown(tmp_path, capsys, [pair("x1", "x2", 0.9)])
    assert ended.value.code == 12


def test_signs_that_a_terminal_obeys_are_escaped() -> None:
    """In ids and texts."""
    console = Console(width=80)
    with console.capture() as capture:
        console.print(side_by_side(PairLine("a\x1b[2J", "b", 0.5), "one \x1b[31m two", "one two"))
    assert "\x1b[2J" not in capture.get()
    assert "\x1b[31m two" not in capture.get()
