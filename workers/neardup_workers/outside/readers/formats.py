"""The formats of content: a table of supported formats, and a table of formats that are refused with a remedy.

To add a format, write its reader (blocks of bytes to lines of JSON), add a row to ``FORMATS`` and a test. The command
line, the settings and every command that reads documents follow from the table.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

import orjson

from neardup.documents.document import Document
from neardup.documents.paths import has_field, names_of
from neardup.errors import Reason, install_command
from neardup.pairs.json_lines import KINDS, Fields, Unread
from neardup_workers.outside.readers.arrow.batches import (
    FILE_MAGIC,
    PARQUET_MAGIC,
    STREAM_MAGIC,
    Damaged,
    arrow_batches,
    parquet_batches,
)
from neardup_workers.outside.readers.arrow.json_rows import json_rows
from neardup_workers.outside.readers.blocks import Content, in_utf8
from neardup_workers.outside.readers.compression import plain_name
from neardup_workers.outside.readers.csv_rows import Dialect, delimiter_of, table_lines
from neardup_workers.outside.readers.json.array import array_lines
from neardup_workers.outside.readers.json.notebook import LOOKS_LIKE_NOTEBOOK, notebook_text
from neardup_workers.outside.readers.lines import BOM, IDLE, Line, Run, split_lines, split_runs
from neardup_workers.outside.readers.mail.limits import MAIL_REASONS, MAIL_TEXT_NAMES
from neardup_workers.outside.readers.unsupported import UNSUPPORTED
from neardup_workers.outside.readers.warc import WARC_REASONS, warc_lines
from neardup_workers.outside.web.markup import LOOKS_LIKE_HTML
from neardup_workers.outside.web.pages import Page, page_document

AUTO = "auto"
WACZ = ".wacz"
LINES, DOCUMENTS = "lines", "documents"
# A field that only a delivered message has, and the line From of an mbox with the field of a header.
_DELIVERED = re.compile(
    rb"(Return-Path|Delivered-To|X-Original-To):[ \t]*<?[^\s<>]*>?\r?\n[!-9;-~]+:|Received:[ \t]+from[ \t]"
)
_FROM_LINE = re.compile(rb"From [^\n]*\d\d:\d\d[^\n]*\n[!-9;-~]+:")

# What stands before a key of an object whose keys have lines of their own: the indent of its first key.
_ON_LINES = rb'\A\{[ \t]*\r?\n([ \t]*)(?:"(?s:.*)\n\1)?'

# Lines that decide whether a content has lines of JSON.
_SNIFFED_LINES = 50

Blocks = Iterable[bytes | None]


def _text_document(content: bytes, name: str, unread: Unread | None = None) -> Document | Reason:
    """Return a whole text as a document whose id is its name."""
    try:
        return Document(name, content.removeprefix(BOM).decode())
    except UnicodeDecodeError:
        return Reason("file_not_utf8")


def _notebook(content: bytes, name: str, unread: Unread | None = None) -> Document | Reason:
    """Return the source of a notebook as a document; the whole text of a content that is none."""
    text = notebook_text(content.removeprefix(BOM))
    return _text_document(content, name) if text is None else Document(name, text)


class LineOptions(Protocol):
    """How lines, tables and mail are read: the settings of the same names."""

    @property
    def mail_text(self) -> str:
        """What of the text of a message counts, one of ``MAIL_TEXT_NAMES``."""

    @property
    def line_bytes_max(self) -> int:
        """Maximum bytes of a line or of a file that is one document."""

    @property
    def dialect(self) -> Dialect:
        """How tables are written."""


class Format(NamedTuple):
    """How a content becomes documents.

    ``endings``: file name endings of this format (lower case; endings of compression are removed first). ``read``:
    blocks of bytes, the names of the fields and the bound on a line -> lines of JSON, one by one or in runs;
    ``None`` if the whole content is one document, which ``document`` makes of the content and the path, and calls a
    function for a time that is none. ``kinds``: the kinds of documents in this format (keys of
    ``neardup.pairs.json_lines.KINDS``). ``sniff``: whether content that begins with these bytes has this format;
    the name does not matter. It receives the first block, the required field (``""`` for any) and whether the file
    was found in a folder, where other files are likely. ``needs``: the module that the reader imports, and the
    extra of the package that brings it. ``resumes``: after damaged compressed data, the reader goes on at the next
    member, and gets ``None`` in between. ``delimiter``: that of cells, if the format is a table of texts. ``is_mail``:
    ``mail_text`` says what of a text counts.
    """

    endings: tuple[str, ...]
    read: Callable[[Blocks, Fields, int], Iterator[Line | Run]] | None
    kinds: tuple[str, ...]
    sniff: Callable[[bytes, str, bool], bool]
    document: Callable[[bytes, str, Unread], Document | Page | Reason] = _text_document
    batches: Callable[[Content], Iterator[Any]] | None = None
    needs: tuple[str, str] | None = None
    resumes: bool = False
    delimiter: str = ""
    is_mail: bool = False

    def lines(self, blocks: Blocks, fields: Fields, options: LineOptions, notes: Counter[str]) -> Iterator[Line | Run]:
        """Read a content of lines as the options say; the notes say what is not read as it stands."""
        dialect = options.dialect
        read: Callable[..., Iterator[Line | Run]] | None = self.read
        if self.delimiter:
            blocks = in_utf8(blocks, dialect.encoding, notes) if dialect.encoding else blocks
            read = functools.partial(read_table, delimiter=self.delimiter, dialect=dialect, notes=notes)
        elif self.is_mail and read is not None:
            read = functools.partial(read, mail_text=options.mail_text)
        return iter(()) if read is None else read(blocks, fields, options.line_bytes_max)

    def whole(self, content: bytes, name: str, unread: Unread, options: LineOptions) -> Document | Page | Reason:
        """Read a whole content as one document, as the options say."""
        document: Callable[..., Document | Page | Reason] = self.document
        if self.is_mail:
            document = functools.partial(document, mail_text=options.mail_text)
        return document(content, name, unread)


def read_table(
    blocks: Blocks,
    fields: Fields,
    bytes_max: int,
    delimiter: str,
    dialect: Dialect = Dialect(),  # noqa: B008 - immutable
    notes: Counter[str] | None = None,
) -> Iterator[Line]:
    """Yield the rows of a table as lines of JSON. The setting decides the delimiter, else the first block, else the
    format; ``notes`` says if it is not the one of the format."""
    json_fields = frozenset((fields.tokens, fields.vector)) if fields.kind in ("tokens", "vector") else frozenset()
    first: list[bytes | None] = []
    for block in (blocks := iter(blocks)):
        first.append(block)
        if block:
            break
    used = dialect.delimiter or delimiter_of((first or [b""])[-1] or b"", delimiter)
    if notes is not None and not dialect.delimiter and used != delimiter:
        notes[f"cells are divided by {used!r} (--set table=delimiter=... names another)"] += 1
    lines = split_lines(chain(first, blocks), bytes_max)
    return table_lines(lines, used, bytes_max, json_fields, needed_field(fields), dialect, notes)


def _read_rows(
    blocks: Blocks, fields: Fields, bytes_max: int, batches: Callable[[Content], Iterator[Any]]
) -> Iterator[Line]:
    """Rows of Arrow as lines of JSON; what pyarrow cannot read is the last line, with the reason."""
    number = 0
    try:
        for batch in batches(blocks if isinstance(blocks, Content) else Content(blocks)):
            if batch is None:
                yield IDLE
                continue
            for raw in json_rows(batch, fields):
                number += 1
                yield Line(number, raw)
    except Damaged:
        yield Line(number + 1, b"", reason=Reason("table_damaged"))


def _read_mbox(blocks: Blocks, fields: Fields, bytes_max: int, mail_text: str = MAIL_TEXT_NAMES[0]) -> Iterator[Line]:
    from neardup_workers.outside.readers.mail.mbox import mbox_lines

    return mbox_lines(blocks, fields, bytes_max, mail_text)


def _mail_document(content: bytes, name: str, unread: Unread, mail_text: str = MAIL_TEXT_NAMES[0]) -> Document | Reason:
    from neardup_workers.outside.readers.mail.message import mail_document

    return mail_document(content, name, unread, mail_text)


def _is_lines(head: bytes, needed: str, in_folder: bool) -> bool:
    """Whether the first line, or most of several, is an object with the field. For a named file, a second line that
    begins as an object suffices."""
    objects, lines = _object_lines(head)
    if lines > 1 and 2 * sum(not needed or has_field(one, needed) for one in objects) > lines:
        return True
    line, _, rest = head.removeprefix(BOM).lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return False
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return not rest and _names(line, needed) and not line.rstrip().endswith(b"}")  # longer than the block
    return not needed or has_field(value, needed) or (not in_folder and rest.lstrip().startswith(b"{"))


def _object_lines(head: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the objects among the first complete lines of a content, and how many lines were looked at."""
    complete = (line for line in io.BytesIO(head.removeprefix(BOM)) if line.endswith(b"\n") and not line.isspace())
    lines = list(islice(complete, _SNIFFED_LINES))
    objects = []
    for line in lines:
        if line.lstrip().startswith(b"{"):
            with suppress(orjson.JSONDecodeError):
                objects.append(orjson.loads(line))
    return objects, len(lines)


