"""The benchmark of a whole run: its texts, and a row for each contender."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import scripts
from benchmarks.speed import whole_run
from benchmarks.texts import char_shingles, shingle_sets, similar_pairs
from real_sets import needs_data


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
