"""A file that holds room on the disk for what must be possible on a full one: removals, and the start of SQLite, which
needs room even to read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# A removal changes some dozen pages, and its checkpoint moves what a second before it has changed.
_RESERVE_BYTES = 16 << 20
_STEP_BYTES = 256 << 10


def _opened(path: str, flags: int) -> int:
    """Open the file and leave its room, which would be another program's. (Some file systems let none append to it.)"""
    return os.open(path, flags & ~os.O_TRUNC, 0o600)


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
        """Hold the room, or what is left of it for others would take that; returns whether the disk has all of it."""
        if self._is_kept:
            return True
        for size in range(_RESERVE_BYTES, 0, -_STEP_BYTES):
            with suppress(OSError), open(self._path, "wb", opener=_opened) as file:
                os.posix_fallocate(file.fileno(), 0, size)
                self._is_kept = size == _RESERVE_BYTES
                break
        return self._is_kept
