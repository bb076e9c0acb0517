"""Files, folders and standard input -> entries in order: documents, or the reasons of refusals.

The content of a file decides its format, then its name (``formats``), unless ``input_format`` names one: JSON Lines, a
JSON array or objects over several lines, a table, mail, a WARC archive, a page, or one document whose id is its path.
Standard input, a pipe and a device are JSON Lines unless they begin like another format. In a folder, JSON is read as
documents only if the first object has the field that the scheme compares. So each configuration file in a folder is one
document. Only a text can be a whole file. Compressed content is known by its first bytes. A mark at its start is cut.

The text of a page, and of a line with a field of HTML, is extracted (``neardup_workers.outside.web``), in the order of
the input.

Lines of white space are skipped and counted. The last line needs no line feed. A line without an id has the id
``path:line`` (``line_ids``). A signal ends the reading: an unfinished line or file is neither a document nor a refusal.

Memory holds one block, one line or document of at most ``line_bytes_max`` bytes, and the names of a folder's files.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields, decode_document
from neardup.pairs.values import UnreadTimes
from neardup.stories.arrow.columns import fault_of, read_rows
from neardup.stories.arrow.ids import numbers_as_ids
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers import blocks as files
from neardup_workers.outside.readers.arrow.batches import Damaged
from neardup_workers.outside.readers.arrow.json_rows import json_rows
from neardup_workers.outside.readers.blocks import STDIN, Blocks, Content, Interrupted, Opened, first_block, opened
from neardup_workers.outside.readers.compression import Corrupt, Tape, decompressed
from neardup_workers.outside.readers.entries import BLANK, FILE_REASONS, Entry, Rows, TableRows, line_of, line_rows
from neardup_workers.outside.readers.field_names import FieldNames
from neardup_workers.outside.readers.formats import (
    AUTO,
    WACZ,
    Format,
    LineOptions,
    choose,
    is_table,
    meant_as,
    resumes,
)
from neardup_workers.outside.readers.json.pictures import with_picture
from neardup_workers.outside.readers.lines import BOM, HEADER, IDLE, RECORD, Header, Line, Run, flattened, lines_of
from neardup_workers.outside.readers.paths import display, is_folder, walk
from neardup_workers.outside.readers.warc import WARC_IDS
from neardup_workers.outside.web.canonical_ids import CanonicalIds
from neardup_workers.outside.web.charsets import REPLACED
from neardup_workers.outside.web.extraction import Extracted, Extraction, ExtractionOptions, Pending
from neardup_workers.outside.web.pages import Page, page_document

_log = logging.getLogger(__name__)
_STDIN_NAME = "standard input"
# A file with a zero byte among its first bytes is not a text: the same rule and number as git.
_BINARY_BYTES = 8000
# Between two reads of a followed file: a person sees no delay, and a read that finds nothing costs microseconds.
_FOLLOW_SECONDS = 0.2


class ReadOptions(ExtractionOptions, LineOptions, Protocol):
    """How paths are read: the settings of the same names."""

    @property
    def input_format(self) -> str:
        """A key of ``FORMATS``, or ``auto``."""

    @property
    def line_ids(self) -> bool:
        """Whether a line without an id has the id ``path:line``."""

    @property
    def canonical_urls(self) -> bool:
        """Whether ids that are URLs get their canonical form."""

    @property
    def dropped_parameters(self) -> tuple[str, ...]:
        """Parameters that canonical URLs do not have; ``x_*`` are those that begin with ``x_``."""

    @property
    def field_names(self) -> FieldNames:
        """What the parts of a line are called; ``html`` is the field that holds HTML, instead of a text."""

    @property
    def warc_id(self) -> str:
        """A key of ``WARC_IDS``."""


# Entries; or one whose text is taken from a page, while its document has none.
_Read = Entry | Rows | Pending[Entry]


class EntryReader:
    """Reads paths one after the other. ``bytes_read`` and ``blank_lines`` are counters; ``meant_as`` has files that
    were read as one text and may be meant otherwise, by what.

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
        self._html = options.field_names.html
        self.fields = fields if self._html is None else fields._replace(text=self._html)
        self.stop = stop
        self.blank_lines = 0
        self.meant_as: dict[str, list[str]] = {}
        self.replaced_characters = 0  # of pages
        self.notes = Counter[str]()  # what is not read as it stands, and how often
        self.unread = UnreadTimes()
        self._blocks = Blocks(stop)
        self._spill = spill
        self._every_line = every_line
        self._records = records
        self._extraction = Extraction(options)
        self._number = 0  # of the last line
        self._canonical = CanonicalIds(options.dropped_parameters) if options.canonical_urls else None
        # Whether a line brings its values as they are.
        self._flat = self._html is None and self._canonical is None

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
            if isinstance(part, Rows):
                yield from part
            else:
                yield part

    def parts(self, paths: Sequence[str], *, follow: bool = False) -> Iterator[Entry | Rows | None]:
        """Yield the same, where rows of a table of Arrow, and lines of flat JSON, with texts stay together."""
        return self._extraction.in_order(self._read(paths, follow), self._with_text)

    def close(self) -> None:
        """End the processes that extract texts."""
        self._extraction.close()

    def _read(self, paths: Sequence[str], follow: bool) -> Iterator[_Read | None]:
        """The same, before the texts of pages are known."""
        for i, path in enumerate(paths):
            if self.stop.signal:
                return
            if path != STDIN and is_folder(path):
                yield from self._folder(path)
            else:
                yield from self._file(path, walked=False, follow=follow and i == len(paths) - 1)

    def _folder(self, path: str) -> Iterator[_Read | None]:
        entries = list(walk(path))  # once: a table at the end decides over the first file
        of_tables = self.options.input_format == AUTO and any(not why and is_table(inner) for inner, why in entries)
        for inner, reason in entries:
            if self.stop.signal:
                return
            if reason:
                yield Entry(display(inner), 0, None, Reason(reason), True)
            else:
                yield from self._file(inner, walked=True, of_tables=of_tables)

    def _file(
        self, path: str, *, walked: bool, of_tables: bool = False, follow: bool = False
    ) -> Iterator[_Read | None]:
        """The entries of one file or stream. In a folder ``of_tables``, a whole file is no document."""
        source = _STDIN_NAME if path == STDIN else display(path)
        self._number = -1
        try:
            with opened(path) as file:
                is_stream = files.is_stream(file)
                if walked and is_stream:
                    yield Entry(source, 0, None, Reason("special"), walked)
                    return
                blocks: Iterator[bytes | None]
                if follow and isinstance(file, int):
                    blocks = self._blocks.following(path, file, _FOLLOW_SECONDS)
                else:
                    blocks = self._unpacked(path, file, is_stream)
                head, blocks = yield from first_block(blocks, self.notes)
                chosen = choose(
                    path, head, self.fields, self.options.input_format, in_folder=walked, is_stream=is_stream
                )
                if of_tables and not isinstance(chosen, Reason) and chosen.read is None:
                    chosen = Reason("not_table")
                if isinstance(chosen, Reason):
                    yield Entry(source, 0, None, chosen, walked)
                elif chosen.read is None:
                    meant = meant_as(chosen, head) if self.options.input_format == AUTO else ""
                    if meant and (not walked or meant == "json"):
                        self.meant_as.setdefault(meant, []).append(source)
                    empty = Entry(source, 0, None, Reason(""), walked, os.fsencode(path))
                    yield self._whole(path, empty, blocks, 0 if is_stream else files.size_of(file), chosen)
                elif chosen.batches is not None:
                    self._number = 0
                    plain = None if is_stream or files.pread(file, len(head), 0) != head else file
                    batches = chosen.batches(Content(blocks, self._blocks, plain))
                    yield from self._tables(path, source, batches, walked)
                else:
                    self._number = 0
                    lines = chosen.lines(blocks, self.fields, self.options, self.notes)
                    yield from self._lines(path, source, lines)
        except Interrupted:
            return
        except Corrupt as error:
            yield Entry(source, self._number + 1, None, Reason(error.reason), walked)
        except Damaged:
            yield Entry(source, self._number + 1, None, Reason("table_damaged"), walked)
        except OSError:
            yield Entry(source, self._number + 1, None, Reason("unreadable"), walked)
        except (Failure, ImportError, MemoryError):
            raise
        except Exception as error:  # a defect of a reader ends its file, and never a run of many files
            _log.debug("the reader of %s failed", source, exc_info=True)
            at = traceback.extract_tb(error.__traceback__)[-1]
            says = f"{FILE_REASONS['reader_failed']} ({error!r:.200} in {at.name}, {at.filename}:{at.lineno})"
            yield Entry(source, self._number + 1, None, Reason("reader_failed"), walked, says=says)

    def _unpacked(self, path: str, file: Opened, is_stream: bool) -> Iterator[bytes | None]:
        tape = Tape()
        tape.resumes = resumes(path, self.options.input_format)
        is_zipped = not is_stream and path.lower().endswith(WACZ)
        return decompressed((self._blocks.archives if is_zipped else self._blocks.content)(file), tape)

    def _tables(self, path: str, source: str, batches: Iterator[Any], walked: bool) -> Iterator[_Read | None]:
        """The rows of a table of Arrow: together if they have texts, else as entries of lines of JSON."""
        fill = partial(numbers_as_ids, display(path)) if self.options.line_ids else None
        for batch in batches:
            if batch is None:
                yield None
                continue
            if self.fields.kind != "text" or self._html is not None:
                for raw in json_rows(batch, self.fields):
                    self._number += 1
                    yield self._line(path, source, Line(self._number, raw))
                continue
            fault = fault_of(batch.schema, self.fields, ids_needed=fill is None)
            if fault is not None:
                header = Header(", ".join(batch.schema.names).encode(errors="replace"), b"\n", b",")
                says = "" if fault.reason == "no_column" else fault.sentence
                yield Entry(source, 0, None, Reason(fault.reason), walked, header=header, says=says)
                return
            at = 0
            for table_rows in read_rows(batch, self.fields, self._number + 1, fill, self.unread):
                rows = table_rows if self._canonical is None else self._canonical.rows(table_rows)
                yield TableRows(source, self._number + 1, batch.slice(at, len(rows)), rows, self.fields)
                at, self._number = at + len(rows), self._number + len(rows)

    def _lines(self, path: str, source: str, lines: Iterator[Line | Run]) -> Iterator[_Read | None]:
        """The entries of lines of JSON."""
        for line in lines:
            if isinstance(line, Run):
                yield from self._run(path, source, line)
                continue
            if line is IDLE:
                yield None
                continue
            self._number = line.number
            if line.is_part:
                yield from self._too_long(source, line, flattened(lines))
            elif line.record is not None or line.page is not None:
                yield from self._record(source, line)
            elif line.is_blank:
                further = line.raw.count(b"\n")
                self.blank_lines += 1 + further
                self._number += further
                if self._every_line:
                    yield _entry(source, line, BLANK)
            elif line.reason != HEADER:
                yield self._line(path, source, line)
            elif self._every_line:
                yield _entry(source, line, HEADER)

    def _run(self, path: str, source: str, run: Run) -> Iterator[_Read | None]:
        """The entries of a run of lines, as rows where all lines of a chunk are flat objects."""
        decode, names = partial(self._decoded, path), self.options.line_ids
        parts = line_rows(path, source, run, self.fields, decode, names=names) if self._flat else (run,)
        for part in parts:
            if isinstance(part, Run):
                yield from self._lines(path, source, lines_of(part))
            else:
                self._number = part.first + len(part) - 1
                yield part

    def _line(self, path: str, source: str, line: Line) -> _Read:
        """The entry of a line of JSON."""
        document = line.reason or self._decoded(path, line.raw, line.number)
        entry = _entry(source, line, document)
        return entry if isinstance(document, Reason) or self._html is None else _markup_of(entry, document)

    def _record(self, source: str, line: Line) -> Iterator[_Read]:
        """The entry of a record of an archive."""
        entry = Entry(source, line.number, None, line.reason, record=line.record if self._records else None)
        if line.page is not None:
            id_ = WARC_IDS[self.options.warc_id](line.page) or line.page.id
            url = line.page.id if id_ != line.page.id else None  # else the id names the host
            document = Document(id_, "", line.page.timestamp, url=url)
            yield Pending(entry._replace(found=self._named(document)), line.page)
        elif line.reason != RECORD or self._records:
            yield entry

    def _with_text(self, pending: Pending[Entry], text: Extracted) -> Entry:
        """Return the entry with the text of its page, or with the reason why it has none."""
        entry, document = pending.item, pending.item.found
        if isinstance(document, Reason):
            return entry
        document = document._replace(text="" if isinstance(text, Reason) else text)
        self.replaced_characters += document.text.count(REPLACED)
        if entry.raw is None and entry.line:
            entry = entry._replace(raw=line_of(document, self.fields))
        return entry._replace(found=text if isinstance(text, Reason) else document)

    def _decoded(self, path: str, raw: bytes, number: int) -> Document | Reason:
        content = raw.removeprefix(BOM) if number == 1 else raw
        name = f"{display(path)}:{number}" if self.options.line_ids else None
        document = decode_document(content, self.fields, name, self.unread)
        return self._named(with_picture(document, path, self.fields, self.options.line_bytes_max))

    def _named(self, document: Document | Reason) -> Document | Reason:
        """Return a document with its canonical id, if that is set."""
        return document if self._canonical is None else self._canonical.document(document)

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
        yield Entry(source, number, None, line.reason or Reason("line_too_long"), end=line.end)

    def _whole(self, path: str, entry: Entry, blocks: Iterator[bytes | None], size_known: int, chosen: Format) -> _Read:
        """Return the entry of a whole content: one document, or the reason of its refusal."""
        content = self._content(blocks, size_known, may_be_binary=chosen.document is page_document)
        document = (
            content if isinstance(content, Reason) else chosen.whole(content, display(path), self.unread, self.options)
        )
        if isinstance(document, Page):
            return Pending(entry._replace(found=Document(document.id)), document)
        return entry._replace(found=document)

    def _content(self, blocks: Iterator[bytes | None], size_known: int, *, may_be_binary: bool) -> bytes | Reason:
        """Return a whole content, or the reason of its refusal."""
        bytes_max = self.options.line_bytes_max
        if size_known > bytes_max:
            return Reason("file_too_large")
        parts: list[bytes] = []
        size = 0
        for block in filter(None, blocks):
            if not may_be_binary and size < _BINARY_BYTES and b"\0" in block[: _BINARY_BYTES - size]:
                return Reason("binary")
            size += len(block)
            if size > bytes_max:
                return Reason("file_too_large")
            parts.append(block)
        return b"".join(parts)


def _entry(source: str, line: Line, document: Document | Reason) -> Entry:
    return Entry(source, line.number, line.raw, document, False, line.row, line.end, line.header)


def _markup_of(entry: Entry, document: Document) -> Pending[Entry]:
    """Return an entry whose document holds markup instead of its text."""
    payload = document.text.encode(errors="replace")
    return Pending(entry._replace(found=document._replace(text="")), Page(document.id, payload, charset="utf-8"))
