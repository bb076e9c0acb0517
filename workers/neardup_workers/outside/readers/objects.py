"""JSON Lines, JSON arrays and tables as objects, for the commands that read pairs, records and truth."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import orjson

from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.exits import Exit, Failure, input_failure
from neardup_workers.outside.readers.blocks import opened
from neardup_workers.outside.readers.compression import BLOCK_BYTES, Corrupt, decompressed
from neardup_workers.outside.readers.formats import FORMAT_REASONS, FORMATS, LINES, choose
from neardup_workers.outside.readers.lines import flattened
from neardup_workers.outside.readers.paths import display
from neardup_workers.outside.remote.objects import RemoteFile

# Bytes of a line at most: the default of line_bytes_max.
_LINE_BYTES_MAX = 64 << 20
# Records have any fields, so no field is required.
_FIELDS = Fields(kind="record")

# The names of the two ids of a pair, in files of ours and of others.
ID_NAMES = (("older", "newer"), ("a", "b"), ("id1", "id2"))


def json_objects(
    path: str, left_out: Counter[str], others: str = "lines that are no JSON object", otherwise: str = LINES
) -> Iterator[Any]:
    """Yield the objects of a file in any format that has lines, plain or compressed; cells of a table are strings.

    Content of no known format is read as ``otherwise``. Lines that are not objects are counted as ``others``. Raises
    ``Failure`` for a file that cannot be read.
    """
    with _unpacked(path) as blocks:
        head = next(blocks, b"") or b""
        chosen = choose(path, head, _FIELDS)
        if chosen in FORMAT_REASONS:
            raise Failure(Exit.INPUT, f"cannot read {display(path)}: {FORMAT_REASONS[chosen]}")
        read = FORMATS[otherwise].read if isinstance(chosen, Reason) else chosen.read
        if read is None:
            return
        for line in flattened(read(chain((head,), blocks), _FIELDS, _LINE_BYTES_MAX)):
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


def text_of(path: str, bytes_max: int) -> str:
    """Return the text of a file, plain or compressed. Raises ``Failure`` for one that cannot be read, is longer than
    ``bytes_max``, or is not UTF-8."""
    content = bytearray()
    with _unpacked(path) as blocks:
        for block in filter(None, blocks):
            content += block
            if len(content) > bytes_max:
                raise Failure(Exit.UNUSABLE, f"{display(path)} is longer than line_bytes_max={bytes_max:,}: raise it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Failure(Exit.UNUSABLE, f"{display(path)} is not UTF-8: convert it") from None


@contextmanager
def _unpacked(path: str) -> Iterator[Iterator[bytes | None]]:
    """The blocks of a file, unpacked. Raises ``Failure`` where it cannot be read."""
    try:
        with opened(path) as file:
            yield decompressed(
                file.pieces() if isinstance(file, RemoteFile) else iter(partial(os.read, file, BLOCK_BYTES), b"")
            )
    except OSError as error:
        raise input_failure(display(path), error) from None
    except Corrupt:
        raise Failure(Exit.INPUT, f"cannot read {display(path)}: the compressed data is damaged or cut off") from None


def pair_lines(path: str, left_out: Counter[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield ``older``, ``newer`` and the object of each pair, as ``json_objects``; other lines are counted."""
    for line in json_objects(path, left_out):
        older, newer = line.get("older"), line.get("newer")
        if isinstance(older, str) and isinstance(newer, str):
            yield older, newer, line
        else:
            left_out["lines of pairs without older and newer"] += 1
