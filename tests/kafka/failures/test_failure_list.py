"""The list of failures in the documentation names existing tests, and says correctly where they run."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
ROW = re.compile(r"^\| (.*?) \| (.*?) ?\| (.*?) ?\|$")
FAILURES_MIN = 30


class Row(NamedTuple):
    """A failure, its tests in one place, and the place."""

    failure: str
    tests: list[str]
    where: str


def table() -> list[tuple[str, ...]]:
    """The cells of the table, without its two first lines."""
    lines = (ROOT / "docs" / "FAILURES.md").read_text(encoding="utf-8").splitlines()
    return [match.groups() for line in lines if (match := ROW.match(line))][1:]


def rows() -> list[Row]:
    """The failures with their tests in each place."""
    return [
        Row(failure, re.findall(r"`(\w+)`", tests), where)
        for failure, *cells in table()
        for where, tests in zip(("broker", "twin"), cells, strict=True)
        if tests
    ]


def places() -> dict[str, set[str]]:
    """Every test and every law by name, and where each of them runs."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith(("test_", "law_")):
                is_law = node.name.startswith("law_")
                where = {"broker", "twin"} if is_law else {"broker" if TESTS / "kafka" in path.parents else "twin"}
                found.setdefault(node.name, set()).update(where)
    return found


def test_every_test_that_is_named_exists_where_it_is_said_to_run() -> None:
    """Tests of this folder run on a real broker, other tests without one, laws on both."""
    there = places()
    wrong = [(test, row.where) for row in rows() for test in row.tests if row.where not in there.get(test, set())]
    assert wrong == []


def test_every_failure_has_a_test_and_is_listed_once() -> None:
    """No row is empty, no test occurs twice, and the parser reads every line of the table."""
    failures = [failure for failure, *_ in table()]
    assert len(failures) >= FAILURES_MIN
    assert sorted(failures) == sorted({row.failure for row in rows()})
    assert all(row.tests for row in rows())
    named = [test for row in rows() for test in row.tests]
    assert sorted(named) == sorted(set(named))
    lines = (ROOT / "docs" / "FAILURES.md").read_text(encoding="utf-8").splitlines()
    assert len(failures) == sum(line.startswith("|") for line in lines) - 2
