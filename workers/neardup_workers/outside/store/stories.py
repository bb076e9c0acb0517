"""The stories of a log: their records, the ids of their originals, the evidence of their contents and their texts; and
how rare elements are in the stream.

A story may outlive the rows of its documents. So the transaction of a step also stores what the step changed of the
stories. A story that ended leaves its place alone, as long as the row of its original is in the window: without it,
that row would be an original that is alone in its story.

Counts of rarity may outlive the documents they count. A start counts the rows of the window again, from the first place
that the stored counts do not have. So they are stored only when such a row leaves: once a window.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from crc32c import crc32c

from neardup.features.tokens.rarity import Rarity
from neardup.stories.verdicts.kept import KeptStories
from neardup.stories.verdicts.records import PLACE, RECORD_FIELDS

TABLES = """
CREATE TABLE stories (cluster INTEGER PRIMARY KEY, id BLOB, record BLOB, checksum INTEGER);
CREATE INDEX stories_ended ON stories (cluster) WHERE record IS NULL;
CREATE TABLE contents (place INTEGER PRIMARY KEY, evidence BLOB NOT NULL, checksum INTEGER NOT NULL, text TEXT);
"""
# The counts of the documents below a place; one row, or none.
RARITY = "CREATE TABLE rarity (place INTEGER PRIMARY KEY, counts BLOB NOT NULL, checksum INTEGER NOT NULL);\n"


def store(writer: sqlite3.Connection, changes: KeptStories, texts: Mapping[int, str]) -> None:
    """Store what a step changed, in its open transaction; ``texts`` are those of contents whose rows have left."""
    if not any(map(len, changes)):  # so it is for most documents
        return
    writer.executemany(
        "INSERT INTO stories (cluster) VALUES (?) "
        "ON CONFLICT (cluster) DO UPDATE SET id = NULL, record = NULL, checksum = NULL",
        ((place,) for place in changes.ended),
    )
    writer.executemany("DELETE FROM contents WHERE place = ?", ((place,) for place in changes.dropped))
    records, ids = changes.records.astype("<i8"), {place: id_.encode() for place, id_ in changes.ids.items()}
    writer.executemany(  # the id with the record: a place without one is that of a story that ended, in an index
        "INSERT INTO stories (cluster, id, record, checksum) VALUES (?1, ?2, ?3, ?4) "
        "ON CONFLICT (cluster) DO UPDATE SET id = coalesce(?2, id), record = ?3, checksum = ?4",
        (
            (place, ids.get(place), data := record.tobytes(), crc32c(data))
            for place, record in zip(records[:, PLACE].tolist(), records, strict=True)
        ),
    )
    writer.executemany(
        "INSERT OR REPLACE INTO contents VALUES (?1, ?2, ?3, coalesce(?4, (SELECT text FROM texts WHERE place = ?1)))",
        ((place, data, crc32c(data), texts.get(place)) for place, data in changes.evidence.items()),
    )


def expire(writer: sqlite3.Connection, oldest: int) -> None:
    """Remove the places of ended stories below the oldest place of the window."""
    writer.execute("DELETE FROM stories WHERE record IS NULL AND cluster < ?", (oldest,))


def keep_rarity(writer: sqlite3.Connection, rarity: Rarity, oldest: int, places: int) -> None:
    """Store the counts, of all documents below ``places``, if a row that the stored ones lack leaves the window, which
    begins at the place ``oldest``."""
    [counted] = writer.execute("SELECT coalesce(max(place), 0) FROM rarity").fetchone()
    if oldest > counted:
        data = rarity.save()
        writer.execute("DELETE FROM rarity")
        writer.execute("INSERT INTO rarity VALUES (?, ?, ?)", (places, data, crc32c(data)))


def load_rarity(source: sqlite3.Connection) -> tuple[int, bytes | None]:
    """Return the first place whose document the stored counts do not have, and the counts, ``None`` without any. Raises
    ``sqlite3.DatabaseError`` if they are damaged."""
    row = source.execute("SELECT * FROM rarity").fetchone() or (0, None)
    if row[1] is not None and not is_sound_rarity(row):
        raise sqlite3.DatabaseError("the counts of rarity have another checksum")
    return row[0], row[1]


def is_sound_rarity(row: Sequence[Any]) -> bool:
    """Whether a row of ``rarity`` has its checksum."""
    return _is_sound(*row[1:])


def load(source: sqlite3.Connection) -> KeptStories:
    """Return the stories; what is damaged is left out."""
    ids: dict[int, str] = {}
    records, ended = [b""], []
    for place, id_, record, stored in source.execute("SELECT cluster, id, record, checksum FROM stories"):
        if record is None:
            ended.append(place)
        elif _is_sound(record, stored) and len(record) == 8 * RECORD_FIELDS:
            records.append(record)
            if id_ is not None:
                ids[place] = id_.decode(errors="replace")
    contents = source.execute("SELECT place, evidence, checksum FROM contents")
    evidence = {place: data for place, data, stored in contents if _is_sound(data, stored)}
    table = np.frombuffer(b"".join(records), "<i8").reshape(-1, RECORD_FIELDS)
    return KeptStories(table.astype(np.int64), ids, evidence, ended)


def _is_sound(data: object, stored: object) -> bool:
    return isinstance(data, bytes) and crc32c(data) == stored
