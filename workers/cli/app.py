"""The command line: ``neardup run``, ``probe``, ``batch``, ``tune``, and the commands on Kafka (``kafka``).

This module imports only what the help needs; a command imports the rest when it runs.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from neardup.workers.cli.arguments import (
    Candidates,
    Follow,
    KeepFile,
    Paths,
    Quiet,
    RejectsFile,
    Salvage,
    SettingsFile,
    SummaryFile,
    Top,
    WindowFile,
    or_stdin,
)
from neardup.workers.cli.dedup import dedup_command
from neardup.workers.cli.evaluate import evaluate_command
from neardup.workers.cli.feed import feed_command
from neardup.workers.cli.kafka import register
from neardup.workers.cli.options import FeedCommand, HelpCommand, ServeCommand, SettingsCommand, given
from neardup.workers.cli.serve import serve_command
from neardup.workers.process.exits import Exit, Failure, exit_codes_help
from neardup.workers.process.printable import printable

_PLACES = (
    "Settings also come from the environment (NEARDUP_THRESHOLD=0.9) and a TOML file (threshold = 0.9); "
    "the command line goes first, then the environment, then the file."
)
_EPILOG = f"{_PLACES}\n\nneardup --help explains the exit codes."

app = typer.Typer(
    name="neardup",
    help="Find near-duplicates in documents as they arrive.",
    epilog=f"{_PLACES}\n\n{exit_codes_help()}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"neardup {version('neardup')}")
        raise typer.Exit


@app.callback()
def main_options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="show the version and exit")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="write the details of failures to standard error")] = False,
) -> None:
    """Find near-duplicates in documents as they arrive."""
    if debug:
        logging.basicConfig(level=logging.DEBUG)


@app.command("run", cls=SettingsCommand, epilog=_EPILOG)
def run_command(
    ctx: typer.Context,
    paths: Paths = None,
    candidates: Candidates = False,
    top: Top = None,
    follow: Follow = False,
    window_from: WindowFile = None,
    salvage: Salvage = False,
    keep: KeepFile = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="write the pairs to a file instead of standard output"),
    ] = None,
    overview: Annotated[
        bool,
        typer.Option("--overview", help="end with the documents of the most pairs and a histogram of similarities"),
    ] = False,
    rejects: RejectsFile = None,
    summary_json: SummaryFile = None,
    quiet: Quiet = False,
    config: SettingsFile = None,
) -> None:
    """Write the pairs of near-duplicates among documents, a line of JSON each, as soon as they are known."""
    _run(
        ctx, config, paths=or_stdin(paths), candidates=candidates, top=top, follow=follow, window_from=window_from,
        salvage=salvage, keep=keep, output=output, overview=overview,
        rejects=rejects, summary_json=summary_json, quiet=quiet,
    )  # fmt: skip


app.command("dedup", cls=SettingsCommand, epilog=_EPILOG)(dedup_command)
app.command("feed", cls=FeedCommand, epilog=_EPILOG)(feed_command)
app.command("serve", cls=ServeCommand, epilog=_EPILOG)(serve_command)


@app.command("probe", cls=SettingsCommand, epilog=_EPILOG)
def probe_command(
    ctx: typer.Context,
    index: Annotated[
        list[str], typer.Option("--index", metavar="PATH", help="documents to compare with; may stand several times")
    ],
    paths: Paths = None,
    candidates: Candidates = False,
    top: Top = None,
    rejects: RejectsFile = None,
    summary_json: SummaryFile = None,
    quiet: Quiet = False,
    config: SettingsFile = None,
) -> None:
    """Write the near-duplicates that each document has in an index, without adding it there."""
    _run(
        ctx, config, paths=or_stdin(paths), index=index, probe=True, candidates=candidates, top=top,
        rejects=rejects, summary_json=summary_json, quiet=quiet,
    )  # fmt: skip


@app.command("batch", cls=SettingsCommand, epilog=_EPILOG)
def batch_command(
    ctx: typer.Context,
    paths: Paths = None,
    candidates: Candidates = False,
    top: Top = None,
    keep: KeepFile = None,
    memory_max: Annotated[
        str, typer.Option("--memory-max", metavar="SIZE", help="memory of the database, as 512MB; the rest is on disk")
    ] = "1GB",
    temporary: Annotated[
        str | None,
        typer.Option("--temporary", metavar="FOLDER", help="where the corpus is kept meanwhile, emptied at the end"),
    ] = None,
    verdicts: Annotated[
        str | None,
        typer.Option("--verdicts", metavar="FILE", help="write a verdict for each document too, as dedup does"),
    ] = None,
    prefer: Annotated[
        str | None,
        typer.Option(
            "--prefer",
            metavar="first|longest|FIELD",
            help="which documents to keep: the first (the default), the "
            "longest, or those with the greatest number in a field",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="write the documents to keep, as dedup does"),
    ] = None,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="write the dropped lines to --output too, and with each line its verdict")
    ] = False,
    rejects: RejectsFile = None,
    summary_json: SummaryFile = None,
    quiet: Quiet = False,
    config: SettingsFile = None,
) -> None:
    """Write the pairs that run would find among documents at rest, by grouping them in a database on disk."""
    from neardup.workers.commands.batch.corpus import BatchOptions, run
    from neardup.workers.settings.load import load

    options = BatchOptions(
        or_stdin(paths),
        quiet,
        rejects,
        summary_json,
        candidates,
        keep,
        memory_max,
        temporary,
        top,
        verdicts,
        prefer,
        output,
        annotate,
    )
    raise typer.Exit(run(options, load(given(ctx), config)))


@app.command("tune", cls=SettingsCommand, epilog=_EPILOG)
def tune_command(
    ctx: typer.Context,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="draw the S-curve to a file that ends in .svg or .png")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object and no picture")] = False,
    sample: Annotated[
        list[str] | None,
        typer.Option("--sample", metavar="PATH", help="advise how long shingles should be for documents like these"),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option("--family", metavar="NAME", help="propose a cascade of AND and OR for a family of functions"),
    ] = None,
    d1: Annotated[float | None, typer.Option("--d1", help="distance up to which a pair should be met")] = None,
    d2: Annotated[float | None, typer.Option("--d2", help="distance from which it should not")] = None,
    p1: Annotated[float | None, typer.Option("--p1", help="chance to be met that is wanted at d1, at least")] = None,
    p2: Annotated[float | None, typer.Option("--p2", help="chance that is allowed at d2, at most")] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", help="bits of an item, or width of a segment, where the family has one")
    ] = None,
    documents: Annotated[
        int | None, typer.Option("--documents", metavar="N", help="tables and rows of a probe among so many documents")
    ] = None,
    config: SettingsFile = None,
) -> None:
    """Show the bands, the rows and the cut that settings lead to, and which pairs are found with them."""
    from neardup.workers.commands.tune import curve as tune
    from neardup.workers.commands.tune import family as tune_family
    from neardup.workers.commands.tune import sample as tune_sample
    from neardup.workers.settings.load import load

    numbers = {"d1": d1, "d2": d2, "p1": p1, "p2": p2, "scale": scale, "documents": documents}
    asked = tune_family.question(family, numbers)
    if asked is not None and not sample:
        tune_family.show(asked, plot=plot, as_json=as_json)
    elif asked is None and sample and plot is None:
        tune_sample.show(load(given(ctx), config), sample, as_json=as_json)
    elif sample:
        raise Failure(Exit.USAGE, "--sample stands for itself: leave out --family and --plot")
    else:
        tune.show(load(given(ctx), config), plot=plot, as_json=as_json)


@app.command("calibrate", cls=HelpCommand, epilog=_EPILOG)
def calibrate_command(
    pairs: Annotated[
        str,
        typer.Argument(metavar="PAIRS", help="what run or probe wrote, or - for standard input", show_default=False),
    ],
    documents: Annotated[
        list[str],
        typer.Option(
            "--documents", metavar="FILE", help="JSON Lines or table it was made from; may stand several times"
        ),
    ],
    field: Annotated[
        str, typer.Option("--field", metavar="NAME", help="a field that was not scored and differs less in true pairs")
    ],
    kind: Annotated[
        str, typer.Option("--kind", help="what it holds: number, date (ISO 8601, in days) or text")
    ] = "number",
    sure: Annotated[
        float, typer.Option("--sure", min=0, max=1, help="similarity from which a pair is surely true")
    ] = 1.0,
    bins: Annotated[int, typer.Option("--bins", min=1, max=1000, help="bins of similarity between 0 and 1")] = 20,
    random_mean: Annotated[
        float | None,
        typer.Option(
            "--random-mean", help="mean difference of records at random; measured on the documents by default"
        ),
    ] = None,
    difference_max: Annotated[
        float, typer.Option("--difference-max", min=0, help="look only at pairs that differ by this at most")
    ] = float("inf"),
    id_field: Annotated[str, typer.Option("--id-field", help="name of the id in the documents")] = "id",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Show how many pairs of each similarity are true, judged by a field that was not scored."""
    from neardup.workers.commands.calibrate import CalibrateOptions, run

    options = CalibrateOptions(pairs, documents, field, kind, sure, bins, random_mean, difference_max, id_field)
    run(options, as_json=as_json)


