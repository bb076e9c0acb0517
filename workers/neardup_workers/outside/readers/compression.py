"""gzip and Zstandard, recognised by their first bytes: blocks in, blocks of bounded size out.

Consecutive members or frames are one content, as in the tools of both formats. Damaged or truncated data raises
``Corrupt`` after everything that could be read. With a ``Tape`` that resumes, ``None`` stands for the damage, and the
next member or frame follows: the one that begins next after the beginning of the damaged one.

Zstandard may begin with a dictionary for all of its frames, as archives of the web do: a skippable frame that holds it,
plain or compressed (Zstandard Compression for WARC Files 1.0).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator

from neardup_workers.outside.process.interpreter import zstd

# The endings of compressed files, and what writes their content.
_TOOLS = {".gz": "zcat", ".zst": "zstdcat"}
COMPRESSED_ENDINGS = tuple(_TOOLS)
# Maximum bytes of a block: its lines are the longest chunk that is signed at once.
BLOCK_BYTES = 1 << 20
# Zstandard has no bound on its output: 4 bytes can say 128 KiB. So 1 KiB of input makes at most 32 MiB.
_ZSTD_INPUT_BYTES = 1 << 10
# Maximum window of a Zstandard frame, as a power of 2 in bytes: the default of the format's own tool.
_ZSTD_WINDOW_BITS_MAX = 27
# What the library says about a larger window.
_WINDOW_ERROR = "too much memory"
# Maximum bytes of a dictionary. Archives have some hundred kilobytes; the format's own tool makes 110 kB by default.
_DICTIONARY_BYTES_MAX = 1 << 24
# A dictionary without this beginning is a text that frames refer to.
_ENTROPY_MAGIC = b"\x37\xa4\x30\xec"
_ZSTD_MAGIC, _DICTIONARY_MAGIC = b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18"
# The magic number of a skippable frame, and its size.
_FRAME_HEAD_BYTES = 8
_ZLIB_GZIP = 16 + zlib.MAX_WBITS
# Compressed bytes that are expanded at a time to find the byte at which a member fails.
_DAMAGED_STEPS = (1 << 10, 1 << 5, 1)
# Compressed bytes of a member in which the next one is searched, the last ones: far more than a damaged one goes on.
_TAPE_BYTES = 1 << 20
# Compressed bytes that a decompressor gets at a time: as many as the member has had, between these. At the end of a
# member it copies what is left of them, which are many bytes for a small member in a large block.
_PIECE_BYTES, _PIECE_BYTES_MAX = 1 << 11, 1 << 15
# Bytes that may be read again after damage: so many in all, and so many for each byte of the content. More are needed
# only where thousands of beginnings of members begin none.
_AGAIN_BYTES, _AGAIN_RATIO = 1 << 24, 8


class Corrupt(Exception):
    """The compressed data cannot be read to its end; ``reason`` is a key of ``COMPRESSION_REASONS``."""

    def __init__(self, reason: str = "corrupt") -> None:
        super().__init__(reason)
        self.reason = reason


# Reasons of contents that are not read to their end.
COMPRESSION_REASONS: dict[str, str] = {
    "corrupt": "the compressed data is damaged or cut off",
    "wacz_empty": "the WACZ file holds no archive (archive/*.warc.gz)",
    "zstd_window": f"the window of this Zstandard content is larger than {1 << _ZSTD_WINDOW_BITS_MAX - 20} MiB: "
    "decompress it first (zstd -d --long=31), or compress it with --long=27 or less",
}


class Tape:
    """Compressed blocks as they are read, and the last bytes of the present member if ``resumes`` is set.

    ``dictionary`` is that of all frames of Zstandard.
    """

    def __init__(self) -> None:
        self.resumes = False
        self.dictionary: zstd.ZstdDict | None = None
        self._held = bytearray()
        self._at = 0  # of the first byte of ``_held`` that is not in a piece yet
        self._taken = 0  # bytes of the present member in pieces
        self._again = _AGAIN_BYTES  # bytes that may still be read again

    def reading(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what is held, then the blocks, in pieces; empty blocks pass through."""
        yield from self._pieces()
        for block in blocks:
            self._take(block)
            yield from self._pieces()
            if not block:
                yield block

    def begin(self, rest: int) -> None:
        """A member begins ``rest`` bytes before the end of the pieces."""
        self._taken = rest
        self._drop(self._at - rest)

    def next_member(self, magic: bytes, blocks: Iterable[bytes]) -> bool:
        """Go back to the next beginning of a member after that of the present one; returns whether there is one.

        What is read again is limited, so that time stays linear: beyond it, members in what was read are lost.
        """
        self._drop(1 if self._at <= self._again else self._at)
        read, self._at, self._taken = self._at, 0, 0
        for block in itertools.chain((b"",), blocks):
            self._take(block)
            begin = self._held.find(magic)
            if begin >= 0:
                self._drop(begin)
                self._again -= max(0, read - begin)
                return True
            read -= self._drop(len(self._held) - len(magic) + 1)
        return False

    def _pieces(self) -> Iterator[bytes]:
        while self._at < len(self._held):
            size = min(max(self._taken, _PIECE_BYTES), _PIECE_BYTES_MAX)
            piece = bytes(memoryview(self._held)[self._at : self._at + size])
            self._at, self._taken = self._at + len(piece), self._taken + len(piece)
            if not self.resumes:
                self._drop(self._at)
            yield piece
        self._drop(self._at - _TAPE_BYTES)

    def _take(self, block: bytes) -> None:
        self._held += block
        self._again += _AGAIN_RATIO * len(block)

    def _drop(self, count: int) -> int:
        """Forget bytes at the beginning of what is held; returns how many."""
        count = max(0, count)
        del self._held[:count]
        self._at = max(0, self._at - count)
        return count


