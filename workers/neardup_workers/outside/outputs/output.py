"""The outputs of a command, and the errors of writing them.

Every file is written under another name and gets its own when it is complete (``OutputFile``). So a command that is
refused, fails or is killed leaves the file as it was.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt
import orjson

from neardup_workers.outside.process.exits import Exit, Failure, output_failure
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.readers.lines import BOM, HEADER, Header, Line, Run
from neardup_workers.outside.readers.paths import display
from neardup_workers.outside.remote.objects import upload
from neardup_workers.outside.remote.stores import checked_to_write, is_address
from neardup_workers.outside.settings import option_name

STANDARD = "-"
# The names of what is open already -> its descriptor.
_OPEN = {STANDARD: 1, "/dev/stdout": 1, "/dev/stderr": 2}
_OPEN_NUMBERED = re.compile(r"(?:/dev|/proc/self)/fd/(\d{1,9})")
_SUMMARY = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class OutputFile:
    """A file that a command writes, a context manager: at the end of the block the file gets its name, after an
    exception it is removed. ``what`` it holds is named in messages.

    A device, a pipe or a file that another program follows (``follow``) is written in place, as is a file in a folder
    that cannot be written. A link stays, and the file keeps its permissions. ``-`` (``STANDARD``) is standard output;
    what is open already is written behind what it holds (``/dev/stdout``, ``/dev/fd/3``).

    Every method raises ``Failure`` if the file cannot be written.
    """

    def __init__(self, path: str, what: str = "the pairs", *, follow: bool = False) -> None:
        self._is_standard = path == STANDARD
        self._what = f"{what} to {'standard output' if self._is_standard else path}"
        self._address = path if is_address(path) else None
        self._path = Path(os.path.realpath(path))
        self._unfinished: Path | None = None
        with self._failing():
            self._open(path, in_place=follow or not _is_plain(path))

    def _open(self, path: str, *, in_place: bool) -> None:
        if self._is_standard:
            if sys.stdout is None:
                raise Failure(Exit.OUTPUT, f"cannot write {self._what}: it is closed")
            self.file: IO[bytes] = sys.stdout.buffer
            return
        if (descriptor := descriptor_of(path)) is not None:
            self.file = os.fdopen(os.dup(descriptor), "wb")
            return
        if self._address is not None:
            self._open_address(self._address, in_place=in_place)
            return
        if not in_place:
            unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            try:
                self.file = unfinished.open("wb")
            except PermissionError:
                if not self._path.exists():
                    raise
            else:
                self._unfinished = unfinished
                with suppress(OSError):
                    unfinished.chmod(stat.S_IMODE(self._path.stat().st_mode))
                return
        self.file = Path(path).open("wb")  # noqa: SIM115 - this is a context manager itself

    def _open_address(self, address: str, *, in_place: bool) -> None:
        """Write to a temporary file, which becomes the object at the end."""
        if in_place:
            raise Failure(Exit.USAGE, f"cannot write {self._what}: an object is written whole: name a file to follow")
        checked_to_write(address)
        self.file = tempfile.NamedTemporaryFile(prefix="neardup-", delete=False)  # noqa: SIM115
        self._unfinished = Path(self.file.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Finish the file. What a reader of standard output no longer wants (``BrokenPipeError``) is no failure."""
        if kind is None or (issubclass(kind, BrokenPipeError) and not self._is_standard):
            self.close()
        else:
            self.discard()

    def write(self, data: bytes) -> None:
        """Write bytes at once. Also raises ``BrokenPipeError``, if the reader of a pipe has left."""
        try:
            self.file.write(data)
            self.file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise output_failure(self._what, error) from None

    def act(self, action: Callable[[IO[bytes]], object]) -> None:
        """Do something with the file."""
        with self._failing():
            action(self.file)

    def close(self) -> None:
        """Give the file its name."""
        try:
            with self._failing():
                self._finish()
        finally:
            self.discard()

    def discard(self) -> None:
        """Close the file and remove what has no name yet."""
        try:
            self._shut()
        except OSError:
            if self._is_standard:  # or the interpreter fails at its end on what is not written yet
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.file.fileno())
                os.close(nowhere)
        if self._unfinished is not None:
            with suppress(OSError):
                self._unfinished.unlink()

    def _shut(self) -> None:
        if self._is_standard:
            self.file.flush()
        else:
            self.file.close()

    def _finish(self) -> None:
        self._shut()
        if self._address is not None and self._unfinished is not None:
            try:
                upload(self._unfinished, self._address)
            except OSError as error:
                kept, self._unfinished = self._unfinished, None
                raise OSError(error.errno, f"{error.strerror}; what it would have is in {kept}") from None
        elif self._unfinished is not None:
            self._unfinished.replace(self._path)
            self._unfinished = None

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise output_failure(self._what, error) from None


def _is_plain(path: str) -> bool:
    """Whether a path is that of a file on a disk, there already or not."""
    if is_address(path):
        return True
    if os.path.abspath(path).startswith(("/dev/", "/proc/")):
        return False
    return os.path.isfile(path) or not os.path.exists(path)


def real_path(path: str) -> str:
    """Return the name of what a path is written to, without links; ``-`` is what standard output is."""
    descriptor = descriptor_of(path)
    return os.path.realpath(path if descriptor is None else f"/dev/fd/{descriptor}")


