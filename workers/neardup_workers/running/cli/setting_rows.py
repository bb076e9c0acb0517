"""The table of settings for the command line, generated from the models.

An import of the models loads the kernels of the library, which takes a second. ``--help`` must not wait for them. So
the table is stored in ``setting_rows.json``, which ``python -m neardup_workers.running.cli.setting_rows`` writes. A
test compares it with the models.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from neardup_workers.outside.settings.removed import REMOVED

_FILE = Path(__file__).with_name("setting_rows.json")
# Settings whose value is in a separate file: their options take its path.
_IN_FILES = ("stop_words", "blocked", "kafka_config")
# The models, in the order of the table.
MODELS = (
    "Config", "ReadingOptions", "ConnectionOptions", "StreamOptions", "TopicOptions", "ServeOptions", "FeedOptions",
)  # fmt: skip
_KINDS: dict[object, str] = {bool: "switch", int: "int", float: "float"}


class SettingRow(NamedTuple):
    """A setting: its field, the form of its value, and the sentence of the help with the default in words."""

    name: str
    kind: str  # switch, int, float, duration, file, list or text
    help: str


@functools.cache
def setting_rows(model: str) -> tuple[SettingRow, ...]:
    """Return the rows of a model (a name of ``MODELS``), in the order of the help."""
    table: dict[str, list[list[str]]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(SettingRow(*row) for row in table[model])


def made_rows() -> dict[str, list[SettingRow]]:
    """Make the table from the models."""
    return {name: [_row(*item) for item in _ordered(model)] for name, model in _models().items()}


def _models() -> dict[str, Any]:
    from neardup.schemes.config import Config
    from neardup_workers.outside.settings.feed import FeedOptions
    from neardup_workers.outside.settings.files import ReadingOptions
    from neardup_workers.outside.settings.kafka import ConnectionOptions, StreamOptions, TopicOptions
    from neardup_workers.outside.settings.serve import ServeOptions

    models = (Config, ReadingOptions, ConnectionOptions, StreamOptions, TopicOptions, ServeOptions, FeedOptions)
    return {model.__name__: model for model in models}


def _ordered(model: Any) -> list[tuple[str, Any]]:
    """Return the fields of a model. The scheme comes first, because most other fields depend on it."""
    fields = [(name, field) for name, field in model.model_fields.items() if name not in REMOVED]
    return sorted(fields, key=lambda item: item[0] != "scheme")


def _row(name: str, field: Any) -> SettingRow:
    defaults = list(_defaults(name, field))
    shown = f" (default {'; '.join(defaults)})" if defaults else ""
    return SettingRow(name, _kind(name, field.annotation), f"{field.description}{shown}")


def _defaults(name: str, field: Any) -> Iterator[str]:
    """Yield the default of a setting, then those of schemes and of commands that have another one."""
    from neardup.schemes.rows import SCHEMES
    from neardup_workers.outside.settings.files import WINDOW_MOST

    value = None if field.default_factory else field.default
    if value not in (None, "", ()):
        yield _shown(value)
    of_schemes: dict[Any, list[str]] = {}
    for scheme, row in SCHEMES.items():
        other = row.probe_candidates_max if name == "probe_candidates_max" else row.defaults.get(name)
        if other is not None:
            of_schemes.setdefault(other, []).append(scheme)
    yield from (f"{_shown(other)} with scheme {', '.join(schemes)}" for other, schemes in of_schemes.items())
    if name == "probe_candidates_max":
        yield "else all"
    if name in WINDOW_MOST and value is not None:
        yield "of run, dedup and probe, what half of the free memory holds"


def _kind(name: str, annotation: Any) -> str:
    from neardup_workers.outside.settings.durations import is_duration

    if name in _IN_FILES:
        return "file"
    if is_duration(name):
        return "duration"
    if get_origin(annotation) is tuple:
        return "list"
    plain = next((kind for kind in (annotation, *get_args(annotation)) if kind in _KINDS), None)
    return _KINDS.get(plain, "text")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def written(rows: dict[str, list[SettingRow]]) -> str:
    """Return the content of the file: the table with one setting on each line."""
    models = [
        f"  {json.dumps(model)}: [\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows_of) + "\n  ]"
        for model, rows_of in rows.items()
    ]
    return "{\n" + ",\n".join(models) + "\n}\n"


if __name__ == "__main__":
    _FILE.write_text(written(made_rows()), encoding="utf-8")
