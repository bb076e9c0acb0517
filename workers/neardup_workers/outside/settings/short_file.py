"""Files of settings that are short: a longer one is another file, given by mistake."""

from __future__ import annotations

from pathlib import Path

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import input_failure


def read_short(path: str, what: str, bytes_max: int, too_long: str) -> bytes:
    """Return the bytes of a file.

    Args:
        path: the file.
        what: what it holds, for the message if it cannot be read.
        bytes_max: a file with more is refused.
        too_long: what follows in the message then: what such a file is not, and the remedy.

    Raises:
        Failure: the file cannot be read.
        ConfigError: the file is too long.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise input_failure(f"{what} in {path}", error) from None
    if len(content) > bytes_max:
        raise ConfigError(f"{path} is longer than {bytes_max:,} bytes, which {too_long}")
    return content
