"""The command line of the settings: an option for each setting of ``TYPED``, and ``--set NAME=VALUE`` for all others.

A command has at most ``OPTIONS_MAX`` options, so its help is one page; ``neardup settings`` prints every setting.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from neardup.schemes.declared import Declared, LibraryOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings import option_name
from neardup_workers.outside.settings.declared import (
    GROUPS,
    ConnectionOptions,
    FeedOptions,
    ReadingOptions,
    ServeOptions,
    SettingRow,
    StreamOptions,
    TopicOptions,
    setting_rows,
)

OPTIONS_MAX = 40
# The settings that have an option: those that most uses name, and those that only make sense for one run.
TYPED = frozenset((
    "scheme", "preset", "threshold", "recall", "min_similarity", "shingles", "k", "measure", "verify", "novelty",
    "window_seconds", "lateness_seconds", "window_documents", "input_format", "fields", "html",
    "representative", "strict", "sign_threads",
    "bootstrap_servers", "topic_prefix", "kafka_config", "shards", "instance", "health_port", "verdicts",
    "allow_gap", "standbys", "log_format",
    "documents_partitions", "replication_factor", "retention_seconds",
    "interval_seconds", "allow_private", "clock",
    "host", "port", "token_file", "durability", "keep_texts", "webhook", "blocked",
))  # fmt: skip
# Kind of a setting -> its type on the command line, and the name of its value in the help.
_TYPES: dict[str, tuple[Any, str | None]] = {
    "switch": (bool, None), "int": (int, "N"), "float": (float, "X"), "duration": (str, "TIME"), "file": (str, "FILE"),
    "list": (list[str], "A,B"), "text": (str, "TEXT"),
}  # fmt: skip


# The settings of a command line, by field: what ``load`` of ``neardup_workers.outside.settings.load`` takes.
Given = dict[str, Any]
Options = TypeVar("Options")
# What a command does; it may return its exit code.
Work = Callable[[Options, Given], int | None]


def command_of(kind: type[Options]) -> Callable[[Work[Options]], Callable[..., None]]:
    """Return a decorator: a function of options and settings becomes a command with a parameter for each field.

    ``kind`` is a dataclass of ``neardup_workers.outside.options``. Its own fields come first in the help, then those of
    its base classes.
    """

    def decorate(function: Work[Options]) -> Callable[..., None]:
        def command(ctx: typer.Context, **values: Any) -> None:
            raise typer.Exit(function(kind(**values), ctx.obj or {}) or 0)

        parameters = [
            inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context), *_fields(kind)
        ]  # fmt: skip
        command.__doc__ = function.__doc__
        return _with_parameters(command, parameters)

    return decorate


def check_installed(command: str, extra: str, *packages: str) -> None:
    """Raise ``Failure`` if a package of an extra that a command needs is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        from neardup.errors import install_command

        raise Failure(
            Exit.USAGE, f"{command} needs {' and '.join(missing)}, not installed here: {install_command(extra)}"
        )


def _fields(kind: type[Any]) -> Iterator[inspect.Parameter]:
    types, fields = get_type_hints(kind), {field.name: field for field in dataclasses.fields(kind)}
    for owner in kind.__mro__:
        for name in vars(owner).get("__annotations__", {}):
            field = fields[name]
            default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
            if field.default_factory is not dataclasses.MISSING:
                default = None
            kind_of: Any = types[name]
            annotation = Annotated[kind_of, field.metadata["made"](name)]
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Return the function with a signature that typer reads."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


