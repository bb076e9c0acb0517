"""The list of mutants follows the code: what it takes away is there, and so are the tests that must notice."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_takes_away_what_stands_once(mutant: Mutant) -> None:
    """Where the code has moved on, the row in ``tests/mutants.py`` must follow; the script itself runs by hand."""
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert all((ROOT / test.split("::")[0]).is_file() for test in mutant.tests)
