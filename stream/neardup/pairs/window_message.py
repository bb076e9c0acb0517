"""The messages of a window, and the window as a file: columnar batches as bytes. Decoding makes no object for a row.

A message holds documents as columns, then the ids of removed documents. The reader applies the documents first. The
message begins with the signing fingerprint, so data of another generation is refused and never misread.

Layout of version 3, little-endian, each column packed: magic ``NDUP``, version u8, flags u8 (none is defined: 0), two
bytes of zero, fingerprint 16 bytes, documents u32, width of evidence u32, bytes of ragged evidence u32, bytes of ids
u32, removed ids u32, bytes of removed ids u32, 16 bytes that a window does not use; then times i64, 8 more such bytes a
document, contents 2 x u64, lengths of ids u16, lengths of removed ids u16, lengths of ragged evidence u32 (only if
there is any), fixed evidence, ragged evidence, ids, removed ids.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.errors import NeardupError
from neardup.features.tokens.rarity import RARITY_MAGIC
from neardup.pairs.batches import Batch, id_columns, make_batch
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence, starts_of_lengths
from neardup.window import NO_TIME

_MAGIC, _VERSION = b"NDUP", 3
_WINDOW_MAGIC, _BLOCK_MAGIC = b"NDUPWIN2", b"NDBK"
_TIME, _BLOCK, _NUMBER_AND_LENGTH = (struct.Struct(form) for form in ("<q", "<4sIII", "<II"))
_READ_BYTES = 1 << 24
# What every part of the decisions of a window begins with, and then a digit (``neardup.stories.verdicts.saved``).
DECISIONS_MAGIC = b"NDUPDEC"
# What the settings of a window begin with; fingerprint and settings as JSON follow.
_SETTINGS_MAGIC = b"NDUPSET1"
# What is wrong with a window whose constant texts were signed otherwise, and the first part of the remedy.
SIGNED_ELSEWHERE = (
    "was signed under the same settings by a program that reads or hashes the same texts otherwise, so its documents "
    "cannot be compared with new ones: use the versions of neardup, Python, NumPy and Numba that signed it"
)
_HEADER = struct.Struct("<4sBB2x16sIIIIIIqI4x")
# Of the 16 unused bytes of a header, and of those of a document.
_UNUSED, _UNUSED_ROW = (int(NO_TIME), 0), -1


class WireError(NeardupError, ValueError):
    """A message is not of this format, is of another generation, or is truncated."""


class WindowMessage(NamedTuple):
    """The content of one message: a batch, then the ids that are removed after it."""

    batch: Batch
    removed: list[bytes]


def encode(message: WindowMessage, fingerprint: str) -> bytes:
    """A message as bytes; ``fingerprint`` is 32 hexadecimal digits."""
    batch, removed = message
    lengths = np.diff(batch.id_starts).astype("<u2")
    ragged_lengths = np.diff(batch.ragged_starts).astype("<u4")
    removed_bytes, removed_starts = id_columns(removed)
    header = _HEADER.pack(
        _MAGIC, _VERSION, 0, bytes.fromhex(fingerprint), batch.size, batch.fixed.shape[1], len(batch.ragged),
        len(batch.ids), len(removed), len(removed_bytes), *_UNUSED,
    )  # fmt: skip
    columns = (
        batch.times.astype("<i8", copy=False), np.full(batch.size, _UNUSED_ROW, "<i8"),
        batch.contents.astype("<u8", copy=False), lengths,
        np.diff(removed_starts).astype("<u2"), ragged_lengths if len(batch.ragged) else ragged_lengths[:0],
        batch.fixed, batch.ragged, batch.ids, removed_bytes,
    )  # fmt: skip
    return b"".join((header, *(np.ascontiguousarray(column).tobytes() for column in columns)))


def decode(data: bytes, fingerprint: str) -> WindowMessage:
    """The content of a message; its arrays are views of ``data`` where that is possible.

    Raises ``WireError`` with what was found and what was expected.
    """
    if len(data) < _HEADER.size:
        raise WireError(f"a message of {len(data)} bytes is shorter than its header of {_HEADER.size}")
    magic, version, flags, generation, *counts = _HEADER.unpack_from(data)
    n, width, ragged, id_bytes, removals, removed_bytes, _, entries = counts
    if magic != _MAGIC or version != _VERSION or flags or entries:
        raise WireError(
            f"a message that begins {data[:6].hex()} is not of format {_MAGIC.decode()} version "
            f"{_VERSION} without flags"
        )
    if generation.hex() != fingerprint:
        raise WireError(
            f"a message signed under {generation.hex()} cannot be matched under {fingerprint}: "
            "use the configuration and the minor version of Python of the signer, or another topic or window"
        )
    expected = _HEADER.size + n * (8 + 8 + 16 + 2 + width + 4 * (ragged > 0))
    expected += ragged + id_bytes + 2 * removals + removed_bytes
    if len(data) != expected:
        raise WireError(
            f"a message of {len(data)} bytes should have {expected}: it is truncated, or two messages are joined"
        )
    columns = _Columns(data, _HEADER.size)
    times = columns.read("<i8", n)
    columns.read("<i8", n)  # not used
    contents = columns.read("<u8", 2 * n).reshape(n, 2)
    id_starts = _starts(columns.read("<u2", n), id_bytes)
    removed_starts = _starts(columns.read("<u2", removals), removed_bytes)
    ragged_starts = _starts(columns.read("<u4", n if ragged else 0), ragged) if ragged else np.zeros(n + 1, np.int64)
    fixed = columns.read("u1", n * width).reshape(n, width)
    evidence = Evidence(fixed, columns.read("u1", ragged), ragged_starts)
    ids = columns.read("u1", id_bytes)
    gone = columns.read("u1", removed_bytes).tobytes()
    removed = [gone[a:b] for a, b in zip(removed_starts[:-1].tolist(), removed_starts[1:].tolist(), strict=True)]
    return WindowMessage(make_batch(ids, id_starts, times, contents, evidence), removed)


def reader_of(data: bytes) -> Callable[[int], bytes]:
    """Return the function that reads the next bytes of data, as ``decode_window`` calls it."""
    at = 0

    def read(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    return read


def encode_window(
    messages: Iterable[WindowMessage],
    stream_time: int,
    config: Config,
    decisions: Iterable[bytes] = (),
    signature: str = "",
) -> Iterator[bytes]:
    """A window as parts of bytes: the signed documents that a stream still holds, to begin another one with.

    A magic number, then blocks: the stream time just before the first document (i64, microseconds, ``NO_TIME`` for
    none), the settings of the configuration that signed them with the signature of the constant texts
    (``neardup.stories.windows.constant_texts``), what was decided about the documents, if anything, messages in order
    of arrival, and an empty block at the end. A block begins with four bytes, its number (u32), its length (u32) and
    the CRC-32C of number, length and data.
    """
    yield _WINDOW_MAGIC
    fingerprint = config.signing_fingerprint
    settings = _SETTINGS_MAGIC + orjson.dumps([fingerprint, config.signing_settings, signature])
    signed = (encode(message, fingerprint) for message in messages)
    data = chain([_TIME.pack(stream_time), settings], decisions, signed, [b""])
    for number, block in enumerate(data):
        yield _BLOCK.pack(_BLOCK_MAGIC, number, len(block), _checksum(number, block)) + block


def decode_window(
    read: Callable[[int], bytes], config: Config, *, salvage: bool = False, signature: str = ""
) -> Iterator[WindowMessage | bytes | int]:
    """What ``encode_window`` wrote: the stream time, then counts and decisions as they are, then every message.

    Args:
        read: returns the next bytes, as many as asked for except at the end.
        config: must sign as the configuration that signed the documents.
        salvage: leave out damaged blocks. The decisions name documents by their order, so they are left out then, too.
        signature: of the constant texts in this process; compared with the one of the window if both are known.

    Raises:
        WireError: it is no window, is damaged or truncated, or was signed otherwise.
    """
    if read(len(_WINDOW_MAGIC)) != _WINDOW_MAGIC:
        raise WireError("it holds no window")
    for number, block in enumerate(_sound(read) if salvage else _blocks(read)):
        if number == 0:
            yield int(_TIME.unpack(block)[0])
        elif block.startswith(_SETTINGS_MAGIC):
            _check_settings(block, config, signature)
        else:
            is_state = block.startswith((DECISIONS_MAGIC, RARITY_MAGIC))
            yield block if is_state else decode(block, config.signing_fingerprint)


def _check_settings(block: bytes, config: Config, now: str) -> None:
    """Raise ``WireError`` with the settings that differ, if a window was signed under others, or if the same settings
    sign otherwise here."""
    fingerprint, settings, signature = orjson.loads(block[len(_SETTINGS_MAGIC) :])
    if fingerprint != config.signing_fingerprint:
        named = config.signed_otherwise(settings) or "the order of tokens, or the version of neardup or of Python"
        raise WireError(f"it was signed under other settings ({named}): use those, or make it again")
    if now and signature not in ("", now):
        raise WireError(f"it {SIGNED_ELSEWHERE}, or make it again")


def _checksum(number: int, block: bytes) -> int:
    from crc32c import crc32c

    return int(crc32c(block, crc32c(_NUMBER_AND_LENGTH.pack(number, len(block)))))


def _blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """The data of the blocks of a window. Raises ``WireError`` if one is damaged or the last one is missing."""
    at = len(_WINDOW_MAGIC)
    for expected in count():
        header = read(_BLOCK.size)
        if len(header) < _BLOCK.size:
            raise WireError(f"it is truncated at byte {at:,}: use another copy, or --salvage for what is there")
        magic, number, length, checksum = _BLOCK.unpack(header)
        known = magic == _BLOCK_MAGIC and number == expected
        block = read(length) if known else b""
        if not known or _checksum(number, block) != checksum:
            raise WireError(f"its block at byte {at:,} is damaged: use another copy, or --salvage for the other blocks")
        if not length:
            return
        yield block
        at += _BLOCK.size + length


def _sound(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """The data of the sound blocks of a window, without decisions if a block is damaged or missing."""
    data = b"".join(iter(partial(read, _READ_BYTES), b""))
    parts: dict[int, bytes] = {}
    at, ended = data.find(_BLOCK_MAGIC), False
    while 0 <= at <= len(data) - _BLOCK.size:
        _, number, length, checksum = _BLOCK.unpack_from(data, at)
        block = data[at + _BLOCK.size : at + _BLOCK.size + length]
        sound = len(block) == length and _checksum(number, block) == checksum
        if sound:
            parts[number] = block
            ended = not length
        at = data.find(_BLOCK_MAGIC, at + (_BLOCK.size + length if sound else 1))
    whole = ended and list(parts) == list(range(len(parts)))
    yield parts.pop(0, _TIME.pack(NO_TIME))
    yield from (block for block in parts.values() if block and (whole or not block.startswith(DECISIONS_MAGIC)))


class _Columns:
    """Reads one column after the other; copies unaligned ones, because kernels need aligned arrays."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._at = start

    def read(self, dtype: str, count: int) -> npt.NDArray[Any]:
        column: npt.NDArray[Any] = np.frombuffer(self._data, dtype, count, self._at)
        self._at += column.nbytes
        return column if column.flags.aligned else column.copy()


def _starts(lengths: npt.NDArray[np.unsignedinteger], total: int) -> npt.NDArray[np.int64]:
    starts = starts_of_lengths(lengths)
    if starts[-1] != total:
        raise WireError(f"a column of a message adds up to {starts[-1]} bytes, its header says {total}")
    return starts
