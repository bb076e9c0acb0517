"""The commands on Kafka: ``sign``, ``match``, ``link``, ``filter``, ``up``, ``topics``, ``load`` and ``tail``.

This module imports only what the help needs; a command imports the rest when it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import typer

from neardup_workers.outside.options.running import (
    CreateOptions,
    DeadOptions,
    LoadOptions,
    PlanOptions,
    ReplayOptions,
    RightsOptions,
    ShardsOptions,
    SizeOptions,
    StatusOptions,
    TailOptions,
    UpOptions,
    WorkerOptions,
)
from neardup_workers.outside.options.shared import CommandOptions
from neardup_workers.running.cli.options import ConnectionCommand, Given, TopicsCommand, WorkerCommand
from neardup_workers.running.cli.sections import app, command

if TYPE_CHECKING:
    from neardup_workers.outside.settings.kafka import StreamSettings

_Found = TypeVar("_Found")
topics = typer.Typer(
    help="Make the topics of a deployment, or say what they are.", no_args_is_help=True, rich_markup_mode=None
)
dead = typer.Typer(
    help="List, show and send again the documents that signers refused (topic documents.dead).",
    no_args_is_help=True, rich_markup_mode=None,
)  # fmt: skip
app.add_typer(topics, name="topics")
app.add_typer(dead, name="dead")


# Role -> what it does, and what one has to know of several of them.
_ROLES = {
    "sign": ("Sign documents from Kafka: read documents, publish signed, put what cannot be read into documents.dead.",
             "Give each signer its own --instance."),
    "match": ("Match documents from Kafka: read signed, keep the window in memory, publish pairs as candidates.",
              "Give each matcher its own --instance."),
    "link": ("Decide documents from Kafka: read signed and links, publish one final verdict for each document, and "
             "clusters.", "All roles need --verdicts. One linker works, others stand by."),
    "filter": ("Forward the documents that are kept: read verdicts and documents, publish documents.unique, byte for "
               "byte.", "All roles need --verdicts. Give each filter its own --instance."),
}  # fmt: skip


def _add_role(role: str, does: str, several: str) -> None:
    def work(options: WorkerOptions, given: Given) -> int:
        return _work(role, options, given)

    work.__doc__ = (
        f"{does}\n\nA worker is known by its names to Kafka, the same after every restart: member of the group and "
        f"transactional id are {{topic-prefix}}{{group}}-{role}-{{generation}}-{{instance}}. {several}"
    )
    command(role, WorkerCommand, WorkerOptions)(work)


for _role, _texts in _ROLES.items():
    _add_role(_role, *_texts)


@command("up", WorkerCommand, UpOptions)
def up_command(options: UpOptions, given: Given) -> int:
    """Run workers on this machine: start them, start them again when they die, end them in order.

    Each is a process of its own with the instances 0, 1, ... of its role: member and transactional id are
    {topic-prefix}{group}-{role}-{generation}-{instance}. Signal SIGTERM or Ctrl-C: signers end first, then matchers,
    linkers and filters.
    """
    import logging

    from neardup_workers.outside.process.exits import Exit, Failure
    from neardup_workers.outside.process.logs import start_log
    from neardup_workers.outside.process.stop import Stop
    from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
    from neardup_workers.running.service.supervisor import Supervisor, child_specs, relay_rest, spawn

    counts = {SIGN: options.signers, MATCH: options.matchers, LINK: options.linkers, FILTER: options.filters}
    if not any(counts.values()):
        raise Failure(Exit.USAGE, "up has no worker to run, for each role has 0: name one, for instance --signers 1")
    start_log(_log_format(given), "up")
    settings = _settings(given, options.config, options.start)
    start_log(settings.log_format, "up")
    stop = Stop()
    stop.install()
    specs = child_specs(counts, _with_start(given, options.start), options.config, settings.health_port)
    code = Supervisor(specs, spawn, stop, logging.getLogger(__name__).warning).run()
    relay_rest()
    return code


@command("load", ConnectionCommand, LoadOptions)
def load_command(options: LoadOptions, given: Given) -> int:
    """Send the documents in files to Kafka, keyed by id."""
    from neardup_workers.running.commands.load import load_paths

    with broker_failures():
        return load_paths(options, _settings(given, options.config, None, window=False))


@command("tail", ConnectionCommand, TailOptions)
def tail_command(options: TailOptions, given: Given) -> int:
    """Print pairs, or verdicts, as they are committed, a line of JSON each."""
    from neardup_workers.running.commands.tail import tail

    with broker_failures():
        return tail(options, _settings(given, options.config, options.start, window=False))


@command("status", TopicsCommand, StatusOptions)
def status_command(options: StatusOptions, given: Given) -> int:
    """Say how a deployment is, from its topics and offsets alone: roles, lags, and what is wrong and what to do.

    The exit code is that of the worst problem: 7 topics, 8 records that are gone, 9 settings that differ, 11 workers
    that are absent or behind.
    """
    from neardup_workers.running.commands.topics.status import status

    return _with_transport(lambda transport, settings: status(options, transport, settings), options.config, given)


@command("size", TopicsCommand, SizeOptions)
def size_command(options: SizeOptions, given: Given) -> int:
    """Say what a deployment needs, before it exists: memory, cores, times and shards; asks no broker.

    It signs a sample under the settings for bytes; times are those of one measured machine.
    """
    from neardup_workers.running.commands.size import size

    windowed = given if options.window is None else {**given, "window_seconds": options.window}
    return size(options, _settings(windowed, options.config, None))


@command("list", ConnectionCommand, DeadOptions, dead)
def dead_list_command(options: DeadOptions, given: Given) -> None:
    """Print a line of JSON for each letter: its name, reason and origin, and whether it was replayed."""
    from neardup_workers.running.commands.dead import list_letters

    _with_letters(list_letters, options, given)


@command("show", ConnectionCommand, DeadOptions, dead)
def dead_show_command(options: DeadOptions, given: Given) -> None:
    """Print letters for reading: why and what was refused, and the document."""
    from neardup_workers.running.commands.dead import show_letters

    _with_letters(show_letters, options, given)


@command("replay", ConnectionCommand, DeadOptions, dead)
def dead_replay_command(options: DeadOptions, given: Given) -> int:
    """Send the documents of letters to the topic of documents again, each once, also when this is run again.

    A document keeps key, partition and time, and has the header neardup-replayed.
    """
    from neardup_workers.running.commands.dead import replay

    done = _with_letters(replay, options, given)
    typer.echo(done.sentence(), err=True)
    return done.exit


def _with_letters(use: Callable[..., _Found], options: DeadOptions, given: Given) -> _Found:
    from neardup_workers.running.commands.dead import chosen

    return _with_transport(partial(use, which=chosen(options)), options.config, given, window=False)


def _with_transport(use: Callable[..., _Found], config: str | None, given: Given, *, window: bool = True) -> _Found:
    """Return what a command does with the broker and the settings."""
    from neardup_workers.outside.transport.kafka.connect import connect

    settings = _settings(given, config, None, window=window)
    with broker_failures():
        transport = connect(settings)
        try:
            return use(transport, settings)
        finally:
            transport.close()


@command("create", TopicsCommand, CreateOptions, topics)
def create_command(options: CreateOptions, given: Given) -> None:
    """Make the topics that are missing; refuses settings that could lose live state."""
    from neardup_workers.running.commands.topics.making import create

    with broker_failures():
        create(_settings(given, options.config, None), grow=options.grow)


@command("describe", TopicsCommand, CommandOptions, topics)
def describe_command(options: CommandOptions, given: Given) -> None:
    """Show fingerprints, generation, partitions and settings of the topics, and whether they are safe."""
    from neardup_workers.running.commands.topics.making import describe

    with broker_failures():
        describe(_settings(given, options.config, None))


@command("plan", TopicsCommand, PlanOptions, topics)
def plan_command(options: PlanOptions, given: Given) -> None:
    """Say what a change of settings means: in place, a replay or a new generation, its cost, and the commands.

    It asks the broker how long the topics are, and changes nothing.
    """
    from neardup_workers.outside.settings.load import changed
    from neardup_workers.running.commands.topics.plan import plan

    with broker_failures():
        plan(_settings(given, options.config, None), _settings(changed(given, options.changes), options.config, None))


@command("replay", WorkerCommand, ReplayOptions, topics)
def replay_command(options: ReplayOptions, given: Given) -> None:
    """Set the signers back by one window, so that a new topic signed has the documents that later ones may match.

    It needs that no signer works. What is signed again gets no second verdict; its pairs are published again.
    """
    from neardup_workers.running.commands.topics.replay import replay

    _with_transport(lambda transport, settings: replay(options, transport, settings), options.config, given)


@command("rights", TopicsCommand, RightsOptions, topics)
def rights_command(options: RightsOptions, given: Given) -> None:
    """Print the least rights of a role or command as commands of Kafka's own tool (ACLs); asks no broker."""
    from neardup_workers.running.commands.topics.rights import rights

    rights(options, _settings(given, options.config, None, window=False))