def check_outputs(inputs: Sequence[str], outputs: Mapping[str, str | None], *, prints: bool) -> None:
    """Raise ``Failure`` if an output is also an input, or two outputs are the same: writing would destroy data.
    ``outputs`` are named by the fields of their options; ``prints``: results go to standard output."""
    # Nothing comes from there, unless it is typed: the name of the input stands behind an option of an output.
    is_unnamed = list(inputs) == [STANDARD] and _is_device(0)
    seen = {os.path.realpath(path): "an input" for path in inputs if path != STANDARD}
    for name, path in outputs.items():
        if path is None:
            continue
        option, real = option_name(name), real_path(path)
        if prints and real == real_path(STANDARD) != os.devnull:
            raise Failure(
                Exit.USAGE, f"{option} {path} is standard output, where the results go: name a file for one of the two"
            )
        if real in seen and not os.path.isdir(real) and real != os.devnull:
            raise Failure(Exit.USAGE, f"{option} {display(path)} is also {seen[real]}: name another file")
        if is_unnamed and descriptor_of(path) is None and os.path.isfile(real) and os.path.getsize(real):
            raise Failure(
                Exit.USAGE,
                f"nothing is piped in, and {option} would write over {display(path)}: name an input, too, or remove it",
            )
        seen[real] = option


def _is_device(descriptor: int) -> bool:
    """Whether what is open there is a terminal, ``/dev/null`` or the like, or nothing is."""
    try:
        return stat.S_ISCHR(os.fstat(descriptor).st_mode)
    except OSError:
        return True


def check_later(path: str | None, what: str) -> None:
    """Raise ``Failure`` for a file that is written at the end of a run if its name is that of a folder or in none."""
    if path is None or is_address(path) or descriptor_of(path) is not None:
        return
    real = os.path.realpath(path)
    reason = errno.EISDIR if os.path.isdir(real) else 0 if os.path.isdir(os.path.dirname(real)) else errno.ENOENT
    if reason:
        raise output_failure(f"{what} to {path}", OSError(reason, os.strerror(reason)))


def descriptor_of(path: str) -> int | None:
    """Return the number of what is open already under a path; to open it again would cut off what it holds."""
    if path in _OPEN:
        return _OPEN[path]
    numbered = _OPEN_NUMBERED.fullmatch(path)
    return int(numbered[1]) if numbered else None


class Lines:
    """Lines of the input, byte for byte, on their way to an output.

    A line without a line feed gets one if another line follows. A byte order mark is written only at the beginning of
    the output. The header of a table precedes its rows, unless the rows before have the same header. ``column`` names
    an additional column of the rows.
    """

    def __init__(self, column: str = "") -> None:
        self._column = column.encode()
        self._parts: list[bytes | memoryview] = []
        self._begun = self._unended = False
        self._header: Header | None = None

    def add(self, entry: Entry, row: bytes | None = None) -> None:
        """Add an entry unchanged, or ``row`` instead; this also adds the header of a table when needed."""
        if entry.header is not self._header:
            self._begin_table(entry.header)
        if entry.found is HEADER:
            return
        if row is None:
            row = entry.row or entry.raw or b""
        if entry.line == 1 and self._begun:
            row = row.removeprefix(BOM)
        self.put(row, entry.end)

    def add_lines(self, run: Run, chosen: npt.NDArray[np.bool_]) -> None:
        """Add the chosen of some lines of JSON, each with its line feed."""
        bounds = run.starts[np.flatnonzero(np.diff(chosen, prepend=False, append=False))].tolist()
        if bounds:
            data, ends = memoryview(run.data), iter(bounds)
            self.put(b"", b"")
            self._parts += [data[begin:end] for begin, end in zip(ends, ends, strict=True)]
            self._header, self._unended = None, False

    def put(self, data: bytes, end: bytes = b"\n") -> None:
        """Add bytes and the line feed after them; with an empty ``end``, the next bytes still begin on a new line."""
        if self._unended:
            self._parts.append(b"\n")
        self._parts += (data, end)
        self._begun, self._unended = True, not end

    def put_part(self, part: Line) -> None:
        """Add a part of a line; ``put`` adds the last part, which may be empty."""
        if part.header is not None and part.header is not self._header:
            self._begin_table(part.header)
        if self._unended:
            self._parts.append(b"\n")
        self._parts.append(part.raw)
        self._begun, self._unended = True, False

    def taken(self) -> bytes:
        """Return the bytes added since the last call."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data

    def _begin_table(self, header: Header | None) -> None:
        before, self._header = self._header, header
        if header is None or (before is not None and _names(before) == _names(header)):
            return
        row = header.row.removeprefix(BOM) if self._begun else header.row
        if self._column:
            row = with_cell(row, self._column, header.delimiter)
        self.put(row, header.end)


def with_cell(row: bytes, cell: bytes, delimiter: bytes) -> bytes:
    """Return a row of a table with one more cell at its end, in quotes if the cell holds a quote."""
    if b'"' in cell:
        cell = b'"' + cell.replace(b'"', b'""') + b'"'
    cells = row.removesuffix(b"\r")
    return cells + delimiter + cell + row[len(cells) :]


def _names(header: Header) -> bytes:
    """Return a header without the bytes that may differ between two tables of the same columns."""
    return header.row.removeprefix(BOM).rstrip(b"\r")


def write_summary(path: str | None, summary: dict[str, Any]) -> None:
    """Write the summary of a command to a file, if one is named. Raises ``Failure``."""
    if path is not None:
        with OutputFile(path, "the summary") as output:
            output.act(lambda file: file.write(orjson.dumps(summary, option=_SUMMARY)))
