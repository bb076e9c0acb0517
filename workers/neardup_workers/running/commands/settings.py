"""``neardup settings``: every setting with its value, its default and its origin, as lines of a ``neardup.toml``."""

from __future__ import annotations

import json
import sys
from typing import Any

from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.options.shared import PrintOptions
from neardup_workers.outside.settings.load import SettingValue, values


def run(options: PrintOptions) -> None:
    """Write two lines for each setting: its sentence, and ``name = value`` with its origin.

    Defaults, secrets and what has no value are comments: as a file of settings the output changes nothing.
    """
    words = [word.lower().replace("-", "_") for word in options.words or ()]
    for setting in values(options.config):
        text = f"{setting.name} {setting.help}".lower().replace("-", "_")
        if not words or any(word in text for word in words):
            sys.stdout.write(f"# {setting.help}\n{_line(setting)}\n")


def schemes_help() -> str:
    """Return each scheme with its guarantee and the options that its text may have, with defaults."""
    paragraphs = ["A scheme may have options, as in --scheme records:keys=email,bands=16. Lists have commas, too."]
    for name, scheme in SCHEMES.items():
        rows = [f"{name}: {scheme.guarantee}"]
        for option, field in scheme.options.model_fields.items():
            default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
            shown = "" if default in (None, "") else f"={default}"
            rows.append(f"  {option}{'=FILE' if option in scheme.options.in_files else shown}  {field.description}")
        paragraphs.append("\n".join(rows))
    return "\n\n".join(paragraphs)


def _line(setting: SettingValue) -> str:
    if setting.secret:
        return f"# {setting.name} =  # a secret: {'set in ' if setting.value else 'only from '}the environment"
    if setting.value is None:
        return f"# {setting.name} =  # no value"
    if setting.origin == "default":
        return f"# {setting.name} = {_literal(setting.value)}  # default"
    default = "" if setting.default is None else f", default {_literal(setting.default)}"
    return f"{setting.name} = {_literal(setting.value)}  # {setting.origin}{default}"


def _literal(value: Any) -> str:
    """Return a value as TOML: JSON has the same numbers, strings, booleans and flat lists."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
