"""The options of the commands that read documents: ``run``, ``probe``, ``dedup``, ``batch``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from neardup_workers.outside.options.shared import (
    Candidates,
    Follow,
    KeepFile,
    Salvage,
    SessionOptions,
    Top,
    Truth,
    WindowFile,
)


@dataclass(frozen=True, kw_only=True)
class RunOptions(SessionOptions):
    """The arguments of ``run``."""

    candidates: Candidates = False
    top: Top = None
    follow: Follow = False
    window_from: WindowFile = None
    salvage: Salvage = False
    keep: KeepFile = None
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="write the pairs to a file instead of standard output"),
    ] = None
    overview: Annotated[
        bool,
        typer.Option("--overview", help="end with the documents of the most pairs and a histogram of similarities"),
    ] = False
    truth: Truth = False
    across: Annotated[
        bool,
        typer.Option(
            "--across", help="write pairs of documents of different collections only (part collection of --fields)"
        ),
    ] = False

    @property
    def outputs(self) -> dict[str, str | None]:
        """The files that the command writes in addition to its summary, by field."""
        return {**super().outputs, "output": self.output, "keep": self.keep}


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(SessionOptions):
    """The arguments of ``probe``."""

    index: Annotated[
        list[str], typer.Option("--index", metavar="PATH", help="documents to compare with; may stand several times")
    ]
    candidates: Candidates = False
    top: Top = None


SourcesFile = Annotated[
    str | None,
    typer.Option(
        "--sources", metavar="FILE", help="write what each source published, as JSON Lines, or as a table (.csv)"
    ),
]


AllowLoss = Annotated[
    bool,
    typer.Option(
        "--allow-loss", help="write the kept documents also if nearly all of a source, or of all, repeat one another"
    ),
]


@dataclass(frozen=True, kw_only=True)
class DedupOptions(SessionOptions):
    """The arguments of ``dedup``."""

    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against", metavar="PATH", help="drop what repeats these documents too, which are not written; repeat it"
        ),
    ] = None
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="write the kept documents to a file"),
    ] = None
    removed: Annotated[
        str | None, typer.Option("--removed", metavar="FILE", help="write the dropped lines, each with its verdict")
    ] = None
    verdicts: Annotated[
        str | None,
        typer.Option("--verdicts", metavar="FILE", help="write a verdict for each document, as JSON Lines"),
    ] = None
    clusters: Annotated[
        str | None,
        typer.Option("--clusters", metavar="FILE", help="write the clusters of two documents or more, as JSON Lines"),
    ] = None
    warc_out: Annotated[
        str | None,
        typer.Option(
            "--warc-out",
            metavar="FILE",
            help="write the records of WARC input as an archive: identical "
            "payloads as revisits, near-duplicates with their verdicts",
        ),
    ] = None
    warc_drop: Annotated[bool, typer.Option("--warc-drop", help="leave near-duplicates out of the archive")] = False
    annotate: Annotated[
        bool, typer.Option("--annotate", help="write the dropped lines too, and with each line its verdict")
    ] = False
    allow_loss: AllowLoss = False
    sources: SourcesFile = None
    truth: Truth = False
    follow: Follow = False
    window_from: WindowFile = None
    salvage: Salvage = False
    keep: KeepFile = None

    @property
    def outputs(self) -> dict[str, str | None]:
        """The files that the command writes in addition to its summary, by field."""
        named = ("output", "removed", "verdicts", "clusters", "sources", "keep", "warc_out")
        return {**super().outputs, **{name: getattr(self, name) for name in named}}

    @property
    def loses(self) -> str | None:
        """The option of the output that lacks what is dropped, ``None`` if none does; ``--output`` may be standard
        output."""
        if self.warc_out is not None and (self.warc_drop or self.output is None):
            return "--warc-out" if self.warc_drop else None
        return None if self.annotate or self.follow else "--output"


@dataclass(frozen=True, kw_only=True)
class BatchOptions(SessionOptions):
    """The arguments of ``batch``."""

    engine: Annotated[
        Literal["local", "spark"],
        typer.Option("--engine", help="where the pairs are found: on this machine, or on a cluster of Spark"),
    ] = "local"
    candidates: Candidates = False
    top: Top = None
    keep: KeepFile = None
    memory_max: Annotated[
        str, typer.Option("--memory-max", metavar="SIZE", help="memory of the table, as 512MB; the rest is on disk")
    ] = "1GB"
    temporary: Annotated[
        str | None,
        typer.Option("--temporary", metavar="FOLDER", help="where the corpus is kept meanwhile, emptied at the end"),
    ] = None
    sources: SourcesFile = None
    verdicts: Annotated[
        str | None,
        typer.Option("--verdicts", metavar="FILE", help="write a verdict for each document too, as dedup does"),
    ] = None
    prefer: Annotated[
        str | None,
        typer.Option(
            "--prefer",
            metavar="first|longest|FIELD",
            help="which documents to keep: the first (the default), the "
            "longest, or those with the greatest number in a field",
        ),
    ] = None
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="write the documents to keep, as dedup does"),
    ] = None
    annotate: Annotated[
        bool, typer.Option("--annotate", help="write the dropped lines to --output too, and with each line its verdict")
    ] = False
    allow_loss: AllowLoss = False
    truth: Truth = False

    @property
    def decides(self) -> bool:
        """Whether documents are decided."""
        return any(path is not None for path in (self.verdicts, self.output, self.sources))

    @property
    def outputs(self) -> dict[str, str | None]:
        """The files that the command writes in addition to its summary, by field."""
        return {
            **super().outputs,
            "keep": self.keep,
            "sources": self.sources,
            "verdicts": self.verdicts,
            "output": self.output,
        }
