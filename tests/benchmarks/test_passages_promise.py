"""What scheme ``passages`` promises, at smoke size."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import __main__ as runner
from benchmarks.pages import quotes
from benchmarks.recall import passages, templates
from real_sets import needs_data

REAL = [passages.PAGES, passages.CODE, templates.CODE, templates.PAGES]


@pytest.mark.parametrize(
    "id_",
    [
        passages.ID,
        quotes.LAW,
        pytest.param(quotes.PLANTED, marks=needs_data),
        pytest.param(quotes.BLOGS, marks=needs_data),
        *(pytest.param(id_, marks=needs_data) for id_ in REAL),
    ],
)
def test_passages_keep_their_promise(id_: str) -> None:
    """On random texts of five scripts, and on real pages and programs."""
    results = list(runner.SCENARIOS[id_]("smoke"))
    assert {result.verdict for result in results if result.target is not None} == {"reached"}


@pytest.mark.parametrize("id_", REAL)
def test_a_promise_on_absent_data_is_reported_as_absent(
    id_: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the folder of real data a scenario is one row that says so."""
    monkeypatch.setattr(passages, "DATA", tmp_path)
    monkeypatch.setattr(templates, "DATA", tmp_path)
    assert [result.verdict for result in runner.SCENARIOS[id_]("smoke")] == ["absent"]
