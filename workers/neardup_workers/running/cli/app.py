"""The command line: ``neardup run``, ``dedup``, ``probe``, ``batch``, ``tune``, ``evaluate``, and those on Kafka.

This module imports only what the help needs; a command imports the rest when it runs, and what is in the textbook's
package by its name.
"""

from __future__ import annotations

import copy
import errno
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer

from neardup_workers.outside.options.documents import BatchOptions, DedupOptions, ProbeOptions, RunOptions
from neardup_workers.outside.options.judging import (
    AuditOptions,
    CalibrateOptions,
    EvaluateOptions,
    LearnOrderOptions,
    PassagesOptions,
    QuotesOptions,
    ShowOptions,
    TuneOptions,
)
from neardup_workers.outside.options.shared import CommandOptions, PrintOptions
from neardup_workers.outside.process.exits import Exit, Failure, exit_codes_help
from neardup_workers.outside.process.printable import Messages, printable
from neardup_workers.running.cli import kafka, services  # noqa: F401 - they add their commands
from neardup_workers.running.cli.options import (
    ConfigCommand,
    Given,
    HelpCommand,
    QuotesCommand,
    SchemeCommand,
    SettingsCommand,
    TuneCommand,
)
from neardup_workers.running.cli.sections import app, command

# Engine of ``batch`` -> its module: each needs packages of its own.
_ENGINES = {"local": "corpus", "spark": "spark"}
# A disk that is full, or a quota or limit of a file that is reached: never a fault of the program.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _show_version(ctx: typer.Context, value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"neardup {version('neardup')}")
        if ctx.params.get("verbose"):
            from neardup.machine.choice import described

            typer.echo(f"kernels: {described()}")
        raise typer.Exit


@app.callback()
def main_options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="show the version and exit")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", is_eager=True, help="with --version: also which machine code runs")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="write the details of failures to standard error")] = False,
) -> None:
    """Find near-duplicates in documents as they arrive."""
    if debug:
        import logging

        logging.basicConfig(level=logging.DEBUG)


def _loaded(options: CommandOptions, given: Given, *kind: type[Any], **fixed: str) -> Any:
    """Return the settings of a command, of which some are ``fixed``."""
    from neardup_workers.outside.settings.load import load

    return load({**given, **fixed}, options.config, *kind)


@command("run", SettingsCommand, RunOptions)
def run_command(options: RunOptions, given: Given) -> int:
    """Write the pairs of near-duplicates among documents, a line of JSON each, as soon as they are known."""
    from neardup_workers.running.commands.run import run

    return run(options, _loaded(options, given))


@command("dedup", SettingsCommand, DedupOptions)
def dedup_command(options: DedupOptions, given: Given) -> int:
    """Write the documents to keep, byte for byte as they came, and drop the near-duplicates of documents that are kept.

    Of files that are one document each, the paths are written. A dropped document was compared with one that is kept.
    """
    from neardup_workers.running.commands.dedup.command import run

    return run(options, _loaded(options, given))


@command("probe", SettingsCommand, ProbeOptions)
def probe_command(options: ProbeOptions, given: Given) -> int:
    """Write the near-duplicates that each document has in an index, without adding it there."""
    from neardup_workers.running.commands.run import probe

    return probe(options, _loaded(options, given))


@command("batch", SettingsCommand, BatchOptions)
def batch_command(options: BatchOptions, given: Given) -> int:
    """Write the pairs that run would find among documents at rest, with a table of bounded size."""
    run: Callable[..., int] = import_module(f"neardup_workers.running.commands.batch.{_ENGINES[options.engine]}").run
    return run(options, _loaded(options, given))


