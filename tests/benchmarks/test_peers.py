"""The benchmarks of a whole run and by length of text: their texts, and a row for each contender."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import contenders, lengths, scripts
from benchmarks.speed import whole_run
from benchmarks.texts import char_shingles, documents, shingle_sets, similar_pairs
from real_sets import needs_data

from neardup import Document


@pytest.mark.processes
def test_a_whole_run_is_timed_next_to_peers_that_get_shingles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for the command, and one for each peer, measured or reported as absent."""
    monkeypatch.setattr(whole_run, "_LANGUAGES", {"Arabic": whole_run._LANGUAGES["Arabic"]})
    ours, *others = whole_run.run("smoke")
    assert ours.details["pairs"] > 0
    assert [result.name.partition(": ")[2].partition(",")[0] for result in others] == [
        "rensa", "datasketch", "FastSketchLSH",
    ]  # fmt: skip
    assert all(result.value is None or result.details["candidates"] > 0 for result in others)


@pytest.mark.parametrize("is_present", [pytest.param(True, marks=needs_data), False])
def test_texts_of_a_whole_run_have_words_of_real_news(
    is_present: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the order of the generated texts: edited copies stay edited copies. Without the news they are those of S11."""
    if not is_present:
        monkeypatch.setattr(whole_run, "DATA", tmp_path)
    whole_run._news_words.cache_clear()
    texts = [document.text for document in whole_run.texts("Arabic", 40)]
    whole_run._news_words.cache_clear()
    assert all(4000 < len(text) <= 5000 and not text.isascii() for text in texts)
    assert (texts == [document.text for document in scripts.generated("Arabic", 40)]) != is_present
    assert len(similar_pairs(shingle_sets(texts, char_shingles), 0.7)) > 2


@pytest.mark.parametrize("row", [row for row in lengths.ROWS if "signing" not in row.title], ids=lambda row: row.title)
@pytest.mark.parametrize("size", [1, lengths.BATCH])
def test_rows_by_length_answer_otherwise_to_a_copy_than_to_a_stranger(row: lengths.Row, size: int) -> None:
    """Every installed row, in both ways of calling: a pair, or a flag."""
    if contenders.CONTENDERS[row.package].version is None:
        pytest.skip(f"{row.package} is not installed")
    *strangers, last = documents("5kb", 5, seed=11, edited_fraction=0.0)

    def answers(text: str) -> list[str]:
        stream, add = [*strangers, Document("last", text)], row.start()
        hashes = [contenders.packed(document.text) for document in stream]
        parts = range(0, len(stream), size)
        return [repr(add(stream[first : first + size], hashes[first : first + size])) for first in parts]

    of_copy, of_stranger = answers(strangers[1].text), answers(last.text)
    assert of_copy[:-1] == of_stranger[:-1]
    assert of_copy[-1] != of_stranger[-1]


def test_costs_by_length_have_a_row_for_each_way_of_calling() -> None:
    """For what is installed, one document a call and in batches, at every length."""
    results = [result for result in lengths.run("smoke") if result.name.startswith("neardup")]
    assert len(results) == 3 * 2 * len(lengths.LENGTHS)
    assert all(result.value is not None and result.value > 0 for result in results)
