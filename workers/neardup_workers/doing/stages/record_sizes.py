"""The sizes of records: which of them fit into a message, and how long their texts are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from neardup_workers.outside.transport.protocol import HEADER_BYTES, Headers, sent_bytes

# The bytes of some lines that show how long they are as UTF-8: an escape (``\uXXXX``) is about four bytes longer.
_SAMPLE_LINES, _SAMPLE_BYTES, _ESCAPE_SAVING = 8, 512, 4


def all_fit(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[Headers], bytes_max: int
) -> bool:
    """Whether each of these records takes at most ``bytes_max`` of the limit of a message.

    The headers of all together, which are cheap to count, mostly fit with the longest key and the longest value.
    """
    parts = list(chain.from_iterable(headers))
    names, texts = zip(*parts, strict=True) if parts else ((), ())
    longest = max(map(len, filter(None, keys)), default=0) + max(map(len, filter(None, values)), default=0)
    bound = longest + sent_bytes(None, None, (("".join(names), b"".join(texts)),)) + HEADER_BYTES * len(parts)
    return bound <= bytes_max or max(map(sent_bytes, keys, values, headers)) <= bytes_max


def bytes_of_utf8_byte(lines: Sequence[bytes]) -> float:
    """Return how many bytes of lines there are for a byte of UTF-8, by a sample: 1, or up to 3 for texts of escapes.

    >>> bytes_of_utf8_byte([b'{"id": "a", "text": "hello"}'])
    1.0
    """
    sample = [line[:_SAMPLE_BYTES] for line in lines[:: len(lines) // _SAMPLE_LINES + 1]]
    size = sum(map(len, sample))
    saved = _ESCAPE_SAVING * sum(line.count(b"\\u") for line in sample)
    return size / max(size - saved, size / 3) if size else 1.0
