"""The sources of settings. The first source that names a setting decides.

In order of priority: the command line, the environment (``NEARDUP_THRESHOLD=0.9``), a TOML file (``threshold = 0.9``),
a preset (``--preset news``), the defaults. Options of one scheme add up: each comes from the first source that names
it. ``--config`` names the file; without it, ``neardup.toml`` in the working
folder is read if it exists. Every source refuses unknown names. All commands share the file and the environment, so
these may contain settings of other commands. Secrets are refused in the file. An empty variable is ignored. Lists have
commas between values (``NEARDUP_LANGUAGES``).
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, get_args, get_origin

from pydantic import SecretStr, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from neardup.errors import ConfigError
from neardup.kernel_folder import KERNELS, VARIABLE
from neardup.schemes.scheme_text import split_scheme, text_of
from neardup_workers.outside.process.exits import input_failure
from neardup_workers.outside.settings.declared import GIVEN_OTHERWISE, helps_of_all_commands
from neardup_workers.outside.settings.durations import is_duration, seconds_of
from neardup_workers.outside.settings.files import ENVIRONMENT_PREFIX, Settings
from neardup_workers.outside.settings.presets import PRESETS

if TYPE_CHECKING:
    from neardup.schemes.kinds.prefix import PrefixOptions
    from neardup_workers.outside.settings.kafka import StreamSettings

FILE_DEFAULT = "neardup.toml"
_ENVIRONMENT = "the environment"
# No settings: switches of the library, which it reads at its import.
_SWITCHES = (KERNELS, VARIABLE)


Kind = TypeVar("Kind", bound=Settings)


def load(given: Mapping[str, Any], file: str | None = None, kind: type[Kind] = Settings) -> Kind:  # type: ignore[assignment]
    """Return the settings. ``given`` holds the settings of the command line, ``file`` names the TOML file.

    Raises ``ConfigError`` for unknown names and invalid values, ``Failure`` for a file that cannot be read.
    """
    sources = _sources(given, file, kind.model_fields)
    try:
        return kind(**{name: value for name, (value, _) in _merged(sources).items()})
    except ConfigError as error:
        raise ConfigError(f"{error}{_origins(sources)}") from None


def _merged(sources: Sequence[_Source]) -> dict[str, tuple[Any, str]]:
    """Return the value that sources lead to, and where it comes from, of each setting that one of them names.

    Options of a scheme add up; a source that names another scheme leaves out those of the sources after it. They stand
    apart, as ``scheme_options``.
    """
    found: dict[str, tuple[Any, str]] = {}
    for origin, values in reversed(sources):
        before, options = found.get("scheme", ("", ""))[0], found.get("scheme_options", ({}, ""))
        found |= {name: (value, origin) for name, value in values.items()}
        if "scheme" in values:
            name, added = split_scheme(str(values["scheme"]))
            more = name == before and options[0]
            origins = f"{options[1]}, {origin}" if more else origin
            found["scheme"] = name, origins
            own = {**added, **values.get("scheme_options", {})}
            found["scheme_options"] = {**(options[0] if more else {}), **own}, origins
    return found


def load_stream(given: dict[str, object], file: str | None = None, *, window: bool = True) -> StreamSettings:
    """Return the settings of a worker from all sources. If ``window`` is set, the window must be bounded in time.

    Raises ``ConfigError`` and ``Failure`` like ``load``.
    """
    from neardup_workers.outside.settings.kafka import StreamSettings

    settings = load(given, file, StreamSettings)
    if window and settings.window_seconds is None:
        raise ConfigError(
            "window_seconds is not set, but workers on Kafka restore the window from the log, so it needs an end: "
            "set how far apart in time two documents may be, for instance --window-seconds 86400"
        )
    if window and settings.scheme == "prefix" and cast("PrefixOptions", settings.scheme_options).token_order is None:
        raise ConfigError(
            "scheme=prefix has no token_order, but without one it compares nearly every document with every other on "
            "Kafka, where no worker sees all tokens: make one with neardup learn-order, and give "
            "--scheme prefix:token_order=FILE"
        )
    return settings


class _Source(NamedTuple):
    """A source of settings: how a message names it, and the settings that it gives."""

    origin: str
    values: Mapping[str, Any]


def _sources(given: Mapping[str, Any], file: str | None, fields: Mapping[str, FieldInfo]) -> list[_Source]:
    """Return the sources of the settings ``fields`` in order of priority; the defaults are not among them.

    Raises ``ConfigError`` for an unknown name in the environment or the file, ``Failure`` for a file that cannot be
    read.
    """
    path = Path(file or FILE_DEFAULT)
    in_file = _from_file(path) if file is not None or os.path.lexists(path) else {}
    _refuse_unknown_variables()
    named = {
        "the command line": given,
        _ENVIRONMENT: _from_environment(fields),
        str(path): {name: value for name, value in in_file.items() if name in fields},
    }
    sources = [_Source(origin, _with_lists(values, fields)) for origin, values in named.items()]
    name = next((str(source.values["preset"]) for source in sources if "preset" in source.values), "")
    return [*sources, _Source(f"preset {name}", PRESETS[name].values if name in PRESETS else {})]


class SettingValue(NamedTuple):
    """A setting as it stands: ``origin`` is where its value comes from, ``help`` the sentence of the help, ``secret``:
    whether it may be shown."""

    name: str
    value: Any
    default: Any
    origin: str
    help: str
    secret: bool


def values(file: str | None = None) -> list[SettingValue]:
    """Return every setting of all commands, with its value and where that comes from.

    Raises ``ConfigError`` for an unknown name in the environment or the file, ``Failure`` for a file that cannot be
    read.
    """
    fields, helps = _of_all_commands(), helps_of_all_commands()
    named = _merged(_sources({}, file, fields))
    if "scheme_options" in named:
        (scheme, origin), (options, _) = named["scheme"], named["scheme_options"]
        named["scheme"] = text_of(scheme, options), origin
    found = []
    for name, field in fields.items():
        default = field.get_default(call_default_factory=True)
        value, origin = named.get(name, (default, "default"))
        secret = SecretStr in get_args(field.annotation)
        sentence = helps.get(name, str(field.description))  # no command shows a secret
        found.append(SettingValue(name, _as_number(name, value, default), default, origin, sentence, secret))
    return found


def _as_number(name: str, value: Any, default: Any) -> Any:
    """Return a text of the environment as the number or the switch that it stands for; as it is if it is none."""
    if not isinstance(value, str) or not (is_duration(name) or isinstance(default, int | float)):
        return value
    try:
        return seconds_of(name, value) if is_duration(name) else TypeAdapter(type(default)).validate_python(value)
    except (ConfigError, ValidationError):  # the command that uses it refuses it
        return value


def changed(given: Mapping[str, Any], changes: Sequence[str], known_names: Iterable[str] = ()) -> dict[str, Any]:
    """Return settings of the command line with changes, each as ``NAME=VALUE``.

    ``known_names`` are the settings of the command, by default those of all commands. Raises ``ConfigError`` for a
    change of another form, and for an unknown name.
    """
    wrong = next((change for change in changes if "=" not in change), None)
    if wrong is not None:
        raise ConfigError(f"--set {wrong} gives no value: write NAME=VALUE, for instance --set threshold=0.7")
    texts = {name.strip(): value.strip() for name, _, value in (change.partition("=") for change in changes)}
    known = _of_all_commands()
    _refuse_unknown(texts, "--set", list(known_names) or known)
    return {**given, **texts}


def _from_environment(fields: Mapping[str, FieldInfo]) -> dict[str, str]:
    """Return the variables of settings, by field."""
    variables = {name.upper(): value for name, value in os.environ.items() if value}
    names = [name for name in fields if ENVIRONMENT_PREFIX + name.upper() in variables]
    return {name: variables[ENVIRONMENT_PREFIX + name.upper()] for name in names}


def _with_lists(values: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Return settings of a source; a text for a list has commas between values."""
    lists = {name for name in values.keys() & fields.keys() if get_origin(fields[name].annotation) is tuple}
    return {name: [part.strip() for part in value.split(",")] if name in lists and isinstance(value, str) else value
            for name, value in values.items()}  # fmt: skip


