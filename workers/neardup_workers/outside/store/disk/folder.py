"""The folder of a store: its lock, and why it cannot be used."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from neardup_workers.outside.process.exits import Exit, Failure


def damaged(path: Path, what: str) -> Failure:
    """The failure for a damaged log."""
    return Failure(
        Exit.INPUT,
        f"{path} is damaged: {what}; restore a copy of the folder, or start with --salvage for the sound rows",
    )


def damaged_page(path: Path, pages: Sequence[int]) -> Failure:
    """The failure for pages, counted from 0, with another checksum than they had."""
    return damaged(path, f"page {pages[0]:,} of the file has another checksum ({len(pages):,} such pages)")


def unusable(folder: Path, error: Exception) -> Failure:
    """The failure for a folder that cannot be used."""
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return damaged(folder / "window.sqlite", str(error))
    return Failure(Exit.OUTPUT, f"cannot use {folder} as --state: {error}; name a folder on a disk with room")


def locked(folder: Path) -> IO[str]:
    """Lock a folder. The system releases the lock whenever the process ends."""
    file = (folder / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Failure(
            Exit.USAGE, f"another process uses {folder}: end it, or name another --state for this one"
        ) from None
    with suppress(OSError):  # for people only; the disk may be full
        file.truncate(0)
        os.write(file.fileno(), f"{os.getpid()}\n".encode())
    return file
