"""What scheme ``passages`` promises, at smoke size."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as runner
from benchmarks import real


@pytest.mark.parametrize(
    "id_", ["S20-passages", "S20-passages-pages", "S20-passages-code", "S20-templates-code", "S20-templates-pages"]
)
def test_passages_keep_their_promise(id_: str) -> None:
    """On random texts of five scripts, and on real pages and programs if they are there."""
    results = list(runner.SCENARIOS[id_]("smoke"))
    assert {result.verdict for result in results if result.target is not None} <= {"reached"}
    assert any(result.verdict for result in results) == (real.DATA.exists() or id_ == "S20-passages")
