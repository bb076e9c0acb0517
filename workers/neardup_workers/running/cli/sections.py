"""The program and its commands: the list in ``neardup --help`` has what people use each day first, each with what it
does in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from neardup_workers.running.cli.options import Options, Work, command_of

# The line stands whole in a terminal of 80 columns: two blanks, the longest name, two blanks, the line.
LINE_CHARACTERS_MAX = 60
# Heading -> command -> its line.
SECTIONS: dict[str, dict[str, str]] = {
    "Commands": {
        "dedup": "keep one document of each group of near-duplicates",
        "run": "write the pairs of near-duplicates",
        "serve": "answer over HTTP whether a document is new",
        "mcp": "give an agent a running service as tools",
        "feed": "write the items of feeds as documents",
        "probe": "look documents up in an index without adding them",
        "batch": "write the pairs in a corpus at rest",
    },
    "Choose and judge": {
        "tune": "show what settings find: bands, rows and the S-curve",
        "show": "show pairs side by side, with what both have",
        "quotes": "show the quotes that texts share, two books for example",
        "audit": "measure what run or dedup missed, on a sample",
        "evaluate": "compare pairs or clusters with known ones",
        "calibrate": "find the threshold of each signal from judged pairs",
        "passages": "list the texts that documents repeat, such as menus",
        "learn-order": "learn which tokens are frequent, for scheme prefix",
    },
    "On Kafka: roles": {
        "up": "run workers on this machine, and restart them",
        "sign": "sign documents",
        "match": "keep the window, publish pairs",
        "link": "decide: one final verdict for each document",
        "filter": "forward the documents that are kept",
    },
    "On Kafka: deployment": {
        "topics": "make the topics of a deployment, or describe them",
        "load": "send the documents in files",
        "tail": "print pairs or verdicts as they are committed",
        "status": "say how a deployment is, and what to do",
        "size": "say what a deployment needs, before it exists",
        "dead": "list, show and replay documents that were refused",
    },
    "Help": {
        "settings": "print every setting, its value and its default",
        "help": "show the help of a command, of exit-codes or schemes",
    },
}


class Sections(TyperGroup):
    """The program: its commands in the sections of the table."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order of the table."""
        return [name for rows in SECTIONS.values() for name in rows if name in self.commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each heading."""
        width = max(len(name) for rows in SECTIONS.values() for name in rows)
        for heading, rows in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{width}}", line) for name, line in rows.items()])


EPILOG = (
    "Settings also come from the environment (NEARDUP_THRESHOLD=0.9) and a TOML file (threshold = 0.9); the command "
    "line goes first, then the environment, then the file.\n\nneardup help exit-codes explains the exit codes."
)
app = typer.Typer(
    name="neardup",
    help="Find near-duplicates in documents as they arrive.",
    epilog=EPILOG,
    cls=Sections,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(
    name: str, kind: type[TyperCommand], options: type[Options], group: typer.Typer = app
) -> Callable[[Work[Options]], object]:
    """Return a decorator: a function of options and settings becomes a command of the program, or of a group of it."""
    return lambda function: group.command(name, cls=kind, epilog=EPILOG)(command_of(options)(function))
