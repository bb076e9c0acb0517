"""Checkpoints of a log in SQLite, on a thread of their own, so that no COMMIT waits for the disk longer than it must.

Theory of operation. Every COMMIT appends pages to the file of changes. A *checkpoint* moves them to the database and
waits for the disk. SQLite does this inside a COMMIT, which then takes ten to fifty times as long. Here a thread does
it, at most once in ``_SECONDS``, while commits go on.

SQLite reuses the file of changes from its beginning only when a checkpoint has moved all of it. The thread seldom
reaches that, because commits go on. So beyond ``_PAGES_MAX`` pages it asks the writer for one checkpoint of its own
(``committed`` returns true). It is short: the thread has just moved the other pages, and has waited for the disk.

If a checkpoint fails, nothing is lost: the changes stay in their file, and the next checkpoint tries again. When there
is no room for the file either, COMMIT fails.

A ``Reserve`` is a file that holds room on the disk for what must be possible on a full one: the start of SQLite, which
needs room even to read, and removals.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Pages that change often are moved once in this time.
_SECONDS = 1.0
# Pages of 4 kB: 128 MB of changes, which some thousand steps make.
_PAGES_MAX = 1 << 15
# A removal changes some dozen pages, and its checkpoint moves what a second before it has changed.
_RESERVE_BYTES = 16 << 20


class Reserve:
    """The file of a folder that holds room. It is given up at a start."""

    def __init__(self, folder: Path) -> None:
        self._path, self._is_kept = folder / "reserve", False
        self.give_up()

    def give_up(self) -> None:
        """Free the room."""
        self._path.unlink(missing_ok=True)
        self._is_kept = False

    def keep(self) -> bool:
        """Hold the room; returns whether the disk has it."""
        if not self._is_kept:
            with suppress(OSError), self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
                self._is_kept = True
            if not self._is_kept:
                with suppress(OSError):
                    self.give_up()
        return self._is_kept


class Checkpoints:
    """The thread; it begins with the first commit.

    Args:
        path: the database, which exists.
        seconds: time between two checkpoints at least.
        pages_max: pages in the file of changes beyond which the writer is asked to help.

    Attributes:
        is_full: the last checkpoint of the thread had no room.
    """

    def __init__(self, path: Path, seconds: float = _SECONDS, pages_max: int = _PAGES_MAX) -> None:
        self._seconds, self._pages_max = seconds, pages_max
        uri = f"{path.resolve().as_uri()}?mode=rw"
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        # To close a file releases every lock of the process on it, those of SQLite too. So it stays open until the end.
        self._file = os.open(path, os.O_RDONLY)
        self._lock = threading.Lock()
        self._committed, self._stopping = threading.Event(), threading.Event()
        self._large, self.is_full = False, False
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def committed(self) -> bool:
        """Say that there is a new commit. Returns whether the writer must run a checkpoint now."""
        if not self._committed.is_set():
            self._committed.set()
            if self._thread.ident is None:
                self._thread.start()
        large, self._large = self._large, False
        return large

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the thread run no checkpoint."""
        with self._lock:
            yield

    def close(self) -> None:
        """End the thread and close its connection, the last one of the process that writes."""
        self._stopping.set()
        self._committed.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()
        os.close(self._file)

    def _run(self) -> None:
        while True:
            self._committed.wait()
            if self._stopping.is_set():
                return
            self._committed.clear()
            try:
                with self._lock:
                    _, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    # If a commit came meanwhile, the checkpoint itself has not waited for the disk.
                    os.fdatasync(self._file)
            except (sqlite3.Error, OSError) as error:
                self.is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
                logging.getLogger(__name__).warning("a checkpoint failed, the next one tries again: %s", error)
            else:
                self._large, self.is_full = pages > self._pages_max, False
            self._stopping.wait(self._seconds)