def _is_table(head: bytes, needed: str, in_folder: bool, delimiter: str) -> bool:
    """Whether the first line names the field among other columns, and the next row has as many cells."""
    first, _, rest = head.removeprefix(BOM).partition(b"\n")
    if not needed or b"\n" not in rest or not any(name.encode() in first for name in names_of(needed)):
        return False
    used = delimiter_of(head, delimiter)
    if used != delimiter and used in ",\t":  # these have rows of their own
        return False
    try:
        rows = csv.reader((line.decode().rstrip("\r\n") for line in chain((first,), io.BytesIO(rest))), delimiter=used)
        names, cells = islice(rows, 2)
    except (ValueError, csv.Error):  # a line that is no row, or bytes that are no text
        return False
    return has_field(dict.fromkeys(names), needed) and 1 < len(names) == len(cells) == len(set(names))


def _is_array(head: bytes, needed: str, in_folder: bool) -> bool:
    """Whether the content is an array of objects, in a folder of objects with the field; or objects over several lines:
    one with the field, or more."""
    head = head.removeprefix(BOM).lstrip()
    inner = head[1:].lstrip()
    in_array = head.startswith(b"[") and inner.startswith(b"{")
    if in_array and not (in_folder and needed):
        return True
    if not in_array and not head.startswith(b"{"):
        return False
    text = (inner if in_array else head).decode(errors="replace")
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return _names(inner, needed) if in_array else _names(head, needed, _ON_LINES)
    if not needed or has_field(value, needed):
        return True
    return not in_array and text[end:].lstrip().startswith("{") and (not in_folder or "\n" in text[:end])


