"""The list of mutants follows the code: what it takes away is there, and so are the tests that must notice."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = runpy.run_path(str(ROOT / "tests" / "mutants.py"))["MUTANTS"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_takes_away_what_stands_once(mutant: Any) -> None:
    """Where the code has moved on, the row in ``tests/mutants.py`` must follow; the script itself runs by hand."""
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert all((ROOT / test.split("::")[0]).is_file() for test in mutant.tests)
