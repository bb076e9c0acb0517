"""Values of messages as JSON: what serializers write around it is taken off, other formats go through a function.

A serializer with a schema registry writes a zero and the number of the schema, four bytes, before JSON. A producer may
pack a value by itself, and some write a byte order mark. All three are recognised by their first bytes, which no JSON
has. Avro and Protobuf are not: the setting ``decode`` names a function that makes JSON of such a value.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from neardup.errors import ConfigError
from neardup_workers.outside.process.functions import function_at

_ODD = frozenset(b"\x00\x1f\xef")  # the first bytes of the three
_GZIP, _MARK = b"\x1f\x8b", b"\xef\xbb\xbf"
_GZIP_WINDOW = 31
_SCHEMA_BYTES = 5
Decode = Callable[[bytes], bytes | Mapping[str, Any]]


class ValueReader(NamedTuple):
    """How values are read: gzip is unpacked to ``bytes_max`` at most; ``decode`` is the function of the user."""

    bytes_max: int
    decode: Decode | None = None

    def is_needed(self, values: Iterable[bytes | None]) -> bool:
        """Whether some values are not JSON as they stand, as far as their first bytes say."""
        return self.decode is not None or any(value and value[0] in _ODD for value in values)

    def read(self, value: bytes) -> bytes | None:
        """Return the JSON of a value, or what it is if nothing is known of it; ``None`` if the function failed."""
        if self.decode is not None:
            try:
                decoded = self.decode(value)
                return decoded if isinstance(decoded, bytes) else orjson.dumps(decoded)
            except Exception:  # a function of others: its document is refused, and the next one is read
                return None
        if not value or value[0] not in _ODD:
            return value
        if value.startswith(_GZIP):
            value = self._unpacked(value)
        if value[:1] == b"\x00" and value[_SCHEMA_BYTES:].lstrip()[:1] == b"{":
            value = value[_SCHEMA_BYTES:]
        return value.removeprefix(_MARK)

    def _unpacked(self, value: bytes) -> bytes:
        """Return what gzip has packed; the value itself if it is not whole, or unpacks to more than the limit."""
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            content = unpacker.decompress(value, self.bytes_max)
        except zlib.error:
            return value
        return content if unpacker.eof else value


def decode_of(path: str | None) -> Decode | None:
    """Return the function that a setting names as ``package:function``. Raises ``ConfigError``."""
    if path is None:
        return None
    try:
        return function_at(path)
    except ValueError as error:
        raise ConfigError(f"decode={path!r} {error}") from error
