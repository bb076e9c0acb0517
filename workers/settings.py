"""Settings: every field of the library's ``Config`` and of ``Options``, from four places.

The command line goes before the environment (``NEARDUP_THRESHOLD=0.9``), the environment before a TOML file
(``threshold = 0.9``), the file before the defaults. The file is the one named by ``--config``, else ``neardup.toml``
in the working folder if there is one. Names that are no setting are refused in each place; those of other commands
may stand in the file and in the environment, which all commands share. Secrets are refused in the file. An empty
variable is no setting; ``NEARDUP_LANGUAGES`` takes several values with commas between.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, Field, SecretStr, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from stream.codecs import Fields
from stream.config import Config
from stream.errors import ConfigError
from stream.schemes import SCHEMES
from workers.exits import input_failure
from workers.order_file import read_order

ENVIRONMENT_PREFIX = "NEARDUP_"
FILE_DEFAULT = "neardup.toml"
INPUT_FORMATS = ("auto", "lines", "documents")


class Options(BaseModel):
    """How input is read and refusals are told: what does not change which documents are near-duplicates."""

    id_field: str = Field("id", description="name of the id in JSON Lines and tables")
    text_field: str = Field("text", description="name of the text in JSON Lines")
    timestamp_field: str = Field("timestamp", description="name of the time in JSON Lines and tables")
    tokens_field: str = Field("tokens", description="name of the elements of a set, or the ratings, in JSON Lines")
    vector_field: str = Field("vector", description="name of the vector in JSON Lines")
    input_format: str = Field(
        "auto",
        description="what the paths hold: auto (.jsonl, .ndjson and streams are lines, the rest documents; where these "
        "are records, .csv and .tsv are tables), lines, documents",
    )
    # Any text within text_characters_max fits, however it is escaped, at the default of both (12 bytes a character).
    line_bytes_max: int = Field(
        64 << 20, ge=1, le=1 << 31, description="bytes of a line or of a document file at most; longer is refused"
    )
    hidden: bool = Field(False, description="take names that begin with a dot when walking folders")
    walk_reports_max: int = Field(
        10, ge=0, description="files in folders reported for each reason at most; the rest are counted"
    )
    follow_seconds: float = Field(0.2, gt=0, le=3600, description="how often --follow looks for more")
    sign_threads: int = Field(
        default_factory=lambda: os.cpu_count() or 1, ge=1, le=256, description="threads that sign; all cores by default"
    )

    @field_validator("input_format")
    @classmethod
    def _known_format(cls, value: str) -> str:
        if value not in INPUT_FORMATS:
            raise ValueError(f"must be one of {', '.join(INPUT_FORMATS)}")
        return value


class Settings(Options, Config, BaseSettings):
    """All settings of a process; a ``Config`` as well. Raises ``ConfigError`` like it."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True)

    @field_validator("token_order", mode="before")
    @classmethod
    def _read_order(cls, value: Any) -> Any:
        """An order of tokens stands in a file; where settings are written, they hold its path."""
        return read_order(value) if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """``load`` reads the places itself, to know which value came from where."""
        return (init_settings,)


def fields_of(settings: Settings) -> Fields:
    """How lines of JSON are read: the names, and what the scheme asks of a document."""
    names = (
        settings.id_field,
        settings.text_field,
        settings.timestamp_field,
        settings.tokens_field,
        settings.vector_field,
    )
    return Fields(*names, SCHEMES[settings.scheme].kind(settings.plan))


class _Environment(EnvSettingsSource):
    """The environment, with commas between the values of a list."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """A list of the values between the commas."""
        return [part.strip() for part in value.split(",")]


Kind = TypeVar("Kind", bound=Settings)


def load(given: Mapping[str, Any], file: str | None = None, kind: type[Kind] = Settings) -> Kind:  # type: ignore[assignment]
    """The settings with those of the command line in ``given`` and the TOML file ``file``.

    Raises ``ConfigError`` for unknown names and values that cannot work, ``Failure`` for a file that cannot be read.
    """
    path = Path(file or FILE_DEFAULT)
    known = _known_fields()
    from_file = _from_file(path, known) if file is not None or path.is_file() else {}
    from_file = {name: value for name, value in from_file.items() if name in kind.model_fields}
    _refuse_unknown_variables(known)
    from_environment = _Environment(kind)()
    try:
        return kind(**{**from_file, **from_environment, **given})
    except ConfigError as error:
        raise ConfigError(f"{error}{_places(from_file, from_environment, given, path)}") from None


def _known_fields() -> dict[str, FieldInfo]:
    """The settings of all commands."""
    from workers.stream_settings import StreamSettings  # which is made from what stands here

    return StreamSettings.model_fields


def _from_file(path: Path, known: Mapping[str, FieldInfo]) -> dict[str, Any]:
    try:
        with path.open("rb") as opened:  # the source skips a file that is missing; a named one must be there
            opened.read(1)
        values = TomlConfigSettingsSource(Settings, path)()
    except OSError as error:
        raise input_failure(f"the settings in {path}", error) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    _refuse_unknown(values, str(path), known)
    for name in values:
        if SecretStr in get_args(known[name].annotation):
            raise ConfigError(
                f"{name} is a secret and stands in {path}: set {ENVIRONMENT_PREFIX}{name.upper()} in the environment, "
                f"or name a file that holds nothing else with {name}_file"
            )
    return dict(values)


def _refuse_unknown_variables(known: Mapping[str, FieldInfo]) -> None:
    names = [name for name in os.environ if name.upper().startswith(ENVIRONMENT_PREFIX)]
    _refuse_unknown(names, "the environment", [ENVIRONMENT_PREFIX + name.upper() for name in known])


def _refuse_unknown(names: Iterable[str], place: str, known: Iterable[str]) -> None:
    folded = {name.upper(): name for name in known}
    for name in names:
        if name in folded.values() or (place == "the environment" and name.upper() in folded):
            continue
        close = difflib.get_close_matches(name.upper(), folded, 1)
        hint = f"did you mean {folded[close[0]]}?" if close else "known are: " + ", ".join(folded.values())
        raise ConfigError(f"unknown setting {name} in {place}; {hint}")


def _places(file: Mapping[str, Any], environment: Mapping[str, Any], given: Mapping[str, Any], path: Path) -> str:
    """Which settings came from elsewhere than the command line, for the end of a message."""
    environment_names = [ENVIRONMENT_PREFIX + name.upper() for name in environment if name not in given]
    file_names = [name for name in file if name not in environment and name not in given]
    parts = [f"{', '.join(environment_names)} from the environment"] if environment_names else []
    parts += [f"{', '.join(file_names)} from {path}"] if file_names else []
    return f" (with {' and '.join(parts)})" if parts else ""
