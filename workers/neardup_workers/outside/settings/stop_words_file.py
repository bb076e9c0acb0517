"""The file of a stop list: text in UTF-8 with a word a line; empty lines and lines that begin with # say nothing."""

from __future__ import annotations

from neardup.errors import ConfigError
from neardup_workers.outside.settings.short_file import read_short

# Bytes: the longest built-in list has 20 kB, so a longer file is another one, given by mistake.
BYTES_MAX = 1 << 20


def read_stop_words(path: str) -> tuple[str, ...]:
    """The words in a file, in its order. Raises ``Failure`` if it cannot be read, ``ConfigError`` if it holds none."""
    content = read_short(path, "the stop words", BYTES_MAX, "a stop list is not: name a shorter file")
    try:
        lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 from byte {error.start:,} on: convert it to UTF-8") from None
    words = tuple(line for line in lines if line and not line.startswith("#"))
    if not words:
        raise ConfigError(f"{path} holds no stop word: write one word a line")
    return words
