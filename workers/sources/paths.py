"""Files, folders and standard input -> entries: documents, or the reasons why not, in the order they are named.

What is what, unless ``input_format`` says otherwise: a file named on the command line that ends in .jsonl or .ndjson,
and a stream (standard input, a pipe, a device), is JSON Lines; any other file, and every file in a folder, is one
document whose id is its path. Where documents are records, files that end in .csv or .tsv are tables of them, in
folders too. Only a text can be a whole file. Compressed content (gzip, Zstandard) is told by its first bytes; its
endings .gz and .zst are taken off before the name is looked at. A byte order mark at the start is no part of the text.

Of JSON Lines, a line of white space alone is skipped and counted, and the last line needs no line feed.

Folders are walked in order of names, depth first. Links are not followed there and names that begin with a dot are
left out (``hidden``), so that a walk ends and stays inside; both are refused with their reason, like what is no text.
A file or a link named on the command line is taken as it is.

Held in memory: one block; one line or document of ``line_bytes_max`` bytes at most; the names in the folders above.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from stream.documents import Document
from stream.json_lines import Fields, decode_document
from workers.process.exits import input_failure
from workers.process.stop import Stop
from workers.settings.files import Options
from workers.sources.compression import BLOCK_BYTES, Corrupt, decompressed, plain_name
from workers.sources.csv_rows import delimiter_of, table_lines
from workers.sources.lines import BOM, IDLE, Line, split_lines

STDIN = "-"
# The name of standard input in reports.
_STDIN_NAME = "standard input"
_LINES_ENDINGS = (".jsonl", ".ndjson")
# A zero byte this near the start marks a file as no text: the same rule and distance as git.
_BINARY_BYTES = 8000

# Why a file gave no document, beside the reasons of the library.
FILE_REASONS: dict[str, str] = {
    "binary": "the file is binary: it holds a zero byte near its start",
    "file_not_utf8": "the file is not UTF-8 text",
    "file_not_lines": "a whole file is one text, and the scheme takes none: give JSON Lines (.jsonl, .ndjson, or "
    "--input-format lines), or records as a table (.csv, .tsv)",
    "row_not_csv": "the row is no CSV: a quote is not closed, or a carriage return stands outside of quotes",
    "row_length": "the row does not have as many cells as the header",
    "hidden": "the name begins with a dot; --hidden takes such names too",
    "link": "symbolic links inside a folder are not followed; name the target itself",
    "special": "it is neither a file nor a folder",
    "unreadable": "it cannot be read",
    "corrupt": "the compressed data is damaged or cut off",
    "message_too_large": "the document is larger than request_bytes_max",
}


class Entry(NamedTuple):
    """A document or a reason (``found``), and where it stood: ``line`` is 0 for a whole file.

    ``raw`` is the line as it was (a row of a table as the line of JSON that it makes, if it makes one), ``None`` if
    there is none or if it has been spilled. ``walked`` marks a file that was met in a folder rather than named.
    """

    source: str
    line: int
    raw: bytes | None
    found: Document | str
    walked: bool = False


class Reader:
    """Reads paths one after the other. ``bytes`` and ``blank_lines`` count what went by.

    ``spill`` is given the parts of a line that is too long to be held, before the entry that says so.
    """

    def __init__(self, options: Options, fields: Fields, stop: Stop, spill: Callable[[bytes], None]) -> None:
        self.options = options
        self.stop = stop
        self.bytes = 0
        self.blank_lines = 0
        self._spill = spill
        self._fields = fields

    def read(self, paths: Sequence[str], *, follow: bool = False) -> Iterator[Entry | None]:
        """The entries of all paths in order; ``None`` where there is nothing more to read right now.

        ``follow`` goes on with the last path as it grows, until stopped.
        """
        for i, path in enumerate(paths):
            if self.stop.signal:
                return
            if path != STDIN and os.path.isdir(path):
                yield from self._folder(path)
            elif holds_lines(path, self.options.input_format):
                yield from self._lines(path, follow and i == len(paths) - 1)
            else:
                yield from self._file(path, walked=False)

    def _folder(self, path: str) -> Iterator[Entry | None]:
        for found, reason in walk(path, hidden=self.options.hidden):
            if self.stop.signal:
                return
            if reason:
                yield Entry(display(found), 0, None, reason, True)
            elif self.options.input_format == "lines":
                yield from self._lines(found, False)
            else:
                yield from self._file(found, walked=True)

    def _file(self, path: str, walked: bool) -> Iterator[Entry | None]:
        """A file that is not JSON Lines."""
        delimiter = delimiter_of(path)
        if delimiter and self._fields.kind == "record" and self.options.input_format == "auto":
            yield from self._lines(path, False, delimiter)
        else:
            yield self._document(path, walked)

    def _lines(self, path: str, follow: bool, delimiter: str | None = None) -> Iterator[Entry | None]:
        """The lines of a file of JSON Lines, or the rows of a table with a delimiter."""
        source = _STDIN_NAME if path == STDIN else display(path)
        bytes_max = self.options.line_bytes_max
        blocks: Iterator[bytes | None]
        number = 0
        try:
            with _opened(path) as descriptor:
                blocks = self._follow(path, descriptor) if follow else decompressed(self._blocks(descriptor))
                if delimiter:
                    lines = split_lines(self._unless_stopped(blocks), bytes_max)
                    lines = table_lines(lines, delimiter, bytes_max, self._fields.timestamp)
                else:
                    lines = split_lines(blocks, bytes_max)
                for line in lines:
                    if line is IDLE:
                        yield None
                        continue
                    number = line.number
                    if line.is_part:
                        yield from self._too_long(source, line, lines)
                    elif not line.raw or line.raw.isspace():
                        self.blank_lines += 1
                    else:
                        content = line.raw.removeprefix(BOM) if number == 1 else line.raw
                        yield Entry(source, number, line.raw, line.reason or decode_document(content, self._fields))
        except Corrupt:
            if not self.stop.signal:
                yield Entry(source, number + 1, None, "corrupt")
        except OSError:
            yield Entry(source, number + 1, None, "unreadable")

    def _too_long(self, source: str, line: Line, lines: Iterator[Line]) -> Iterator[Entry | None]:
        """Spill a line part by part; what was read before it is answered first, so that the order stays."""
        yield None
        self._spill(line.raw)
        while not line.ended:
            line = next(lines, line._replace(raw=b"", ended=True))
            if line is IDLE:
                line = line._replace(ended=False)
            else:
                self._spill(line.raw)
        yield Entry(source, line.number, None, "line_too_long")

    def _document(self, path: str, walked: bool) -> Entry:
        """A whole file as one document; its id is the path."""
        source = display(path) if path != STDIN else _STDIN_NAME
        if self._fields.kind != "text":
            return Entry(source, 0, None, "file_not_lines", walked)
        bytes_max = self.options.line_bytes_max
        parts: list[bytes] = []
        size = 0
        try:
            with _opened(path) as descriptor:
                status = os.fstat(descriptor)
                if walked and not stat.S_ISREG(status.st_mode):
                    return Entry(source, 0, None, "special", walked)
                if status.st_size > bytes_max:
                    return Entry(source, 0, None, "file_too_large", walked)
                for block in decompressed(self._blocks(descriptor)):
                    if size < _BINARY_BYTES and b"\0" in block[: _BINARY_BYTES - size]:
                        return Entry(source, 0, None, "binary", walked)
                    size += len(block)
                    if size > bytes_max:
                        return Entry(source, 0, None, "file_too_large", walked)
                    parts.append(block)
            text = b"".join(parts).removeprefix(BOM).decode()
        except UnicodeDecodeError:
            return Entry(source, 0, None, "file_not_utf8", walked)
        except Corrupt:
            return Entry(source, 0, None, "corrupt", walked)
        except OSError:
            return Entry(source, 0, None, "unreadable", walked)
        return Entry(source, 0, None, Document(display(path), text), walked)

    def _blocks(self, descriptor: int) -> Iterator[bytes]:
        """The bytes of an open file; for a stream an empty block before each wait."""
        streams = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        while True:
            if streams and not _ready(descriptor):
                yield b""
            block = self.stop.read(descriptor, BLOCK_BYTES)
            if not block:
                return
            self.bytes += len(block)
            yield block

    def _unless_stopped(self, blocks: Iterable[bytes | None]) -> Iterator[bytes | None]:
        """Blocks to their end. A signal ends them as damage would: of a row cut in two nothing is read."""
        yield from blocks
        if self.stop.signal:
            raise Corrupt

    def _follow(self, path: str, descriptor: int) -> Iterator[bytes | None]:
        """The bytes of a growing file until stopped; ``None`` when it was cut short or replaced, and begins anew."""
        opened = descriptor
        try:
            while not self.stop.signal:
                block = self.stop.read(opened, BLOCK_BYTES)
                self.bytes += len(block)
                yield block
                if block:
                    continue
                self.stop.sleep(self.options.follow_seconds)
                fresh = _anew(path, opened)
                if fresh is not None:
                    while block := self.stop.read(opened, BLOCK_BYTES):  # what came between
                        self.bytes += len(block)
                        yield block
                    yield None
                    if opened != descriptor:
                        os.close(opened)
                    opened = fresh
        finally:
            if opened != descriptor:
                os.close(opened)


def holds_lines(path: str, input_format: str) -> bool:
    """Whether a path that was named is JSON Lines rather than one document."""
    return FORMATS[input_format](path)


def _lines_by_name(path: str) -> bool:
    lines_ending = plain_name(path).endswith(_LINES_ENDINGS)
    return path == STDIN or lines_ending or not stat.S_ISREG(os.stat(path).st_mode)


# How to tell JSON Lines from documents, by the value of ``input_format``.
FORMATS: dict[str, Callable[[str], bool]] = {
    "auto": _lines_by_name,
    "lines": lambda path: True,
    "documents": lambda path: False,
}


def walk(folder: str, *, hidden: bool) -> Iterator[tuple[str, str]]:
    """What is in a folder, each with the reason to leave it out (empty for a file to read), in order of names."""
    pending = [iter([folder])]
    while pending:
        path = next(pending[-1], None)
        if path is None:
            pending.pop()
            continue
        try:
            if len(pending) > 1:
                reason = _left_out(path, hidden)
                if reason is not None:
                    yield path, reason
                    continue
            pending.append(iter([os.path.join(path, name) for name in sorted(os.listdir(path))]))
        except OSError:
            yield path, "unreadable"


def _left_out(path: str, hidden: bool) -> str | None:
    """Why a path met in a folder is not read, empty if it is, ``None`` for a folder to go into."""
    if not hidden and os.path.basename(path).startswith("."):
        return "hidden"
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode):
        return None
    if stat.S_ISREG(mode):
        return ""
    return "link" if stat.S_ISLNK(mode) else "special"


def check_paths(paths: Sequence[str]) -> None:
    """Raise ``Failure`` for the first path that is missing or may not be read, before anything is done."""
    for path in paths:
        if path == STDIN:
            continue
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                os.close(os.open(path, os.O_RDONLY))
            elif os.path.isdir(path):
                os.scandir(path).close()
        except OSError as error:
            raise input_failure(display(path), error) from None


def total_bytes(paths: Sequence[str], *, hidden: bool) -> int | None:
    """The size of everything that will be read, ``None`` if a stream is among it."""
    total = 0
    for path in paths:
        if path == STDIN or not (os.path.isfile(path) or os.path.isdir(path)):
            return None
        files = [path] if os.path.isfile(path) else (f for f, reason in walk(path, hidden=hidden) if not reason)
        for file in files:
            with suppress(OSError):
                total += os.stat(file).st_size
    return total


def display(path: str) -> str:
    """A path as an id or in a message; bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class _opened:
    """An open file descriptor as a context; standard input is borrowed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = 0

    def __enter__(self) -> int:
        if self._path != STDIN:
            self._descriptor = os.open(self._path, os.O_RDONLY)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        if self._path != STDIN:
            os.close(self._descriptor)


def _ready(descriptor: int) -> bool:
    """Whether a stream can be read without waiting."""
    try:
        return bool(select.select([descriptor], [], [], 0)[0])
    except (OSError, ValueError):  # a system, or a descriptor, that select cannot do
        return False


def _anew(path: str, descriptor: int) -> int | None:
    """A descriptor for a followed file that was replaced or cut short, ``None`` if it was not (or is away)."""
    try:
        now, before = os.stat(path), os.fstat(descriptor)
        replaced = (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino)
        if replaced or now.st_size < os.lseek(descriptor, 0, os.SEEK_CUR):
            return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        pass
    return None
