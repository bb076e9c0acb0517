"""Blocks of bytes -> lines, with a bound on the bytes in memory, also for long lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from neardup.stream.errors import Reason
from neardup.workers.web.pages import Page

# A byte order mark, which is not part of the text.
BOM = b"\xef\xbb\xbf"
# A value of ``reason`` that marks the header of a table.
HEADER = Reason("header")
# A value of ``reason`` that marks a record of an archive that belongs to others: a request, metadata.
RECORD = Reason("record")


class Header(NamedTuple):
    """The header of a table as it is in the input, the line feed after it, and the delimiter of cells."""

    row: bytes
    end: bytes
    delimiter: bytes


class Line(NamedTuple):
    """A line without its line feed, or a part of a line that is longer than the bound (``ended`` marks the last part).

    ``reason`` says why the line cannot be a document, if that is known already. ``end`` is the line feed, or empty if
    the content ends without one. If ``raw`` was made from a row of a table, ``row`` is the row as it is in the input,
    and ``header`` is the header of the table. A record of an archive has its bytes in ``record``, and the page in it in
    ``page``; ``raw`` is empty.
    """

    number: int
    raw: bytes
    is_part: bool = False
    ended: bool = True
    reason: Reason = Reason("")
    end: bytes = b"\n"
    row: bytes | None = None
    header: Header | None = None
    page: Page | None = None
    record: bytes | None = None


# A marker between lines: no input is available now.
IDLE = Line(0, b"")


def split_lines(blocks: Iterable[bytes | None], bytes_max: int, *, joins_blank: bool = False) -> Iterator[Line]:
    """Yield the lines of a content, numbered from 1. The last line may lack a line feed.

    An empty block becomes ``IDLE``. ``None`` marks the start of new content: the bytes before it are a line, and the
    numbers restart. A line of more than ``bytes_max`` bytes comes in parts as it is read. With ``joins_blank``,
    consecutive blank lines of a block are one line with line feeds in it: a small compressed file can hold a hundred
    million of them.
    """
    number = 1
    parts: list[bytes] = []
    size = 0
    too_long = False
    for block in blocks:
        if block is None:
            if size or too_long:
                yield Line(number, b"".join(parts), too_long, end=b"")
            number, parts, size, too_long = 1, [], 0, False
        elif not block:
            yield IDLE
        else:
            first, *rest = block.split(b"\n")
            parts.append(first)
            size += len(first)
            if rest:
                if size <= bytes_max or too_long:
                    yield Line(number, b"".join(parts), too_long)
                    number += 1
                else:
                    yield from _too_long(number, parts)
                    number += 1
                blank: list[bytes] = []
                for raw in rest[:-1]:
                    if joins_blank and (not raw or raw.isspace()) and len(raw) <= bytes_max:
                        blank.append(raw)
                        continue
                    if blank:
                        yield Line(number, b"\n".join(blank))
                        number += len(blank)
                        blank = []
                    if len(raw) <= bytes_max:
                        yield Line(number, raw)
                    else:
                        yield from _too_long(number, [raw])
                    number += 1
                if blank:
                    yield Line(number, b"\n".join(blank))
                    number += len(blank)
                parts, size, too_long = [rest[-1]], len(rest[-1]), False
            if size > bytes_max or too_long:
                yield Line(number, b"".join(parts), True, False)
                parts, size, too_long = [], 0, True
    if size > bytes_max:
        yield from _too_long(number, parts, b"")
    elif size or too_long:
        yield Line(number, b"".join(parts), too_long, end=b"")


def _too_long(number: int, parts: list[bytes], end: bytes = b"\n") -> Iterator[Line]:
    """Yield a whole line that is too long in parts."""
    yield Line(number, b"".join(parts), True, False)
    yield Line(number, b"", True, True, end=end)
