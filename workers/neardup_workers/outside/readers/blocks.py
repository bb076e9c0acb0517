"""Files, pipes and standard input as blocks of bytes, until their end or a signal.

Finite content is read to its end. A signal ends the reading anywhere. ``Interrupted`` then passes through the readers
of compression, lines and rows, so that none of them returns an unfinished line, row or document as complete.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain

from neardup_workers.outside.process.stop import Stop, readable
from neardup_workers.outside.readers.compression import BLOCK_BYTES, Corrupt
from neardup_workers.outside.remote.objects import RemoteFile, Seekable
from neardup_workers.outside.remote.stores import is_address

STDIN = "-"
# The archives in a WACZ file.
_ARCHIVE = re.compile(r"archive/[^/]+\.warc(?:\.gz)?")
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
_GZIP = 16 + zlib.MAX_WBITS
# A member of gzip that cannot be one: its reader finds damage here.
_TORN = b"\x1f\x8b\xff torn"
# Bytes at the beginning of a followed file that are compared: one that was truncated and written again differs there.
_HEAD_BYTES = 1024
# How a content of UTF-16 begins -> its encoding: with the mark, or as JSON without one.
_UTF_16 = {
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", b"{\0": "utf-16-le", b"[\0": "utf-16-le",
    b"\0{": "utf-16-be", b"\0[": "utf-16-be",
}  # fmt: skip


# A descriptor, or an object by its address.
Opened = int | RemoteFile


class Interrupted(Exception):
    """A signal ended the reading before the content ended."""


class Blocks:
    """Reads open files; ``bytes`` counts what was read."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.bytes = 0

    def content(self, file: Opened) -> Iterator[bytes]:
        """Yield the bytes of an open file to its end; for a stream, an empty block before each wait.

        Raises ``Interrupted`` after a signal.
        """
        if isinstance(file, RemoteFile):
            yield from map(self._counted, file.pieces())
            return
        descriptor, streams = file, is_stream(file)
        if streams:
            _widen(descriptor)
        while True:
            if streams and not readable(descriptor, 0):
                yield b""
            block = self._read(descriptor)
            if not block:
                return
            yield block

    def archives(self, file: Opened) -> Iterator[bytes]:
        """Yield the archives of an open WACZ file (Web Archive Collection Zipped), one after the other, in gzip.

        What cannot be unpacked of an archive is followed by ``_TORN``, then the next archive comes. Raises ``Corrupt``
        if there is no list of files, or no archive, and ``Interrupted`` after a signal.
        """
        try:
            with zipfile.ZipFile(SeekableFile(file, self)) as zipped:
                archives = [info for info in zipped.infolist() if _ARCHIVE.fullmatch(info.filename)]
                if not archives:
                    raise Corrupt("wacz_empty")
                for info in archives:
                    packer = None if info.filename.endswith(".gz") else zlib.compressobj(1, wbits=_GZIP)
                    wanted, found, torn = info.CRC, 0, b""
                    del info.CRC  # whose check would take the last block of a damaged archive
                    try:
                        with zipped.open(info) as member:
                            while block := member.read(BLOCK_BYTES):
                                found = zlib.crc32(block, found)
                                yield block if packer is None else packer.compress(block)
                        if packer is not None and found != wanted:  # members of gzip have a checksum of their own
                            torn = _TORN
                    except _ZIP_ERRORS:
                        torn = _TORN
                    yield (b"" if packer is None else packer.flush()) + torn
        except _ZIP_ERRORS:
            raise Corrupt from None

    def following(self, path: str, descriptor: int, wait_seconds: float) -> Iterator[bytes | None]:
        """The bytes of a growing file; an empty block before each wait.

        ``None`` means that the file was truncated or replaced: the next block is the beginning of the new content. Only
        ``Interrupted`` ends the blocks.
        """
        opened, head = descriptor, b""
        try:
            while True:
                block = self._read(opened)
                # It was truncated: it is too short, or no longer begins as it did. This follows the read, so the block
                # may be of the new content.
                is_short = os.fstat(opened).st_size < os.lseek(opened, 0, os.SEEK_CUR)
                if is_short or os.pread(opened, len(head), 0) != head:
                    os.lseek(opened, 0, os.SEEK_SET)
                    head = b""
                    yield None
                    continue
                head += block[: _HEAD_BYTES - len(head)]
                yield block
                if block:
                    continue
                self.stop.sleep(wait_seconds)
                fresh = _replacement(path, opened)
                if fresh is not None:
                    while block := self._read(opened):  # written before the replacement, not read yet
                        yield block
                    yield None
                    if opened != descriptor:
                        os.close(opened)
                    opened, head = fresh, b""
        finally:
            if opened != descriptor:
                os.close(opened)

    def _read(self, descriptor: int) -> bytes:
        block = self.stop.read(descriptor, BLOCK_BYTES)
        if not block and self.stop.signal:
            raise Interrupted
        self.bytes += len(block)
        return block

    def _counted(self, block: bytes) -> bytes:
        if self.stop.signal:
            raise Interrupted
        self.bytes += len(block)
        return block


