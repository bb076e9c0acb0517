"""The commands on Kafka: ``sign``, ``match``, ``link``, ``filter``, ``up``, ``topics``, ``load`` and ``tail``.

This module imports only what the help needs; a command imports the rest when it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.workers.cli.options import ConnectionCommand, TopicsCommand, WorkerCommand, given

if TYPE_CHECKING:
    from neardup.workers.settings.kafka import StreamSettings

Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="earliest|latest",
        help="where a group without committed offsets begins; nothing is assumed. A filter also takes a generation: it "
        "begins where the filters of that one stopped.",
    ),
]
SettingsFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="TOML file of settings; neardup.toml in the working folder by default"
    ),
]
Supervised = Annotated[
    bool, typer.Option("--supervised", help="stop when standard input is closed: the end of who started this")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no reports, no progress bar, no summary")]
Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Files of JSON Lines, JSON arrays, tables (.csv, .tsv), mail (.eml, mbox), files and folders (each file a "
        "document), or - for standard input. The content decides the format, also of gzip and Zstandard.",
        show_default=False,
    ),
]


def register(app: typer.Typer, epilog: str) -> None:
    """Add the commands to the command line."""
    topics = typer.Typer(
        help="Make the topics of a deployment, or say what they are.", no_args_is_help=True, rich_markup_mode=None
    )
    app.command("sign", cls=WorkerCommand, epilog=epilog)(sign_command)
    app.command("match", cls=WorkerCommand, epilog=epilog)(match_command)
    app.command("link", cls=WorkerCommand, epilog=epilog)(link_command)
    app.command("filter", cls=WorkerCommand, epilog=epilog)(filter_command)
    app.command("up", cls=WorkerCommand, epilog=epilog)(up_command)
    app.command("load", cls=ConnectionCommand, epilog=epilog)(load_command)
    app.command("tail", cls=ConnectionCommand, epilog=epilog)(tail_command)
    topics.command("create", cls=TopicsCommand, epilog=epilog)(create_command)
    topics.command("describe", cls=TopicsCommand, epilog=epilog)(describe_command)
    app.add_typer(topics, name="topics")


def sign_command(
    ctx: typer.Context, start: Start = None, supervised: Supervised = False, config: SettingsFile = None
) -> None:
    """Sign documents from Kafka: read documents, publish bands, put what cannot be read into documents.dead.

    A worker is known by its names to Kafka, the same after every restart: member of the group and transactional id are
    {topic-prefix}{group}-sign-{generation}-{instance}. Give each signer its own --instance.
    """
    _work(ctx, "sign", start, supervised, config)


def match_command(
    ctx: typer.Context, start: Start = None, supervised: Supervised = False, config: SettingsFile = None
) -> None:
    """Match documents from Kafka: read bands, keep the window in memory, publish pairs as candidates.

    A worker is known by its names to Kafka, the same after every restart: member of the group and transactional id are
    {topic-prefix}{group}-match-{generation}-{instance}. Give each matcher its own --instance.
    """
    _work(ctx, "match", start, supervised, config)


def link_command(
    ctx: typer.Context, start: Start = None, supervised: Supervised = False, config: SettingsFile = None
) -> None:
    """Decide documents from Kafka: read arrivals and links, publish one final verdict for each document, and clusters.

    All roles need --verdicts. One linker works, others stand by. A worker is known by its names to Kafka: member of the
    group and transactional id are {topic-prefix}{group}-link-{generation}-{instance}.
    """
    _work(ctx, "link", start, supervised, config)


def filter_command(
    ctx: typer.Context, start: Start = None, supervised: Supervised = False, config: SettingsFile = None
) -> None:
    """Forward the documents that are kept: read verdicts and documents, publish documents.unique, byte for byte.

    All roles need --verdicts. Give each filter its own --instance: member of the group and transactional id are
    {topic-prefix}{group}-filter-{generation}-{instance}.
    """
    _work(ctx, "filter", start, supervised, config)


def up_command(
    ctx: typer.Context,
    signers: Annotated[int, typer.Option("--signers", min=0, max=256, help="processes that sign")] = 1,
    matchers: Annotated[int, typer.Option("--matchers", min=0, max=256, help="processes that match")] = 1,
    linkers: Annotated[int, typer.Option("--linkers", min=0, max=16, help="processes that decide: one works")] = 0,
    filters: Annotated[int, typer.Option("--filters", min=0, max=256, help="processes that forward what is kept")] = 0,
    start: Start = None,
    config: SettingsFile = None,
) -> None:
    """Run workers on this machine: start them, start them again when they die, end them in order.

    Each is a process of its own with the instances 0, 1, ... of its role: member and transactional id are
    {topic-prefix}{group}-{role}-{generation}-{instance}. Signal SIGTERM or Ctrl-C: signers end first, then matchers,
    linkers and filters.
    """
    import logging

    from neardup.workers.process.logs import start_log
    from neardup.workers.process.stop import Stop
    from neardup.workers.service.supervisor import Supervisor, child_specs, spawn
    from neardup.workers.topics.names import FILTER, LINK, MATCH, SIGN

    start_log(_log_format(ctx), "up")
    settings = _settings(ctx, config, start)
    start_log(settings.log_format, "up")
    stop = Stop()
    stop.install()
    values = _given(ctx, start)
    counts = {SIGN: signers, MATCH: matchers, LINK: linkers, FILTER: filters}
    specs = child_specs(counts, values, config, settings.health_port)
    raise typer.Exit(Supervisor(specs, spawn, stop, logging.getLogger(__name__).warning).run())


def load_command(ctx: typer.Context, paths: Paths, quiet: Quiet = False, config: SettingsFile = None) -> None:
    """Send the documents in files to Kafka, keyed by id."""
    from neardup.workers.commands.load import load_paths

    with broker_failures():
        raise typer.Exit(load_paths(paths, _settings(ctx, config, None, window=False), quiet=quiet))


def tail_command(
    ctx: typer.Context,
    start: Annotated[
        str, typer.Option("--from", metavar="earliest|latest", help="where to begin: all that is kept, or what comes")
    ] = "latest",
    lines_max: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="end after N lines instead of by Ctrl-C")
    ] = None,
    removals: Annotated[bool, typer.Option("--removals", help="print the notices of removed ids as well")] = False,
    verdicts: Annotated[bool, typer.Option("--verdicts", help="print verdicts instead of pairs")] = False,
    config: SettingsFile = None,
) -> None:
    """Print pairs, or verdicts, as they are committed, a line of JSON each."""
    from neardup.workers.commands.tail import tail

    with broker_failures():
        settings = _settings(ctx, config, start, window=False)
        raise typer.Exit(tail(settings, start=start, lines_max=lines_max, removals=removals, verdicts=verdicts))


def create_command(ctx: typer.Context, config: SettingsFile = None) -> None:
    """Make the topics that are missing; refuses settings that could lose live state."""
    from neardup.workers.commands.topics import create

    with broker_failures():
        create(_settings(ctx, config, None))


def describe_command(ctx: typer.Context, config: SettingsFile = None) -> None:
    """Show fingerprints, generation, partitions and settings of the topics, and whether they are safe."""
    from neardup.workers.commands.topics import describe

    with broker_failures():
        describe(_settings(ctx, config, None))


def _given(ctx: typer.Context, start: str | None) -> dict[str, Any]:
    return given(ctx) if start is None else {**given(ctx), "start": start}


def _settings(ctx: typer.Context, config: str | None, start: str | None, *, window: bool = True) -> StreamSettings:
    from neardup.workers.settings.load import load_stream

    return load_stream(_given(ctx, start), config, window=window)


def _log_format(ctx: typer.Context) -> str:
    """Return the format of the log before the settings are loaded, because loading can fail."""
    return str(given(ctx).get("log_format") or os.environ.get("NEARDUP_LOG_FORMAT") or "text")


@contextmanager
def broker_failures() -> Iterator[None]:
    """Convert errors of the broker to failures with their exit codes."""
    from neardup.stream.errors import NeardupError
    from neardup.workers.service.shell import ENDINGS, failure_of

    try:
        yield
    except NeardupError as error:
        if not isinstance(error, tuple(ENDINGS)):
            raise
        raise failure_of(error) from error


def _work(ctx: typer.Context, role: str, start: str | None, supervised: bool, config: str | None) -> None:
    """Run one worker until a signal arrives."""
    import gc
    import logging
    from importlib.metadata import version

    from neardup.workers.process.compiling import Compiling
    from neardup.workers.process.interpreter import settle
    from neardup.workers.process.logs import start_log
    from neardup.workers.process.stop import Stop
    from neardup.workers.process.watchdog import Watchdog
    from neardup.workers.service.roles import ROLES
    from neardup.workers.service.shell import Outside, Shell
    from neardup.workers.service.supervisor import watch_parent
    from neardup.workers.telemetry.health import Health, serve
    from neardup.workers.telemetry.metrics import Metrics
    from neardup.workers.topics.names import names_of
    from neardup.workers.topics.rules import LATENESS_SECONDS_MIN
    from neardup.workers.transport.kafka.connect import connect, kafka_settings

    start_log(_log_format(ctx), role)
    settings = _settings(ctx, config, start)
    names, log = names_of(settings), logging.getLogger(__name__)
    name = names.worker(role, settings.instance)
    start_log(settings.log_format, name)
    kafka_settings(settings)  # fail early: the same settings would fail at every start
    info = {
        "role": role, "instance": settings.instance, "group": names.group(role), "generation": names.generation,
        "scheme": settings.scheme, "version": version("neardup"),
    }  # fmt: skip
    metrics, health, watchdog, stop = Metrics(role, info), Health(settings.turn_seconds_max), Watchdog(), Stop()
    if supervised:
        watch_parent()
    port = serve(settings.health_host, settings.health_port, metrics.registry, health)
    watchdog.start()
    log.info("%s: starting; health and metrics on %s:%d", name, settings.health_host, port)
    if role == "match" and settings.lateness_seconds < LATENESS_SECONDS_MIN:
        log.warning(
            "lateness_seconds is %g: several partitions of documents need %g at least, or pairs are missed; one "
            "partition needs as much as its producers are out of order",
            settings.lateness_seconds,
            LATENESS_SECONDS_MIN,
        )
    loading = ExitStack()
    loading.enter_context(Compiling(lambda line: log.info("%s: %s", name, line)))

    def loaded() -> None:
        loading.close()
        stop.install()  # until now a signal ended the process: there was no work to finish
        settle()

    outside = Outside(lambda: connect(settings), metrics, health, watchdog, stop, loaded=loaded, collect=gc.collect)
    raise typer.Exit(Shell(ROLES[role], settings, outside).run())
