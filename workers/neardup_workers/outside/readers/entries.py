"""What a reader yields: documents and the reasons of refusals, each with its position.

Rows of a table of Arrow, and lines of flat JSON, come many at a time: their documents are columns, and a row or a line
becomes an object when it is read.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np
import orjson

from neardup.documents.chunks import CHUNK_CHARACTERS, CHUNK_DOCUMENTS
from neardup.documents.document import Document, DocumentColumns
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup.stories.arrow.columns import DocumentRows
from neardup.stories.arrow.nested import array_at
from neardup_workers.outside.readers.arrow.json_rows import json_rows
from neardup_workers.outside.readers.compression import COMPRESSION_REASONS
from neardup_workers.outside.readers.formats import FORMAT_REASONS
from neardup_workers.outside.readers.json.columns import Decoded, decode_run
from neardup_workers.outside.readers.lines import BOM, HEADER, RECORD, Header, Run
from neardup_workers.outside.readers.paths import display
from neardup_workers.outside.web.extraction import HTML_REASONS

# Reasons of refused files and lines, in addition to the reasons of the library.
FILE_REASONS: dict[str, str] = {
    "binary": "the file is binary: it holds a zero byte near its start",
    "file_not_utf8": "the file is not UTF-8 text: iconv -f cp1252 -t utf-8 FILE converts one of Windows",
    "file_not_lines": "a whole file, or a message, is one text, and the scheme compares none: give JSON Lines, a JSON "
    "array or a table (.csv, .tsv), or set --input-format",
    "row_not_csv": "the row is no CSV: a quote is not closed, or a carriage return stands outside of quotes",
    "row_length": "the row does not have as many cells as the header",
    "no_column": "the table has no column of the name that the scheme compares, so none of its rows is read: name the "
    "column with --fields text=NAME, or read the file as one document with --input-format documents",
    "table_damaged": "the file is damaged or cut off, or its format has a part that pyarrow does not read: the rest is "
    "not read",
    "array_damaged": "the JSON is damaged or cut off here, so the rest is not read",
    "hidden": "the name begins with a dot; name the file itself to read it",
    "link": "symbolic links inside a folder are not followed; name the target itself",
    "special": "it is neither a file nor a folder",
    "unreadable": "it cannot be read",
    "reader_failed": "the reader failed here, so the rest of the file is not read: a defect of neardup",
    **COMPRESSION_REASONS,
    "message_too_large": "the document is larger than max.request.size of kafka_config",
    "past_retention": "the time of the document is further back than retention.ms of the topic, so Kafka would delete "
    "it unread: raise retention.ms with the tools of Kafka, then load it again",
    **FORMAT_REASONS,
    **HTML_REASONS,
}


# Reasons of paths in a folder that are not input, and of records that every crawl holds.
LEFT_OUT = frozenset((
    "hidden", "link", "special", "not_table", "warc_not_text", "warc_status", "warc_revisit", "warc_truncated",
    "warc_description",
))  # fmt: skip
# A value of ``reason`` for a line that is neither a document nor a refusal.
BLANK = Reason("blank")
PASSED = frozenset((BLANK, HEADER, RECORD))

# Lines that are decoded one by one at most, because one of them is not flat.
_LINES_APART = 256
# Lines of a chunk at most: fewer would change threads more often for the short lines of a block.
_LINES_TOGETHER = 2 * CHUNK_DOCUMENTS

# A line and its number -> its document, or why it has none.
Decode = Callable[[bytes, int], Document | Reason]


class Entry(NamedTuple):
    """A document or a reason (``found``), and its position: ``line`` is 0 for a whole file.

    ``raw`` is the line of the input; for a row of a table, it is the line of JSON made from the row. It is ``None`` if
    there is no line or if it was spilled. ``walked`` marks a file that was found in a folder and not named. ``row``
    represents the entry in outputs if it differs from ``raw``: a row of a table as it is in the input, or the path of a
    file that is one document. ``end``, ``header`` and ``record`` are the fields of the ``Line``. ``says`` is the
    sentence of the reason, where it names what is wrong.
    """

    source: str
    line: int
    raw: bytes | None
    found: Document | Reason
    walked: bool = False
    row: bytes | None = None
    end: bytes = b"\n"
    header: Header | None = None
    record: bytes | None = None
    says: str = ""


_NO_DOCUMENT = Document("")


class Rows(Sequence[Entry]):
    """Consecutive entries whose documents are columns. Reading one of them makes an ``Entry``."""

    @property
    @abstractmethod
    def documents(self) -> DocumentColumns:
        """The documents among them."""

    @abstractmethod
    def refused(self, documents: Mapping[int, str]) -> dict[int, str]:
        """Return the reasons of refused entries by position, in order; ``documents``: those of documents by index."""

    @abstractmethod
    def id(self, position: int) -> str:
        """Return the id of an entry that is a document."""

    @abstractmethod
    def collection(self, position: int) -> str | None:
        """Return the collection of an entry that is a document."""

    @abstractmethod
    def entry(self, position: int) -> Entry:
        """Return the entry of a position, from 0."""

    @overload
    def __getitem__(self, i: int) -> Entry: ...
    @overload
    def __getitem__(self, i: slice) -> list[Entry]: ...
    def __getitem__(self, i: int | slice) -> Entry | list[Entry]:
        """One entry, or a list of some."""
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        return self.entry(range(len(self))[i])


def values_of(entries: Sequence[Entry]) -> tuple[Callable[[int], str], Callable[[int], str | None]]:
    """Return the functions that give the id and the collection of an entry by its position, if it is a document."""
    if isinstance(entries, Rows):
        return entries.id, entries.collection
    documents = [entry.found if isinstance(entry.found, Document) else _NO_DOCUMENT for entry in entries]
    return (lambda position: documents[position].id), (lambda position: documents[position].collection)


class LineRows(Rows):
    """Consecutive lines of JSON; each is a document.

    ``first`` is the number of the first line, from 1; ``run`` has the lines; ``decode`` makes the document, or the
    reason of its refusal, of a line and its number. ``sources`` and ``urls`` are those of the lines, if they are read.
    """

    def __init__(self, source: str, run: Run, decoded: Decoded, decode: Decode) -> None:
        self.source, self.first, self.run = source, run.number, run
        self.sources, self.urls = decoded.sources, decoded.urls
        self._documents, self._decode = decoded.documents, decode

    @functools.cached_property
    def _raws(self) -> list[bytes]:
        return self.run.raws

    @property
    def documents(self) -> DocumentColumns:
        """The documents; document i is on line i."""
        return self._documents

    def __len__(self) -> int:
        return self.run.lines

    def entry(self, position: int) -> Entry:
        """Return the entry of a line."""
        number, raw = self.first + position, self._raws[position]
        return Entry(self.source, number, raw, self._decode(raw, number))

    def lines(self, positions: Sequence[int]) -> list[Entry]:
        """Return some entries without their documents: to decode a line costs more than to write it."""
        return [Entry(self.source, self.first + n, self._raws[n], _NO_DOCUMENT) for n in positions]

    def refused(self, documents: Mapping[int, str]) -> dict[int, str]:
        """Return the reasons, as ``decode_document`` gives them."""
        return {index: reason_of_line(reason) for index, reason in sorted(documents.items())}

    def id(self, position: int) -> str:
        """Return the id of a line."""
        return self._documents.ids.at(position).decode(errors="replace")

    def collection(self, position: int) -> str | None:
        """Return the collection of a line."""
        return self._documents.collection(position)


class TableRows(Rows):
    """Consecutive rows of a table of Arrow.

    ``first`` is the number of the first row, from 1; ``batch`` holds the rows as they are in the input, and ``rows``
    the documents among them.
    """

    def __init__(self, source: str, first: int, batch: Any, rows: DocumentRows, fields: Fields) -> None:
        self.source, self.first, self.batch, self.rows = source, first, batch, rows
        self._fields = fields
        self._reasons = {refusal.position: refusal.reason for refusal in rows.refusals}

    @property
    def documents(self) -> DocumentColumns:
        """The documents, without the refused rows."""
        return self.rows.documents

    def __len__(self) -> int:
        return len(self.rows)

    def entry(self, position: int) -> Entry:
        """Return the entry of a row."""
        (line,) = json_rows(self.batch.slice(position, 1), self._fields)
        return self._entry(position, line)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in order."""
        return map(self._entry, range(len(self)), json_rows(self.batch, self._fields))

    def refused(self, documents: Mapping[int, str]) -> dict[int, str]:
        """Return the reasons of refused rows by position, in order; ``documents``: those of documents by index."""
        positions = self.rows.positions
        reasons = self._reasons | {int(positions[index]): reason for index, reason in documents.items()}
        return dict(sorted(reasons.items()))

    def id(self, position: int) -> str:
        """Return the id of a row that is a document."""
        return self.rows.documents.ids.at(int(np.searchsorted(self.rows.positions, position))).decode(errors="replace")

    def collection(self, position: int) -> str | None:
        """Return the collection of a row that is a document."""
        return self.rows.documents.collection(int(np.searchsorted(self.rows.positions, position)))

    def with_sources(self) -> list[Document]:
        """Return the rows as documents that have no more than id, source and URL; a refused row has no id."""
        arrays = (array_at(self.batch, name) for name in (self._fields.source or "source", "url"))
        columns = [[None] * len(self) if array is None else array.to_pylist() for array in arrays]
        sources, urls = ([one if isinstance(one, str) else None for one in column] for column in columns)
        ids = [""] * len(self)
        for n, position in enumerate(self.rows.positions.tolist()):
            ids[position] = self.rows.documents.ids.at(n).decode(errors="replace")
        return [Document(id_, source=source, url=url) for id_, source, url in zip(ids, sources, urls, strict=True)]

    def _entry(self, position: int, line: bytes) -> Entry:
        reason = self._reasons.get(position)
        document = (
            Reason(reason) if reason else self.rows.documents[int(np.searchsorted(self.rows.positions, position))]
        )
        return Entry(self.source, self.first + position, line, document)


