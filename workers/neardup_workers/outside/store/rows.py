"""A row of the log, its checksum, and rows as the decisions restore them."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
from crc32c import crc32c

from neardup.pairs.batches import CONTENT_HALF, Batch, held_sizes, id_columns, id_hashes, make_batch, starts_of
from neardup.schemes.interface import Evidence
from neardup.stories.sources.names import Shown
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.decisions import Decisions
from neardup.stories.verdicts.fields import FIELDS as VERDICT_FIELDS
from neardup.stories.verdicts.fields import (
    MESSAGE_FIELDS,
    NAMES,
    Verdicts,
    blank_verdicts,
    join_verdicts,
    none_of,
    values_of,
)
from neardup.stories.verdicts.row_columns import NONE
from neardup.stories.verdicts.rule import DOCUMENT, REMOVAL, REMOVED, UNCHANGED, Arrivals
from neardup.window import NO_TIME


class StoredRow(NamedTuple):
    """One document as it is stored.

    ``status`` is the verdict of the library and ``answered`` the answered one, as numbers of ``STATUSES``;
    ``original`` is the place of the original, ``content`` has 16 bytes, ``evidence`` is the fixed part followed by the
    ragged part. ``time`` is in microseconds. ``matched`` is the place of the version that was compared, ``flags`` say
    whether the content is equal to it (``EQUAL``) and whether the document came late (``LATE``). ``date`` is the
    document's own time in microseconds where ``time`` is that of its arrival. ``source`` tells it, at ``url``, with a
    headline. ``more`` are the values of the fields ``MORE`` in JSON.
    """

    place: int
    id: bytes
    time: int
    content: bytes
    evidence: bytes
    status: int
    answered: int
    cluster: int
    original: int | None
    similarity: float | None
    related: int | None
    previous: int | None
    gone: int = 0
    matched: int | None = None
    flags: int = 0
    date: int | None = None
    source: str | None = None
    url: str | None = None
    title: str | None = None
    more: str | None = None


# The bits of ``StoredRow.flags``, and the fields of verdicts that have one. A document with ``LEADS`` leads its story
# in the place of a removed one.
EQUAL, LATE, LEADS = 1, 2, 4
_BITS = {"equal": EQUAL, "late": LATE}
# The columns of a row; that of ``answered`` has the name that stores of 0.1.0 gave it.
FIELDS = ", ".join("said" if name == "answered" else name for name in StoredRow._fields)
# What a restart reads of a row.
RESTORED = (
    "place", "id", "time", "content", "evidence", "status", "cluster", "similarity", "matched", "flags", "gone", "date",
    "source",
)  # fmt: skip
# No place is greater.
PLACE_MAX = (1 << 63) - 1
# Values of rows, by the name of their column.
Columns = Mapping[str, Sequence[Any]]
# Fields of verdicts that have no column of their own.
MORE = tuple(field for field in VERDICT_FIELDS if field.name not in (*StoredRow._fields, *_BITS, "duplicate_of"))
_MORE_NAMES = tuple(field.name for field in MORE)
_NO_TIME = int(NO_TIME)
_said = itemgetter("status", "answered", "original", "similarity", "related", "previous", "matched", "flags", "more")
# ``StoredRow._make`` without its call of Python for each row.
_new_row = partial(tuple.__new__, StoredRow)
TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE documents (
    place INTEGER PRIMARY KEY, id BLOB NOT NULL, time INTEGER NOT NULL, content BLOB NOT NULL, evidence BLOB NOT NULL,
    status INTEGER NOT NULL, said INTEGER NOT NULL, cluster INTEGER NOT NULL, original INTEGER, similarity REAL,
    related INTEGER, previous INTEGER, gone INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER, matched INTEGER, flags INTEGER NOT NULL DEFAULT 0, date INTEGER, source TEXT, url TEXT,
    title TEXT, more TEXT
);
CREATE INDEX documents_id ON documents (id, place);
CREATE INDEX documents_cluster ON documents (cluster, place);
CREATE TABLE texts (place INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE clusters (
    cluster INTEGER PRIMARY KEY, size INTEGER NOT NULL, first_time INTEGER NOT NULL, last_time INTEGER NOT NULL,
    last_place INTEGER NOT NULL
);
CREATE TRIGGER joins AFTER INSERT ON documents WHEN new.status < 2 BEGIN
    INSERT INTO clusters VALUES (new.cluster, 1, new.time, new.time, new.place)
    ON CONFLICT (cluster) DO UPDATE SET size = size + 1, first_time = min(first_time, new.time),
        last_time = max(last_time, new.time), last_place = new.place;
END;
CREATE TRIGGER leaves AFTER DELETE ON documents WHEN old.status < 2 AND old.gone = 0 BEGIN
    UPDATE clusters SET size = size - 1 WHERE cluster = old.cluster;
    DELETE FROM clusters WHERE cluster = old.cluster AND size < 1;
END;
CREATE TRIGGER goes AFTER UPDATE OF gone ON documents WHEN old.status < 2 AND old.gone = 0 AND new.gone = 1 BEGIN
    UPDATE clusters SET size = size - 1 WHERE cluster = old.cluster;
    DELETE FROM clusters WHERE cluster = old.cluster AND size < 1;
END;
"""

