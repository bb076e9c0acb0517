"""Messages of columns: the form of ``arrivals`` and ``links``. Decoding makes no Python object for a row. And
columns as values in JSON: one call for all of a column.

Layout, little-endian: magic 4 bytes, version u8, flags u8 (none is defined: 0), number of columns u16, signing
fingerprint 16 bytes, bytes of each column u64; then the columns, each padded to a multiple of eight bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from neardup.pairs.window_message import WireError

_HEADER = struct.Struct("<4sBBH16s")
_VERSION = 1
_ALIGNMENT = 8


def encode_columns(magic: bytes, columns: Sequence[npt.NDArray[Any]], fingerprint: str) -> bytes:
    """Return columns as a message; ``fingerprint`` is 32 hexadecimal digits."""
    parts = [np.ascontiguousarray(column).tobytes() for column in columns]
    sizes = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    header = _HEADER.pack(magic, _VERSION, 0, len(parts), bytes.fromhex(fingerprint))
    return b"".join((header, sizes, *(part + bytes(-len(part) % _ALIGNMENT) for part in parts)))


def decode_columns(data: bytes, magic: bytes, dtypes: Sequence[str], fingerprint: str) -> list[npt.NDArray[Any]]:
    """Return the columns of a message, with the given types, as views of ``data``; raises ``WireError``."""
    count = len(dtypes)
    begin = _HEADER.size + 8 * count
    if len(data) < begin:
        raise WireError(f"a message of {len(data)} bytes is shorter than its header of {begin}")
    mark, version, flags, columns, generation = _HEADER.unpack_from(data)
    if (mark, version, flags, columns) != (magic, _VERSION, 0, count):
        raise WireError(
            f"a message that begins {data[:8].hex()} is not of format {magic.decode()} version {_VERSION}, "
            f"which has {count} columns and no flags"
        )
    if generation.hex() != fingerprint:
        raise WireError(
            f"a message signed under {generation.hex()} cannot be read under {fingerprint}: "
            "run every worker with one configuration, or on the topics of its own generation"
        )
    sizes = struct.unpack_from(f"<{count}Q", data, _HEADER.size)
    if len(data) != begin + sum(size + -size % _ALIGNMENT for size in sizes):
        raise WireError(f"a message of {len(data)} bytes is truncated, or two messages are joined")
    out = []
    for dtype, size in zip(dtypes, sizes, strict=True):
        if size % np.dtype(dtype).itemsize:
            raise WireError(f"a column of {size} bytes does not consist of {dtype}")
        out.append(np.frombuffer(data, dtype, size // np.dtype(dtype).itemsize, begin))
        begin += size + -size % _ALIGNMENT
    return out


def texts_of(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> list[str]:
    """Return the texts of a column of UTF-8."""
    whole, bounds = data.tobytes(), pairwise(starts.tolist())
    if whole.isascii():
        text = whole.decode()
        return [text[first:end] for first, end in bounds]
    return [whole[first:end].decode() for first, end in bounds]


def escaped(texts: list[str]) -> list[str]:
    """Return texts as strings in JSON, without their quotes.

    >>> escaped(["a", 'b"', ""])
    ['a', 'b\\\\"', '']
    """
    data = orjson.dumps(texts).decode()
    if "\\" in data:  # else each quote is the begin or the end of a text
        return [orjson.dumps(text).decode()[1:-1] for text in texts]
    return data[2:-2].split('","') if texts else []


def numbers(values: npt.NDArray[np.floating]) -> list[str]:
    """Return numbers in JSON."""
    if not len(values):
        return []
    return orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY).decode()[1:-1].split(",")
