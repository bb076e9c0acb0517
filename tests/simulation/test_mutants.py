"""The list of mutants follows the code: the code has the text that a mutant removes, and its tests exist."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = runpy.run_path(str(ROOT / "tests" / "mutants.py"))["MUTANTS"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_removes_text_that_occurs_once(mutant: Any) -> None:
    """When the code changes, update the row in ``tests/mutants.py``; run the script itself by hand."""
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert all((ROOT / test.split("::")[0]).is_file() for test in mutant.tests)
