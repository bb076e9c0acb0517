"""Settings of one process that reads files: every field of the library's ``Config`` and of ``ReadingOptions``.

``settings_sources`` reads them from the command line, the environment and a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

from neardup.errors import ConfigError, install_command
from neardup.pairs.json_lines import UNITS, Fields
from neardup.schemes.config import Config, is_weighted
from neardup.stories.sources.representatives import FIRST, LONGEST
from neardup_workers.outside.process.memory import free_bytes
from neardup_workers.outside.readers.csv_rows import Dialect, dialect_of
from neardup_workers.outside.readers.field_names import FieldNames, field_names
from neardup_workers.outside.readers.formats import AUTO, FORMATS
from neardup_workers.outside.readers.mail.limits import MAIL_TEXT_NAMES
from neardup_workers.outside.readers.warc import WARC_IDS
from neardup_workers.outside.settings.declared import WINDOW_BYTES_MIN, WINDOW_BYTES_MOST, ReadingOptions
from neardup_workers.outside.settings.durations import is_duration, seconds_of
from neardup_workers.outside.settings.presets import PRESETS
from neardup_workers.outside.settings.value_files import read_order, read_stop_words, read_templates
from neardup_workers.outside.web.pages import EXTRACTORS, MODES

ENVIRONMENT_PREFIX = "NEARDUP_"


# Setting -> its values. The formats are read late: a program may add its own.
_VALUES: dict[str, Callable[[], Sequence[str]]] = {
    "preset": lambda: tuple(PRESETS),
    "timestamp_unit": lambda: tuple(UNITS),
    "input_format": lambda: (AUTO, *FORMATS),
    "html": lambda: MODES,
    "html_extractor": lambda: EXTRACTORS,
    "mail_text": lambda: MAIL_TEXT_NAMES,
    "warc_id": lambda: tuple(WARC_IDS),
}


# The settings that bound a window -> their greatest values.
WINDOW_MOST = {"window_documents": 1 << 30, "evidence_bytes_max": 1 << 42, "window_bytes_max": WINDOW_BYTES_MOST}


class Reading(ReadingOptions, BaseModel):
    """How input is read, with checked values. Nothing here changes which documents are near-duplicates."""

    model_config = ConfigDict(defer_build=True)

    @property
    def field_names(self) -> FieldNames:
        """What the parts of a document are called."""
        return field_names(self.fields)

    @property
    def dialect(self) -> Dialect:
        """How tables are written."""
        return dialect_of(self.table)

    @field_validator("table", "fields")
    @classmethod
    def _known_parts(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        (dialect_of if info.field_name == "table" else field_names)(value)
        return value

    @field_validator("canonical_urls")
    @classmethod
    def _has_library(cls, value: bool) -> bool:
        if value and find_spec("w3lib") is None:
            raise ValueError(f"needs w3lib, which is not installed here: {install_command('web')}")
        return value

    @field_validator(*_VALUES)
    @classmethod
    def _known_value(cls, value: str | None, info: ValidationInfo) -> str | None:
        known = _VALUES[str(info.field_name)]()
        if value is not None and value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return value


def check_unweighted(settings: Config, where: str) -> None:
    """Raise ``ConfigError`` if similarity depends on counts of the stream, which ``where`` does not have."""
    if is_weighted(settings):
        raise ConfigError(
            f"measure={settings.measure} compares by counts of a stream, and not in {where}: use run, dedup, serve or "
            "Kafka, or set measure to jaccard"
        )


class Settings(Reading, Config):
    """All settings of a process; a ``Config`` as well. Raises ``ConfigError`` like it."""

    # Option of a scheme whose value stands in a file -> what reads it.
    option_files: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        "token_order": read_order,
        "templates": read_templates,
    }

    @model_validator(mode="before")
    @classmethod
    def _read_durations(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Convert durations with units, such as ``48h``."""
        return {
            name: seconds_of(name, value) if is_duration(name) and isinstance(value, str) else value
            for name, value in values.items()
        }

    @model_validator(mode="before")
    @classmethod
    def _read_collection(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Of the library, collections are a setting of their own."""
        with suppress(ValueError, TypeError):  # invalid names are refused as the value of their own field
            collection = field_names(values.get("fields") or ()).collection
            return {**({"collection_field": collection} if collection else {}), **values}
        return values

    @model_validator(mode="before")
    @classmethod
    def _read_options(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Read the options of the scheme that stand in files, whose paths they hold."""
        options = values.get("scheme_options")
        if not isinstance(options, Mapping):
            return values
        read = {name: cls.option_files[name](str(options[name])) for name in options.keys() & cls.option_files.keys()
                if isinstance(options[name], str)}  # fmt: skip
        return {**values, "scheme_options": {**options, **read}}

    @field_validator("stop_words", mode="before")
    @classmethod
    def _read_stop_words(cls, value: Any) -> Any:
        """A stop list stands in a file; where settings are written, they hold its path."""
        return read_stop_words(value) if isinstance(value, str) else value


def with_file_window(settings: Settings) -> Settings:
    """Return the settings of a command that reads files: its window is as large as memory allows.

    A stream has an end that its settings name; a file has one of its own, and a copy of its first line may be its last.
    What the settings say about the window is kept.
    """
    named = settings.model_fields_set
    if settings.window_bytes_max is None and "window_documents" in named:
        return settings
    bytes_max = settings.window_bytes_max or max(WINDOW_BYTES_MIN, free_bytes() // 2)
    lifted = {name: most for name, most in WINDOW_MOST.items() if name not in named}
    return settings.model_copy(update={**lifted, "window_bytes_max": bytes_max})


def bound_in(sentence: str, settings: object, text: str = "") -> str:
    """Return what a refused text has, the bound of the setting that a sentence ends with, and how to change it.

    Empty if it ends with none.

    >>> bound_in("the text is longer than text_characters_max", Settings(text_characters_max=1_000), 1_001 * "a")
    'it has 1,001 characters, at most 1,000 are read: --set text_characters_max=NUMBER'
    """
    setting = sentence.rpartition(" ")[2]
    bound = getattr(settings, setting, None) if setting.endswith("_max") else None
    if not isinstance(bound, int | float):
        return ""
    has = f"it has {len(text):,} characters, " if text and sentence.startswith("the text") else ""
    return f"{has}at most {bound:,} are read: --set {setting}=NUMBER"


def fields_of(settings: Settings, *, sources: bool = False) -> Fields:
    """Return how lines of JSON are read: the names of fields, the requirements of the scheme, and whether ``sources``
    are read."""
    names = settings.field_names
    rank = None if settings.representative in (FIRST, LONGEST) else settings.representative
    source, unit = names.source if sources else None, settings.timestamp_unit
    id_, text, time, tokens, vector, *_ = names
    kind, collection = settings.plan.kind, settings.collection_field
    bits = getattr(settings.plan, "picture_bits", None)  # of scheme signals alone
    return Fields(id_, text, time, tokens, vector, kind, unit, rank, source, collection, names.origin, bits)