def line_of(document: Document, fields: Fields) -> bytes:
    """Return a document with a text as a line of JSON, as a reader of these fields reads it again."""
    time = None if document.timestamp is None else datetime.fromtimestamp(document.timestamp, UTC).isoformat()
    value = {fields.id: document.id, fields.timestamp: time, fields.text: document.text, "url": document.url}
    return orjson.dumps({name: part for name, part in value.items() if part is not None})


def reason_of_line(reason: str) -> str:
    """Return the reason that ``decode_document`` gives, for a reason of a document in columns."""
    return "not_utf8" if reason == "text_not_utf8" else reason


def line_rows(
    path: str, source: str, run: Run, fields: Fields, decode: Decode, *, names: bool
) -> Iterator[Run | LineRows]:
    """Yield a run in chunks of the size that the library signs: as rows, or as a short run with a line to decode by
    itself.

    With ``names``, a line without an id is named by its position.
    """
    size = int(run.starts[-1] - run.starts[0])
    part_bytes = -(-size // max(1, size // CHUNK_CHARACTERS))  # a block with the rest of the one before it is one part
    ends, numbers = run.starts[1:] - run.starts[0] - 1, np.arange(run.lines)
    chunks = ends // part_bytes * run.lines + numbers // _LINES_TOGETHER
    bounds = list(pairwise((0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), run.lines)))
    bounds.reverse()
    while bounds:
        begin, end = bounds.pop()
        part = run.part(begin, end)
        decoded = _columns(part, fields, partial(_names, path, part) if names else None)
        if decoded is not None:
            yield LineRows(source, part, decoded, decode)
        elif end - begin > _LINES_APART:
            bounds += (((begin + end) // 2, end), (begin, (begin + end) // 2))
        else:
            yield part


def _columns(run: Run, fields: Fields, named: Callable[[], list[bytes | None]] | None) -> Decoded | None:
    """Return the documents of a run, or ``None`` if a line has to be decoded by itself."""
    if run.number == 1 and run.data.startswith(BOM, run.starts.item(0)):
        return None
    decoded = decode_run(run.data, run.starts, None, fields)
    if decoded is None and named is not None:
        decoded = decode_run(run.data, run.starts, named(), fields)
    return decoded


def _names(path: str, run: Run) -> list[bytes | None]:
    return [f"{display(path)}:{number}".encode() for number in range(run.number, run.number + run.lines)]
