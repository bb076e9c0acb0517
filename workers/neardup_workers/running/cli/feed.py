"""The command ``feed``. It imports its implementation only when it runs."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from neardup_workers.outside.options.running import FeedCommandOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.running.cli.kafka import broker_failures
from neardup_workers.running.cli.options import Given, command_of


@command_of(FeedCommandOptions)
def feed_command(options: FeedCommandOptions, given: Given) -> None:
    """Write the items of feeds as documents, a line of JSON each: id, timestamp, text, title, url and feed.

    The text is the content of the item, or else its summary. Requests go to public addresses only, unless
    --allow-private.
    """
    needed = {"feeds": ("feedparser", "urllib3"), **({"web": ("trafilatura", "resiliparse")} if options.pages else {})}
    for extra, names in needed.items():
        missing = [name for name in names if find_spec(name) is None]
        if missing:
            from neardup.errors import install_command

            raise Failure(
                Exit.USAGE, f"feed needs {' and '.join(missing)}, not installed here: {install_command(extra)}"
            )
    from neardup_workers.outside.settings.feed import FeedSettings
    from neardup_workers.outside.settings.load import load
    from neardup_workers.running.commands.feed.command import run

    with broker_failures():
        raise typer.Exit(run(options, load(given, options.config, FeedSettings)))