app.command("evaluate", cls=SettingsCommand, epilog=_EPILOG)(evaluate_command)


@app.command("learn-order", cls=SettingsCommand, epilog=_EPILOG)
def learn_order_command(
    ctx: typer.Context,
    output: Annotated[str, typer.Option("--output", metavar="FILE", help="where the order goes: a NumPy array, .npy")],
    paths: Paths = None,
    order_tokens: Annotated[
        int, typer.Option("--order-tokens", min=1, max=1 << 24, metavar="N", help="tokens kept, the most frequent")
    ] = 65_536,
    quiet: Quiet = False,
    config: SettingsFile = None,
) -> None:
    """Learn from a sample which tokens are frequent, as the order by which scheme prefix indexes (--token-order)."""
    from neardup.workers.commands.learn_order import OrderSettings, learn
    from neardup.workers.settings.load import load

    settings = load({**given(ctx), "scheme": "prefix"}, config, OrderSettings)
    raise typer.Exit(learn(or_stdin(paths), settings, output=output, tokens_max=order_tokens, quiet=quiet))


register(app, _EPILOG)


def _run(ctx: typer.Context, config: str | None, **options: Any) -> None:
    from neardup.workers.commands.run import RunOptions, run
    from neardup.workers.settings.load import load

    raise typer.Exit(run(RunOptions(**options), load(given(ctx), config)))


