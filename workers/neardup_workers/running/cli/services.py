"""The commands ``serve``, ``feed`` and ``mcp``. A command imports its implementation only when it runs."""

from __future__ import annotations

from pathlib import Path

from neardup_workers.outside.options.running import AgentOptions, FeedCommandOptions, ServeCommandOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.running.cli.kafka import broker_failures
from neardup_workers.running.cli.options import FeedCommand, Given, HelpCommand, ServeCommand, check_installed
from neardup_workers.running.cli.sections import command


@command("serve", ServeCommand, ServeCommandOptions)
def serve_command(options: ServeCommandOptions, given: Given) -> int:
    """Answer over HTTP whether a document is new or a near-duplicate, with a window that survives restarts.

    POST /v1/check takes a document as JSON; GET /openapi.json describes all requests.
    """
    check_installed("serve", "serve", "starlette", "uvicorn", "httptools")
    from neardup_workers.outside.settings.load import load
    from neardup_workers.outside.settings.serve import ServeSettings, ViewSettings

    if options.from_kafka and options.salvage:
        raise Failure(Exit.USAGE, "--salvage is for a window: delete a damaged view, the topics fill it again")
    if options.from_kafka and "blocked" in given:
        raise Failure(Exit.USAGE, "--blocked is for a window: give it to the signers of the deployment")
    if options.from_kafka and "webhook" in given:
        raise Failure(Exit.USAGE, "--webhook is for a window: of a deployment, read the topic of verdicts")
    if options.from_kafka:
        from neardup_workers.doing.http.view.server import serve_view
        from neardup_workers.outside.transport.kafka.connect import connect

        view = load(given, options.config, ViewSettings)
        return serve_view(view, options.state, connect(view))
    if options.state is None:
        raise Failure(
            Exit.USAGE, "no --state is given: name the folder of the window, or show a deployment --from-kafka"
        )
    others = sorted(given.keys() - ServeSettings.model_fields.keys())
    if others:
        raise Failure(Exit.USAGE, f"{', '.join(others)} belong to a deployment: leave them out, or add --from-kafka")
    if options.action == "backup":
        from neardup_workers.outside.store.disk.backup import back_up

        if options.to is None or options.salvage:
            raise Failure(Exit.USAGE, "serve backup: give serve backup --state FOLDER --to COPY")
        return back_up(Path(options.state), Path(options.to))
    settings = load(given, options.config, ServeSettings)
    if options.action == "follow":
        from neardup_workers.doing.http.view.reading import serve_reading

        if options.to is not None or options.salvage or settings.webhook is not None:
            raise Failure(Exit.USAGE, "serve follow reads a window: leave out --to, --salvage and --webhook")
        return serve_reading(settings, options.state)
    if options.action is not None:
        from neardup_workers.outside.process.compiling import Compiling, say
        from neardup_workers.outside.store.migrating import migrate

        if options.action != "migrate" or options.to is None or options.salvage:
            raise Failure(
                Exit.USAGE,
                f"serve {options.action}: use serve migrate, backup (--state OLD --to NEW), follow, or no word",
            )
        with Compiling(say):
            return migrate(settings, Path(options.state), Path(options.to))
    if options.to is not None:
        raise Failure(Exit.USAGE, "--to is for serve migrate and serve backup: leave it out")
    from neardup_workers.doing.http.server import serve

    return serve(settings, options.state, salvage=options.salvage)


@command("feed", FeedCommand, FeedCommandOptions)
def feed_command(options: FeedCommandOptions, given: Given) -> int:
    """Write the items of feeds as documents, a line of JSON each: id, timestamp, text, title, url and feed.

    The text is the content of the item, or else its summary. Requests go to public addresses only, unless
    --allow-private.
    """
    check_installed("feed", "feeds", "feedparser", "urllib3")
    if options.pages:
        check_installed("feed", "web", "trafilatura", "resiliparse")
    from neardup_workers.outside.settings.kafka import FeedSettings
    from neardup_workers.outside.settings.load import load
    from neardup_workers.running.commands.feed.command import run

    settings = load(given, options.config, FeedSettings)
    if settings.websub:
        check_installed("feed", "serve", "starlette", "uvicorn", "httptools")
    with broker_failures():
        return run(options, settings)


@command("mcp", HelpCommand, AgentOptions)
def mcp_command(options: AgentOptions, given: Given) -> None:
    """Give an agent a running service as tools, over standard input and output: check, near, why, stories, passages.

    They read only, unless --allow-add.
    """
    check_installed("mcp", "mcp", "mcp")
    from neardup_workers.running.commands.agents import run

    run(options)
