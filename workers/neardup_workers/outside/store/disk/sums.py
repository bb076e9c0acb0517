"""Checksums of the pages of a database, so that a flipped bit anywhere in it is found.

Theory of operation. SQLite has no checksums of its own. ``window.sums`` has the CRC-32C of each page of the database
file, 0 for a page whose sum is not known. The file of the database changes only in checkpoints, and only those of this
process move changes. Around each of them:

1. ``begin`` reads from the file of changes which pages may change, and makes their sums unknown, on the disk.
2. The checkpoint.
3. ``end`` computes the sums of the pages that it has moved. *A crash between leaves them unknown, and no more.*

A page with changes that are not moved yet stays unknown from ``begin`` on, because the last process that closes the
database moves them. If another program has opened the database after a crash, the file of changes is not the one that
the sums were made with (``_is_foreign``), and all are unknown. Sums that are unknown are computed again.

The file is a list of blocks of 1,023 numbers and their own CRC. The first block is the header.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from neardup_workers.outside.process.clock import boot_id
from neardup_workers.outside.store.disk.changes import CHUNK, FRAME_HEADER, INTERIOR, WAL_HEADER, Changes

_MAGIC, _VERSION = 0x6E647375, 1
# The numbers of the header: is_open says that no process has closed the database since; the salts name the file of
# changes. Four name the start of the machine.
_MARK, _FORMAT, _PAGE_BYTES, _IS_OPEN, _SALT, _SALT_2, _PAGES = range(7)
_BOOT = slice(7, 11)
_NUMBERS, _BLOCK_BYTES = 1023, 4096
# Bytes of a page of a new database: a COMMIT writes each page that it changes whole, of some twenty trees.
PAGE_BYTES = 1024


class PageSums:
    """The checksums of a database with pages of ``page_bytes``, of which an empty file is made where there is none. The
    caller sees to it that one thread at a time uses them."""

    def __init__(self, path: Path) -> None:
        self._path, self._wal = path, path.with_name(f"{path.name}-wal")
        # To close a file releases every lock of the process on it, those of SQLite too. So it stays open until the end.
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._sums = os.open(sums_path(path), os.O_RDWR | os.O_CREAT, 0o600)
        self.page_bytes = int.from_bytes(os.pread(self.file, 2, 16), "big") or PAGE_BYTES
        self.page_bytes = 65536 if self.page_bytes == 1 else self.page_bytes
        self._header, self._knows_boot = np.zeros(_NUMBERS, "<u4"), False
        self._known = np.zeros(0, "<u4")
        # The pages of the changes; how many of these are moved, and how many SQLite has counted.
        self._frames, self._moved, self._counted = np.empty(0, np.int64), 0, 0
        self._read()

    def _read(self) -> None:
        data = os.pread(self._sums, os.fstat(self._sums).st_size, 0)
        blocks = [self._sound(data[at : at + _BLOCK_BYTES]) for at in range(0, len(data), _BLOCK_BYTES)]
        head = blocks[0] if blocks else self._header
        fits = head[_MARK] == _MAGIC and head[_FORMAT] == _VERSION and head[_PAGE_BYTES] == self.page_bytes
        self._knows_boot = bool(fits and head[_BOOT].any() and (head[_BOOT] == _boot()).all())
        if not fits or self._is_foreign(head):
            return
        self._header = head
        self._known = np.concatenate([np.zeros(0, "<u4"), *blocks[1:]])[: int(head[_PAGES])].copy()

    @staticmethod
    def _sound(data: bytes) -> npt.NDArray[np.uint32]:
        """Return the numbers of a block, zeros if it is damaged."""
        whole = len(data) == _BLOCK_BYTES and crc32c(data[:-4]) == int.from_bytes(data[-4:], "little")
        return np.frombuffer(data[:-4], "<u4").copy() if whole else np.zeros(_NUMBERS, "<u4")

    def _is_foreign(self, head: npt.NDArray[np.uint32]) -> bool:
        """Whether another program may have moved changes since a crash. A file of changes that is begun again has the
        next number."""
        if not head[_IS_OPEN]:
            return False
        salts = self._salts()
        return salts is None or bool(salts and head[_SALT] and salts[0] - int(head[_SALT]) not in (0, 1))

    def _salts(self) -> tuple[int, int] | tuple[()] | None:
        """Return the two numbers that name the file of changes, none if it is empty; ``None`` if there is no file."""
        try:
            with self._wal.open("rb") as file:
                header = file.read(WAL_HEADER)
        except OSError:
            return None
        if len(header) < WAL_HEADER:
            return ()
        return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")

    @property
    def pages(self) -> int:
        """The pages of the file of the database."""
        return os.fstat(self.file).st_size // self.page_bytes

    @property
    def unknown(self) -> npt.NDArray[np.int64]:
        """The pages of the file whose checksums are not known."""
        return np.flatnonzero(np.pad(self._known, (0, max(0, self.pages - len(self._known)))) == 0)

    @property
    def is_complete(self) -> bool:
        """Whether the database was closed with every change moved, and not those that lie next to it now."""
        header = self._header
        return header[_MARK] == _MAGIC and not header[_IS_OPEN] and self._salts() != tuple(header[[_SALT, _SALT_2]])

    def damaged(self, first: int, count: int = CHUNK) -> list[int]:
        """Return the pages from one on, counted from 0, that have another checksum than is known."""
        known = self._known[first : first + count]
        data = memoryview(os.pread(self.file, len(known) * self.page_bytes, first * self.page_bytes))
        pages = range(0, len(known) * self.page_bytes, self.page_bytes)
        sums = [crc32c(data[at : at + self.page_bytes]) or 1 for at in pages]
        return [first + n for n in np.flatnonzero((known != 0) & (known != np.array(sums, np.uint32))).tolist()]

    def changes(self) -> Changes:
        """Return the changes that the process before has left, before SQLite reads them."""
        return Changes(self._path, self.page_bytes, knows_boot=self._knows_boot)

    def open(self) -> None:
        """Say on the disk that changes may be moved from now on."""
        self._header[_IS_OPEN], self._header[_BOOT] = 1, _boot()
        self._header[[_SALT, _SALT_2]] = self._salts() or (0, 0)
        self._write(np.empty(0, np.int64))
        os.fdatasync(self._sums)

    def begin(self) -> None:
        """Make the sums of the pages unknown that a checkpoint may change."""
        if self._read_frames():
            self._set(self._pending(), 0)
            os.fdatasync(self._sums)

    def end(self, counted: int, moved: int | None) -> None:
        """Compute the sums of the pages of the first ``moved`` changes, of all with ``None``; ``counted`` is how many
        SQLite knows. A commit that failed may have left a whole change behind these; the next ones replace it."""
        pending = self._pending()
        if moved is None:
            counted = moved = len(self._frames)
        self._counted = self._counted if counted < 0 else min(counted, len(self._frames))  # below 0: SQLite was busy
        self._moved = max(self._moved, min(moved, len(self._frames)))
        self._compute(np.setdiff1d(pending, self._pending()))

    def fill(self, first: int, count: int = CHUNK) -> None:
        """Compute sums that are unknown, of pages from one on."""
        end = min(first + count, self.pages)
        unknown = [page for page in range(first, end) if page >= len(self._known) or not self._known[page]]
        self._compute(np.setdiff1d(np.array(unknown, np.int64), self._pending()))

    def close(self, *, is_moved: bool) -> None:
        """Close the files; ``is_moved``: ``begin`` was called behind the last change."""
        if is_moved:
            self._header[_IS_OPEN] = 0
            self._write(np.empty(0, np.int64))
            os.fdatasync(self._sums)
        os.close(self._sums)
        os.close(self.file)

    def _pending(self) -> npt.NDArray[np.int64]:
        return np.unique(self._frames[self._moved :])

    def _read_frames(self) -> bool:
        """Read which pages the file of changes has committed; returns whether some are not moved."""
        salts = self._salts()
        if not salts or salts != (int(self._header[_SALT]), int(self._header[_SALT_2])):
            self._moved = self._counted = 0
            self._header[[_SALT, _SALT_2]] = salts or (0, 0)
        self._frames = self._frames[: self._counted]
        if salts:
            begun = np.frombuffer(b"".join(number.to_bytes(4, "big") for number in salts), np.uint8)
            size, found = FRAME_HEADER + self.page_bytes, [np.empty((0, 2), np.int64)]
            at = WAL_HEADER + len(self._frames) * size
            with self._wal.open("rb", buffering=0) as file:
                while count := len(data := os.pread(file.fileno(), CHUNK * size, at)) // size:
                    frames = np.frombuffer(data, np.uint8)[: count * size].reshape(count, size)
                    is_of_now = (frames[:, 8:16] == begun).all(axis=1)
                    whole = count if is_of_now.all() else int(is_of_now.argmin())  # the rest is of the file before
                    found.append(frames[:whole, :8].copy().view(">u4").astype(np.int64))
                    if whole < CHUNK:
                        break
                    at += CHUNK * size
            pages, ends = np.concatenate(found).T
            # Those behind the last commit may be undone, and others take their places.
            committed = len(ends) - int((ends[::-1] != 0).argmax()) if ends.any() else 0
            self._frames = np.concatenate([self._frames, pages[:committed] - 1])
        return len(self._frames) > self._moved

    def _compute(self, pages: npt.NDArray[np.int64]) -> None:
        size, sums = self.page_bytes, list[int]()
        ends = np.flatnonzero((np.diff(pages) != 1) | (pages[1:] % CHUNK == 0)) + 1
        for run in np.split(pages, ends) if len(pages) else ():
            data = memoryview(os.pread(self.file, len(run) * size, int(run[0]) * size))
            whole = range(0, len(data) - size + 1, size)
            sums += [crc32c(data[at : at + size]) or 1 for at in whole] + [0] * (len(run) - len(whole))
        self._set(pages, np.array(sums, "<u4"))

    def _set(self, pages: npt.NDArray[np.int64], sums: npt.NDArray[np.uint32] | int) -> None:
        if not len(pages):
            return
        if (more := int(pages.max()) + 1 - len(self._known)) > 0:
            self._known = np.concatenate([self._known, np.zeros(more, "<u4")])
        self._known[pages] = sums
        self._write(np.unique(pages // _NUMBERS))

    def _write(self, blocks: npt.NDArray[np.int64]) -> None:
        self._header[[_MARK, _FORMAT, _PAGE_BYTES, _PAGES]] = _MAGIC, _VERSION, self.page_bytes, len(self._known)
        numbers = {0: self._header}
        numbers |= {block + 1: self._known[block * _NUMBERS : (block + 1) * _NUMBERS] for block in blocks.tolist()}
        for block, values in numbers.items():
            data = values.tobytes().ljust(_BLOCK_BYTES - 4, b"\0")
            os.pwrite(self._sums, data + crc32c(data).to_bytes(4, "little"), block * _BLOCK_BYTES)


def blank_damaged(path: Path, copy: Path) -> bool:
    """Copy a database with its changes, and fill the damaged pages of the copy with zeros, so that no reader takes
    what they say. Pages that lead to other pages stay. Returns whether something is damaged; else nothing is copied."""
    sums = PageSums(path)
    try:
        damaged, changes = (
            [page for first in range(0, sums.pages, CHUNK) for page in sums.damaged(first)],
            sums.changes(),
        )
        size = sums.page_bytes
    finally:
        sums.close(is_moved=False)
    if not damaged and not changes.damaged:
        return False
    shutil.copy(path, copy)
    with copy.open("r+b") as file:
        for page in damaged[damaged[:1] == [0] :]:  # the first page has the names of all tables
            file.seek(page * size)
            if file.read(1) not in INTERIOR:
                file.seek(page * size)
                file.write(bytes(size))
        changes.apply(file)
    return True


def _boot() -> npt.NDArray[np.uint32]:
    """Return the numbers that name the start of the machine, zeros where the system does not say."""
    return np.frombuffer(bytes.fromhex(boot_id().replace("-", "") or "0" * 32), "<u4")


def sums_path(path: Path) -> Path:
    """Return where the checksums of a database are."""
    return path.with_suffix(".sums")
