"""The arguments and options that several commands share."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Annotated

import typer

from neardup_workers.outside.process.exits import Exit, Failure


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
Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="[PATH]...",
        help=f"{PATH_KINDS}, which is also read when nothing is named",
        show_default=False,
        callback=_or_stdin,
    ),
]
SettingsFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="TOML file of settings; neardup.toml in the working folder by default"
    ),
]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="[WORD]...", help="only settings whose name or sentence has one of these")
]
KeepFile = Annotated[
    str | None,
    typer.Option("--keep", metavar="FILE", help="write the window at the end to a file, for --window-from"),
]
WindowFile = Annotated[
    str | None,
    typer.Option("--window-from", metavar="FILE", help="begin with the window that --keep wrote, as if read"),
]
Salvage = Annotated[bool, typer.Option("--salvage", help="of a damaged window of --window-from, take the sound blocks")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="go on with the last file as it grows, until interrupted")]
Candidates = Annotated[bool, typer.Option("--candidates", help="write candidates below the cut as well")]
Top = Annotated[
    int | None,
    typer.Option(
        "--top",
        metavar="K",
        min=1,
        help="write the K most similar documents of each instead of pairs, best first; of run among those before it",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no reports, no progress bar, no summary")]
Truth = Annotated[
    bool,
    typer.Option(
        "--truth",
        help="measure at the end what was missed, as audit does: reads the documents twice more, in about the time of "
        "the run; needs the FILE of its result",
    ),
]
RejectsFile = Annotated[
    str | None,
    typer.Option("--rejects", metavar="FILE", help="write every refused line whole to a file, refused files by name"),
]
SummaryFile = Annotated[
    str | None, typer.Option("--summary-json", metavar="FILE", help="write the summary to a file, as JSON")
]


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """The option of every command with settings."""

    config: SettingsFile = None


@dataclass(frozen=True, kw_only=True)
class SessionOptions(CommandOptions):
    """The arguments of every command that reads documents, in addition to its settings."""

    paths: Paths = field(default_factory=list, kw_only=False)
    rejects: RejectsFile = None
    summary_json: SummaryFile = None
    quiet: Quiet = False

    @property
    def outputs(self) -> dict[str, str | None]:
        """The files that the command writes in addition to its summary, by field."""
        return {"rejects": self.rejects}


@dataclass(kw_only=True)
class PrintOptions:
    """What ``settings`` takes."""

    words: Words = None
    config: SettingsFile = None
