"""JSON Lines and tables as objects, for the commands that read pairs, records and truth; plain or compressed."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from workers.process.exits import Exit, Failure, input_failure
from workers.sources.compression import BLOCK_BYTES, Corrupt, decompressed
from workers.sources.csv_rows import delimiter_of, table_lines
from workers.sources.lines import Line, split_lines
from workers.sources.paths import STDIN, display

# Bytes of a line at most: the default of line_bytes_max.
_LINE_BYTES_MAX = 64 << 20


def json_objects(path: str, left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON Lines, plain or compressed; other lines are counted."""
    return _objects(path, left_out, "lines that are no JSON object", lambda lines: lines)


def record_objects(path: str, left_out: Counter[str], number_field: str | None) -> Iterator[dict[str, Any]]:
    """The same; a file that ends in .csv or .tsv is a table, whose cells are strings.

    Those of ``number_field`` are numbers where they can be.
    """
    delimiter = delimiter_of(path)
    if delimiter is None:
        return json_objects(path, left_out)
    read = functools.partial(table_lines, delimiter=delimiter, bytes_max=_LINE_BYTES_MAX, number_field=number_field)
    return _objects(path, left_out, "rows that are no record", read)


def _objects(
    path: str, left_out: Counter[str], others: str, read: Callable[[Iterator[Line]], Iterator[Line]]
) -> Iterator[dict[str, Any]]:
    """The objects of the lines that ``read`` makes of those of a file; other lines are counted as ``others``."""
    try:
        with open(0 if path == STDIN else path, "rb", buffering=0, closefd=path != STDIN) as file:
            blocks = iter(lambda: os.read(file.fileno(), BLOCK_BYTES), b"")
            for line in read(split_lines(decompressed(blocks), _LINE_BYTES_MAX)):
                value = None
                if not line.is_part and not line.reason and line.raw.strip():
                    try:
                        value = orjson.loads(line.raw)
                    except orjson.JSONDecodeError:
                        value = None
                if isinstance(value, dict):
                    yield value
                elif line.raw.strip() and line.ended:
                    left_out[others] += 1
    except OSError as error:
        raise input_failure(display(path), error) from None
    except Corrupt:
        raise Failure(Exit.INPUT, f"cannot read {display(path)}: the compressed data is damaged or cut off") from None
