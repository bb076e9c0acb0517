"""The folder of a store: its lock, and why it cannot be used."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from neardup_workers.outside.process.exits import Exit, Failure

_RIGHTS = "give the user of this process the right to write in it, or name another folder"
_ROOM = "make room, or name a folder on a disk with room"
_REMEDIES = {
    errno.EROFS: "its disk is mounted for reading alone: mount it for writing, or name another folder",
    errno.EACCES: _RIGHTS, errno.EPERM: _RIGHTS,
    errno.ENOSPC: _ROOM, errno.EDQUOT: _ROOM,
    errno.EEXIST: "it is a file: name a folder", errno.ENOTDIR: "a part of the path is a file: name a folder",
}  # fmt: skip
# What SQLite says -> the error of the system that it stands for.
_CAUSES = {sqlite3.SQLITE_READONLY: errno.EACCES, sqlite3.SQLITE_PERM: errno.EACCES, sqlite3.SQLITE_FULL: errno.ENOSPC}


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
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    cause = _CAUSES.get(code, 0) if code else getattr(error, "errno", 0)
    remedy = _REMEDIES.get(cause, "correct that, or name another folder")
    return Failure(Exit.OUTPUT, f"cannot use {folder} as --state: {error}; {remedy}")


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
