"""What tests share is listed with its purpose."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from python_files import ROOT, nodes

SUPPORT = Path(__file__).resolve().parents[1] / "support"


def test_the_list_of_shared_files_names_each_of_them() -> None:
    """One line a file, with one purpose."""
    rows = re.findall(r"^\| `(\S+\.py)` \| (.+) \|$", (SUPPORT / "README.md").read_text(encoding="utf-8"), re.M)
    assert sorted(name for name, _ in rows) == sorted(str(path.relative_to(SUPPORT)) for path in SUPPORT.rglob("*.py"))
    assert len({purpose for _, purpose in rows}) == len(rows)


@pytest.mark.parametrize("name", ["reference.py", "textbook_index.py", "exact_chances.py"])
def test_a_model_shares_no_code_with_what_it_models(name: str) -> None:
    """A model that called the library would repeat its errors."""
    text = (SUPPORT / "models" / name).read_text(encoding="utf-8")
    assert re.findall(r"^(?:from|import) (?:neardup|stream|workers)\b", text, re.M) == []


def test_the_files_that_run_first_are_there() -> None:
    """Each name of the list leads to a file of tests."""
    given = [
        ast.literal_eval(node.value)
        for node in nodes(ROOT / "tests" / "conftest.py")
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LONGEST"
    ]
    assert len(given) == 1
    assert [name for name in given[0] if not (ROOT / "tests" / name).is_file()] == []
