"""The log of a window in SQLite: a restart restores the table and the decisions from it.

Theory of operation. A row is a decided document. Its *place* is its number in order of arrival. Places have no holes,
because refused documents have no place. One process writes (``lock``), on one connection. Readers have their own
connections and see the last commit. Every change belongs to a transaction:

- ``append`` adds rows at the end; ``expire`` removes rows from the old end, when the table drops their documents. With
  a history it keeps them for a while, without their evidence;
- ``erase`` removes what names or shows a document from all rows of an id. Time, evidence and the numbers of the
  decision stay. A random name replaces the id, the same name for all versions that are removed together;
- ``transaction`` makes the changes durable (``full``: after a loss of power, too; ``normal``: after the end of the
  process). Raises ``StoreFull`` if the disk is full; then nothing has changed. Any other error of SQLite leaves the
  outcome unknown, and the process must end. A thread moves committed changes to the database (``checkpoints``).
Triggers keep one row for each cluster: its size, and the times of its first and last documents. ``stories`` keeps what
stories need beyond the window.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from neardup.features.tokens.rarity import Rarity
from neardup.pairs.window_message import SIGNED_ELSEWHERE
from neardup.schemes.config import Config
from neardup.stories.verdicts.kept import KeptStories
from neardup.stories.windows.constant_texts import signature_of
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.store import extra, stories
from neardup_workers.outside.store.disk.checkpoints import Checkpoints, is_full
from neardup_workers.outside.store.disk.folder import damaged, damaged_page, locked, unusable
from neardup_workers.outside.store.disk.reserve import Reserve
from neardup_workers.outside.store.disk.sums import PAGE_BYTES
from neardup_workers.outside.store.extra import quotes, statements, words
from neardup_workers.outside.store.rows import (
    FIELDS,
    LEADS,
    PLACE_MAX,
    RESTORED,
    TABLES,
    Columns,
    StoredRow,
    checksum,
    erased_name,
    is_sound,
    meta_of,
)

DURABILITIES = {"full": ("FULL", True), "normal": ("NORMAL", False)}  # word of SQLite; whether COMMIT waits
INSERT = f"INSERT INTO documents ({FIELDS}, checksum) VALUES ({', '.join('?' * (len(StoredRow._fields) + 1))})"
_BUSY_MILLISECONDS, _SHORT_MILLISECONDS = 5_000, 100  # a statement waits for a reader, and a check on a full disk
# Rows of the old end that one step looks at: more than a step adds.
_EXPIRE_ROWS_MAX = 4096
# Version of the tables; any other version is refused.
VERSION = 5


class StoreFull(Exception):
    """The disk has no room for a step; the step was undone, and nothing has changed."""


class Log:
    """The log in a folder, opened by its only writer; ``schema`` makes its tables.

    Args:
        folder: created for this user alone if it does not exist.
        fingerprints: of the configuration; a folder with other ones is refused, except for ``matching``: stored
            verdicts stay as they are, and later documents are decided by the new settings.
        durability: a key of ``DURABILITIES``.
        config: of the fingerprints; its settings are kept, so that a later start with others names those that differ.

    Raises:
        Failure: the folder cannot be used, another process uses it, or it was made with another configuration.
    """

    schema = TABLES + stories.TABLES

    def __init__(
        self, folder: Path, fingerprints: dict[str, str], durability: str = "full", config: Config | None = None
    ) -> None:
        self.path, self._owed, self._config = folder / "window.sqlite", False, config
        self._dropped = -1  # the place that rows were dropped below last
        self._progress = words.Progress()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = locked(folder)
        except OSError as error:
            raise unusable(folder, error) from None
        self._writer = sqlite3.connect(":memory:")
        try:
            self._reserve = Reserve(folder)
            self._checkpoints = Checkpoints(self.path)
        except (sqlite3.Error, OSError) as error:
            self._lock.close()
            raise unusable(folder, error) from None
        try:
            self._checkpoints.open()
            self._writer = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._writer.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new one
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA wal_autocheckpoint = 0")  # see ``checkpoints``
            self._writer.execute(f"PRAGMA synchronous = {DURABILITIES[durability][0]}")
            self._writer.execute("PRAGMA secure_delete = ON")  # erased data is overwritten
            self._writer.create_function(
                "checksum", len(StoredRow._fields), lambda *values: checksum(StoredRow(*values)), deterministic=True
            )
            self._prepare(fingerprints)
            extra.prepare(self._writer)
            self._reserve.keep()
        except (sqlite3.Error, OSError, Failure) as error:
            self.close()
            raise error if isinstance(error, Failure) else unusable(folder, error) from None

    def _prepare(self, fingerprints: dict[str, str]) -> None:
        if not self._writer.execute("SELECT 1 FROM sqlite_master").fetchone():
            rows = {**fingerprints, "version": VERSION, "places": 0, "stream_time": None}
            self._writer.execute("BEGIN")
            for statement in statements(self.schema):
                self._writer.execute(statement)
            self._writer.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            self._writer.execute("COMMIT")
        stored = self.meta()
        for name, value in {**fingerprints, "version": VERSION}.items():
            if name != "matching" and stored.get(name) != value:
                named = ""
                if name == "signing" and self._config is not None and "settings" in stored:
                    named = self._config.signed_otherwise(json.loads(stored["settings"]))
                raise Failure(
                    Exit.GENERATION,
                    f"{self.path} was made with another {name} ({named or f'{stored.get(name)}, now {value}'}): start "
                    "with the settings and the minor version of Python that it was made with, name another --state, or "
                    "sign its texts again (serve migrate)",
                )
        if "matching" in fingerprints and stored.get("matching") != fingerprints["matching"]:
            logging.getLogger(__name__).warning(
                "%s was made with other settings of matching, or by another version: its verdicts stay as they are, "
                "and later documents are decided by the settings of now", self.path,
            )  # fmt: skip
            with suppress(sqlite3.OperationalError):  # on a full disk, the next start says it again
                self._writer.execute("UPDATE meta SET value = ? WHERE name = 'matching'", (fingerprints["matching"],))
        if self._config is not None:
            self._keep(self._config, stored)

    def _keep(self, config: Config, stored: Mapping[str, Any]) -> None:
        """Compare the signature of the constant texts with the stored one; store what a new log lacks."""
        now = {"settings": json.dumps(config.signing_settings), "texts": signature_of(config)}
        if stored.get("texts", now["texts"]) != now["texts"]:
            raise Failure(
                Exit.GENERATION, f"{self.path} {SIGNED_ELSEWHERE}, or sign its texts again (serve migrate)"
            )  # fmt: skip
        with suppress(sqlite3.OperationalError):  # a full disk takes them another time
            self._writer.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", now.items())

    def meta(self) -> dict[str, Any]:
        """Values that are stored once: fingerprints, ``places`` (the number of assigned places), ``stream_time``
        (microseconds), ``clock`` (``ArrivalClock.kept``)."""
        return meta_of(self._writer)

    def keep_clock(self, kept: str) -> None:
        """Store how the clock of the window stands, in the open transaction."""
        self._writer.execute("REPLACE INTO meta VALUES ('clock', ?)", (kept,))

    # Writing

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection, for the extra tables (``extra``)."""
        return self._writer

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run what is inside as one transaction: all of it is stored, or nothing.

        Raises:
            StoreFull: the disk is full; nothing has changed.
            sqlite3.Error: the outcome is unknown; the process must end.
        """
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.commit()
        except BaseException as error:
            self._dropped, self._progress = -1, words.Progress()
            has_no_room = isinstance(error, sqlite3.Error) and is_full(error)
            # After some errors SQLite has undone the transaction.
            if self._writer.in_transaction and (has_no_room or not isinstance(error, sqlite3.Error)):
                self._writer.execute("ROLLBACK")
            if has_no_room:
                raise StoreFull(str(error)) from error
            raise

    def keep_room(self) -> None:
        """Hold the room of removals, so that documents do not take it. Raises ``StoreFull`` if there is none."""
        if self._checkpoints.lacks_room():  # what is left belongs to removals
            self._writer.execute(f"PRAGMA busy_timeout = {_SHORT_MILLISECONDS}")
            try:
                if self._checkpoints.move(self._writer, "TRUNCATE"):
                    raise StoreFull("a reader holds back changes that need the room that is left")
            except (sqlite3.Error, OSError) as error:
                raise StoreFull(str(error)) from None
            finally:
                self._writer.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            self._checkpoints.is_full = False
        if not self._reserve.keep():
            raise StoreFull("the disk has no room for removals")

    @contextmanager
    def reserved_room(self) -> Iterator[None]:
        """Run what is inside, a removal, with the room that is held for it."""
        self._reserve.give_up()
        self.checkpoint()
        try:
            yield
        finally:
            self._reserve.keep()

    def append(
        self, rows: Sequence[StoredRow], texts: Sequence[tuple[int, str]], places: int, stream_time: int
    ) -> None:
        """Add rows and texts (with their places); ``places`` are assigned, and the stream has come to a time."""
        self.insert(rows)
        if texts:
            self._writer.executemany("INSERT INTO texts VALUES (?, ?)", texts)
        self._progress.add(self._writer, rows, places, stream_time)

    def follow(self, changes: KeptStories, texts: Mapping[int, str] = MappingProxyType({})) -> None:
        """Store what a step changed of the stories; ``texts`` are those of contents whose rows have left the log."""
        stories.store(self._writer, changes, texts)

    def stories(self) -> KeptStories:
        """Return the stories; what is damaged is left out."""
        return stories.load(self._writer)

    def insert(self, rows: Iterable[StoredRow]) -> None:
        """Add rows."""
        self._writer.executemany(INSERT, ((*row, checksum(row)) for row in rows))

    def expire(self, oldest: int, kept_from: int | None, rarity: Rarity | None = None) -> None:
        """Expire the rows with places below ``oldest``, the oldest document of the window. Those of a time
        (microseconds) from ``kept_from`` on stay readable, with ``None`` none. The counts of rarity are kept when the
        rows are gone."""
        self._progress.expire(self._writer, oldest)
        if rarity is not None:
            stories.keep_rarity(self._writer, rarity, oldest, self.meta()["places"])
        if kept_from is None:
            if oldest != self._dropped:  # else four tables are searched for nothing
                stories.expire(self._writer, oldest)
                self.drop(oldest)
                self._dropped = oldest
            return
        stories.expire(self._writer, oldest)
        expired = (self._oldest(), oldest)
        self._writer.execute(
            "UPDATE documents SET evidence = x'', checksum = NULL WHERE place >= ? AND place < ?", expired
        )
        self._writer.execute("INSERT OR REPLACE INTO meta VALUES ('oldest', ?)", (oldest,))
        self.drop(min(oldest, self.first_since(kept_from)))

    def first_since(self, time: int) -> int:
        """Return the place of the first row that is not older than a time (microseconds), or of the row behind the
        first ``_EXPIRE_ROWS_MAX``."""
        query = "SELECT place, time FROM documents ORDER BY place LIMIT ?"
        rows = self._writer.execute(query, (_EXPIRE_ROWS_MAX,)).fetchall()
        return next((place for place, at in rows if at >= time), rows[-1][0] + 1 if rows else 0)

    def drop(self, before: int) -> None:
        """Remove the rows with places below ``before``."""
        words.leave(self._writer, before)
        quotes.leave(self._writer, before)
        for table in ("documents", "texts"):
            self._writer.execute(f"DELETE FROM {table} WHERE place < ?", (before,))

    def _oldest(self) -> int:
        row = self._writer.execute("SELECT value FROM meta WHERE name = 'oldest'").fetchone()
        return row[0] if row else 0

    def erase(self, id_: bytes, before: int = PLACE_MAX) -> int:
        """Remove id, text and answer from every row of an id with a place below ``before``; returns their number."""
        stories_left = words.left(self._writer, id_, before)
        words.erase(self._writer, id_, before)
        name = erased_name()
        rows = "SELECT place FROM documents WHERE id = ? AND place < ?"
        self._writer.execute(f"DELETE FROM texts WHERE place IN ({rows})", (id_, before))
        erased = {"id": "?1", "said": "status", "gone": "1", "source": "NULL", "url": "NULL", "title": "NULL"}
        count = self._change(erased, "id = ?2 AND place < ?3", name, id_, before)
        for place in filter(None, (words.next_of(self._writer, cluster) for cluster in stories_left)):
            words.take_out(self._writer, place)
            self._change({"flags": f"flags | {LEADS}"}, "place = ?1", place)
            if place < words.entered(self._writer):
                words.enter(self._writer, place, place)
        return count

    def _change(self, changed: Mapping[str, str], condition: str, *values: object) -> int:
        """Change columns of rows, to expressions; returns the number of rows."""
        sums = ", ".join(changed.get(field, field) for field in FIELDS.split(", "))
        setting = ", ".join(f"{field} = {value}" for field, value in changed.items())
        query = f"UPDATE documents SET {setting}, checksum = checksum({sums}) WHERE {condition}"
        return self._writer.execute(query, values).rowcount

    def commit(self) -> None:
        """Make the transaction durable."""
        self._writer.execute("COMMIT")
        if self._owed:
            self.checkpoint()
        elif self._checkpoints.committed():
            with suppress(sqlite3.Error, OSError):  # the transaction is durable; the next checkpoint tries again
                self._checkpoints.move(self._writer)

    def checkpoint(self) -> None:
        """Move all changes to the database and empty the file of changes, which otherwise still holds erased data.

        If that fails, as on a full disk, the next commit tries again.
        """
        try:
            self._owed = self._checkpoints.move(self._writer, "TRUNCATE")
        except (sqlite3.Error, OSError) as error:
            self._owed = True
            logging.getLogger(__name__).warning(
                "erased data is still in the file of changes, the next commit tries again: %s", error
            )

    # Reading by the writer

    def row(self, place: int) -> StoredRow | None:
        """Return the row at a place, including rows of the open transaction."""
        values = self._writer.execute(f"SELECT {FIELDS} FROM documents WHERE place = ?", (place,)).fetchone()
        return StoredRow(*values) if values else None

    def latest(self, id_: bytes) -> tuple[StoredRow, str | None] | None:
        """Return the latest row of an id, with its text if texts are stored."""
        query = f"SELECT {FIELDS}, (SELECT text FROM texts t WHERE t.place = d.place) FROM documents d WHERE id = ?"
        values = self._writer.execute(f"{query} ORDER BY place DESC LIMIT 1", (id_,)).fetchone()
        return (StoredRow(*values[:-1]), values[-1]) if values else None

    def text(self, place: int) -> str | None:
        """Return the text of the version at a place if it is stored; that of a content of a story stays after its
        row."""
        query = (
            "SELECT coalesce((SELECT text FROM texts WHERE place = ?1), (SELECT text FROM contents WHERE place = ?1))"
        )
        (text,) = self._writer.execute(query, (place,)).fetchone()
        return None if text is None else str(text)

    def decided(self, id_: bytes, original: bytes) -> StoredRow | None:
        """Return the latest row of an id if its verdict names an original."""
        story = "SELECT id FROM stories s WHERE s.cluster = d.cluster"
        name = f"(SELECT id FROM documents o WHERE o.place = d.original), ({story})"
        query = f"SELECT {FIELDS} FROM documents d WHERE id = ? AND original NOTNULL AND coalesce({name}) = ?"
        values = self._writer.execute(f"{query} ORDER BY place DESC LIMIT 1", (id_, original)).fetchone()
        return StoredRow(*values) if values else None

    def contents(self, id_: bytes, first: int) -> list[bytes]:
        """Return the content hashes of the rows of an id from a place on."""
        query = "SELECT content FROM documents WHERE id = ? AND place >= ?"
        return [content for (content,) in self._writer.execute(query, (id_, first))]

    def rows(self, rarity: Rarity | None = None) -> Iterator[Columns]:
        """Yield what a restart reads of the window, some thousand rows at a time, each checked unless all pages were.
        Before the first one that stored counts lack, ``rarity`` resumes from these. Raises ``Failure`` of damage."""
        is_checked_here = not self._checkpoints.is_checked
        names = (*StoredRow._fields, "checksum") if is_checked_here else RESTORED
        fields = f"{FIELDS}, checksum" if is_checked_here else ", ".join(RESTORED)
        query = f"SELECT {fields} FROM documents WHERE place >= ? AND place < ? ORDER BY place"
        try:
            oldest, (counted, counts) = self._oldest(), stories.load_rarity(self._writer)
            for first, end in ((oldest, counted), (max(oldest, counted), PLACE_MAX)):
                if rarity is not None and counts is not None and first >= counted:
                    rarity.resume(counts)
                cursor = self._writer.execute(query, (first, end))
                while chunk := cursor.fetchmany(4096):
                    for place, *values, stored in chunk if is_checked_here else ():
                        if not is_sound(StoredRow(place, *values), stored):
                            raise damaged(self.path, f"the row of place {place} has another checksum")
                    yield dict(zip(names, zip(*chunk, strict=True), strict=True))
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, str(error)) from None

    def check_rest(self, on_damage: Callable[[], None]) -> None:
        """Begin to check every page of the file; a thread calls ``on_damage`` when ``damage`` has something to say."""
        self._checkpoints.check_rest(on_damage)

    @property
    def damage(self) -> Failure | None:
        """The damage that was found since the start."""
        return damaged_page(self.path, self._checkpoints.damaged) if self._checkpoints.damaged else None

    def close(self) -> None:
        """Close the log; another process may open it."""
        self._checkpoints.close(self._writer)
        self._lock.close()