def _of_all_commands() -> dict[str, FieldInfo]:
    """Return the settings of all commands. Their models are loaded only if a file or a variable may name them."""
    from neardup_workers.outside.settings.kafka import FeedSettings, StreamSettings
    from neardup_workers.outside.settings.serve import ServeSettings

    # Of a setting that several have, the default of the service is shown, then that of the workers.
    fields = {**FeedSettings.model_fields, **StreamSettings.model_fields, **ServeSettings.model_fields}
    return {name: field for name, field in fields.items() if name not in GIVEN_OTHERWISE}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8-sig"))  # editors of Windows write the mark of UTF-8
    except OSError as error:
        raise input_failure(f"the settings in {path}", error) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    known = _of_all_commands()
    _refuse_unknown(values, str(path), known)
    for name in values:
        if SecretStr in get_args(known[name].annotation):
            raise ConfigError(
                f"{name} is a secret and stands in {path}: set {ENVIRONMENT_PREFIX}{name.upper()} in the environment, "
                f"or name a file that holds nothing else with {name}_file"
            )
    return values


def _refuse_unknown_variables() -> None:
    names = [name for name in os.environ if name.upper().startswith(ENVIRONMENT_PREFIX) and name not in _SWITCHES]
    if names:
        known = [ENVIRONMENT_PREFIX + name.upper() for name in _of_all_commands()]
        _refuse_unknown(names, _ENVIRONMENT, known)


def _refuse_unknown(names: Iterable[str], origin: str, known: Iterable[str]) -> None:
    folded = {name.upper(): name for name in known}
    for name in names:
        if name in folded.values() or (origin == _ENVIRONMENT and name.upper() in folded):
            continue
        plain = name.lower().removeprefix(ENVIRONMENT_PREFIX.lower())
        if plain in GIVEN_OTHERWISE:
            raise ConfigError(f"{name} in {origin} is a setting of the library alone: {GIVEN_OTHERWISE[plain]}")
        close = difflib.get_close_matches(name.upper(), folded, 1)
        hint = f"did you mean {folded[close[0]]}?" if close else "neardup settings prints those that there are"
        raise ConfigError(f"unknown setting {name} in {origin}; {hint}")


def _origins(sources: Sequence[_Source]) -> str:
    """Return which settings came from the environment and the file, for the end of a message."""
    given, environment, file, _ = sources
    variables = [ENVIRONMENT_PREFIX + name.upper() for name in environment.values if name not in given.values]
    names = [name for name in file.values if name not in environment.values and name not in given.values]
    parts = [f"{', '.join(found)} from {source.origin}"
             for source, found in ((environment, variables), (file, names)) if found]  # fmt: skip
    return f" (with {' and '.join(parts)})" if parts else ""