@command("tune", TuneCommand, TuneOptions)
def tune_command(options: TuneOptions, given: Given) -> None:
    """Show the bands, the rows and the cut that settings lead to, and which pairs are found with them."""
    from neardup_workers.running.commands.tune import curve as tune
    from neardup_workers.running.commands.tune import sample as tune_sample

    family = import_module("neardup_textbook.commands.family") if options.family_values else None
    asked = None if family is None else family.question(options)
    if family is not None and not options.sample:
        family.show(asked, plot=options.plot, as_json=options.as_json)
    elif family is None and options.sample and options.plot is None:
        tune_sample.show(_loaded(options, given), options.sample, as_json=options.as_json)
    elif options.sample:
        raise Failure(Exit.USAGE, "--sample stands for itself: leave out --family and --plot")
    else:
        tune.show(tune.read(given, options.config), plot=options.plot, as_json=options.as_json)


@command("calibrate", SettingsCommand, CalibrateOptions)
def calibrate_command(options: CalibrateOptions, given: Given) -> None:
    """Show from which similarity on pairs are true: the threshold of each signal by judged pairs, with an interval.

    With --field no pair was judged: a field that was not scored says how many pairs of each similarity are true.
    """
    from neardup_workers.running.commands.evaluate import judged

    if options.field is None and options.clusters:
        raise Failure(Exit.USAGE, "--clusters has no pairs that were judged: give --field, by which it judges")
    if options.field is None:
        judged.run(options, _loaded(options, given))
    else:
        import_module("neardup_textbook.commands.calibrate").run(options)


@command("evaluate", SettingsCommand, EvaluateOptions)
def evaluate_command(options: EvaluateOptions, given: Given) -> None:
    """Compare pairs with those that are known: confusion matrix, precision, recall, and the S-curve as it came out.

    With --clusters or --labels, compare clusters: pairwise measures, B-cubed, the adjusted Rand index, purity by size.
    """
    from neardup_workers.running.commands.evaluate import pairs, verdicts

    judges_clusters = options.labels is not None or (options.clusters and options.truth is not None)
    (verdicts if judges_clusters else pairs).run(options, _loaded(options, given))


@command("show", SettingsCommand, ShowOptions)
def show_command(options: ShowOptions, given: Given) -> None:
    """Show the texts of pairs side by side, with what both have in colour: by default 20 around the threshold.

    Give the settings of the run. Pairs below the threshold are there if it wrote --candidates.
    """
    from neardup_workers.running.commands.show import run

    run(options, _loaded(options, given))


@command("quotes", QuotesCommand, QuotesOptions)
def quotes_command(options: QuotesOptions, given: Given) -> None:
    """Show the quotes that texts share, each file a text: where they stand, their score, and how many texts have them.

    Words of a quote may be changed.
    """
    from neardup_workers.running.commands.quotes import run

    scheme = "parts:spelling=historic" if options.historic else "parts"
    run(options, _loaded(options, given, scheme=scheme))


@command("audit", SettingsCommand, AuditOptions)
def audit_command(options: AuditOptions, given: Given) -> None:
    """Measure what run or dedup missed: the exact neighbours of a sample of contents among all documents.

    Give the settings of the run. Shares have intervals of 95 percent; the ten worst misses come with a reason each.
    """
    from neardup_workers.running.commands.audit import run

    run(options, _loaded(options, given))


@command("passages", SchemeCommand, PassagesOptions)
def passages_command(options: PassagesOptions, given: Given) -> int:
    """List the texts that documents repeat, such as menus and licence headers, a line of JSON each, for a file of
    the option templates of schemes passages and parts.

    Read it before you use it: they do not find what the list has.
    """
    from neardup_workers.running.commands.templates import templates

    return templates(options, _loaded(options, given, scheme="passages"))


@command("learn-order", SchemeCommand, LearnOrderOptions)
def learn_order_command(options: LearnOrderOptions, given: Given) -> int:
    """Learn from a sample which tokens are frequent, as the order for scheme prefix (its option token_order)."""
    from neardup_workers.running.commands.learn_order import OrderSettings, learn

    return learn(options, _loaded(options, given, OrderSettings, scheme="prefix"))


@command("settings", HelpCommand, PrintOptions)
def settings_command(options: PrintOptions, given: Given) -> None:
    """Print every setting with its value, its default and where the value comes from, as a neardup.toml.

    Each command takes those that concern it: by an option, by --set NAME=VALUE, the environment or the file.
    """
    from neardup_workers.running.commands.settings import run

    run(options)


