"""Paths: the content of a folder, paths that cannot be opened, and the form of a path in a message.

Folders are walked in order of names, depth first. A walk does not follow links and omits names that begin with a dot,
so it ends and stays inside the folder. Both are refused with their reason. A file or a link that the
command line names is always read. Memory holds the names in the parent folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

from neardup_workers.outside.process.exits import input_failure
from neardup_workers.outside.readers.blocks import STDIN
from neardup_workers.outside.remote import stores as remote
from neardup_workers.outside.remote.objects import check_address
from neardup_workers.outside.remote.stores import is_address, names_in


def walk(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the paths in a folder in order of names, each with the reason to omit it (empty for a file to read)."""
    if is_address(folder):
        for name in names_in(folder):
            hidden = any(part.startswith(".") for part in name.removeprefix(folder).split("/"))
            yield name, "hidden" if hidden else ""
        return
    pending = [iter([folder])]
    while pending:
        path = next(pending[-1], None)
        if path is None:
            pending.pop()
            continue
        try:
            if len(pending) > 1:
                reason = _left_out(path)
                if reason is not None:
                    yield path, reason
                    continue
            pending.append(iter([os.path.join(path, name) for name in sorted(os.listdir(path))]))
        except OSError:
            yield path, "unreadable"


def is_folder(path: str) -> bool:
    """Whether a path is a folder, or the address of one."""
    return remote.is_folder(path) or os.path.isdir(path)


def _left_out(path: str) -> str | None:
    """Return why a path in a folder is not read, empty for a file to read, ``None`` for a folder to enter."""
    if os.path.basename(path).startswith("."):
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
            if is_address(path):
                check_address(path)
            elif stat.S_ISREG(os.stat(path).st_mode):
                os.close(os.open(path, os.O_RDONLY))
            elif os.path.isdir(path):
                os.scandir(path).close()
        except OSError as error:
            raise input_failure(display(path) or "''", error) from None


def total_bytes(paths: Sequence[str]) -> int | None:
    """Return the total size of the input, ``None`` if it includes a stream."""
    total = 0
    for path in paths:
        if path == STDIN or not (os.path.isfile(path) or os.path.isdir(path)):
            return None
        files = [path] if os.path.isfile(path) else (f for f, reason in walk(path) if not reason)
        for file in files:
            with suppress(OSError):
                total += os.stat(file).st_size
    return total


def display(path: str) -> str:
    """Return a path as text for an id or a message; bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