def main() -> int:
    """Run the command line and return its exit code. Each expected failure is one sentence on standard error."""
    if sys.stderr is None:  # the parent process closed it: messages are dropped
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open as long as the process
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
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of the command line parser
            if type(error).__name__ == "NoArgsIsHelpError":  # versions of typer have it in different modules
                typer.echo(error.format_message(), err=True)
                return Exit.USAGE
            found = error.format_message().rstrip(".")  # empty if the help is already printed
            return _fail(Exit.USAGE, f"{found}; neardup --help shows what there is") if found else Exit.USAGE
        code = _library_code(error)
        if code is not None:
            return _fail(code, str(error))
        from neardup.workers.process.logs import has_log, log_fatal

        if not has_log():
            raise
        log_fatal("an invariant of the program is broken: please report this", error)
        return Exit.BROKEN


def _library_code(error: Exception) -> Exit | None:
    """Return the exit code of an intended error of the library."""
    from neardup.stream.errors import CapacityError, ConfigError

    codes: dict[type[Exception], Exit] = {ConfigError: Exit.USAGE, CapacityError: Exit.CAPACITY}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), None)


def _fail(code: Exit, sentence: str) -> int:
    from neardup.workers.process.logs import has_log, log_fatal

    sentence = " ".join(sentence.split())
    if has_log():
        log_fatal(sentence)
    else:
        typer.echo(f"neardup: {printable(sentence)}", err=True)
    return code
