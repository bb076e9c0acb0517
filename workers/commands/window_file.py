"""A window in a file: the signed documents that a stream would still hold, to begin a run with.

The file is a magic number, the stream time just before its first document (i64, little-endian), then messages of
``stream.bands_message`` in order of arrival, each after its length (u32). Every message names the generation that
signed it, so a window of another configuration is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from stream.bands_message import BandMessage, WireError, decode, encode
from stream.batches import Batch
from stream.pipeline import Matcher, step
from stream.table import NO_TIME
from workers.process.exits import Exit, Failure, input_failure, output_failure

_HEADER = struct.Struct("<8sq")
_LENGTH = struct.Struct("<I")
_MAGIC = b"NDUPWIN1"


def write(path: str, batches: Iterable[Batch], stream_time: int, fingerprint: str) -> None:
    """Write a window; ``stream_time`` in microseconds, ``NO_TIME`` for none. Raises ``Failure`` if it cannot."""
    try:
        with Path(path).open("wb") as file:
            file.write(_HEADER.pack(_MAGIC, stream_time))
            for batch in batches:
                message = encode(BandMessage(batch, []), fingerprint)
                file.write(_LENGTH.pack(len(message)) + message)
    except OSError as error:
        raise output_failure(f"the window to {path}", error) from None


def fill(matcher: Matcher, path: str) -> None:
    """Add the documents of a window to an empty matcher, without looking for pairs among them.

    Raises ``Failure`` for a file that cannot be read, is no window, is cut short, or was signed otherwise.
    """
    fingerprint = matcher.config.signing_fingerprint
    messages = _messages(path)
    stream_time = _HEADER.unpack(next(messages))[1]
    if stream_time != NO_TIME:
        matcher.table.set_stream_time(stream_time)
    for message in messages:
        try:
            batch = decode(message, fingerprint).batch
        except WireError as error:
            raise Failure(Exit.GENERATION, f"the window in {path} cannot be used: {error}") from None
        with step(matcher.table):
            matcher.match(batch, probe=False)


def _messages(path: str) -> Iterator[bytes]:
    """The header, then every message."""
    try:
        with Path(path).open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size or not header.startswith(_MAGIC):
                raise Failure(Exit.INPUT, f"{path} holds no window: name a file that neardup batch --keep wrote")
            yield header
            while length := file.read(_LENGTH.size):
                size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else -1
                message = file.read(size) if size >= 0 else b""
                if len(message) != size:
                    raise Failure(Exit.INPUT, f"the window in {path} is cut short: write it again with batch --keep")
                yield message
    except OSError as error:
        raise input_failure(f"the window in {path}", error) from None
