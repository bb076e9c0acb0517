"""Settings of one process that reads files: every field of the library's ``Config`` and of ``ReadingOptions``.

``settings_sources`` reads them from the command line, the environment and a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from neardup.errors import install_command
from neardup.pairs.json_lines import UNITS, Fields
from neardup.schemes.config import Config
from neardup.stories.sources.ledger import SOURCES_MAX
from neardup.stories.verdicts.representatives import FIRST, LONGEST
from neardup_workers.outside.process.memory import free_bytes
from neardup_workers.outside.readers.field_names import FieldNames, field_names
from neardup_workers.outside.readers.formats import AUTO, FORMATS
from neardup_workers.outside.readers.warc import WARC_IDS
from neardup_workers.outside.settings.durations import is_duration, seconds_of
from neardup_workers.outside.settings.order_file import read_order
from neardup_workers.outside.settings.presets import PRESETS
from neardup_workers.outside.settings.value_files import read_stop_words, read_templates
from neardup_workers.outside.web.pages import EXTRACTORS, MODES

ENVIRONMENT_PREFIX = "NEARDUP_"


# Setting -> its values. The formats are read late: a program may add its own.
_VALUES: dict[str, Callable[[], Sequence[str]]] = {
    "timestamp_unit": lambda: tuple(UNITS),
    "input_format": lambda: (AUTO, *FORMATS),
    "html": lambda: MODES,
    "html_extractor": lambda: EXTRACTORS,
    "warc_id": lambda: tuple(WARC_IDS),
}


WINDOW_BYTES_MIN = 1 << 20
# The settings that bound a window -> their greatest values.
WINDOW_MOST = {"window_documents": 1 << 30, "evidence_bytes_max": 1 << 42, "window_bytes_max": 1 << 46}


class ReadingOptions(BaseModel):
    """How input is read and refusals are reported. Nothing here changes which documents are near-duplicates."""

    model_config = ConfigDict(defer_build=True)

    preset: str | None = Field(
        default=None, description=f"settings for a kind of documents, unless set otherwise: {', '.join(PRESETS)}"
    )
    fields: tuple[str, ...] = Field(
        default=(),
        description="names in JSON Lines and tables, as id=doc,text=body,time=published; also tokens, vector, source "
        "(else the host of the URL), collection (documents of different ones never meet) and html (HTML, and no text)",
    )
    timestamp_unit: str = Field(default="s", description=f"unit of timestamps that are numbers: {', '.join(UNITS)}")
    sources_max: int = Field(
        default=SOURCES_MAX,
        ge=1,
        le=1_000_000,
        description="sources that are counted exactly; of more, those with the fewest documents are forgotten",
    )
    representative: str = Field(
        default=FIRST,
        min_length=1,
        description=f"member of a cluster that a page shows: {FIRST}, {LONGEST}, or the name of a field: the greatest "
        "number there",
    )
    input_format: str = Field(
        default=AUTO,
        description=f"what the paths hold: {', '.join((AUTO, *FORMATS))}; {AUTO} decides by content, then by name",
    )
    canonical_urls: bool = Field(
        default=False,
        description="give ids that are URLs a canonical form as files and feeds are read (see the cookbook)",
    )
    line_ids: bool = Field(
        default=True, description="give a line without an id the id path:line, instead of refusing it"
    )
    # At the defaults, a text of text_characters_max characters fits in any escaped form (12 bytes a character).
    line_bytes_max: int = Field(
        default=64 << 20,
        ge=1,
        le=1 << 31,
        description="bytes of a line or of a document file at most; longer is refused",
    )
    html: str = Field(
        default=MODES[0],
        description=f"what is compared of a page: {', '.join(MODES)} (the article; all text; the markup as it is)",
    )
    html_extractor: str = Field(
        default=EXTRACTORS[0], description=f"what extracts the text: {', '.join(EXTRACTORS)} (faster)"
    )
    warc_id: str = Field(default=next(iter(WARC_IDS)), description=f"id of a record in WARC: {', '.join(WARC_IDS)}")
    window_bytes_max: int | None = Field(
        default=None,
        ge=WINDOW_BYTES_MIN,
        le=WINDOW_MOST["window_bytes_max"],
        description="bytes of memory of the window of run, dedup and probe; by default half of the free memory, or any "
        "if window_documents is set",
    )
    strict: bool = Field(default=False, description="end at the first refusal, with an exit code of its own")
    sign_threads: int = Field(
        default_factory=lambda: os.cpu_count() or 1,
        ge=1,
        le=256,
        description="threads that sign, and processes that extract texts; all cores by default",
    )

    @property
    def field_names(self) -> FieldNames:
        """What the parts of a document are called."""
        return field_names(self.fields)

    @field_validator("fields")
    @classmethod
    def _known_parts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        field_names(value)
        return value

    @field_validator("preset")
    @classmethod
    def _known_preset(cls, value: str | None) -> str | None:
        if value is not None and value not in PRESETS:
            raise ValueError(f"must be one of {', '.join(PRESETS)}")
        return value

    @field_validator("canonical_urls")
    @classmethod
    def _has_library(cls, value: bool) -> bool:
        if value and find_spec("w3lib") is None:
            raise ValueError(f"needs w3lib, which is not installed here: {install_command('web')}")
        return value

    @field_validator("timestamp_unit", "input_format", "html", "html_extractor", "warc_id")
    @classmethod
    def _known_value(cls, value: str, info: ValidationInfo) -> str:
        known = _VALUES[str(info.field_name)]()
        if value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return value


class Settings(ReadingOptions, Config):
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


def fields_of(settings: Settings, *, sources: bool = False) -> Fields:
    """Return how lines of JSON are read: the names of fields, the requirements of the scheme, and whether ``sources``
    are read."""
    names = settings.field_names
    rank = None if settings.representative in (FIRST, LONGEST) else settings.representative
    source, unit = names.source if sources else None, settings.timestamp_unit
    id_, text, time, tokens, vector, *_ = names
    kind, collection = settings.plan.kind, settings.collection_field
    return Fields(id_, text, time, tokens, vector, kind, unit, rank, source, collection)
