"""A row of the log, and its checksum."""

from __future__ import annotations

import secrets
import sqlite3
from typing import NamedTuple

from crc32c import crc32c


class Row(NamedTuple):
    """One document as it is stored.

    ``status`` is the verdict of the library and ``said`` the answered verdict, as numbers of ``STATUSES``; ``original``
    is the place of the original, ``content`` has 16 bytes, ``evidence`` is the fixed part followed by the ragged part.
    ``time`` is in microseconds. ``matched`` is the place of the version that was compared, ``flags`` say whether the
    content is equal to it (``EQUAL``) and whether the document came late (``LATE``). ``date`` is the document's own
    time in microseconds where ``time`` is that of its arrival.
    """

    place: int
    id: bytes
    time: int
    content: bytes
    evidence: bytes
    status: int
    said: int
    cluster: int
    original: int | None
    similarity: float | None
    related: int | None
    previous: int | None
    gone: int = 0
    matched: int | None = None
    flags: int = 0
    date: int | None = None


# The bits of ``Row.flags``.
EQUAL, LATE = 1, 2
FIELDS = ", ".join(Row._fields)


def fields_in(source: sqlite3.Connection) -> str:
    """Return the fields of a row as columns of a log that may be older: a column that it lacks has its default."""
    known = {column[1] for column in source.execute("PRAGMA table_info(documents)")}
    defaults = {name: "NULL" if value is None else str(value) for name, value in Row._field_defaults.items()}
    return ", ".join(field if field in known else defaults[field] for field in Row._fields)


def checksum(
    place: int,
    id_: bytes,
    time: int,
    content: bytes,
    evidence: bytes,
    status: int,
    said: int,
    cluster: int,
    original: int | None,
    similarity: float | None,
    related: int | None,
    previous: int | None,
    gone: int,
    matched: int | None,
    flags: int,
    date: int | None,
) -> int:
    """The CRC-32C of the values of a row."""
    alike = None if similarity is None else float(similarity)
    numbers = f"{place} {len(id_)} {time} {status} {said} {cluster} {original} {alike} {related} {previous} {gone}"
    if matched is not None or flags or date is not None:  # rows of 0.1.0 have none of them
        numbers += f" {matched} {flags} {date}"
    return int(crc32c(b"".join((numbers.encode(), id_, content, evidence))))


def is_sound(row: Row, stored: int | None) -> bool:
    """Whether a row has its checksum; rows of 0.1.0 have none (``None``)."""
    try:
        return stored is None or checksum(*row) == stored
    except (TypeError, ValueError):  # a value has another type than it was stored with
        return False


def erased_name() -> bytes:
    """A random name that replaces the id of an erased row."""
    return b"\0" + secrets.token_hex(16).encode()
