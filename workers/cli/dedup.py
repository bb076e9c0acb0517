"""The command ``dedup``. It imports its implementation only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from neardup.workers.cli.arguments import (
    Follow,
    KeepFile,
    Paths,
    Quiet,
    RejectsFile,
    Salvage,
    SettingsFile,
    SummaryFile,
    WindowFile,
    or_stdin,
)
from neardup.workers.cli.options import given


def dedup_command(
    ctx: typer.Context,
    paths: Paths = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="write the kept documents to a file"),
    ] = None,
    removed: Annotated[
        str | None, typer.Option("--removed", metavar="FILE", help="write the dropped lines, each with its verdict")
    ] = None,
    verdicts: Annotated[
        str | None,
        typer.Option("--verdicts", metavar="FILE", help="write a verdict for each document, as JSON Lines"),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option("--clusters", metavar="FILE", help="write the clusters of two documents or more, as JSON Lines"),
    ] = None,
    warc_out: Annotated[
        str | None,
        typer.Option(
            "--warc-out",
            metavar="FILE",
            help="write the records of WARC input as an archive: identical "
            "payloads as revisits, near-duplicates with their verdicts",
        ),
    ] = None,
    warc_drop: Annotated[bool, typer.Option("--warc-drop", help="leave near-duplicates out of the archive")] = False,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="write the dropped lines too, and with each line its verdict")
    ] = False,
    follow: Follow = False,
    window_from: WindowFile = None,
    salvage: Salvage = False,
    keep: KeepFile = None,
    rejects: RejectsFile = None,
    summary_json: SummaryFile = None,
    quiet: Quiet = False,
    config: SettingsFile = None,
) -> None:
    """Write the documents to keep, byte for byte as they came, and drop the near-duplicates of documents that are kept.

    Of files that are one document each, the paths are written. A dropped document was compared with one that is kept.
    """
    from neardup.workers.commands.dedup.command import DedupOptions, run
    from neardup.workers.settings.load import load

    options = DedupOptions(
        or_stdin(paths), quiet, rejects, summary_json, removed, verdicts, clusters, annotate, follow, output,
        window_from, salvage, keep, warc_out, warc_drop,
    )  # fmt: skip
    raise typer.Exit(run(options, load(given(ctx), config)))
