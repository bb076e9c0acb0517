"""The arguments and options that several commands share."""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass, field
from typing import Any

import typer

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings import option_name


def option(default: Any, help: str, *, name: str | None = None, short: str | None = None, **rules: Any) -> Any:
    """Declare an option, ``...`` as its default if it must be given. It is called as its field, unless it has a
    ``name``; ``rules`` are those of ``typer.Option``."""

    def made(field_name: str) -> Any:
        names = (name or option_name(field_name), *([short] if short else []))
        return typer.Option(*names, help=help, **rules)

    return field(default=MISSING if default is ... else default, metadata={"made": made})


def argument(metavar: str, help: str, *, default: Any = ..., **rules: Any) -> Any:
    """Declare an argument that stands by its place, with a ``default`` or a function that makes it."""
    made = typer.Argument(metavar=metavar, help=help, show_default=False, **rules)
    stated = {} if default is ... else {"default_factory": default} if callable(default) else {"default": default}
    return field(**stated, kw_only=False, metadata={"made": lambda _: made})


def _or_stdin(ctx: typer.Context, paths: list[str] | None) -> list[str]:
    """Return the given paths, or standard input. Raises ``Failure`` if standard input is a terminal or closed."""
    if paths or ctx.resilient_parsing:
        return paths or []
    if sys.stdin is None or sys.stdin.isatty():
        raise Failure(
            Exit.USAGE,
            "no PATH is given and standard input is a terminal or closed: name files or folders, or pipe JSON in",
        )
    return ["-"]


# What a path may be. The content decides the format, whatever the name is.
PATH_KINDS = (
    "JSON Lines, JSON arrays, tables (.csv, .tsv, .parquet, .arrow), mail (.eml, .mbox), archives (.warc), pages "
    "(.html), notebooks (.ipynb), other files and folders (each file a document), packed with gzip or Zstandard or "
    "not, or - for standard input"
)
PATHS: Any = argument(
    "[PATH]...", f"{PATH_KINDS}, which is also read when nothing is named", default=list, callback=_or_stdin
)
SETTINGS_FILE: Any = option(
    None, "TOML file of settings; neardup.toml in the working folder by default", metavar="FILE"
)
KEEP_FILE: Any = option(None, "write the window at the end to a file, for --window-from", metavar="FILE")
WINDOW_FILE: Any = option(None, "begin with the window that --keep wrote, as if read", metavar="FILE")
SALVAGE: Any = option(False, "of a damaged window of --window-from, take the sound blocks")
FOLLOW: Any = option(False, "go on with the last file as it grows, until interrupted", short="-f")
CANDIDATES: Any = option(False, "write candidates below the cut as well")
TOP: Any = option(
    None,
    "write the K most similar documents of each instead of pairs, best first; of run among those before it",
    metavar="K",
    min=1,
)
QUIET: Any = option(False, "no reports, no progress bar, no summary", short="-q")
TRUTH: Any = option(
    False,
    "measure at the end what was missed, as audit does: reads the documents twice more, in about the time of "
    "the run; needs the FILE of its result",
)
REJECTS_FILE: Any = option(None, "write every refused line whole to a file, refused files by name", metavar="FILE")
# The options that name a file which a command writes in addition to its summary.
_OUTPUTS = ("rejects", "keep", "sources", "output", "removed", "verdicts", "clusters", "warc_out")


@dataclass(kw_only=True, repr=False, eq=False)
class CommandOptions:
    """The option of every command with settings."""

    config: str | None = SETTINGS_FILE


@dataclass(kw_only=True, repr=False, eq=False)
class SessionOptions(CommandOptions):
    """The arguments of every command that reads documents, in addition to its settings."""

    paths: list[str] = PATHS
    rejects: str | None = REJECTS_FILE
    summary_json: str | None = option(None, "write the summary to a file, as JSON", metavar="FILE")
    quiet: bool = QUIET

    @property
    def outputs(self) -> dict[str, str | None]:
        """The files that the command writes in addition to its summary, by field."""
        return {name: getattr(self, name) for name in _OUTPUTS if hasattr(self, name)}


@dataclass(kw_only=True, repr=False, eq=False)
class PrintOptions:
    """What ``settings`` takes."""

    words: list[str] | None = argument(
        "[WORD]...", "only settings whose name or sentence has one of these", default=None
    )
    config: str | None = SETTINGS_FILE
