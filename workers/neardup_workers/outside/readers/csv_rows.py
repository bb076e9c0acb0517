"""Tables of records (CSV, or cells separated by tabs) -> rows as lines of JSON.

The first row that is not blank names the fields; every other row is one record. White space around names and cells is
removed. An empty cell gives no field. A column without a name is ignored. If a name occurs twice, the last column
counts, and a note says so. A cell in double quotes may hold the delimiter, line feeds and, doubled, quotes (RFC 4180);
a quote inside a cell that does not begin with a quote is an ordinary character.

Many programs write tables without quoting, above all with tabs. So a cell that begins with a quote is one of letters
where the row is none by RFC 4180 and its first line has as many cells as the header, or where, with tabs, each of its
lines is a whole row. ``Notes`` counts these rows. A ``Dialect`` says otherwise.

Rows have the same bound as lines: a row of more than ``bytes_max`` bytes comes in parts, up to its closing quote.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import orjson

from neardup.documents.paths import has_field
from neardup.errors import Reason
from neardup_workers.outside.readers.lines import BOM, HEADER, IDLE, Header, Line

# Maximum characters of a cell, a global limit of the parser. The bound on a row is lower.
_CELL_CHARACTERS_MAX = (1 << 31) - 1


# Delimiters that are tried where the header has none of the format; rows that decide.
_DELIMITERS, _SNIFFED_ROWS = ",;\t|", 20
QUOTINGS = ("auto", "quoted", "none")
_NAMED_DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "blank": " "}


class Dialect(NamedTuple):
    """How tables are written: the delimiter (empty: by the format and the header), a value of ``QUOTINGS``, whether
    there is a header, and the encoding (empty: UTF-8, or UTF-16 with its mark)."""

    delimiter: str = ""
    quoting: str = "auto"
    header: bool = True
    encoding: str = ""


def dialect_of(values: Iterable[str]) -> Dialect:
    """Return the dialect that the setting ``table`` names, each value as ``delimiter=tab``.

    Raises:
        ValueError: a value has another form.

    >>> dialect_of(["delimiter=semicolon", "header=no"])
    Dialect(delimiter=';', quoting='auto', header=False, encoding='')
    """
    dialect = Dialect()
    for value in values:
        part, _, name = (word.strip() for word in value.partition("="))
        name = _NAMED_DELIMITERS.get(name, name)
        if part == "delimiter" and len(name) == 1 and name not in '"\r\n':
            dialect = dialect._replace(delimiter=name)
        elif part == "quoting" and name in QUOTINGS:
            dialect = dialect._replace(quoting=name)
        elif part == "header" and name in ("yes", "no"):
            dialect = dialect._replace(header=name == "yes")
        elif part == "encoding" and _is_encoding(name):
            dialect = dialect._replace(encoding=name)
        else:
            raise ValueError(
                f"must be delimiter= with one character or {', '.join(_NAMED_DELIMITERS)}; quoting= with "
                f"{', '.join(QUOTINGS)}; header=yes or no; encoding= with a name that Python knows, as cp1252"
            )
    return dialect


def _is_encoding(name: str) -> bool:
    try:
        return isinstance("".encode(name), bytes)
    except LookupError:
        return False


def delimiter_of(head: bytes, usual: str) -> str:
    """Return the delimiter of a table that begins like this: the usual one if the header has it, else the one that
    divides most rows into as many cells as the header: most rows, then most cells; the usual one if none does. A last
    row whose quote is open is cut.

    >>> delimiter_of(b"id;text\\na;one, two\\n", ",")
    ';'
    """
    whole = head.removeprefix(BOM).rpartition(b"\n")[0] or head  # the last line may be cut
    lines = [line.rstrip("\r") for line in whole.decode(errors="replace").split("\n") if line.strip()]
    if not lines or usual in lines[0]:
        return usual
    csv.field_size_limit(_CELL_CHARACTERS_MAX)
    found, is_cut = {}, whole.count(b'"') % 2 == 1
    for delimiter in _DELIMITERS:
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        try:
            rows = list(islice(reader, _SNIFFED_ROWS))
        except csv.Error:
            continue
        widths = [len(row) for row in (rows[:-1] if is_cut and 1 < len(rows) < _SNIFFED_ROWS else rows)]
        alike = widths.count(widths[0])
        if widths[0] > 1 and 2 * alike > len(widths):
            found[delimiter] = alike, widths[0]
    return max(found, key=lambda one: found[one], default=usual)


class _TooLong(Exception):
    """The row has too many bytes to hold; ``ended`` says whether the bytes read so far end with a line, ``is_part``
    whether a line alone has too many."""

    def __init__(self, ended: bool, is_part: bool) -> None:
        super().__init__()
        self.ended, self.is_part = ended, is_part


class _Source:
    """Lines that can be given back."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self._again: Iterator[Line] = iter(())

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        return next(self._again, None) or next(self._lines)

    def back(self, lines: Iterable[Line]) -> None:
        """Return these lines next."""
        self._again = chain(lines, self._again)