@command("shards", TopicsCommand, ShardsOptions, topics)
def shards_command(options: ShardsOptions, given: Given) -> None:
    """Divide the documents that come next among more shards, while the workers run; shards never get fewer.

    It gives the topic links more partitions and writes a control row into signed. --shards stays what it was.
    """
    from neardup_workers.running.commands.topics.growing import shards

    with broker_failures():
        shards(options, _settings(given, options.config, None))


def _with_start(given: Given, start: str | None) -> Given:
    return given if start is None else {**given, "start": start}


def _settings(given: Given, config: str | None, start: str | None, *, window: bool = True) -> StreamSettings:
    from neardup_workers.outside.settings.load import load_stream

    return load_stream(_with_start(given, start), config, window=window)


def _log_format(given: Given) -> str:
    """Return the format of the log before the settings are loaded, because loading can fail."""
    return str(given.get("log_format") or os.environ.get("NEARDUP_LOG_FORMAT") or "text")


@contextmanager
def broker_failures() -> Iterator[None]:
    """Convert errors of the broker to failures with their exit codes."""
    from neardup.errors import NeardupError
    from neardup_workers.running.service.shell import ENDINGS, failure_of

    try:
        yield
    except NeardupError as error:
        if not isinstance(error, tuple(ENDINGS)):
            raise
        raise failure_of(error) from error


