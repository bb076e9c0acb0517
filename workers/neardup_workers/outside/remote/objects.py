"""Objects of stores as files: read in ranges, written whole at the end.

A range is asked for again where a connection breaks within it. All ranges are of one version of the object: if it is
replaced meanwhile, the reading ends with an error. What a server sends only whole is kept in a file without a name.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from neardup_workers.outside.remote.stores import failing, is_address, is_folder, located

# Bytes of the first range, which decides the format, and of the others at most, each twice the one before, because a
# table is read elsewhere after the first: two of them are in memory.
_FIRST_BYTES = 1 << 16
_PIECE_BYTES = 8 << 20
# How often a range is asked for, and the wait before it is again, which doubles.
_TRIES = 4
_WAIT_SECONDS = 0.1


class Seekable(io.RawIOBase):
    """A file of ``size`` bytes that can be read anywhere, from ``_at`` on."""

    size: int
    _at = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next byte."""
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence])
        return self._at


class RemoteFile(Seekable):
    """An object as a file that can be read anywhere. Raises ``OSError`` if it cannot be read, as every method may."""

    def __init__(self, address: str) -> None:
        self._address, self._options = address, dict[str, Any]()
        self._store, _, self._name = located(address)
        self._kept: IO[bytes] | None = None
        try:
            meta, self._first = self._asked(0, _FIRST_BYTES)
        except FileNotFoundError:
            raise
        except OSError:  # an empty object has no range, and some servers know none
            self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this file
            self.size, self._first = self._received(self._kept), b""
        else:
            self.size, tag = int(meta["size"]), meta["e_tag"]
            # A weak tag is equal to none.
            self._options = {"if_match": tag} if tag and not tag.startswith("W/") else {}

    def close(self) -> None:
        """Free what is kept."""
        if self._kept is not None:
            self._kept.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the position on; returns how many bytes there were."""
        data = self.pread(len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def pread(self, size: int, offset: int) -> bytes:
        """Return so many bytes from an offset on, fewer at the end."""
        end = min(offset + size, self.size)
        if self._kept is not None:
            return os.pread(self._kept.fileno(), size, offset)
        if end <= len(self._first) or offset >= end:
            return self._first[offset:end]
        return self._asked(offset, end)[1]

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes in order; the next piece comes while one is used."""
        begin = len(self._first)
        if begin:
            yield self._first
        pool = ThreadPoolExecutor(1, "remote")
        try:
            size, coming = 2 * _FIRST_BYTES, pool.submit(self.pread, 2 * _FIRST_BYTES, begin)
            while piece := coming.result():
                begin, size = begin + len(piece), min(2 * size, _PIECE_BYTES)
                coming = pool.submit(self.pread, size, begin)
                yield piece
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _asked(self, begin: int, end: int) -> tuple[Any, bytes]:
        """The description of the object and a range of it, asked for again if the answer breaks."""
        for attempt in range(_TRIES):
            try:
                with failing(self._address):
                    found = self._store.get(self._name, options={"range": (begin, end), **self._options})
                    return found.meta, bytes(found.bytes())
            except FileNotFoundError:
                raise
            except OSError:
                if attempt == _TRIES - 1 or not begin:
                    raise
                time.sleep(_WAIT_SECONDS * 2**attempt)
        raise AssertionError("the last try returns or raises")

    def _received(self, file: IO[bytes]) -> int:
        """Receive the whole object into a file; returns its size."""
        with failing(self._address):
            for part in self._store.get(self._name).stream():
                file.write(part)
        file.flush()
        return file.tell()


@contextmanager
def open_file(path: str) -> Iterator[IO[bytes]]:
    """A file to read, or an object by its address. Raises ``OSError``."""
    if is_address(path):
        with RemoteFile(path) as remote, io.BufferedReader(remote, _FIRST_BYTES) as file:
            yield file
    else:
        with Path(path).open("rb") as file:
            yield file


def check_address(address: str) -> None:
    """Raise ``OSError`` if an address cannot be read; that of a folder is listed when it is read."""
    if is_folder(address):
        located(address)
    else:
        RemoteFile(address).close()


def upload(file: Path, address: str) -> None:
    """Write a file as an object, which is there whole or not at all. Raises ``OSError``."""
    store, _, name = located(address)
    with failing(address):
        store.put(name, file)
