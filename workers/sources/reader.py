"""Files, folders and standard input -> entries in order: documents, or the reasons of refusals.

The content of a file decides its format, then its name (``formats``), unless ``input_format`` names one: JSON Lines, a
JSON array, a table, mail, or one document whose id is its path. Standard input, a pipe and a device are JSON Lines
unless they begin like another format. In a folder, JSON is read as documents only if the first object has the field
that the scheme compares. So each configuration file in a folder is one document. Only a text can be a whole file.
Compressed content (gzip, Zstandard) is recognised by its first bytes. A byte order mark at the start is removed.

Lines of white space are skipped and counted. The last line needs no line feed. A line without an id has the id
``path:line`` (``line_ids``). A signal ends the reading: an unfinished line or file is neither a document nor a refusal.

Memory holds one block, one line or document of at most ``line_bytes_max`` bytes, and the names in the parent folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol, overload

import numpy as np

from stream.arrow.columns import Rows, fault_of, read_rows
from stream.documents import Document
from stream.json_lines import Fields, decode_document
from workers.process.stop import Stop
from workers.sources.arrow.batches import Damaged
from workers.sources.arrow.ids import places_as_ids
from workers.sources.arrow.json_rows import json_rows
from workers.sources.blocks import STDIN, Blocks, Content, Interrupted, opened
from workers.sources.canonical_ids import CanonicalIds
from workers.sources.compression import Corrupt, decompressed
from workers.sources.formats import FORMAT_REASONS, choose
from workers.sources.lines import BOM, HEADER, IDLE, Header, Line
from workers.sources.paths import display, walk

# The name of standard input in reports.
_STDIN_NAME = "standard input"
# A file with a zero byte among its first bytes is not a text: the same rule and number as git.
_BINARY_BYTES = 8000

# Reasons of refused files and lines, in addition to the reasons of the library.
FILE_REASONS: dict[str, str] = {
    "binary": "the file is binary: it holds a zero byte near its start",
    "file_not_utf8": "the file is not UTF-8 text",
    "file_not_lines": "a whole file, or a message, is one text, and the scheme compares none: give JSON Lines, a JSON "
    "array or a table (.csv, .tsv), or set --input-format",
    "row_not_csv": "the row is no CSV: a quote is not closed, or a carriage return stands outside of quotes",
    "row_length": "the row does not have as many cells as the header",
    "no_column": "the table has no column of the name that the scheme compares, so none of its rows is read: name the "
    "column with --text-field, or read the file as one document with --input-format documents",
    "table_damaged": "the file is damaged or cut off, or its format has a part that pyarrow does not read: the rest is "
    "not read",
    "no_pyarrow": "Parquet and Arrow are read by pyarrow, which is not installed: pip install 'neardup[arrow]'",
    "array_damaged": "the JSON array is damaged or cut off here, so the rest is not read",
    "hidden": "the name begins with a dot; --hidden reads such names too",
    "link": "symbolic links inside a folder are not followed; name the target itself",
    "special": "it is neither a file nor a folder",
    "unreadable": "it cannot be read",
    "corrupt": "the compressed data is damaged or cut off",
    "message_too_large": "the document is larger than request_bytes_max",
    "past_retention": "the time of the document is further back than retention.ms of the topic, so Kafka would delete "
    "it unread: raise retention.ms with the tools of Kafka, then load it again",
    **FORMAT_REASONS,
}


# Reasons of paths in a folder that are not input.
LEFT_OUT = frozenset(("hidden", "link", "special"))
# A value of ``reason`` for a line that is neither a document nor a refusal.
BLANK = "blank"
PASSED = frozenset((BLANK, HEADER))


class ReadOptions(Protocol):
    """How paths are read: the settings of the same names."""

    @property
    def input_format(self) -> str:
        """A key of ``FORMATS``, or ``auto``."""

    @property
    def line_bytes_max(self) -> int:
        """Maximum bytes of a line or of a file that is one document."""

    @property
    def hidden(self) -> bool:
        """Whether names in a folder may begin with a dot."""

    @property
    def line_ids(self) -> bool:
        """Whether a line without an id has the id ``path:line``."""

    @property
    def canonical_urls(self) -> bool:
        """Whether ids that are URLs get their canonical form."""

    @property
    def follow_seconds(self) -> float:
        """Seconds between two reads of a followed file."""


class Entry(NamedTuple):
    """A document or a reason (``found``), and its position: ``line`` is 0 for a whole file.

    ``raw`` is the line of the input; for a row of a table, it is the line of JSON made from the row. It is ``None`` if
    there is no line or if it was spilled. ``walked`` marks a file that was found in a folder and not named. ``row``
    represents the entry in outputs if it differs from ``raw``: a row of a table as it is in the input, or the path of a
    file that is one document. ``end`` and ``header`` are the fields of the ``Line``.
    """

    source: str
    line: int
    raw: bytes | None
    found: Document | str
    walked: bool = False
    row: bytes | None = None
    end: bytes = b"\n"
    header: Header | None = None


class TableRows(Sequence[Entry]):
    """Consecutive rows of a table of Arrow as entries, each made when it is read.

    ``first`` is the number of the first row, from 1; ``batch`` holds the rows as they are in the input, and ``rows``
    the documents among them.
    """

    def __init__(self, source: str, first: int, batch: Any, rows: Rows, fields: Fields) -> None:
        self.source, self.first, self.batch, self.rows = source, first, batch, rows
        self._fields = fields
        self._reasons = {refusal.place: refusal.reason for refusal in rows.refusals}

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, i: int) -> Entry: ...
    @overload
    def __getitem__(self, i: slice) -> list[Entry]: ...
    def __getitem__(self, i: int | slice) -> Entry | list[Entry]:
        """One entry, or a list of some."""
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        place = range(len(self))[i]
        (line,) = json_rows(self.batch.slice(place, 1), self._fields)
        return self._entry(place, line)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in order."""
        return map(self._entry, range(len(self)), json_rows(self.batch, self._fields))

    def _entry(self, place: int, line: bytes) -> Entry:
        reason = self._reasons.get(place)
        found = reason or self.rows.documents[int(np.searchsorted(self.rows.places, place))]
        return Entry(self.source, self.first + place, line, found)


