"""What a Content-Encoding packed, unpacked within a bound.

The unpacker of a library may write all that a few bytes say, a gigabyte of a megabyte. Here each step has a limit, and
a payload that is larger than the bound is given up.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial

from neardup_workers.outside.process.interpreter import unzstd, zstd

_STEP_BYTES = 1 << 18
# Maximum window of a Zstandard frame in HTTP (RFC 9659).
_ZSTD_WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}

# Controls that no text has, among so many bytes at its beginning. Escape switches alphabets in ISO 2022.
_CONTROLS = frozenset((*range(0x08), *range(0x0E, 0x1B), *range(0x1C, 0x20)))
_TEXT_BYTES = 512


class _Damaged(Exception):
    """The payload is not packed as its encoding says."""


def decoded_content(payload: bytes, encodings: str, bytes_max: int) -> bytes | None:
    """Return the payload without its encodings, the last one first; ``None`` if that fails or exceeds ``bytes_max``.

    A payload that does not begin as its encoding does is returned as it is: many crawlers unpack and keep the header.
    So is one that looks like text, if the name of its encoding is not known: some servers name a charset.
    """
    for name in reversed([one.strip().lower() for one in encodings.split(",")]):
        if name in ("", "identity"):
            continue
        row = _ENCODINGS.get(name)
        if row is None:
            if any(byte in _CONTROLS for byte in payload[:_TEXT_BYTES]):
                return None
            continue  # no encoding: "none", "UTF-8" or the like
        begins, unpack = row
        if not begins.match(payload):
            continue
        parts, size = [], 0
        try:
            for part in unpack(payload):
                parts.append(part)
                size += len(part)
                if size > bytes_max:
                    return None
        except _Damaged:
            return None
        payload = b"".join(parts)
    return payload


def _inflate(payload: bytes, wbits: int) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits)
    while not member.eof:
        try:
            part = member.decompress(payload, _STEP_BYTES)
        except zlib.error as error:
            raise _Damaged from error
        payload = member.unconsumed_tail
        yield part
        if not part and not payload and not member.eof:
            raise _Damaged


def _deflate(payload: bytes) -> Iterator[bytes]:
    """Zlib's format, as the standard says, or the bare stream, as some servers send."""
    is_zlib = payload[0] & 0x0F == zlib.DEFLATED and int.from_bytes(payload[:2], "big") % 31 == 0
    return _inflate(payload, zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _zstd(payload: bytes) -> Iterator[bytes]:
    try:
        yield from unzstd(zstd.ZstdDecompressor(options=_ZSTD_WINDOW), payload, _STEP_BYTES)
    except (zstd.ZstdError, EOFError) as error:
        raise _Damaged from error


def _brotli(payload: bytes) -> Iterator[bytes]:
    import brotli

    decoder = brotli.Decompressor()
    try:
        yield decoder.process(payload, output_buffer_limit=_STEP_BYTES)
        while not decoder.is_finished():
            part = decoder.process(b"", output_buffer_limit=_STEP_BYTES)
            if not part and decoder.can_accept_more_data():
                raise _Damaged
            yield part
    except brotli.error as error:
        raise _Damaged from error


_GZIP = re.compile(rb"\x1f\x8b"), partial(_inflate, wbits=16 + zlib.MAX_WBITS)
# A format without a magic number: markup begins with a bracket, a mark or white space.
_NO_MARKUP = re.compile(rb"[^<\xef \n\r\t]")
# A Content-Encoding -> how a payload of it begins, and its unpacker.
_ENCODINGS: dict[str, tuple[re.Pattern[bytes], Callable[[bytes], Iterator[bytes]]]] = {
    "gzip": _GZIP,
    "x-gzip": _GZIP,
    "deflate": (_NO_MARKUP, _deflate),
    "br": (_NO_MARKUP, _brotli),
    "zstd": (re.compile(rb"\x28\xb5\x2f\xfd"), _zstd),
}