class Content:
    """The blocks of a content, and its file for formats that seek.

    Iterate over the blocks, or use the file. ``plain``: an open file that holds the same bytes, if there is one;
    ``source`` counts the bytes read of it.
    """

    def __init__(
        self, blocks: Iterable[bytes | None], source: Blocks | None = None, plain: Opened | None = None
    ) -> None:
        self._blocks, self._source, self._plain = blocks, source, plain

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self._blocks)

    def file(self) -> SeekableFile | None:
        """Return the file, ``None`` if the content is not a plain file."""
        if self._source is None or self._plain is None:
            return None
        return SeekableFile(self._plain, self._source)

    def check(self) -> None:
        """Raise ``Interrupted`` after a signal: what reads the file may report it as an error of its own."""
        if self._source is not None and self._source.stop.signal:
            raise Interrupted


class SeekableFile(Seekable):
    """An open plain file to read anywhere, which stays open; a length beyond its end costs no memory.

    ``source`` counts the bytes read, and a signal that it has seen raises ``Interrupted``.
    """

    def __init__(self, file: Opened, source: Blocks | None = None) -> None:
        self._file, self._source, self.size = file, source, size_of(file)

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes from the position on, fewer only at the end; all of the rest for a negative size."""
        left = max(0, self.size - self._at)
        size = left if size < 0 else min(size, left)
        parts = []
        while size:
            if self._source is not None and self._source.stop.signal:
                raise Interrupted
            part = pread(self._file, size, self._at)
            if not part:
                break
            parts.append(part)
            self._at, size = self._at + len(part), size - len(part)
            if self._source is not None:
                self._source.bytes += len(part)
        return b"".join(parts)


@contextmanager
def opened(path: str) -> Iterator[Opened]:
    """An open file, or an object by its address; standard input stays open afterwards. Raises ``OSError``."""
    if path == STDIN:
        yield 0
        return
    if is_address(path):
        with RemoteFile(path) as remote:
            yield remote
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_stream(file: Opened) -> bool:
    """Whether an open file can be read once, in order."""
    return not isinstance(file, RemoteFile) and not stat.S_ISREG(os.fstat(file).st_mode)


def size_of(file: Opened) -> int:
    """Return the bytes of an open file that is no stream."""
    return file.size if isinstance(file, RemoteFile) else os.fstat(file).st_size


def pread(file: Opened, size: int, offset: int) -> bytes:
    """Return so many bytes of an open file from an offset on, fewer at its end."""
    return file.pread(size, offset) if isinstance(file, RemoteFile) else os.pread(file, size, offset)


def _widen(descriptor: int) -> None:
    """Let a pipe hold a block, where the system allows it: by default it holds a sixteenth, and reading, signing and
    writing wait for its writer at each."""
    with suppress(AttributeError, OSError):  # no Linux; no pipe, or too many bytes of pipes of this user
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, BLOCK_BYTES)


def _replacement(path: str, descriptor: int) -> int | None:
    """Return a new descriptor if another file has the path of a followed one; ``None`` if not, or if it is missing."""
    try:
        now, before = os.stat(path), os.fstat(descriptor)
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        pass
    return None


def first_block(
    blocks: Iterator[bytes | None], notes: Counter[str]
) -> Generator[None, None, tuple[bytes, Iterator[bytes | None]]]:
    """Return the first block that is not empty, or an empty block if there is none, and all blocks, of UTF-16 as UTF-8;
    yields ``None`` before each wait. A ``None`` among the blocks says that damage precedes the first one."""
    is_damaged = False
    for block in blocks:
        if block:
            head, rest = block, blocks
            if encoding := utf_16_of(block):
                rest = in_utf8(chain((block,), blocks), encoding, notes)
                head = next((one for one in rest if one), b"")
            return head, chain((None,) if is_damaged else (), (head,), rest)
        is_damaged |= block is None
        yield None
    return b"", iter(())


def utf_16_of(head: bytes) -> str:
    """Return which UTF-16 a content is, empty for none: Excel and Windows write it with a mark, and programs JSON
    without one, whose first character says it (RFC 4627)."""
    encoding = next((name for begin, name in _UTF_16.items() if head.startswith(begin)), "")
    try:
        is_text = encoding and "\0" not in codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return ""
    return encoding if is_text else ""


def in_utf8(blocks: Iterable[bytes | None], encoding: str, notes: Counter[str]) -> Iterator[bytes | None]:
    """Yield blocks of another encoding as UTF-8. The notes count what it cannot be, which becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in blocks:
        yield _utf8_of(decoder.decode(block or b"", final=block is None), encoding, notes)
        if block is None:
            decoder.reset()
            yield None
    yield _utf8_of(decoder.decode(b"", final=True), encoding, notes)


def _utf8_of(text: str, encoding: str, notes: Counter[str]) -> bytes:
    if count := text.count("\ufffd"):
        notes[f"{{}} characters are none in {encoding}, and become U+FFFD"] += count
    return text.encode(errors="replace")
