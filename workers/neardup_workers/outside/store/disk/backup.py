"""A copy of the store of a running service: ``serve backup``.

SQLite copies the database in one read transaction, so the copy is a commit: every answer that was given before the copy
began is in it, and the service goes on meanwhile. Readers do not stop a writer; the file of changes grows by what the
service writes until the copy is done.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.store.disk.changes import CHUNK
from neardup_workers.outside.store.disk.folder import damaged, unusable
from neardup_workers.outside.store.disk.sums import PageSums, sums_path


def back_up(state: Path, to: Path) -> Exit:
    """Copy the store of a folder, which a service may use, to another folder, with checksums; say how much it has.

    Raises:
        Failure: there is no store, ``to`` holds one already, or it is damaged or cannot be written.
    """
    path, copy = state / "window.sqlite", to / "window.sqlite.copy"
    if not path.exists():
        raise Failure(Exit.USAGE, f"there is no window in {state}: name the folder of one as --state")
    if (to / "window.sqlite").exists():
        raise Failure(Exit.USAGE, f"{to} holds a window already: name another folder as --to")
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        copy.touch(0o600)  # the folder may be open to others
        # Read-only: the last connection that may write moves changes when it is closed, and leaves checksums behind.
        with (
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            rows = target.execute("SELECT count(*) FROM documents WHERE gone = 0").fetchone()[0]
        _sum(copy)
        sums_path(copy).rename(sums_path(to / "window.sqlite"))
        copy.rename(to / "window.sqlite")
        folder = os.open(to, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except sqlite3.DatabaseError as error:
        is_of_disk = isinstance(error, sqlite3.OperationalError)
        raise (unusable(to, error) if is_of_disk else damaged(path, str(error))) from None
    except OSError as error:
        raise unusable(to, error) from None
    sys.stderr.write(f"{rows:,} documents are in {to}\n")
    return Exit.SUCCESS


def _sum(path: Path) -> None:
    """Give a database that is not in use its checksums, and wait for the disk."""
    sums = PageSums(path)
    for first in range(0, sums.pages, CHUNK):
        sums.fill(first)
    os.fsync(sums.file)
    sums.close(is_moved=True)