class Reader:
    """Reads paths one after the other. ``bytes_read`` and ``blank_lines`` are counters.

    ``spill`` receives the parts of a line that is too long to hold, before the entry of its refusal. ``every_line``:
    blank lines and headers are entries too.
    """

    def __init__(
        self,
        options: ReadOptions,
        fields: Fields,
        stop: Stop,
        spill: Callable[[Line], object],
        *,
        every_line: bool = False,
    ) -> None:
        self.options = options
        self.fields = fields
        self.stop = stop
        self.blank_lines = 0
        self._blocks = Blocks(stop)
        self._spill = spill
        self._every_line = every_line
        self._number = 0  # of the last line
        self._canonical = CanonicalIds() if options.canonical_urls else None

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, as they are stored."""
        return self._blocks.bytes

    @property
    def ids_changed(self) -> int | None:
        """Ids that became canonical URLs; ``None`` if ids stay as they are."""
        return None if self._canonical is None else self._canonical.changed

    def read(self, paths: Sequence[str], *, follow: bool = False) -> Iterator[Entry | None]:
        """Yield the entries of all paths in order; ``None`` while no input is available.

        ``follow`` continues to read the last path as it grows, until a signal.
        """
        for part in self.parts(paths, follow=follow):
            if isinstance(part, TableRows):
                yield from part
            else:
                yield part

    def parts(self, paths: Sequence[str], *, follow: bool = False) -> Iterator[Entry | TableRows | None]:
        """Yield the same, where rows of a table of Arrow with texts stay together."""
        for i, path in enumerate(paths):
            if self.stop.signal:
                return
            if path != STDIN and os.path.isdir(path):
                yield from self._folder(path)
            else:
                yield from self._file(path, walked=False, follow=follow and i == len(paths) - 1)

    def _folder(self, path: str) -> Iterator[Entry | TableRows | None]:
        for found, reason in walk(path, hidden=self.options.hidden):
            if self.stop.signal:
                return
            if reason:
                yield Entry(display(found), 0, None, reason, True)
            else:
                yield from self._file(found, walked=True)

    def _file(self, path: str, *, walked: bool, follow: bool = False) -> Iterator[Entry | TableRows | None]:
        """The entries of one file or stream."""
        source = _STDIN_NAME if path == STDIN else display(path)
        self._number = -1
        try:
            with opened(path) as descriptor:
                is_stream = not stat.S_ISREG(os.fstat(descriptor).st_mode)
                if walked and is_stream:
                    yield Entry(source, 0, None, "special", walked)
                    return
                blocks: Iterator[bytes | None]
                if follow:
                    blocks = self._blocks.following(path, descriptor, self.options.follow_seconds)
                else:
                    blocks = decompressed(self._blocks.content(descriptor))
                head = yield from _first_block(blocks)
                blocks = chain((head,), blocks) if head else iter(())
                chosen = choose(
                    path, head, self.fields, self.options.input_format, in_folder=walked, is_stream=is_stream
                )
                if isinstance(chosen, str):
                    yield Entry(source, 0, None, chosen, walked)
                elif chosen.read is None:
                    size = 0 if is_stream else os.fstat(descriptor).st_size
                    found = self._document(path, blocks, size, chosen.document)
                    yield Entry(source, 0, None, found, walked, os.fsencode(path))
                elif chosen.batches is not None:
                    self._number = 0
                    plain = None if is_stream or os.pread(descriptor, len(head), 0) != head else descriptor
                    batches = chosen.batches(Content(blocks, self._blocks, plain))
                    yield from self._tables(path, source, batches, walked)
                else:
                    self._number = 0
                    lines = chosen.read(blocks, self.fields, self.options.line_bytes_max)
                    yield from self._lines(path, source, lines)
        except Interrupted:
            return
        except Corrupt:
            yield Entry(source, self._number + 1, None, "corrupt", walked)
        except Damaged:
            yield Entry(source, self._number + 1, None, "table_damaged", walked)
        except ImportError:
            yield Entry(source, 0, None, "no_pyarrow", walked)
        except OSError:
            yield Entry(source, self._number + 1, None, "unreadable", walked)

    def _tables(
        self, path: str, source: str, batches: Iterator[Any], walked: bool
    ) -> Iterator[Entry | TableRows | None]:
        """The rows of a table of Arrow: together if they have texts, else as entries of lines of JSON."""
        fill = partial(places_as_ids, display(path)) if self.options.line_ids else None
        for batch in batches:
            if batch is None:
                yield None
                continue
            if self.fields.kind != "text":
                yield from self._rows_as_lines(path, source, batch)
                continue
            fault = fault_of(batch.schema, self.fields, ids_needed=fill is None)
            if fault is not None:
                header = Header(", ".join(batch.schema.names).encode(errors="replace"), b"\n", b",")
                yield Entry(source, 0, None, fault.reason, walked, header=header)
                return
            at = 0
            for found in read_rows(batch, self.fields, self._number + 1, fill):
                rows = found if self._canonical is None else self._canonical.rows(found)
                yield TableRows(source, self._number + 1, batch.slice(at, len(rows)), rows, self.fields)
                at, self._number = at + len(rows), self._number + len(rows)

    def _rows_as_lines(self, path: str, source: str, batch: Any) -> Iterator[Entry]:
        for raw in json_rows(batch, self.fields):
            self._number += 1
            yield _entry(source, line := Line(self._number, raw), self._decoded(path, line))

    def _lines(self, path: str, source: str, lines: Iterator[Line]) -> Iterator[Entry | None]:
        """The entries of lines of JSON."""
        for line in lines:
            if line is IDLE:
                yield None
                continue
            self._number = line.number
            if line.is_part:
                yield from self._too_long(source, line, lines)
            elif not line.reason and (not line.raw or line.raw.isspace()):
                self.blank_lines += 1
                if self._every_line:
                    yield _entry(source, line, BLANK)
            elif line.reason != HEADER:
                yield _entry(source, line, line.reason or self._decoded(path, line))
            elif self._every_line:
                yield _entry(source, line, HEADER)

    def _decoded(self, path: str, line: Line) -> Document | str:
        content = line.raw.removeprefix(BOM) if line.number == 1 else line.raw
        found = decode_document(
            content, self.fields, f"{display(path)}:{line.number}" if self.options.line_ids else None
        )
        return found if self._canonical is None else self._canonical.document(found)

    def _too_long(self, source: str, line: Line, lines: Iterator[Line]) -> Iterator[Entry | None]:
        """Spill a line part by part. The entries before it are answered first, so that the order is kept."""
        yield None
        self._spill(line)
        number = line.number
        while not line.ended:
            try:
                line = next(lines, line._replace(raw=b"", ended=True, end=b""))
            except Interrupted:
                line = line._replace(end=b"")
                break
            if line is IDLE:
                line = line._replace(ended=False)
            else:
                self._spill(line)
        yield Entry(source, number, None, "line_too_long", end=line.end)

    def _document(
        self,
        path: str,
        blocks: Iterator[bytes | None],
        size_known: int,
        document: Callable[[bytes, str], Document | str],
    ) -> Document | str:
        """Return a whole content as one document, or the reason of its refusal."""
        bytes_max = self.options.line_bytes_max
        if size_known > bytes_max:
            return "file_too_large"
        parts: list[bytes] = []
        size = 0
        for block in filter(None, blocks):
            if size < _BINARY_BYTES and b"\0" in block[: _BINARY_BYTES - size]:
                return "binary"
            size += len(block)
            if size > bytes_max:
                return "file_too_large"
            parts.append(block)
        return document(b"".join(parts), display(path))


def _entry(source: str, line: Line, found: Document | str) -> Entry:
    return Entry(source, line.number, line.raw, found, False, line.row, line.end, line.header)


def _first_block(blocks: Iterator[bytes | None]) -> Generator[None, None, bytes]:
    """Return the first block that is not empty, or an empty block if there is none; yields ``None`` before each
    wait."""
    for block in blocks:
        if block:
            return block
        yield None
    return b""
