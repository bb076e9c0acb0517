"""The command ``dedup``. It imports its implementation only when it runs."""

from __future__ import annotations

import typer

from neardup.workers.cli.options import Given, command_of
from neardup.workers.options.documents import DedupOptions


@command_of(DedupOptions)
def dedup_command(options: DedupOptions, given: Given) -> None:
    """Write the documents to keep, byte for byte as they came, and drop the near-duplicates of documents that are kept.

    Of files that are one document each, the paths are written. A dropped document was compared with one that is kept.
    """
    from neardup.workers.commands.dedup.command import run
    from neardup.workers.settings.load import load

    raise typer.Exit(run(options, load(given, options.config)))
