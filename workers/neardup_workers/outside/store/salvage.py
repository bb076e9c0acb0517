"""A damaged log, copied row by row: rows that are sound stay as they are, the others become anonymous.

An anonymous row is what ``DELETE`` leaves behind: it holds a place, because decisions name documents by their places.
The damaged file stays in the folder under another name.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.store import stories
from neardup_workers.outside.store.disk.folder import locked, unusable
from neardup_workers.outside.store.disk.sums import PAGE_BYTES, blank_damaged, sums_path
from neardup_workers.outside.store.extra import copying, statements, words
from neardup_workers.outside.store.log import INSERT, VERSION, Log
from neardup_workers.outside.store.rows import FIELDS, StoredRow, checksum, erased_name, is_sound

# Rows that are read together; if one cannot be read, they are read one by one.
_ROWS = 512


class Salvaged(NamedTuple):
    """How many rows were sound, and how many are anonymous now; where the damaged file is; and how many rows of what
    the store keeps besides are lost, by what they are."""

    sound: int
    damaged: int
    kept: Path
    lost: dict[str, int]


def salvage(folder: Path, width: int) -> Salvaged:
    """Replace the log in a folder that no other process uses by its sound rows; ``width`` is that of the fixed
    evidence. Raises ``Failure`` if there is no log, not even its first page is sound, or the copy cannot be written."""
    path, copy, sound = (folder / f"window.sqlite{ending}" for ending in ("", ".copy", ".sound"))
    if not path.exists():
        raise Failure(Exit.USAGE, f"there is nothing to salvage in {folder}: leave out --salvage")
    with locked(folder):
        try:
            copy.unlink(missing_ok=True)
            copy.touch(0o600)
            is_blanked = blank_damaged(path, sound)
            source = sqlite3.connect(sound if is_blanked else path, isolation_level=None)
            target = sqlite3.connect(copy, isolation_level=None)
            target.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            try:
                intact, damaged, lost = _copied(source, target, width)
            finally:
                target.close()
                source.close()
                for ending in ("", "-wal", "-shm"):
                    sound.with_name(sound.name + ending).unlink(missing_ok=True)
            # Those of the damaged file: the next start computes them.
            sums_path(path).unlink(missing_ok=True)
            return Salvaged(intact, damaged, _replaced(path, copy), lost)
        except sqlite3.DatabaseError as error:
            raise Failure(
                Exit.INPUT, f"{path} cannot be salvaged: {error}; restore a copy of the folder, or name another --state"
            ) from None
        except OSError as error:
            raise unusable(folder, error) from None


def _copied(source: sqlite3.Connection, target: sqlite3.Connection, width: int) -> tuple[int, int, dict[str, int]]:
    meta = dict(source.execute("SELECT name, value FROM meta").fetchall())
    stored, meta["places"] = meta["places"], _places(source, meta["places"])
    target.execute("PRAGMA journal_mode = OFF")
    target.execute("BEGIN")
    for statement in statements(Log.schema + stories.RARITY + copying.SCRIPTS):
        target.execute(statement)
    target.executemany("INSERT INTO meta VALUES (?, ?)", {**meta, "version": VERSION}.items())
    query = f"SELECT {FIELDS}, checksum FROM documents"
    [first] = source.execute("SELECT min(place) FROM documents").fetchone()
    first, oldest = meta["places"] if first is None else first, meta.get("oldest", 0)
    sound, stream_time = 0, meta["stream_time"]
    time = stream_time or 0
    for place, values in _by_place(source, query, first, meta["places"]):
        row, kept = (StoredRow(*values[:-1]), values[-1]) if values else (None, None)
        if row is None or (place >= oldest and not is_sound(row, kept)):
            row = StoredRow(
                place, erased_name(), time, secrets.token_bytes(16), bytes(width), 0, 0, place, *(None,) * 4, 1
            )
            kept = checksum(row)
        else:
            sound += 1
            if place >= stored:
                stream_time = row.time if stream_time is None else max(stream_time, row.time)
        time = row.time
        target.execute(INSERT, (*row._replace(gone=0), kept))
        if row.gone:  # a trigger takes the row out of its cluster
            target.execute("UPDATE documents SET gone = 1 WHERE place = ?", (place,))
    texts = _by_place(source, "SELECT place, text FROM texts", first, meta["places"])
    gone = "SELECT 1 FROM documents WHERE place = ? AND gone = 1"
    for place, values in texts:
        if values and isinstance(values[1], str) and not target.execute(gone, (place,)).fetchone():
            target.execute("INSERT INTO texts VALUES (?, ?)", values)
    # A reader of these leaves out what is damaged.
    of_stories = sum(copying.copy_table(source, target, table) for table in ("stories", "contents"))
    lost = ({"records of stories": of_stories} if of_stories else {}) | copying.copy(source, target)
    copying.copy_table(source, target, "rarity", stories.is_sound_rarity)
    target.execute("UPDATE meta SET value = ? WHERE name = 'stream_time'", (stream_time,))
    target.execute("COMMIT")
    return sound, meta["places"] - first - sound, lost


def _places(source: sqlite3.Connection, stored: int) -> int:
    """Return how many places are assigned; of the newest rows this may not be stored yet."""
    end: int = stored + words.WAITING_MAX - 1
    try:
        [newest] = source.execute("SELECT max(place) FROM documents").fetchone()
    except sqlite3.DatabaseError:
        return end
    return stored if newest is None else max(stored, min(newest + 1, end))


def _by_place(
    source: sqlite3.Connection, query: str, first: int, end: int
) -> Iterator[tuple[int, tuple[Any, ...] | None]]:
    """Yield every place with its row, ``None`` if there is none that can be read."""
    for begin in range(first, end, _ROWS):
        places = range(begin, min(begin + _ROWS, end))
        try:
            stored = source.execute(f"{query} WHERE place BETWEEN ? AND ?", (places[0], places[-1])).fetchall()
            rows = {row[0]: row for row in stored}
        except sqlite3.DatabaseError:
            rows = {place: row for place in places if (row := _one(source, query, place))}
        yield from ((place, rows.get(place)) for place in places)


def _one(source: sqlite3.Connection, query: str, place: int) -> tuple[Any, ...] | None:
    try:
        row: tuple[Any, ...] | None = source.execute(f"{query} WHERE place = ?", (place,)).fetchone()
    except sqlite3.DatabaseError:
        return None
    return row


def _replaced(path: Path, copy: Path) -> Path:
    """Put the copy where the damaged file was; return where that one is now."""
    number = next(n for n in range(1, 10_000) if not path.with_name(f"{path.name}.damaged{n}").exists())
    kept = path.with_name(f"{path.name}.damaged{number}")
    os.link(path, kept)
    # The changes belong to the damaged file: next to the copy, they would be taken for its own.
    for ending in ("-wal", "-shm"):
        changes = path.with_name(path.name + ending)
        if changes.exists():
            changes.rename(kept.with_name(kept.name + ending))
    copy.replace(path)
    return kept
