"""Files, folders and standard input -> entries in order: documents, or the reasons of refusals.

The content of a file decides its format, then its name (``formats``), unless ``input_format`` names one: JSON Lines, a
JSON array, a table, mail, a WARC archive, a page, or one document whose id is its path. Standard input, a pipe and a
device are JSON Lines unless they begin like another format. In a folder, JSON is read as documents only if the first
object has the field that the scheme compares. So each configuration file in a folder is one document. Only a text can
be a whole file. Compressed content (gzip, Zstandard) is recognised by its first bytes. A byte order mark at the start
is removed.

The text of a page, and of a line with ``html_field``, is extracted (``workers.web``), in the order of the input.

Lines of white space are skipped and counted. The last line needs no line feed. A line without an id has the id
``path:line`` (``line_ids``). A signal ends the reading: an unfinished line or file is neither a document nor a refusal.

Memory holds one block, one line or document of at most ``line_bytes_max`` bytes, and the names in the parent folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple, Protocol

import orjson

from stream.documents import Document
from stream.json_lines import Fields, decode_document
from workers.process.stop import Stop
from workers.sources.blocks import STDIN, Blocks, Interrupted, opened
from workers.sources.compression import Corrupt, Tape, decompressed
from workers.sources.formats import FORMAT_REASONS, Format, choose, resumes
from workers.sources.lines import BOM, HEADER, IDLE, RECORD, Header, Line
from workers.sources.paths import display, walk
from workers.sources.warc import WARC_IDS
from workers.web.extraction import HTML_REASONS, Extracted, Extraction, ExtractionOptions, Pending, Refused
from workers.web.pages import Page, page_document

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
    **HTML_REASONS,
}


# Reasons of paths in a folder that are not input, and of records that every crawl holds.
LEFT_OUT = frozenset(("hidden", "link", "special", "warc_not_text", "warc_status", "warc_revisit", "warc_truncated"))
# A value of ``reason`` for a line that is neither a document nor a refusal.
BLANK = "blank"
PASSED = frozenset((BLANK, HEADER, RECORD))


class ReadOptions(ExtractionOptions, Protocol):
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
    def html_field(self) -> str | None:
        """The field of a line of JSON that holds HTML, in place of a text."""

    @property
    def warc_id(self) -> str:
        """A key of ``WARC_IDS``."""

    @property
    def follow_seconds(self) -> float:
        """Seconds between two reads of a followed file."""


class Entry(NamedTuple):
    """A document or a reason (``found``), and its position: ``line`` is 0 for a whole file.

    ``raw`` is the line of the input; for a row of a table, it is the line of JSON made from the row. It is ``None`` if
    there is no line or if it was spilled. ``walked`` marks a file that was found in a folder and not named. ``row``
    represents the entry in outputs if it differs from ``raw``: a row of a table as it is in the input, or the path of a
    file that is one document. ``end``, ``header`` and ``record`` are the fields of the ``Line``.
    """

    source: str
    line: int
    raw: bytes | None
    found: Document | str
    walked: bool = False
    row: bytes | None = None
    end: bytes = b"\n"
    header: Header | None = None
    record: bytes | None = None


# An entry; or one whose text is taken from a page, while its document has none.
_Read = Entry | Pending[Entry]


class Reader:
    """Reads paths one after the other. ``bytes_read`` and ``blank_lines`` are counters.

    ``spill`` receives the parts of a line that is too long to hold, before the entry of its refusal. ``every_line``:
    blank lines and headers are entries too. ``records``: so are all records of archives, and entries have their bytes.
    """

    def __init__(
        self,
        options: ReadOptions,
        fields: Fields,
        stop: Stop,
        spill: Callable[[Line], object],
        *,
        every_line: bool = False,
        records: bool = False,
    ) -> None:
        self.options = options
        self.fields = fields if options.html_field is None else fields._replace(text=options.html_field)
        self.stop = stop
        self.blank_lines = 0
        self._blocks = Blocks(stop)
        self._spill = spill
        self._every_line = every_line
        self._records = records
        self._extraction = Extraction(options)
        self._number = 0  # of the last line

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, as they are stored."""
        return self._blocks.bytes

    def read(self, paths: Sequence[str], *, follow: bool = False) -> Iterator[Entry | None]:
        """Yield the entries of all paths in order; ``None`` while no input is available.

        ``follow`` continues to read the last path as it grows, until a signal.
        """
        return self._extraction.in_order(self._read(paths, follow), self._with_text)

    def close(self) -> None:
        """End the processes that extract texts."""
        self._extraction.close()

    def _read(self, paths: Sequence[str], follow: bool) -> Iterator[_Read | None]:
        """The same, before the texts of pages are known."""
        for i, path in enumerate(paths):
            if self.stop.signal:
                return
            if path != STDIN and os.path.isdir(path):
                yield from self._folder(path)
            else:
                yield from self._file(path, walked=False, follow=follow and i == len(paths) - 1)

    def _folder(self, path: str) -> Iterator[_Read | None]:
        for found, reason in walk(path, hidden=self.options.hidden):
            if self.stop.signal:
                return
            if reason:
                yield Entry(display(found), 0, None, reason, True)
            else:
                yield from self._file(found, walked=True)

    def _file(self, path: str, *, walked: bool, follow: bool = False) -> Iterator[_Read | None]:
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
                    tape = Tape()
                    tape.resumes = resumes(path, self.options.input_format)
                    blocks = decompressed(self._blocks.content(descriptor), tape)
                head, is_damaged = yield from _first_block(blocks)
                blocks = chain((None,) if is_damaged else (), (head,), blocks) if head else iter(())
                chosen = choose(
                    path, head, self.fields, self.options.input_format, in_folder=walked, is_stream=is_stream
                )
                if isinstance(chosen, str):
                    yield Entry(source, 0, None, chosen, walked)
                elif chosen.read is None:
                    size = 0 if is_stream else os.fstat(descriptor).st_size
                    yield self._whole(path, Entry(source, 0, None, "", walked, os.fsencode(path)), blocks, size, chosen)
                else:
                    self._number = 0
                    lines = chosen.read(blocks, self.fields, self.options.line_bytes_max)
                    yield from self._lines(path, source, lines)
        except Interrupted:
            return
        except Corrupt:
            yield Entry(source, self._number + 1, None, "corrupt", walked)
        except OSError:
            yield Entry(source, self._number + 1, None, "unreadable", walked)

    def _lines(self, path: str, source: str, lines: Iterator[Line]) -> Iterator[_Read | None]:
        """The entries of lines of JSON."""
        for line in lines:
            if line is IDLE:
                yield None
                continue
            self._number = line.number
            if line.is_part:
                yield from self._too_long(source, line, lines)
            elif line.record is not None or line.page is not None:
                yield from self._record(source, line)
            elif not line.reason and (not line.raw or line.raw.isspace()):
                self.blank_lines += 1
                if self._every_line:
                    yield _entry(source, line, BLANK)
            elif line.reason != HEADER:
                found = line.reason or self._decoded(path, line)
                entry = _entry(source, line, found)
                yield entry if isinstance(found, str) or self.options.html_field is None else _markup_of(entry, found)
            elif self._every_line:
                yield _entry(source, line, HEADER)

    def _record(self, source: str, line: Line) -> Iterator[_Read]:
        """The entry of a record of an archive."""
        record = line.record if self._records else None
        entry = Entry(source, line.number, None, line.reason, record=record)
        if line.page is not None:
            id_ = WARC_IDS[self.options.warc_id](line.page) or line.page.id
            yield Pending(entry._replace(found=Document(id_, "", line.page.timestamp)), line.page)
        elif line.reason != RECORD or self._records:
            yield entry

    def _with_text(self, pending: Pending[Entry], text: Extracted) -> Entry:
        """Return the entry with the text of its page, or with the reason why it has none."""
        entry, document = pending.item, pending.item.found
        if isinstance(text, Refused) or isinstance(document, str):
            return entry._replace(found=text.reason if isinstance(text, Refused) else document)
        document = document._replace(text=text)
        if entry.raw is None and entry.line:
            entry = entry._replace(raw=self._line_of(document))
        return entry._replace(found=document)

    def _line_of(self, document: Document) -> bytes:
        """Return a document as a line of JSON, as this reader reads it again."""
        time = None if document.timestamp is None else _iso(document.timestamp)
        value = {self.fields.id: document.id, self.fields.timestamp: time, self.fields.text: document.text}
        return orjson.dumps({name: part for name, part in value.items() if part is not None})

    def _decoded(self, path: str, line: Line) -> Document | str:
        content = line.raw.removeprefix(BOM) if line.number == 1 else line.raw
        return decode_document(
            content, self.fields, f"{display(path)}:{line.number}" if self.options.line_ids else None
        )

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
        yield Entry(source, number, None, line.reason or "line_too_long", end=line.end)

    def _whole(self, path: str, entry: Entry, blocks: Iterator[bytes | None], size_known: int, chosen: Format) -> _Read:
        """Return the entry of a whole content: one document, or the reason of its refusal."""
        content = self._content(blocks, size_known, may_be_binary=chosen.document is page_document)
        found = content if isinstance(content, str) else chosen.document(content, display(path))
        if isinstance(found, Page):
            return Pending(entry._replace(found=Document(found.id)), found)
        return entry._replace(found=found)

    def _content(self, blocks: Iterator[bytes | None], size_known: int, *, may_be_binary: bool) -> bytes | str:
        """Return a whole content, or the reason of its refusal."""
        bytes_max = self.options.line_bytes_max
        if size_known > bytes_max:
            return "file_too_large"
        parts: list[bytes] = []
        size = 0
        for block in filter(None, blocks):
            if not may_be_binary and size < _BINARY_BYTES and b"\0" in block[: _BINARY_BYTES - size]:
                return "binary"
            size += len(block)
            if size > bytes_max:
                return "file_too_large"
            parts.append(block)
        return b"".join(parts)


def _entry(source: str, line: Line, found: Document | str) -> Entry:
    return Entry(source, line.number, line.raw, found, False, line.row, line.end, line.header)


def _markup_of(entry: Entry, document: Document) -> Pending[Entry]:
    """Return an entry whose document holds markup in place of its text."""
    payload = document.text.encode(errors="replace")
    return Pending(entry._replace(found=document._replace(text="")), Page(document.id, payload, charset="utf-8"))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _first_block(blocks: Iterator[bytes | None]) -> Generator[None, None, tuple[bytes, bool]]:
    """Return the first block that is not empty, or an empty block if there is none, and whether damage precedes it;
    yields ``None`` before each wait."""
    is_damaged = False
    for block in blocks:
        if block:
            return block, is_damaged
        is_damaged |= block is None
        yield None
    return b"", is_damaged
