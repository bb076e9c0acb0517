"""The command ``feed``. It imports its implementation only when it runs."""

from __future__ import annotations

import typer

from neardup_workers.outside.options.running import FeedCommandOptions
from neardup_workers.running.cli.kafka import broker_failures
from neardup_workers.running.cli.options import Given, check_installed, command_of


@command_of(FeedCommandOptions)
def feed_command(options: FeedCommandOptions, given: Given) -> None:
    """Write the items of feeds as documents, a line of JSON each: id, timestamp, text, title, url and feed.

    The text is the content of the item, or else its summary. Requests go to public addresses only, unless
    --allow-private.
    """
    check_installed("feed", "feeds", "feedparser", "urllib3")
    if options.pages:
        check_installed("feed", "web", "trafilatura", "resiliparse")
    from neardup_workers.outside.settings.feed import FeedSettings
    from neardup_workers.outside.settings.load import load
    from neardup_workers.running.commands.feed.command import run

    settings = load(given, options.config, FeedSettings)
    if settings.websub:
        check_installed("feed", "serve", "starlette", "uvicorn", "httptools")
    with broker_failures():
        raise typer.Exit(run(options, settings))
