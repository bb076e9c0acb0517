"""JSON Lines as objects, for the commands that read pairs, records and truth; plain or compressed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from workers.exits import Exit, Failure, input_failure
from workers.transports.compression import BLOCK_BYTES, Corrupt, decompressed
from workers.transports.files import STDIN, display
from workers.transports.lines import split_lines

# Bytes of a line at most: the default of line_bytes_max.
_LINE_BYTES_MAX = 64 << 20


def json_objects(path: str, left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON Lines, plain or compressed; other lines are counted."""
    try:
        with open(0 if path == STDIN else path, "rb", buffering=0, closefd=path != STDIN) as file:
            blocks = iter(lambda: os.read(file.fileno(), BLOCK_BYTES), b"")
            for line in split_lines(decompressed(blocks), _LINE_BYTES_MAX):
                value = None
                if not line.is_part and line.raw.strip():
                    try:
                        value = orjson.loads(line.raw)
                    except orjson.JSONDecodeError:
                        value = None
                if isinstance(value, dict):
                    yield value
                elif line.raw.strip() and line.ended:
                    left_out["lines that are no JSON object"] += 1
    except OSError as error:
        raise input_failure(display(path), error) from None
    except Corrupt:
        raise Failure(Exit.INPUT, f"cannot read {display(path)}: the compressed data is damaged or cut off") from None