# The stories of one document, as most are, have their order without an index.
INDEXES = """
DROP INDEX IF EXISTS clusters_size;
DROP INDEX IF EXISTS clusters_recent;
CREATE INDEX clusters_larger ON clusters (size, cluster) WHERE size > 1;
CREATE INDEX clusters_joined ON clusters (last_place, cluster) WHERE last_place <> cluster;
"""


def checksum(row: StoredRow) -> int:
    """The CRC-32C of the values of a row."""
    alike = None if row.similarity is None else float(row.similarity)
    numbers = (
        f"{row.place} {len(row.id)} {row.time} {row.status} {row.answered} {row.cluster} {row.original} {alike} "
        f"{row.related} {row.previous} {row.gone}"
    )
    if row.matched is not None or row.flags or row.date is not None:
        numbers += f" {row.matched} {row.flags} {row.date}"
    if row.source is not None or row.url is not None or row.title is not None:
        numbers += f" {row.source!r} {row.url!r} {row.title!r}"
    if row.more is not None:
        numbers += f" {row.more}"
    return int(crc32c(b"".join((numbers.encode(), row.id, row.content, row.evidence))))


def meta_of(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return the values of ``meta``; of the newest rows they may not be stored yet."""
    meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    newest = "SELECT max(place) + 1, max(time) FROM documents WHERE place >= ?"
    places, time = connection.execute(newest, (meta.get("places"),)).fetchone()
    if places is not None:
        before = meta["stream_time"]
        meta |= {"places": places, "stream_time": time if before is None else max(before, time)}
    return meta


def is_sound(row: StoredRow, stored: int | None) -> bool:
    """Whether a row has its checksum."""
    try:
        return checksum(row) == stored
    except (TypeError, ValueError):  # a value has another type than it was stored with
        return False


def erased_name() -> bytes:
    """A random name that replaces the id of an erased row."""
    return b"\0" + secrets.token_hex(16).encode()


def batch_of(rows: Columns, width: int) -> Batch:
    """Convert rows of the log to a signed batch; ``width``: bytes of the fixed part of the evidence."""
    evidence, count = rows["evidence"], len(rows["evidence"])
    data, starts = np.frombuffer(b"".join(evidence), np.uint8), starts_of(evidence)
    if len(data) == count * width:
        fixed, ragged = data.reshape(count, width), data[:0]
    else:
        at = starts[:-1, None] + np.arange(width)
        fixed, ragged = data[at], np.delete(data, at.ravel())
    contents = np.frombuffer(b"".join(rows["content"]), "<u8").reshape(-1, 2).astype(np.uint64)
    evidence_of = Evidence(fixed, ragged, starts - width * np.arange(count + 1))
    return make_batch(*id_columns(rows["id"]), np.array(rows["time"], np.int64), contents, evidence_of)


def columns_of(row: StoredRow) -> Columns:
    """Return the values of one row."""
    return {name: (value,) for name, value in row._asdict().items()}


def stored_rows(
    batch: Batch, dates: npt.NDArray[np.int64], decided: Decided, shown: Sequence[Shown], decisions: Decisions,
    row_at: Callable[[int], StoredRow | None],
) -> list[StoredRow]:  # fmt: skip
    """Return the rows of a batch for the log, ``dates`` are ``NO_TIME`` for none. An unchanged version has the answer
    of the version before, which ``row_at`` returns by its place."""
    first = decided.first_place
    # Slices of bytes: an array for each row would take longer than the rest of it.
    ids, fixed, ragged = batch.ids.tobytes(), batch.fixed.tobytes(), batch.ragged.tobytes()
    contents, width = batch.contents.astype("<u8", copy=False).tobytes(), batch.fixed.shape[1]
    parts = enumerate(pairwise(batch.ragged_starts.tolist()))
    said = _said(_said_columns(decided, decisions, row_at)) if decisions.more else _PLAIN
    status, answered, original, similarity, related, previous, matched, flags, more = said
    columns = (
        range(first, first + batch.size),
        [ids[start:end] for start, end in pairwise(batch.id_starts.tolist())],
        batch.times.tolist(),
        [contents[at : at + 16] for at in range(0, len(contents), 16)],
        [fixed[n * width : (n + 1) * width] + ragged[start:end] for n, (start, end) in parts],
        status, answered, decided.verdicts.clusters.tolist(), original, similarity, related, previous, repeat(0),
        matched, flags, [None if date == _NO_TIME else date for date in dates.tolist()],
        *zip(*shown, strict=True), more,
    )  # fmt: skip
    return list(map(_new_row, zip(*columns, strict=False)))  # some repeat without an end


def _said_columns(
    decided: Decided, decisions: Decisions, row_at: Callable[[int], StoredRow | None]
) -> dict[str, Iterable[Any]]:
    """Return what verdicts say, as columns of rows."""
    verdicts, first = decided.verdicts, decided.first_place
    values = dict(zip(NAMES, values_of(verdicts, decided.ids, decided.new), strict=True))
    statuses, originals = verdicts.statuses.tolist(), verdicts.originals.tolist()
    # An original whose versions have all left the window is named by its story.
    places = [
        None if original == NONE else cluster for original, cluster in zip(originals, values["cluster"], strict=True)
    ]
    if here := [n for n, original in enumerate(originals) if original >= 0]:  # of few documents
        found = decisions.places(verdicts.originals[here]).tolist()
        for n, place in zip(here, found, strict=True):
            places[n] = place if place >= 0 else None
    answered, related = statuses.copy(), values["related"]
    for n in [n for n, status in enumerate(answered) if status == UNCHANGED]:
        before = int(verdicts.previous[n])
        if before >= first:
            answered[n], related[n] = answered[before - first], related[before - first]
        else:
            row = row_at(before)
            answered[n], related[n] = (0, None) if row is None else (row.answered, row.related)
    return {
        **values,
        "status": statuses,
        "answered": answered,
        "original": places,
        "flags": [
            EQUAL * bits[0] + LATE * bits[1] for bits in zip(verdicts.equal.tolist(), values["late"], strict=True)
        ],
        "more": list(map(_more_of, zip(*map(values.__getitem__, _MORE_NAMES), strict=True))),
    }


def _more_of(values: tuple[Any, ...]) -> str | None:
    """Return ``StoredRow.more`` of the values of the fields ``MORE``."""
    return None if values.count(None) == len(values) else encoded_more(dict(zip(_MORE_NAMES, values, strict=True)))


def encoded_more(values: Mapping[str, Any]) -> str | None:
    """Return values of ``MORE`` as they are stored, without those that are none."""
    values = {name: value for name, value in values.items() if value is not None}
    return orjson.dumps(values).decode() if values else None


# What ``_said_columns`` returns of plain verdicts: those that are originals, and say no more.
_PLAIN: Sequence[Iterable[Any]] = (
    repeat(0), repeat(0), *(repeat(None),) * 5, repeat(0),
    repeat(encoded_more({field.name: False for field in MORE if field.kind == "flag"})),
)  # fmt: skip


def values_of_more(more: str | None) -> dict[str, Any]:
    """Return the values of ``StoredRow.more``, without those that are none."""
    return {} if more is None else dict(orjson.loads(more))


def restored_rows(rows: Columns, batch: Batch) -> tuple[Arrivals, Verdicts]:
    """Return rows of the log as arrivals, and what decisions read of what was decided of them; ``batch`` has their
    signed documents."""
    places, kinds = np.array(rows["place"]), np.full(batch.size, DOCUMENT, np.uint8)
    hashes, contents = id_hashes(batch.ids, batch.id_starts), batch.contents[:, CONTENT_HALF].copy()
    arrivals = Arrivals(places, kinds, hashes, batch.times, contents, held_sizes(batch))
    found, flags = blank_verdicts(batch.size, REMOVED), np.array(rows["flags"])
    for field in MESSAGE_FIELDS:
        column = getattr(found, field.column)
        if field.name in _BITS:
            column[:] = flags & _BITS[field.name] > 0
        elif field.name in RESTORED and (absent := rows[field.name].count(None)) < batch.size:
            none = none_of(field)
            values = [none if value is None else value for value in rows[field.name]] if absent else rows[field.name]
            column[:] = np.array(values, column.dtype)
    return arrivals, found


def joined_rows(parts: Sequence[tuple[Arrivals, Verdicts]], gone: list[bytes]) -> tuple[Arrivals, Verdicts]:
    """Concatenate rows, as arrivals and with what was decided of them, and the removals of ids."""
    count = len(gone)
    hashes = id_hashes(*id_columns(gone)) if gone else np.empty(0, np.uint64)
    removals = Arrivals(
        np.full(count, -1), np.full(count, REMOVAL, np.uint8), hashes, np.full(count, NO_TIME),
        np.zeros(count, np.uint64), np.zeros(count, np.int64),
    )  # fmt: skip
    every = [*parts, (removals, blank_verdicts(count, REMOVED))]
    arrivals = Arrivals._make(np.concatenate(columns) for columns in zip(*(part[0] for part in every), strict=True))
    return arrivals, join_verdicts([part[1] for part in every])
