"""Blocks of bytes -> lines, with a bound on the bytes in memory, also for long lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import Reason
from neardup.machine.kernels.json_scan import PADDING
from neardup_workers.outside.web.pages import Page

# A byte order mark, which is not part of the text.
BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\n\v\f\r\x1e" + BOM
_LINE_FEED = 10
# What a kernel may read behind the last line of a run.
_PADDING = bytes(PADDING)
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

    @property
    def is_blank(self) -> bool:
        """Whether it holds nothing, and is not refused."""
        return not self.reason and is_blank(self.raw)


# A marker between lines: no input is available now.
IDLE = Line(0, b"")


class Run(NamedTuple):
    """Consecutive whole lines of one block, each with its line feed in the input and within the bound, from line
    ``number`` on. Some may be blank. Line i of n is ``data[starts[i]:starts[i + 1]]``, with its line feed; ``PADDING``
    bytes or more stand behind the last one."""

    number: int
    data: bytes
    starts: npt.NDArray[np.int64]

    @property
    def lines(self) -> int:
        """The number of lines."""
        return len(self.starts) - 1

    @property
    def raws(self) -> list[bytes]:
        """The lines without their line feeds."""
        return self.data[self.starts[0] : self.starts[-1] - 1].split(b"\n")

    def part(self, begin: int, end: int) -> Run:
        """Return some of the lines."""
        return Run(self.number + begin, self.data, self.starts[begin : end + 1])


def split_lines(blocks: Iterable[bytes | None], bytes_max: int) -> Iterator[Line]:
    """Yield the lines of a content, numbered from 1. The last line may lack a line feed.

    An empty block becomes ``IDLE``. ``None`` marks the start of new content: the bytes before it are a line, and the
    numbers restart. A line of more than ``bytes_max`` bytes comes in parts as it is read.
    """
    for part in split_runs(blocks, bytes_max):
        if isinstance(part, Line):
            yield part
        else:
            yield from map(Line, count(part.number), part.raws)


def split_runs(blocks: Iterable[bytes | None], bytes_max: int) -> Iterator[Line | Run]:
    """Yield the same, where the whole lines of a block that are within the bound stay together."""
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
            rest = block
            if too_long and (end := rest.find(b"\n")) >= 0:
                yield Line(number, rest[:end], True)
                number, too_long, rest = number + 1, False, rest[end + 1 :]
            if end := rest.rfind(b"\n") + 1:
                run = _run_of(number, b"".join((*parts, memoryview(rest)[:end], _PADDING)))
                yield from _runs(run, bytes_max)
                number += run.lines
                parts, size, rest = [], 0, rest[end:]
            parts.append(rest)
            size += len(rest)
            if size > bytes_max or too_long:
                yield Line(number, b"".join(parts), True, False)
                parts, size, too_long = [], 0, True
    if size or too_long:
        yield Line(number, b"".join(parts), too_long, end=b"")


def _run_of(number: int, data: bytes) -> Run:
    """Return the lines of bytes that end with a line feed and the padding."""
    content = np.frombuffer(data, np.uint8, len(data) - PADDING)
    return Run(number, data, np.concatenate(([0], np.flatnonzero(content == _LINE_FEED) + 1)))


def _runs(run: Run, bytes_max: int) -> Iterator[Line | Run]:
    """Yield whole lines; those that are too long come in parts."""
    if np.diff(run.starts).max() <= bytes_max + 1:
        yield run
        return
    for at, raw in enumerate(run.raws, run.number):
        if len(raw) <= bytes_max:
            yield Line(at, raw)
        else:
            yield Line(at, raw, True, False)
            yield Line(at, b"", True, True)


def is_blank(raw: bytes) -> bool:
    """Whether a line has nothing but white space, byte order marks and record separators (RFC 7464)."""
    return not raw.strip(_BLANK)


def lines_of(run: Run) -> Iterator[Line]:
    """Yield the lines of a run. Consecutive blank lines are one line with line feeds in it: a small compressed file can
    hold a hundred million of them."""
    blank: list[bytes] = []
    for number, raw in enumerate(run.raws, run.number):
        if is_blank(raw):
            blank.append(raw)
            continue
        if blank:
            yield Line(number - len(blank), b"\n".join(blank))
            blank = []
        yield Line(number, raw)
    if blank:
        yield Line(run.number + len(run.raws) - len(blank), b"\n".join(blank))


def flattened(parts: Iterable[Line | Run]) -> Iterator[Line]:
    """Yield lines one by one, those of runs as ``lines_of`` does."""
    for part in parts:
        if isinstance(part, Run):
            yield from lines_of(part)
        else:
            yield part
