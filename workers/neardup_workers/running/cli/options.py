"""The command line of the settings: one option for each setting, made from ``setting_rows``.

By default the help shows the settings of ``COMMON``, which suffice for most uses; ``--help-all`` shows all.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from neardup_workers.outside.settings import option_name
from neardup_workers.running.cli.setting_rows import SettingRow, setting_rows

_ALL = "neardup.help_all"
# The settings of the default help.
COMMON = frozenset((
    "scheme", "preset", "threshold", "recall", "min_similarity", "shingles", "k", "languages", "measure", "verify",
    "sketch_bits", "window_seconds", "lateness_seconds", "window_documents", "input_format", "id_field", "text_field",
    "timestamp_field", "timestamp_unit", "sign_threads",
    "bootstrap_servers", "topic_prefix", "shards", "instance", "group", "health_port",
    "documents_partitions", "replication_factor", "retention_seconds",
    "interval_seconds", "fetch_seconds_max", "fetch_bytes_max", "allow_private",
    "host", "port", "token_file", "durability", "keep_texts",
))  # fmt: skip
# Model -> the heading of its options.
_HEADINGS = {
    "Config": "What is a near-duplicate",
    "ReadingOptions": "How input is read",
    "ConnectionOptions": "Kafka",
    "StreamOptions": "Workers",
    "TopicOptions": "Topics",
    "ServeOptions": "Service",
    "FeedOptions": "Feeds",
}
# Kind of a setting -> its type on the command line, and the name of its value in the help.
_TYPES: dict[str, tuple[Any, str | None]] = {
    "switch": (bool, None), "int": (int, "N"), "float": (float, "X"), "duration": (str, "TIME"), "file": (str, "FILE"),
    "list": (list[str], "A,B"), "text": (str, "TEXT"),
}  # fmt: skip


# The settings of a command line, by field: what ``load`` of ``neardup_workers.outside.settings.load`` takes.
Given = dict[str, Any]
Options = TypeVar("Options")


def command_of(kind: type[Options]) -> Callable[[Callable[[Options, Given], None]], Callable[..., None]]:
    """Return a decorator: a function of options and settings becomes a command with a parameter for each field.

    ``kind`` is a dataclass of ``neardup_workers.outside.options``. Its own fields come first in the help, then those of
    its base classes.
    """

    def decorate(function: Callable[[Options, Given], None]) -> Callable[..., None]:
        def command(ctx: typer.Context, **values: Any) -> None:
            function(kind(**values), ctx.obj or {})

        parameters = [
            inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context), *_fields(kind)
        ]  # fmt: skip
        command.__doc__ = function.__doc__
        return _with_parameters(command, parameters)

    return decorate


def _fields(kind: type[Any]) -> Iterator[inspect.Parameter]:
    """Yield the fields of a dataclass as parameters."""
    types, fields = get_type_hints(kind, include_extras=True), {field.name: field for field in dataclasses.fields(kind)}
    for owner in kind.__mro__:
        for name in vars(owner).get("__annotations__", {}):
            field = fields[name]
            default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
            if field.default_factory is not dataclasses.MISSING:
                default = None
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name])


def _with_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Return the function with a signature that typer reads."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


class HelpCommand(TyperCommand):
    """A command whose help has one section for each heading, and fits 80 columns without truncated names."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections; settings outside ``COMMON`` appear only with ``--help-all``."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        left_out = 0
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            heading = getattr(param, "rich_help_panel", None) or ("Options" if param.opts[0][0] == "-" else "Arguments")
            if record is None:
                continue
            if heading == "Arguments":
                record = (record[0].partition(" <")[0], record[1])  # without the name of a Python type
            if heading in _HEADINGS.values() and param.name not in COMMON and not ctx.meta.get(_ALL):
                left_out += 1
                continue
            sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{left_out} more settings: --help-all shows them.")


class ConfigCommand(HelpCommand):
    """A command with an option for every setting of some models; here, of ``Config``. ``left_out``: those that it sets
    itself."""

    models: tuple[str, ...] = ("Config",)
    left_out: tuple[str, ...] = ()

    def invoke(self, ctx: Any) -> Any:
        """Hand the given settings to the command as one value."""
        ctx.obj = {}
        for name in [row.name for model in self.models for row in setting_rows(model)]:
            value = ctx.params.pop(name, None)
            if isinstance(value, list | tuple):  # an option of a list may hold several values with commas between
                value = tuple(part.strip() for item in value for part in str(item).split(",")) or None
            if value is not None:
                ctx.obj[name] = value
        return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters, then the options of the settings."""
        settings = (param for model in self.models for param in _params(model) if param.name not in self.left_out)
        return [*super().get_params(ctx), *_help_all(), *settings]


class SettingsCommand(ConfigCommand):
    """A command that takes the settings of the library and of the input."""

    models = ("Config", "ReadingOptions")


class SchemeCommand(SettingsCommand):
    """A command for one scheme."""

    left_out = ("scheme",)


class ServeCommand(ConfigCommand):
    """A command that takes the settings of the service, and of the broker."""

    models = ("Config", "ReadingOptions", "ServeOptions", "ConnectionOptions")


class FeedCommand(ConfigCommand):
    """A command that takes the settings of feeds, of the input and of the broker."""

    models = ("FeedOptions", "ReadingOptions", "ConnectionOptions")


class WorkerCommand(ConfigCommand):
    """A command that takes every setting except the settings for the creation of topics."""

    models = ("Config", "ReadingOptions", "ConnectionOptions", "StreamOptions")


class TopicsCommand(ConfigCommand):
    """A command that takes the settings that decide topics."""

    models = ("Config", "ConnectionOptions", "StreamOptions", "TopicOptions")


class ConnectionCommand(ConfigCommand):
    """A command that takes the settings of the input and of the broker."""

    models = ("ReadingOptions", "ConnectionOptions")


@functools.cache
def _params(model: str) -> list[Any]:
    """The options of a model's settings."""
    return _made(_parameter(row, _HEADINGS[model]) for row in setting_rows(model))


@functools.cache
def _help_all() -> list[Any]:
    option = typer.Option("--help-all", is_eager=True, expose_value=False, callback=_show_all, help="show all settings")
    return _made([inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False,
                                    annotation=Annotated[bool, option])])  # fmt: skip


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


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
