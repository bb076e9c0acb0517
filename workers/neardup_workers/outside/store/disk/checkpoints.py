"""Checkpoints of a log in SQLite, on a thread of their own, so that no COMMIT waits for the disk longer than it must.

Theory of operation. Every COMMIT appends pages to the file of changes. A *checkpoint* moves them to the database and
waits for the disk. SQLite does this inside a COMMIT, which then takes ten to fifty times as long. Here a thread does
it, at most once in ``_SECONDS``, while commits go on.

SQLite reuses the file of changes from its beginning only when a checkpoint has moved all of it. The thread seldom
reaches that, because commits go on. So beyond ``_PAGES_MAX`` pages it asks the writer for one checkpoint of its own
(``committed`` returns true). It is short: the thread has just moved the other pages, and has waited for the disk.

If a checkpoint fails, nothing is lost: the changes stay in their file, and the next checkpoint tries again. When there
is no room for the file either, COMMIT fails. Changes that are not moved need room in the database. The thread may be
late, so the writer moves them before the disk has less room than they may need (``lacks_room``).

Around each checkpoint the checksums of the pages follow (``sums``). That of the thread moves only the changes that a
reader of its own has seen, so none comes between.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.store.disk.changes import CHUNK
from neardup_workers.outside.store.disk.folder import damaged, damaged_page
from neardup_workers.outside.store.disk.sums import PageSums

# Pages that change often are moved once in this time.
_SECONDS = 1.0
# Pages of 1 kB: 4 MB of changes, a second of checks one by one. A disk takes a COMMIT that overwrites in two thirds of
# the time of one by which the file grows.
_PAGES_MAX = 1 << 12
# A start checks the checksums of pages for so long, else those of rows, which takes longer; the service checks the rest
# of the pages. It is a second for a million documents without texts.
_CHECK_SECONDS = 3.0
# The rest of a check waits so long behind each megabyte, for those who wait for answers.
_CHUNK_SECONDS = 0.002


class Checkpoints:
    """The thread; it begins with the first commit.

    Args:
        path: of the database; an empty file is made where there is none.
        seconds: time between two checkpoints at least.
        pages_max: pages in the file of changes beyond which the writer is asked to help.

    Attributes:
        is_full: the last checkpoint of the thread had no room.
        is_checked: ``check`` and ``open`` have found every page, or its last change, as it was stored.
        damaged: the pages that ``check_rest`` has found with another checksum than they had, counted from 0.
    """

    def __init__(self, path: Path, seconds: float = _SECONDS, pages_max: int = _PAGES_MAX) -> None:
        self._path, self._seconds, self._pages_max = path, seconds, pages_max
        self._changes = -1  # the file of changes, for its size
        self._sums = PageSums(path)
        uri = f"{path.resolve().as_uri()}?mode=rw"
        self._connection, self._reader = (
            sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False) for _ in range(2)
        )
        self._lock = threading.Lock()
        self._committed, self._stopping = threading.Event(), threading.Event()
        self._large, self.is_full, self._is_open, self.is_checked = False, False, False, False
        self.damaged: list[int] = []
        self._threads = [threading.Thread(target=self._run, name="checkpoints", daemon=True)]

    def check(self, seconds: float) -> list[int]:
        """Return the pages that have another checksum than they had, of as many as can be read in some seconds."""
        end, found = time.monotonic() + seconds, list[int]()
        self.is_checked = True
        for first in range(0, self._sums.pages, CHUNK):
            found += self._sums.damaged(first)
            if time.monotonic() > end:
                self.is_checked = False
                break
        return found

    def open(self) -> None:
        """Begin to use the database; before that, nothing has changed in it.

        Raises:
            Failure: a page or a change is damaged, or the changes are those of another database.
        """
        if pages := self.check(_CHECK_SECONDS):
            raise damaged_page(self._path, pages)
        changes = self._sums.changes()
        if changes.damaged:
            raise damaged(self._path, f"change {changes.damaged[0]:,} in its -wal has another checksum")
        if len(changes.pages) and self._sums.is_complete:
            raise Failure(
                Exit.INPUT, f"{self._path}-wal has changes that are not of this copy: delete it, and {self._path}-shm"
            )
        self.is_checked &= not len(np.setdiff1d(self._sums.unknown, changes.pages))
        self._sums.open()
        self._is_open = True

    def check_rest(self, on_damage: Callable[[], None]) -> None:
        """Begin to check every page, on a thread of its own, and to compute the checksums that are not known."""

        def check() -> None:
            for first in range(0, self._sums.pages, CHUNK):
                with self._lock:
                    if self._stopping.is_set():
                        return
                    self.damaged += self._sums.damaged(first)
                    with suppress(OSError):  # on a full disk, the next start computes them
                        self._sums.fill(first)
                if self.damaged:
                    on_damage()
                    return
                self._stopping.wait(_CHUNK_SECONDS)

        self._threads.append(threading.Thread(target=check, name="checksums", daemon=True))
        self._threads[-1].start()

    def committed(self) -> bool:
        """Say that there is a new commit. Returns whether the writer must run a checkpoint now."""
        if not self._committed.is_set():
            self._committed.set()
            if self._threads[0].ident is None:
                self._threads[0].start()
        large, self._large = self._large, False
        return large

    def lacks_room(self) -> bool:
        """Whether the disk may have no room for the changes that are not moved, or the thread has found none."""
        if self._changes < 0:
            try:
                self._changes = os.open(f"{self._path}-wal", os.O_RDONLY)
            except FileNotFoundError:  # no change yet
                return False
        disk = os.fstatvfs(self._sums.file)
        return self.is_full or os.lseek(self._changes, 0, os.SEEK_END) > disk.f_bavail * disk.f_frsize

    def move(self, writer: sqlite3.Connection, mode: str = "PASSIVE") -> bool:
        """Run a checkpoint of the writer, which commits nothing meanwhile; returns whether a reader was in its way."""
        with self._lock:
            return self._move(writer, mode)[0]

    def _move(self, connection: sqlite3.Connection, mode: str) -> tuple[bool, int]:
        """Return whether a reader was in the way, and how many pages the file of changes has."""
        self._sums.begin()
        busy, pages, moved = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        # If a commit came meanwhile, the checkpoint itself has not waited for the disk.
        os.fdatasync(self._sums.file)
        self._sums.end(pages, None if mode == "TRUNCATE" and not busy else moved)
        return bool(busy), pages

    def close(self, writer: sqlite3.Connection) -> None:
        """Move the last changes, end the threads and close the connections, that of the writer too."""
        self._stopping.set()
        self._committed.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        is_moved = False
        try:
            if self._is_open:
                self.move(writer)
                is_moved = True
        except (sqlite3.Error, OSError) as error:
            logging.getLogger(__name__).warning("a checkpoint failed, the next start tries again: %s", error)
        if self._changes >= 0:
            os.close(self._changes)
        writer.close()
        self._connection.close()
        self._reader.close()
        self._sums.close(is_moved=is_moved)

    @contextmanager
    def _seen(self) -> Iterator[None]:
        """Read the last commit: a checkpoint inside moves no later one."""
        self._reader.execute("BEGIN")
        try:
            self._reader.execute("SELECT 1 FROM sqlite_master").fetchone()
            yield
        finally:
            self._reader.execute("ROLLBACK")

    def _run(self) -> None:
        while True:
            self._committed.wait()
            self._committed.clear()  # before the look at the end, which sets this event last
            if self._stopping.is_set():
                return
            try:
                with self._lock, self._seen():
                    _, pages = self._move(self._connection, "PASSIVE")
            except (sqlite3.Error, OSError) as error:
                self.is_full = is_full(error)
                logging.getLogger(__name__).warning("a checkpoint failed, the next one tries again: %s", error)
            else:
                self._large, self.is_full = pages > self._pages_max, False
            self._stopping.wait(self._seconds)


def is_full(error: Exception) -> bool:
    """Whether an error says that the disk has no room."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
