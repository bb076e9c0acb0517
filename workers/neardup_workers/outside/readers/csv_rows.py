"""Tables of records (CSV, or cells separated by tabs) -> rows as lines of JSON.

The first row that is not blank names the fields; every other row is one record. White space around names and cells is
removed. An empty cell gives no field. A column without a name is ignored. If a name occurs twice, the last column
counts. A cell in double quotes may hold the delimiter, line feeds and, doubled, quotes (RFC 4180); a quote inside a
cell that does not begin with a quote is an ordinary character.

Rows have the same bound as lines: a row of more than ``bytes_max`` bytes comes in parts, up to its closing quote.
"""

from __future__ import annotations

import csv
from collections.abc import Container, Iterable, Iterator
from itertools import chain
from typing import Any

import orjson

from neardup.errors import Reason
from neardup_workers.outside.readers.lines import BOM, HEADER, IDLE, Header, Line

# Maximum characters of a cell, a global limit of the parser. The bound on a row is lower.
_CELL_CHARACTERS_MAX = (1 << 31) - 1


class _TooLong(Exception):
    """The row has too many bytes to hold; ``ended`` says whether the bytes read so far end with a line."""

    def __init__(self, ended: bool) -> None:
        super().__init__()
        self.ended = ended


def table_lines(
    lines: Iterable[Line],
    delimiter: str,
    bytes_max: int,
    json_fields: Container[str] = (),
    needed: str = "",
) -> Iterator[Line]:
    """Each row of a table as a line of JSON, an object of strings; numbered by the line on which it begins.

    A cell of ``json_fields`` is parsed as JSON. An invalid row is returned unchanged with its reason: ``not_utf8``,
    ``row_not_csv``, ``row_length``. The table ends at an invalid header, or at a header without the name ``needed``
    (``no_column``). A blank line becomes an empty line. ``row`` holds the bytes of each row in the input, the header
    included.

    >>> [line.raw for line in table_lines([Line(1, b"id, name"), Line(2, b"a, Ann")], ",", 99)]
    [b'', b'{"id":"a","name":"Ann"}']
    """
    csv.field_size_limit(_CELL_CHARACTERS_MAX)
    source = iter(lines)
    names: list[str] | None = None
    header: Header | None = None
    for line in source:
        first = line._replace(raw=line.raw.removeprefix(BOM)) if line.number == 1 else line
        if line is IDLE:
            yield IDLE
        elif not line.is_part and not first.raw.strip():
            yield line._replace(raw=b"", row=line.raw, header=header)
        else:
            taken = _Taken(line)
            try:
                cells = _cells(first, taken, source, delimiter, bytes_max)
            except _TooLong as last:
                yield from _parts(line.number, taken, last.ended, source, header)
                if names is None:
                    return
                continue
            raw = bytes(taken.raw)
            row = line._replace(raw=raw, row=raw, end=taken.end, header=header)
            if isinstance(cells, Reason):
                yield row._replace(reason=cells)
                if names is None:
                    return
            elif names is None:
                names = [cell.strip() for cell in cells]
                if needed and needed not in names:
                    yield row._replace(reason=Reason("no_column"))
                    return
                header = Header(raw, taken.end, delimiter.encode())
                yield row._replace(raw=b"", header=header, reason=HEADER)
            else:
                yield _record(row, names, cells, json_fields)


class _Taken:
    """The bytes of a row in the input, and the line feed after it. The row begins with ``line``."""

    def __init__(self, line: Line) -> None:
        self.raw = bytearray(line.raw)
        self.end = line.end


def _cells(first: Line, taken: _Taken, source: Iterator[Line], delimiter: str, bytes_max: int) -> list[str] | Reason:
    """Return the cells of the row that begins with ``first``, or its reason; ``taken`` receives the lines that
    follow."""
    texts = _texts(first, taken, source, bytes_max)
    try:
        cells = next(csv.reader(texts, delimiter=delimiter, skipinitialspace=True))
        "".join(cells).encode()
    except UnicodeEncodeError:
        return Reason("not_utf8")
    except csv.Error:
        return Reason("row_not_csv")
    return cells


def _texts(first: Line, taken: _Taken, source: Iterator[Line], bytes_max: int) -> Iterator[str]:
    """Yield the lines of a row. The parser requests more lines while a quote is open.

    Bytes that are not UTF-8 become lone surrogates, so that the row is still read to its end.
    """
    for line in chain((first,), source):
        if line is IDLE:
            continue
        if line is not first:
            taken.raw += b"\n" + line.raw
            taken.end = line.end
        if line.is_part or len(taken.raw) > bytes_max:
            raise _TooLong(line.ended)
        yield line.raw.decode(errors="surrogateescape") + "\n"
    raise csv.Error("a quote is not closed")


def _parts(number: int, taken: _Taken, ended: bool, source: Iterator[Line], header: Header | None) -> Iterator[Line]:
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
