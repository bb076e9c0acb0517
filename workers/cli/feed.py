"""The command ``feed``. It imports its implementation only when it runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from neardup.workers.cli.arguments import Quiet, RejectsFile, SettingsFile
from neardup.workers.cli.kafka import broker_failures
from neardup.workers.cli.options import given
from neardup.workers.process.exits import Exit, Failure


def feed_command(
    ctx: typer.Context,
    urls: Annotated[
        list[str], typer.Argument(metavar="URL...", help="addresses of feeds: RSS, Atom or RDF", show_default=False)
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="ask again and again, and write what is new, until interrupted")
    ] = False,
    to_kafka: Annotated[
        bool, typer.Option("--to-kafka", help="send the items to the topic of documents, not to standard output")
    ] = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="fetch the page of each item, and write its text in place of the feed's")
    ] = False,
    rejects: RejectsFile = None,
    quiet: Quiet = False,
    config: SettingsFile = None,
) -> None:
    """Write the items of feeds as documents, a line of JSON each: id, timestamp, text, title, url and feed.

    The text is the content of the item, or else its summary. Requests go to public addresses only, unless
    --allow-private.
    """
    needed = {"feeds": ("feedparser", "urllib3"), **({"web": ("trafilatura", "resiliparse")} if pages else {})}
    for extra, names in needed.items():
        missing = [name for name in names if find_spec(name) is None]
        if missing:
            from neardup.stream.errors import install_command

            raise Failure(
                Exit.USAGE, f"feed needs {' and '.join(missing)}, not installed here: {install_command(extra)}"
            )
    from neardup.workers.commands.feed.command import FeedCommandOptions, run
    from neardup.workers.settings.feed import FeedSettings
    from neardup.workers.settings.load import load

    options = FeedCommandOptions(urls, follow, to_kafka, pages, quiet, rejects)
    with broker_failures():
        raise typer.Exit(run(options, load(given(ctx), config, FeedSettings)))
