"""Reports of scenarios: rows of ``Result``, printed as a table and as JSON lines.

A scenario has a permanent id. A result has a name within its scenario, a value with its unit, and a target if the
project promises one. ``details`` hold all other measurements, including the checksum of the answers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.console import Console
from rich.table import Table

Size = Literal["smoke", "default", "large"]
SIZES: tuple[Size, ...] = ("smoke", "default", "large")

# sense -> (comparison of value and bound, how it is printed)
_SENSES: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "at least": (operator.ge, ">="),
    "at most": (operator.le, "<="),
    "equal to": (operator.eq, "="),
}


class Target(NamedTuple):
    """A bound that a value must keep; ``allowance`` is the possible deviation by chance (binomial bounds)."""

    sense: Literal["at least", "at most", "equal to"]
    bound: float
    allowance: float = 0.0

    def reached(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        slack = -self.allowance if self.sense == "at least" else self.allowance
        return _SENSES[self.sense][0](value, self.bound + slack)

    def __str__(self) -> str:
        allowed = f" (chance {self.allowance:.2g})" if self.allowance else ""
        return f"{_SENSES[self.sense][1]} {_number(self.bound)}{allowed}"


class Result(NamedTuple):
    """One row: ``value`` is ``None`` if the measurement was impossible, and ``details["note"]`` says why."""

    scenario: str
    name: str
    value: float | None
    unit: str
    target: Target | None = None
    details: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @property
    def verdict(self) -> str:
        """``reached``, ``missed``, ``absent`` (nothing measured) or nothing (no target)."""
        if self.value is None:
            return "absent"
        if self.target is None:
            return ""
        return "reached" if self.target.reached(self.value) else "missed"

    def to_json(self) -> str:
        """The row as one line of JSON."""
        row: dict[str, Any] = {**self._asdict(), "verdict": self.verdict}
        if self.target is not None:
            row["target"] = self.target._asdict()
        return json.dumps(row, ensure_ascii=False)


def checksum(answers: Iterable[object]) -> str:
    """16 hexadecimal digits that are equal for equal answers in any order."""
    lines = sorted(repr(answer) for answer in answers)
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def print_table(title: str, results: Iterable[Result], console: Console) -> None:
    """Print the results of one scenario as a table."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("target", justify="right")
    table.add_column("verdict")
    table.add_column("details", overflow="fold")
    styles = {"reached": "green", "missed": "red", "absent": "yellow", "": ""}
    for result in results:
        value = "-" if result.value is None else f"{_number(result.value)} {result.unit}"
        verdict = f"[{styles[result.verdict]}]{result.verdict}[/]" if result.verdict else ""
        notes = "; ".join(f"{key} {_number(what)}" for key, what in result.details.items())
        table.add_row(result.name, value, str(result.target or ""), verdict, notes)
    console.print(table)


def _number(value: object) -> str:
    """A number for people: three significant digits, or all digits before the point."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def write_table(
    parser: argparse.ArgumentParser, results: Iterable[Result], written: Callable[[str, Sequence[Result]], str],
    lacking: str,
) -> int:  # fmt: skip
    """Write what ``written`` makes of a document and of results, which are computed after the arguments are read, into
    the document; where a set of data is absent, say what is ``lacking``, and change nothing."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the document that gets the table")
    path: Path = parser.parse_args().file
    found = list(results)
    if any(result.value is None for result in found):
        sys.stderr.write(f"{lacking}\n")
        return 0
    path.write_text(written(path.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0
