"""The command line of the settings: one option a field, made from the models, so that nothing is typed twice.

The fields are looked up when a command needs them and not when the program starts: they come with the kernels of the
library, which take longer to load than ``neardup --help`` should.
"""

from __future__ import annotations

import functools
import inspect
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from workers.settings import option_name

_META_KEY = "neardup.settings"
# Settings that stand in a file of their own: their options take its path.
_IN_FILES = ("token_order",)


def given(ctx: typer.Context) -> dict[str, Any]:
    """The settings that stand on the command line, by field."""
    return dict(ctx.meta.get(_META_KEY, {}))


class ConfigCommand(TyperCommand):
    """A command that takes every field of ``Config`` as an option."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's own parameters, then those of the settings."""
        return [*super().get_params(ctx), *self.setting_params()]

    def setting_params(self) -> list[Any]:
        """The options made from the fields."""
        from stream.config import Config

        return model_params(Config, "Settings: what is a near-duplicate")


class SettingsCommand(ConfigCommand):
    """A command that takes every field of ``Config`` and of ``Options`` as an option."""

    def setting_params(self) -> list[Any]:
        """The options made from the fields of both models."""
        from workers.settings.files import Options

        return [*super().setting_params(), *model_params(Options, "Settings: how input is read")]


@functools.cache
def model_params(model: type[BaseModel], panel: str) -> list[Any]:
    """Parameters of the command line for the fields of a model, made by typer from a signature."""
    parameters = [_parameter(name, field, panel) for name, field in model.model_fields.items()]

    def command(**_: Any) -> None: ...

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(command)
    names = set(model.model_fields)
    return [param for param in typer.main.get_command(app).params if param.name in names]


def _parameter(name: str, field: FieldInfo, panel: str) -> inspect.Parameter:
    value = None if field.default_factory else field.default
    shown = ", ".join(map(str, value)) if isinstance(value, tuple) else _shown(value)
    kind: Any = field.annotation
    if get_origin(kind) is tuple:
        kind = list[get_args(kind)[0]]  # type: ignore[misc]
    if name in _IN_FILES:
        kind = str
    dashed = option_name(name)
    option = typer.Option(
        f"{dashed}/--no-{dashed[2:]}" if kind is bool else dashed,
        help=f"{field.description}" if value in (None, "", ()) else f"{field.description} (default {shown})",
        metavar="FILE" if name in _IN_FILES else None,
        show_default=False,
        callback=_keep,
        expose_value=False,
        rich_help_panel=panel,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _keep(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Remember a setting that was given. Of a list, each option may hold several with commas between."""
    if isinstance(value, list | tuple):
        value = tuple(part.strip() for item in value for part in str(item).split(",")) or None
    if value is not None and param.name is not None:
        ctx.meta.setdefault(_META_KEY, {})[param.name] = value