def _names(text: bytes, field: str, before: bytes = b"") -> bool:
    """Whether the beginning of a text names a field, behind a pattern."""
    named = b"|".join(re.escape(name.encode()) for name in names_of(field))
    return not field or re.search(before + b'"(?:' + named + rb')"\s*:', text) is not None


def _matches(pattern: re.Pattern[bytes]) -> Callable[[bytes, str, bool], bool]:
    return lambda head, needed, in_folder: pattern.match(head) is not None


_ALL = tuple(KINDS)


def _table_format(ending: str, delimiter: str) -> Format:
    read = functools.partial(read_table, delimiter=delimiter)
    return Format((ending,), read, _ALL, functools.partial(_is_table, delimiter=delimiter), delimiter=delimiter)


_WEB = ("fastwarc", "web")
_ARROW = ("pyarrow", "arrow")
# The value of ``input_format`` -> the format. The content decides first, then the name. The last row is the default.
FORMATS: dict[str, Format] = {
    LINES: Format(
        (".jsonl", ".ndjson"), lambda blocks, fields, bytes_max: split_runs(blocks, bytes_max), _ALL, _is_lines
    ),
    "array": Format((), lambda blocks, fields, bytes_max: array_lines(blocks, bytes_max), _ALL, _is_array),
    "csv": _table_format(".csv", ","),
    "tsv": _table_format(".tsv", "\t"),
    "parquet": Format(
        (".parquet", ".pq"), functools.partial(_read_rows, batches=parquet_batches), _ALL,
        _matches(re.compile(re.escape(PARQUET_MAGIC))), batches=parquet_batches, needs=_ARROW,
    ),
    "arrow": Format(
        (".arrow", ".arrows", ".feather", ".ipc"), functools.partial(_read_rows, batches=arrow_batches), _ALL,
        _matches(re.compile(re.escape(FILE_MAGIC) + b"|" + re.escape(STREAM_MAGIC))),
        batches=arrow_batches, needs=_ARROW,
    ),
    "mail": Format((".eml",), None, ("text",), _matches(_DELIVERED), _mail_document, is_mail=True),
    "mbox": Format(
        (".mbox", ".mbx"), _read_mbox, ("text",), lambda head, needed, in_folder: _FROM_LINE.match(head) is not None,
        is_mail=True,
    ),
    "warc": Format(
        (".warc", ".wet", WACZ), lambda blocks, fields, bytes_max: warc_lines(blocks, bytes_max), ("text",),
        _matches(re.compile(rb"WARC/\d")), needs=_WEB, resumes=True,
    ),
    "html": Format(
        (".html", ".htm", ".xhtml"), None, ("text",),
        lambda head, needed, in_folder: LOOKS_LIKE_HTML.match(head.removeprefix(BOM)) is not None,
        page_document, needs=_WEB,
    ),
    "notebook": Format(
        (".ipynb",), None, ("text",), lambda head, needed, in_folder: LOOKS_LIKE_NOTEBOOK.match(head) is not None,
        _notebook,
    ),
    DOCUMENTS: Format((), None, ("text",), lambda head, needed, in_folder: False),
}  # fmt: skip

