"""What tests share is listed with its purpose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parents[1] / "support"


def test_the_list_of_shared_files_names_each_of_them() -> None:
    """One line a file, with one purpose."""
    rows = re.findall(r"^\| `(\S+\.py)` \| (.+) \|$", (SUPPORT / "README.md").read_text(encoding="utf-8"), re.M)
    assert sorted(name for name, _ in rows) == sorted(str(path.relative_to(SUPPORT)) for path in SUPPORT.rglob("*.py"))
    assert len({purpose for _, purpose in rows}) == len(rows)


@pytest.mark.parametrize("name", ["reference.py", "textbook_index.py", "exact_chances.py"])
def test_a_model_shares_no_code_with_what_it_models(name: str) -> None:
    """A model that called the library would repeat its errors."""
    text = (SUPPORT / name).read_text(encoding="utf-8")
    assert re.findall(r"^(?:from|import) (?:neardup|stream|workers)\b", text, re.M) == []
