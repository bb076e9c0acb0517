"""The file of templates: JSON Lines, each with a ``text``; the other keys say where it came from and decide nothing."""

from __future__ import annotations

import orjson

from neardup.errors import ConfigError
from neardup_workers.outside.settings.short_file import read_short

# Bytes: menus, headers and disclaimers of 10,000 sources have less; a longer file is another one, given by mistake.
BYTES_MAX = 1 << 24


def read_templates(path: str) -> tuple[str, ...]:
    """The texts in a file, in its order. Raises ``Failure`` if it cannot be read, ``ConfigError`` for other content."""
    content = read_short(path, "the templates", BYTES_MAX, "a list of templates is not: shorten it")
    texts = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict) or not isinstance(value.get("text"), str):
            raise ConfigError(
                f'line {number:,} of {path} is no object of JSON with a "text": write one as {{"text": "..."}}, or '
                "make the file with neardup passages --templates"
            )
        texts.append(value["text"])
    if not texts:
        raise ConfigError(f"{path} holds no template")
    return tuple(texts)