def plain_name(path: str) -> str:
    """A path in lower case, without the endings of compression."""
    name = path.lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return name


def over_file(command: str, path: str, name: str = "FILE") -> str:
    """Return a command of a shell over a file, behind what unpacks it if its path says that it is compressed.

    >>> over_file("wc -l", "a.txt.gz"), over_file("wc -l", "a.txt", "a.txt")
    ('zcat FILE | wc -l', 'wc -l a.txt')
    """
    tool = next((tool for ending, tool in _TOOLS.items() if path.lower().endswith(ending)), None)
    return f"{command} {name}" if tool is None else f"{tool} {name} | {command}"


def decompressed(blocks: Iterator[bytes], tape: Tape | None = None) -> Iterator[bytes | None]:
    """The content of blocks that may be compressed; empty blocks ("nothing now") pass through.

    ``None`` stands for damage that ``tape`` allows.
    """
    tape = tape or Tape()
    start = b""
    for block in blocks:
        start += block
        if not block:
            yield block
        elif len(start) >= _MAGIC_BYTES or not any(magic.startswith(start) for magic in CODECS):
            break
    magic = next((magic for magic in CODECS if start.startswith(magic)), None)
    if magic is None:
        yield from itertools.chain((start,), blocks) if start else ()
        return
    blocks = itertools.chain((start,), blocks)
    while True:
        try:
            yield from _together(CODECS[magic](tape.reading(blocks), tape))
            return
        except Corrupt:
            if not tape.resumes:
                raise
        yield None
        magic = magic if CODECS[magic] is _gunzip else _ZSTD_MAGIC
        if not tape.next_member(magic, blocks):
            return