# The reasons of refused formats, and of the readers of formats -> their sentences.
FORMAT_REASONS: dict[str, str] = {
    **{
        f"needs_{extra}": f"reading it needs packages that are not installed: {install_command(extra)}"
        for extra in {row.needs[1] for row in FORMATS.values() if row.needs is not None}
    },
    **{
        f"format_{name}": f"the file is {name.upper()}, which is not supported: {row.remedy}"
        for name, row in UNSUPPORTED.items()
    },
    "lines_other": "its lines are objects of JSON without the field that the scheme compares: name the field with "
    "--fields text=NAME, or read the file as one document with --input-format documents",
    "not_table": "the folder holds tables, and this file is none: name it to read it",
    **MAIL_REASONS,
    **WARC_REASONS,
}


def needed_field(fields: Fields) -> str:
    """Return the required field of a document in addition to its id; empty for a record, which has any fields."""
    return {"text": fields.text, "tokens": fields.tokens, "vector": fields.vector}.get(fields.kind, "")


def choose(
    path: str,
    head: bytes,
    fields: Fields,
    input_format: str = AUTO,
    *,
    in_folder: bool = False,
    is_stream: bool = False,
) -> Format | Reason:
    """Return the format of a content by its first block, then by its name; or the reason to refuse it.

    ``is_stream``: standard input, a pipe or a device, which is JSON Lines unless its first block says otherwise.
    """
    if input_format != AUTO:
        return _usable(FORMATS[input_format], fields)
    name = plain_name(path)
    for unsupported, row in UNSUPPORTED.items():
        if row.begins.match(head.removeprefix(BOM)) or (not is_stream and name.endswith(row.endings)):
            return Reason(f"format_{unsupported}")
    for known in FORMATS.values():
        if known.sniff(head, needed_field(fields), in_folder):
            return _usable(known, fields)
    has_lines = is_stream or not (head or in_folder)  # none in an empty content, which is no document either
    chosen = _by_name(name) or FORMATS[LINES if has_lines else DOCUMENTS]
    if chosen is FORMATS[DOCUMENTS]:
        objects, lines = _object_lines(head)
        if lines > 1 and 2 * len(objects) > lines:
            return Reason("lines_other")
    return _usable(chosen, fields)


def meant_as(chosen: Format, head: bytes) -> str:
    """Return what a content that is read as one text may be meant as: ``json`` if it begins like it, ``lines`` if it
    has several, else nothing."""
    if chosen is not FORMATS[DOCUMENTS]:
        return ""
    is_like_json = head.removeprefix(BOM).lstrip()[:1] in (b"{", b"[", b"\x1e")
    return "json" if is_like_json else "lines" * (head.count(b"\n") > 1)


def resumes(path: str, input_format: str) -> bool:
    """Whether the format of a path, as far as its name tells, is read on after damaged compressed data."""
    known = _by_name(plain_name(path)) if input_format == AUTO else FORMATS[input_format]
    return known is not None and known.resumes


def _by_name(name: str) -> Format | None:
    return next((known for known in FORMATS.values() if known.endings and name.endswith(known.endings)), None)


def is_table(path: str) -> bool:
    """Whether a path is that of a table of Arrow, by its name."""
    row = _by_name(plain_name(path))
    return row is not None and row.batches is not None


def _usable(chosen: Format, fields: Fields) -> Format | Reason:
    """Return the format, or the reason why it cannot be read here."""
    if fields.kind not in chosen.kinds:
        return Reason("file_not_lines")
    if chosen.needs is not None and importlib.util.find_spec(chosen.needs[0]) is None:
        return Reason(f"needs_{chosen.needs[1]}")
    return chosen
