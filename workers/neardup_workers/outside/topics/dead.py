"""Dead letters as they are read, and the notices of those that were replayed.

A notice is a message of ``documents.dead`` too, in the partition of its letter and in the transaction that sent its
document again. So no letter is replayed twice, whatever ends a replay.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import orjson

from neardup_workers.outside.topics.messages import DEAD_BYTES_MAX, DEAD_KEY_BYTES_MAX
from neardup_workers.outside.topics.places import place_name, place_of
from neardup_workers.outside.transport.protocol import Record

# The header of a document that was sent again: the place of its letter in ``documents.dead``.
REPLAYED_HEADER = "neardup-replayed"


class Letter(NamedTuple):
    """A dead letter: where it is in ``documents.dead``, when it was written, and its fields."""

    partition: int
    offset: int
    timestamp_ms: int
    fields: dict[str, Any]

    @property
    def place(self) -> str:
        """Its place in ``documents.dead``, as text."""
        return place_name(place_of(self.partition, self.offset))

    @property
    def reason(self) -> str:
        """The word for its reason."""
        return str(self.fields["reason"])

    @property
    def offsets(self) -> range:
        """The offsets of what was refused, in ``documents``."""
        first = int(self.fields["offset"])
        return range(first, int(self.fields.get("offset_last", first)) + 1)

    @property
    def key(self) -> bytes | None:
        """The key, or its beginning."""
        text = self.fields["key"]
        return None if text is None else base64.b64decode(text)

    @property
    def value(self) -> bytes:
        """The document, or its beginning; empty for a refused batch."""
        return base64.b64decode(self.fields["value"])

    @property
    def is_whole(self) -> bool:
        """Whether the letter has the whole document."""
        is_batch = "offset_last" in self.fields
        is_short = self.fields["value_bytes"] <= DEAD_BYTES_MAX and self.fields["key_bytes"] <= DEAD_KEY_BYTES_MAX
        return is_short and not is_batch


class Notice(NamedTuple):
    """A notice that a letter was replayed: the place of the letter, as text."""

    letter: str


def parse_letter(record: Record) -> Letter | Notice:
    """Return a message of ``documents.dead``."""
    fields = orjson.loads(record.value or b"{}")
    if "replayed" in fields:
        return Notice(str(fields["replayed"]))
    return Letter(record.partition, record.offset, record.timestamp_ms, fields)


def encode_notice(letter: Letter) -> bytes:
    """Return the notice that a letter was replayed."""
    origin = {name: letter.fields[name] for name in ("topic", "partition", "offset")}
    return orjson.dumps({"replayed": letter.place, **origin})
