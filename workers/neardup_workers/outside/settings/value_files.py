"""The files that hold the value of a setting: stop words, templates, an order of tokens.

A stop list is text in UTF-8 with a word a line; empty lines and lines that begin with # say nothing. Templates are JSON
Lines, each with a ``text``; the other keys say where it came from and decide nothing. Both are short; a longer file is
another one. An order is a NumPy array (.npy) of ``uint64``, hashed tokens from the rarest to the most frequent.
"""

from __future__ import annotations

from typing import IO

import numpy as np
import numpy.typing as npt
import orjson

from neardup.errors import ConfigError
from neardup.features.tokens.token_order import TokenOrder
from neardup_workers.outside.process.exits import input_failure
from neardup_workers.outside.remote.objects import open_file

# Bytes of a stop list: the longest built-in one has 20 kB.
STOP_WORDS_BYTES_MAX = 1 << 20
# Bytes of templates: menus, headers and disclaimers of 10,000 sources have less.
TEMPLATES_BYTES_MAX = 1 << 24


def read_stop_words(path: str) -> tuple[str, ...]:
    """The words in a file, in its order. Raises ``Failure`` if it cannot be read, ``ConfigError`` if it holds none."""
    content = _read_short(path, "the stop words", STOP_WORDS_BYTES_MAX, "a stop list is not: name a shorter file")
    try:
        lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 from byte {error.start:,} on: convert it to UTF-8") from None
    words = tuple(line for line in lines if line and not line.startswith("#"))
    if not words:
        raise ConfigError(f"{path} holds no stop word: write one word a line")
    return words


def read_templates(path: str) -> tuple[str, ...]:
    """The texts in a file, in its order. Raises ``Failure`` if it cannot be read, ``ConfigError`` for other content."""
    content = _read_short(path, "the templates", TEMPLATES_BYTES_MAX, "a list of templates is not: shorten it")
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
        raise ConfigError(f"{path} holds no template: leave it out")
    return tuple(texts)


def read_order(path: str) -> TokenOrder:
    """Return the order in a file. Raises ``Failure`` if it cannot be read, ``ConfigError`` if it is not an order."""
    try:
        with open_file(path) as file:
            tokens = np.load(file, allow_pickle=False)
    except OSError as error:
        raise input_failure(f"the token order in {path}", error) from None
    except (ValueError, EOFError):
        raise ConfigError(f"{path} holds no NumPy array: make one with neardup learn-order") from None
    return TokenOrder(tokens)


def write_order(file: IO[bytes], tokens: npt.NDArray[np.uint64]) -> None:
    """Write an order to a file. Raises ``OSError``."""
    np.save(file, tokens.astype("<u8"), allow_pickle=False)


def _read_short(path: str, what: str, bytes_max: int, too_long: str) -> bytes:
    """Return the bytes of a file with ``what``; ``too_long`` ends the sentence that refuses one of more bytes."""
    try:
        with open_file(path) as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise input_failure(f"{what} in {path}", error) from None
    if len(content) > bytes_max:
        raise ConfigError(f"{path} is longer than {bytes_max:,} bytes, which {too_long}")
    return content