def table_lines(
    lines: Iterable[Line],
    delimiter: str,
    bytes_max: int,
    json_fields: Container[str] = (),
    needed: str = "",
    dialect: Dialect = Dialect(),  # noqa: B008 - immutable
    notes: Counter[str] | None = None,
) -> Iterator[Line]:
    """Each row of a table as a line of JSON, an object of strings; numbered by the line on which it begins.

    A cell of ``json_fields`` is parsed as JSON. An invalid row is returned unchanged with its reason: ``not_utf8``,
    ``row_not_csv``, ``row_length``. The table ends at an invalid header, or at a header without the name ``needed``
    (``no_column``). A blank line becomes an empty line. ``row`` holds the bytes of each row in the input, the header
    included. Without a header, the columns are named 1, 2 and so on. ``notes`` counts what is not read as it stands;
    the count belongs where a note has ``{}``.

    >>> [line.raw for line in table_lines([Line(1, b"id, name"), Line(2, b"a, Ann")], ",", 99)]
    [b'', b'{"id":"a","name":"Ann"}']
    """
    csv.field_size_limit(_CELL_CHARACTERS_MAX)
    source, notes = _Source(lines), Counter() if notes is None else notes
    names: list[str] | None = None
    header: Header | None = None
    for line in source:
        first = line._replace(raw=line.raw.removeprefix(BOM)) if line.number == 1 else line
        if line is IDLE:
            yield IDLE
        elif not line.is_part and not first.raw.strip():
            yield line._replace(raw=b"", row=line.raw, header=header)
        else:
            row = _Row(first, line, source, delimiter, bytes_max)
            try:
                cells = row.cells(dialect.quoting, len(names or ()), notes)
            except _TooLong as last:
                yield from _parts(line.number, row.taken, last.ended, source, header)
                if names is None:
                    return
                continue
            raw = bytes(row.taken.raw)
            made = line._replace(raw=raw, row=raw, end=row.taken.end, header=header)
            if isinstance(cells, Reason):
                yield made._replace(reason=cells)
                if names is None:
                    return
                continue
            if names is None:
                names = _names(cells, dialect, notes)
                if needed and not has_field(dict.fromkeys(names), needed):
                    yield made._replace(reason=Reason("no_column"))
                    return
                if dialect.header:
                    header = Header(raw, row.taken.end, delimiter.encode())
                    yield made._replace(raw=b"", header=header, reason=HEADER)
                    continue
            yield _record(made, names, cells, json_fields)


def _names(cells: Sequence[str], dialect: Dialect, notes: Counter[str]) -> list[str]:
    """Return the names of columns. The notes have those that stand twice."""
    if not dialect.header:
        return [str(number) for number in range(1, len(cells) + 1)]
    names = [cell.strip() for cell in cells]
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    notes.update(f"column {name!r} stands twice in the header, and the last one is read" for name in twice)
    return names


class _Taken:
    """The bytes of a row in the input, and the line feed after it. The row begins with ``line``."""

    def __init__(self, line: Line) -> None:
        self.raw = bytearray(line.raw)
        self.end = line.end


