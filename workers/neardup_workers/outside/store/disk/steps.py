"""Small steps that are on the disk and not in the database yet.

Theory of operation. A COMMIT of SQLite writes each page that it changes, of eight trees for one document. So a step
that only writes is *recorded*: its statements, with their values, are one record of ``window.steps``, and the step is
durable. They run later, up to 64 documents in one transaction: when a step reads, when somebody reads, when the
file has no room, and after a second. ``steps`` of ``meta`` says how many records the database has. When it has all, the
next record begins at the start of the file, which has a constant size: a record needs no new room on the disk.

A record is a head, the statements, and the head again. A process that is killed leaves the first head of its last
record at most, and that step was not answered. Both heads around statements with another checksum are damage, and so is
a record that is missing before a later one, unless the machine has started again. Heads have a random mark, new with
each start, that is stored in ``meta`` alone: no text can look like one.
"""

from __future__ import annotations

import errno
import marshal
import os
import secrets
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from crc32c import crc32c

from neardup_workers.outside.store.disk.folder import damaged

_BYTES = 256 << 10
_MARK = 16
# Number, bytes and checksum of the statements; behind them the checksum of the head.
_NUMBERS = struct.Struct("<QII")
_HEAD = _MARK + _NUMBERS.size + 4
_WRITING = ("INSERT", "REPLACE", "UPDATE", "DELETE")
_STORE = "REPLACE INTO meta VALUES ('steps', ?)"
# A statement, its values, and whether these are a list of several.
_Statement = tuple[str, Sequence[Any], bool]


def steps_path(path: Path) -> Path:
    """Return where the steps of a database are."""
    return path.with_suffix(".steps")