def _work(role: str, options: WorkerOptions, given: Given) -> int:
    """Run one worker until a signal arrives; returns the exit code."""
    import logging
    from importlib.metadata import version

    from neardup_workers.outside.process.compiling import Compiling
    from neardup_workers.outside.process.interpreter import give_back, settle
    from neardup_workers.outside.process.logs import start_log
    from neardup_workers.outside.process.stop import Stop
    from neardup_workers.outside.process.watchdog import Watchdog
    from neardup_workers.outside.settings.kafka import limits_of
    from neardup_workers.outside.telemetry.health import Health, serve
    from neardup_workers.outside.telemetry.metrics import Metrics
    from neardup_workers.outside.topics.names import names_of
    from neardup_workers.outside.topics.rules import LATENESS_SECONDS_MIN
    from neardup_workers.outside.transport.kafka.connect import connect, kafka_settings
    from neardup_workers.running.service.roles import ROLES
    from neardup_workers.running.service.shell import Outside, Shell
    from neardup_workers.running.service.supervisor import watch_parent

    start_log(_log_format(given), role)
    settings = _settings(given, options.config, options.start)
    limits = limits_of(settings.memory_max)
    names, log = names_of(settings), logging.getLogger(__name__)
    name = names.worker(role, settings.instance)
    start_log(settings.log_format, name)
    kafka_settings(settings)  # fail early: the same settings would fail at every start
    info = {
        "role": role, "instance": settings.instance, "group": names.group(role), "generation": names.generation,
        "scheme": settings.scheme, "version": version("neardup"),
    }  # fmt: skip
    metrics, health, watchdog, stop = Metrics(role, info), Health(limits.turn_seconds_max), Watchdog(), Stop()
    if options.supervised:
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

    outside = Outside(lambda: connect(settings), metrics, health, watchdog, stop, loaded=loaded, collect=give_back)
    return Shell(ROLES[role], settings, outside, limits).run()