def _together(expanded: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what pieces expand to in blocks, as far as one is not more than full; an empty one, the end and an
    exception come after what was before."""
    parts: list[bytes] = []
    size = 0
    try:
        for part in expanded:
            if parts and (not part or size + len(part) > BLOCK_BYTES):
                yield b"".join(parts)
                parts, size = [], 0
            if part:
                parts.append(part)
                size += len(part)
            else:
                yield part
    except Exception:
        if parts:
            yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _gunzip(blocks: Iterable[bytes], tape: Tape) -> Iterator[bytes]:
    member = zlib.decompressobj(_ZLIB_GZIP)
    for block in blocks:
        if not block:
            yield block
        while block:
            if member.eof:
                block = block.lstrip(b"\0")  # padding of tapes, which gzip allows
                if not block:
                    break
                tape.begin(len(block))
                member = zlib.decompressobj(_ZLIB_GZIP)
            before = member.copy()
            try:
                expanded = member.decompress(block, BLOCK_BYTES)
            except zlib.error as error:
                yield from _before_damage(before, block)
                raise Corrupt from error
            if expanded:
                yield expanded
            block = member.unused_data if member.eof else member.unconsumed_tail
    # After the last input, further calls return the rest of the window.
    while not member.eof:
        expanded = member.decompress(b"", BLOCK_BYTES)
        if not expanded:
            raise Corrupt
        yield expanded


def _before_damage(member: zlib._Decompress, block: bytes) -> Iterator[bytes]:
    """Yield the content up to the byte at which a member fails: for a wrong checksum, all of it."""
    for step in _DAMAGED_STEPS:
        at = 0
        while at < len(block):
            before = member.copy()
            try:
                yield member.decompress(block[at : at + step])
            except zlib.error:
                member = before
                break
            at += step
        block = block[at : at + step]


def _unzstd(blocks: Iterable[bytes], tape: Tape) -> Iterator[bytes]:
    frame = _frame(tape.dictionary)
    for block in blocks:
        for at in range(0, len(block), _ZSTD_INPUT_BYTES):
            piece = block[at : at + _ZSTD_INPUT_BYTES]
            while piece:
                if frame.eof:
                    tape.begin(len(piece) + max(0, len(block) - at - _ZSTD_INPUT_BYTES))
                    frame = _frame(tape.dictionary)
                try:
                    expanded = frame.decompress(piece)
                except zstd.ZstdError as error:
                    raise Corrupt("zstd_window" if _WINDOW_ERROR in str(error) else "corrupt") from error
                piece = frame.unused_data if frame.eof else b""
                for first in range(0, len(expanded), BLOCK_BYTES):
                    yield expanded[first : first + BLOCK_BYTES]
        if not block:
            yield block
    if not frame.eof:
        raise Corrupt


def _frame(dictionary: zstd.ZstdDict | None) -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(dictionary, {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_BITS_MAX})


def _unzstd_by_dictionary(blocks: Iterable[bytes], tape: Tape) -> Iterator[bytes]:
    blocks, held, size = iter(blocks), bytearray(), _FRAME_HEAD_BYTES
    for block in blocks:
        if not block:
            yield block
        held += block
        if len(held) >= _FRAME_HEAD_BYTES:
            size = _FRAME_HEAD_BYTES + int.from_bytes(held[len(_DICTIONARY_MAGIC) : _FRAME_HEAD_BYTES], "little")
            if size > _DICTIONARY_BYTES_MAX or len(held) >= size:
                break
    if not _FRAME_HEAD_BYTES < size <= min(len(held), _DICTIONARY_BYTES_MAX):
        raise Corrupt
    tape.begin(len(held) - size)
    tape.dictionary = _dictionary(bytes(held[_FRAME_HEAD_BYTES:size]))
    yield from _unzstd(itertools.chain((bytes(held[size:]),), blocks), tape)


def _dictionary(content: bytes) -> zstd.ZstdDict:
    """Return a dictionary that may be compressed itself. Raises ``Corrupt``."""
    held = bytearray()
    for part in _unzstd((content,), Tape()) if content.startswith(_ZSTD_MAGIC) else (content,):
        held += part
        if len(held) > _DICTIONARY_BYTES_MAX:
            raise Corrupt
    try:
        dictionary = zstd.ZstdDict(bytes(held), is_raw=not held.startswith(_ENTROPY_MAGIC))
        _frame(dictionary)
    except (zstd.ZstdError, ValueError) as error:
        raise Corrupt from error
    return dictionary


# The first bytes of a content -> its decompressor.
CODECS: dict[bytes, Callable[[Iterable[bytes], Tape], Iterator[bytes]]] = {
    b"\x1f\x8b": _gunzip,
    _ZSTD_MAGIC: _unzstd,
    # The other skippable frames hold nothing of the content; pzstd begins with one.
    **{bytes((first,)) + _DICTIONARY_MAGIC[1:]: _unzstd for first in range(0x50, 0x60)},
    _DICTIONARY_MAGIC: _unzstd_by_dictionary,
}
_MAGIC_BYTES = max(map(len, CODECS))