class StepWriter(sqlite3.Connection):
    """The connection of a writer. Between ``begin`` with ``later`` and its first statement that reads, an open step is
    recorded. One thread at a time may use it."""

    _recorded: list[_Statement] | None = None
    _waiting: tuple[list[_Statement], ...] = ()
    _file, _is_synced = -1, False

    def prepare(self, path: Path, *, is_synced: bool, is_certain: bool) -> None:
        """Run what a process before has recorded, and begin to record.

        Args:
            path: of the database.
            is_synced: a step waits for the disk.
            is_certain: the machine has not started again since: no record is missing.

        Raises:
            Failure: a record is damaged.
        """
        self._path, self._is_synced = steps_path(path), is_synced
        self._mark, self._number, self._at, self._used = secrets.token_bytes(_MARK), 0, 0, 0
        self.execute("BEGIN IMMEDIATE")
        try:
            if run_waiting(self, read_steps(path)) and is_certain:
                raise damaged(self._path, "a step that waits for the database has another checksum")
            self._store()
            self.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.execute("ROLLBACK")
            raise
        self._file = self._opened()

    def _opened(self) -> int:
        """Return a file with its room; -1 if the disk has none."""
        self._path.unlink(missing_ok=True)  # what a process before has left may be of removed documents
        file = -1
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            os.pwrite(file, bytes(_BYTES), 0)
            os.fsync(file)
        except OSError:
            if file >= 0:
                os.close(file)
            return -1
        return file

    @property
    def records(self) -> bool:
        """Whether the open step is recorded so far."""
        return self._recorded is not None

    @property
    def waits(self) -> bool:
        """Whether recorded steps wait for the database."""
        return bool(self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether a step is open."""
        return self._recorded is not None or self.in_transaction

    def begin(self, *, later: bool) -> None:
        """Open a step, to record it if ``later``."""
        self._recorded = []
        if not later:
            self._run()

    def _run(self) -> None:
        """Run what waits and what the open step has recorded, in a transaction."""
        recorded, self._recorded = self._recorded or [], None
        super().execute("BEGIN IMMEDIATE")
        for statements in self._waiting:
            _run(self, statements)
        _run(self, recorded)

    def store_step(self) -> bool:
        """Make the open step durable; returns whether it is in the database, with all before it."""
        if self._recorded is not None:
            if not self._recorded or self._add(self._recorded):
                self._recorded = None
                return False
            self._run()
        if self._waiting:
            self._store()
        super().execute("COMMIT")
        self._waiting, self._at = (), 0
        return True

    def undo_step(self) -> None:
        """Forget what the open step has recorded."""
        self._recorded = None

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        """Run a statement, or record it."""
        if self._recorded is not None:
            if sql.startswith(_WRITING):
                self._recorded.append((sql, tuple(values), False))
                return _NOTHING
            self._run()
        return super().execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        """Run a statement for each of some rows, or record it."""
        if self._recorded is not None:
            rows = list(rows)
            if self._recorded is not None:  # to make the rows may have read
                self._recorded.append((sql, rows, True))
                return _NOTHING
        return super().executemany(sql, rows)

    def erase_steps(self) -> None:
        """Overwrite the records that the database has."""
        if self._used and not self._waiting:
            os.pwrite(self._file, bytes(self._used), 0)
            os.fdatasync(self._file)
            self._used = 0

    def close(self) -> None:
        """Close the connection and the file."""
        super().close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _store(self) -> None:
        super().execute(_STORE, (self._mark + _NUMBERS.pack(self._number, 0, 0),))

    def _add(self, statements: list[_Statement]) -> bool:
        """Record a step; returns whether there was room."""
        data = marshal.dumps(statements)
        size = len(data) + 2 * _HEAD
        if self._file < 0 or self._at + size > _BYTES:
            return False
        head = self._mark + _NUMBERS.pack(self._number + 1, len(data), crc32c(data))
        head += crc32c(head).to_bytes(4, "little")
        try:
            written = os.pwrite(self._file, b"".join((head, data, head)), self._at)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return False
        if written < size:
            return False
        if self._is_synced:
            os.fdatasync(self._file)
        self._number += 1
        self._at += size
        self._used = max(self._used, self._at)
        self._waiting += (statements,)
        return True


_NOTHING = sqlite3.connect(":memory:", check_same_thread=False).cursor()


def read_steps(path: Path) -> bytes:
    """Return the file of steps of the database at a path, empty if there is none."""
    try:
        return steps_path(path).read_bytes()
    except FileNotFoundError:
        return b""


def run_waiting(connection: sqlite3.Connection, data: bytes) -> int:
    """Run the records that a database lacks in an open transaction.

    Args:
        connection: of the database, with the functions of its tables.
        data: the file of steps, read before the transaction began.

    Returns:
        How many records are left out: the first one that is damaged or not there, and all behind it.
    """
    stored = connection.execute("SELECT value FROM meta WHERE name = 'steps'").fetchone()
    if stored is None:
        return 0
    last: int = _NUMBERS.unpack_from(stored[0], _MARK)[0]
    steps = _steps(data, stored[0][:_MARK], last)
    newest = max(steps, default=last)
    while (step := steps.get(last + 1)) is not None:
        _run(connection, marshal.loads(step))
        last += 1
    connection.execute(_STORE, (stored[0][:_MARK] + _NUMBERS.pack(newest, 0, 0),))
    return newest - last


def _steps(data: bytes, mark: bytes, last: int) -> dict[int, bytes | None]:
    """Return the statements of the records behind a number by theirs, ``None`` for damaged ones."""
    heads, at = dict[tuple[int, int, int], list[int]](), data.find(mark)
    while at >= 0:
        head = data[at : at + _HEAD]
        if len(head) == _HEAD and crc32c(head[:-4]) == int.from_bytes(head[-4:], "little"):
            heads.setdefault(_NUMBERS.unpack_from(head, _MARK), []).append(at)
        at = data.find(mark, at + 1)
    found = dict[int, bytes | None]()
    for (number, size, checksum), places in heads.items():
        begins = [begin for at in places for begin in (at + _HEAD, at - size) if begin >= 0]
        bodies = (data[begin : begin + size] for begin in begins)
        body = next((body for body in bodies if len(body) == size and crc32c(body) == checksum), None)
        if number > last and (body is not None or len(places) > 1):
            found[number] = body
    return found


def _run(connection: sqlite3.Connection, statements: Iterable[_Statement]) -> None:
    for sql, values, is_many in statements:
        if is_many:
            connection.executemany(sql, values)
        else:
            connection.execute(sql, values)