class HelpCommand(TyperCommand):
    """A command whose help has one section for each heading, and fits 80 columns without truncated names."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            heading = getattr(param, "rich_help_panel", None) or ("Options" if param.opts[0][0] == "-" else "Arguments")
            if record is None:
                continue
            if heading == "Arguments":
                record = (record[0].partition(" <")[0], record[1])  # without the name of a Python type
            sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class ConfigCommand(HelpCommand):
    """A command that takes every setting of some groups; here, of the library. ``typed``: more that have an option.
    ``left_out``: those that the command sets itself, or that do not concern it."""

    groups: tuple[type[Declared], ...] = (LibraryOptions,)
    typed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def invoke(self, ctx: Any) -> Any:
        """Hand the given settings to the command as one value; ``--set`` comes last."""
        ctx.obj = {}
        for row in self.rows():
            value = ctx.params.pop(row.name, None)
            if isinstance(value, list | tuple):  # an option of a list may stand several times
                value = ",".join(value) if value else None
            if value is not None:
                ctx.obj[row.name] = value
        changes = ctx.params.pop("set_", None)
        if changes:
            from neardup_workers.outside.settings.load import changed

            ctx.obj = changed(ctx.obj, changes, [row.name for row in self.rows()])
        return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters, then the options of the settings."""
        own = super().get_params(ctx)
        general = [] if any("--set" in param.opts for param in own) else _set_option()
        settings = _params(self.groups, self.typed)
        return [*own, *general, *(param for param in settings if param.name not in self.left_out)]

    def setting_of(self, option: str) -> str | None:
        """Return the setting that an unknown option names, if the command has it: ``--rows-max``, ``--no-line-ids``."""
        name = option.lstrip("-").replace("-", "_")
        names = {row.name for row in self.rows()}
        return next((one for one in (name, name.removeprefix("no_")) if one in names), None)

    def rows(self) -> list[SettingRow]:
        """The settings that the command takes."""
        return [row for group in self.groups for row in setting_rows(group) if row.name not in self.left_out]


def _taking(
    *groups: type[Declared], typed: tuple[str, ...] = (), left_out: tuple[str, ...] = ()
) -> type[ConfigCommand]:
    """Return a command that takes the settings of these groups."""

    class Taking(ConfigCommand):
        """A command that takes the settings of some groups."""

    Taking.groups, Taking.typed, Taking.left_out = groups, typed, left_out
    return Taking


_FILES = (LibraryOptions, ReadingOptions)
SettingsCommand = _taking(*_FILES)
SchemeCommand = _taking(*_FILES, left_out=("scheme",))  # for one scheme
QuotesCommand = _taking(*_FILES, left_out=(  # of a few texts: neither a part of a text nor a window counts
    "scheme", "threshold", "min_similarity", "recall", "window_seconds", "lateness_seconds", "window_documents",
))  # fmt: skip
TuneCommand = _taking(*_FILES, typed=("bands", "rows"))  # the shape of a signature
ServeCommand = _taking(*_FILES, ServeOptions, ConnectionOptions)
FeedCommand = _taking(FeedOptions, ReadingOptions, ConnectionOptions)
WorkerCommand = _taking(*_FILES, ConnectionOptions, StreamOptions)
# What decides topics: of the input only the preset.
TopicsCommand = _taking(
    *_FILES, ConnectionOptions, StreamOptions, TopicOptions,
    left_out=tuple(name for name in vars(ReadingOptions)["__annotations__"] if name != "preset"),
)  # fmt: skip
ConnectionCommand = _taking(ReadingOptions, ConnectionOptions)


@functools.cache
def _params(groups: tuple[type[Declared], ...], typed: tuple[str, ...]) -> list[Any]:
    names = TYPED.union(typed)
    return _made(_parameter(row, GROUPS[group]) for group in groups for row in setting_rows(group) if row.name in names)


@functools.cache
def _set_option() -> list[Any]:
    option = typer.Option("--set", metavar="NAME=VALUE", help="any setting; neardup settings prints them. Repeat it")
    return _made([inspect.Parameter("set_", inspect.Parameter.KEYWORD_ONLY, default=None,
                                    annotation=Annotated[list[str] | None, option])])  # fmt: skip


def _made(parameters: Iterable[inspect.Parameter]) -> list[Any]:
    """Parameters of the command line, made by typer from a signature."""
    listed = list(parameters)

    def command(**_: Any) -> None: ...

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_with_parameters(command, listed))
    names = {parameter.name for parameter in listed}
    return [param for param in typer.main.get_command(app).params if param.name in names]


def _parameter(row: SettingRow, panel: str) -> inspect.Parameter:
    kind, metavar = _TYPES[row.kind]
    dashed = option_name(row.name)
    option = typer.Option(
        f"{dashed}/--no-{dashed[2:]}" if row.kind == "switch" else dashed,
        help=row.help,
        metavar=metavar,
        show_default=False,
        rich_help_panel=panel,
    )
    return inspect.Parameter(
        row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )
