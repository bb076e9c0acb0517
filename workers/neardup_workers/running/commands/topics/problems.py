"""What is wrong with a deployment, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from neardup_workers.outside.process.exits import Exit


class Problem(NamedTuple):
    """What is wrong and what to do, and the exit code of a probe; code 0 is a remark."""

    what: str
    do: str
    code: Exit = Exit.SUCCESS


def problem_tables(problems: Sequence[Problem]) -> list[Table]:
    """Return a table of the problems, the worst first; none if there are none."""
    if not problems:
        return []
    table = Table(title_justify="left")
    for column in ("", "what", "what to do"):
        table.add_column(column, overflow="fold")
    for one in sorted(problems, key=lambda one: not one.code):
        table.add_row("WRONG" if one.code else "note", one.what, one.do)
    return [table]