@app.command("help", cls=HelpCommand)
def help_command(
    ctx: typer.Context,
    topic: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND|exit-codes|schemes]", help="what to explain")
    ] = None,
) -> None:
    """Show the help of a command, what the exit codes mean, or the schemes with their options."""
    if topic == ["exit-codes"]:
        typer.echo(exit_codes_help())
        return
    if topic == ["schemes"]:
        from neardup_workers.running.commands.settings import schemes_help

        typer.echo(schemes_help())
        return
    _program(topic[:1] if topic else [])([*(topic or []), "--help"], standalone_mode=False)


def main() -> int:
    """Run the command line and return its exit code. Each expected failure is one sentence on standard error."""
    if sys.stderr is None:  # the parent process closed it: messages are dropped
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open as long as the process
    sys.stderr = cast(TextIO, Messages(sys.stderr))
    return _main()


def _program(first: list[str]) -> typer.Typer:
    """Return the program with only the command that the first word names: making all of them delays a small run."""
    named = [command for command in app.registered_commands if [command.name] == first]
    if not named:
        return app
    program = copy.copy(app)
    program.registered_commands, program.registered_groups = named, []
    return program


def _main() -> int:
    try:
        return int(_program(sys.argv[1:2])(standalone_mode=False) or Exit.SUCCESS)
    except Failure as failure:
        return _fail(failure.code, str(failure))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except SystemExit as left:
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        return Exit.SUCCESS  # the parser's answer to a reader of standard output who has left
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            where = error.filename or "to standard output"
            return _fail(Exit.OUTPUT, f"cannot write {where}: {error.strerror}")
        if hasattr(error, "format_message"):  # an error of the command line parser
            if type(error).__name__ == "NoArgsIsHelpError":  # versions of typer have it in different modules
                typer.echo(error.format_message(), err=True)
                return Exit.USAGE
            sentence = _usage_sentence(error)
            return _fail(Exit.USAGE, sentence) if sentence else Exit.USAGE
        code = _library_code(error)
        if code is not None:
            return _fail(code, str(error))
        from neardup_workers.outside.process.logs import has_log, log_fatal

        if not has_log():
            raise
        log_fatal("an invariant of the program is broken: please report this", error)
        return Exit.BROKEN


def _usage_sentence(error: Any) -> str:
    """Return an error of the parser with its value and its remedy; empty if the help is already printed."""
    sentence = error.format_message().rstrip(".")
    if not sentence:
        return ""
    if hasattr(error.__cause__, "errors"):  # of pydantic, whose sentence names the rule alone
        value = error.__cause__.errors()[0]["input"]
        sentence = sentence.replace("Invalid value for", f"Invalid value {value!r} for", 1)
        sentence = sentence.replace(": Input should", ": it should", 1).replace(": Value error, ", ": ", 1)
    option, command = getattr(error, "option_name", ""), error.ctx.command if error.ctx else None
    setting = command.setting_of(option) if option and isinstance(command, ConfigCommand) else None
    if setting:
        name = f"NEARDUP_{setting.upper()}"
        return (
            f"{option} is a setting without an option: give --set {setting}=VALUE, {name}, or {setting} in neardup.toml"
        )
    command = error.ctx.command_path if error.ctx else "neardup"
    return f"{sentence}; {command} --help shows what there is"


def _library_code(error: Exception) -> Exit | None:
    """Return the exit code of an intended error of the library."""
    from neardup.errors import CapacityError, ConfigError

    codes: dict[type[Exception], Exit] = {ConfigError: Exit.USAGE, CapacityError: Exit.CAPACITY}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), None)


def _fail(code: Exit, sentence: str) -> int:
    from neardup_workers.outside.process.logs import has_log, log_fatal

    sentence = " ".join(sentence.split())
    if has_log():
        log_fatal(sentence)
    else:
        typer.echo(f"neardup: {printable(sentence)}", err=True)
    return code