class _Row:
    """The row that begins with ``first``; ``line`` is the same with a byte order mark. ``taken`` has its bytes."""

    def __init__(self, first: Line, line: Line, source: _Source, delimiter: str, bytes_max: int) -> None:
        self._first, self._line, self._source = first, line, source
        self._delimiter, self._bytes_max = delimiter, bytes_max
        self.taken = _Taken(line)

    def cells(self, quoting: str, width: int, notes: Counter[str]) -> list[str] | Reason:
        """Return the cells, or the reason why there are none; ``width`` is the number of cells of the header."""
        cells = self._cells(quoting, width, notes)
        if (lines := self.taken.raw.count(b"\n")) and width and (isinstance(cells, Reason) or len(cells) != width):
            notes["{} lines belong to a refused row, since a quote before them is open: they are not read"] += lines
        return cells

    def _cells(self, quoting: str, width: int, notes: Counter[str]) -> list[str] | Reason:
        if quoting == "none":
            return self._literal(self._first.raw)
        if quoting == "quoted" or not width or b'"' not in self._first.raw:
            return self._parsed(strict=False)
        try:
            cells = self._parsed(strict=True)
            is_row = not isinstance(cells, Reason) and not (self._delimiter == "\t" and self._has_rows(width))
        except _TooLong as last:
            if last.is_part or len(self._literal(self._first.raw)) != width:
                raise
            is_row = False
        if is_row:
            return cells
        self._give_back()
        literal = self._literal(self._first.raw)
        if len(literal) == width and not isinstance(literal, Reason) and not _QUOTED_END.search(self._first.raw):
            notes["{} rows have a quote that begins a cell and quotes none, so it is a letter"] += 1
            return literal
        return self._parsed(strict=False)

    def _parsed(self, *, strict: bool) -> list[str] | Reason:
        """Return the cells by RFC 4180; the lines that follow are taken while a quote is open."""
        texts = self._texts()
        try:
            cells = next(csv.reader(texts, delimiter=self._delimiter, skipinitialspace=True, strict=strict))
            "".join(cells).encode()
        except UnicodeEncodeError:
            return Reason("not_utf8")
        except csv.Error:
            return Reason("row_not_csv")
        return cells

    def _literal(self, raw: bytes) -> list[str] | Reason:
        try:
            return raw.decode().rstrip("\r").split(self._delimiter)
        except UnicodeDecodeError:
            return Reason("not_utf8")

    def _has_rows(self, width: int) -> bool:
        """Whether the row has several lines, and each of them has as many cells as the header."""
        lines = bytes(self.taken.raw).split(b"\n", 3)  # the first ones decide
        return len(lines) > 1 and all(line.count(self._delimiter.encode()) == width - 1 for line in lines[:3])

    def _give_back(self) -> None:
        """Return the lines behind the first one to the source."""
        begin = len(self._line.raw) + 1
        if begin <= len(self.taken.raw):
            raw, end = bytes(self.taken.raw[begin:]), self.taken.end
            self._source.back(_lines_of(self._line.number + 1, raw, end))
        self.taken = _Taken(self._line)

    def _texts(self) -> Iterator[str]:
        """Yield the lines of the row. The parser requests more lines while a quote is open.

        Bytes that are not UTF-8 become lone surrogates, so that the row is still read to its end.
        """
        for line in chain((self._first,), self._source):
            if line is IDLE:
                continue
            if line is not self._first:
                self.taken.raw += b"\n" + line.raw
                self.taken.end = line.end
            if line.is_part or len(self.taken.raw) > self._bytes_max:
                raise _TooLong(line.ended, line.is_part)
            yield line.raw.decode(errors="surrogateescape") + "\n"
        raise csv.Error("a quote is not closed")


# A cell that ends with a quote and blanks behind it: only for them is the row none by RFC 4180.
_QUOTED_END = re.compile(rb'"[ \t]+(?:[,;|\t]|\r?$)')


def _lines_of(number: int, raw: bytes, end: bytes) -> Iterator[Line]:
    """Yield lines that were read before, from this number on; ``end`` is the line feed after the last one."""
    at = 0
    while (stop := raw.find(b"\n", at)) >= 0:
        yield Line(number, raw[at:stop])
        number, at = number + 1, stop + 1
    yield Line(number, raw[at:], end=end)


def _parts(number: int, taken: _Taken, ended: bool, source: _Source, header: Header | None) -> Iterator[Line]:
    """Yield a row that is too long in parts: the bytes read so far, then the lines up to the end of its quotes.

    ``ended`` says whether the bytes read so far end with a line.
    """
    quotes = taken.raw.count(b'"')
    yield Line(number, bytes(taken.raw), True, ended and quotes % 2 == 0, end=taken.end, header=header)
    while not ended or quotes % 2:
        line = next(source, None)
        if line is None:
            return
        if line is IDLE:
            yield IDLE
            continue
        quotes += line.raw.count(b'"')
        before, ended = b"\n" if ended else b"", line.ended
        yield Line(number, before + line.raw, True, ended and quotes % 2 == 0, end=line.end)


def _record(line: Line, names: list[str], cells: list[str], json_fields: Container[str]) -> Line:
    """A row as a line of JSON."""
    if len(cells) != len(names):
        return line._replace(reason=Reason("row_length"))
    values: dict[str, Any] = dict(zip(names, map(str.strip, cells), strict=True))
    values = {name: _value(cell) if name in json_fields else cell for name, cell in values.items() if name and cell}
    return line._replace(raw=orjson.dumps(values))


def _value(cell: str) -> Any:
    """Return a cell parsed as a JSON number, list or object; any other cell unchanged."""
    try:
        value = orjson.loads(cell)
    except orjson.JSONDecodeError:
        return cell
    return value if type(value) in (int, float, list, dict) else cell
