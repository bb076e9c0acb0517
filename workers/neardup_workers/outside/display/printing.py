"""What a command found, on standard output: one JSON object, or tables and a picture."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
import typer
from rich.console import Console, RenderableType
from rich.table import Column, Table

from neardup_workers.outside.display.pictures import COLUMNS, Picture, in_characters, save


def time_text(seconds: float) -> str:
    """Return a time in seconds since the epoch for reading, in UTC: ``2026-01-31T12:00:00+00:00``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def print_found(
    values: Mapping[str, Any],
    tables: Sequence[Table],
    *,
    as_json: bool,
    drawn: Picture | None = None,
    plot: str | None = None,
    columns: int = COLUMNS,
) -> None:
    """Print ``values`` as JSON, or tables, a picture and the counts of omitted input; save the picture to ``plot``.

    The counts are ``values["left_out"]``, by reason. ``columns`` is the width of a table where standard output is no
    terminal.
    """
    if plot is not None and drawn is not None:
        save(drawn, plot)
    if as_json:
        typer.echo(orjson.dumps(values, option=orjson.OPT_INDENT_2).decode())
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else columns)
    for table in tables:
        console.print(table)
    if drawn is not None:
        typer.echo(in_characters(drawn, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    for reason, count in values.get("left_out", {}).items():
        typer.echo(f"left out: {count:,} {reason}")


def table_of(
    headings: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    *,
    justify: Literal["left", "right"] = "right",
    **options: Any,
) -> Table:
    """Return rows under headings; ``options`` are those of a table of rich, such as its title."""
    table = Table(*(Column(heading, justify=justify, overflow="fold") for heading in headings), **options)
    for row in rows:
        table.add_row(*row)
    return table


def facts(title: str, rows: Sequence[tuple[str, str, str]]) -> Table:
    """Return a table of names, values and meanings."""
    table = table_of(("", "", ""), rows, justify="left", title=title, show_header=False)
    table.columns[1].justify = "right"
    return table
