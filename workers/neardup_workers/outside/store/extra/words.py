"""The words of stories: an index of SQLite (FTS5) of the documents that have a title, and of kept ones with a text.

It has ids, sources and titles of all documents of a story, and the stored texts of its originals and updates, at most
``CHARACTERS`` of each; the copies of a story say nearly the same. If the first document of a story is removed, the next
one *leads* the story (``LEADS``), and its text is entered. A word is what stands between spaces and punctuation, in
lower case and without accents. The index stores which document has which word, and neither positions of words nor
texts. An entry is removed with the words that it was made of, so a document is taken out of the index before its words
leave the log.

Entries had ``CHARACTERS_BEFORE`` of a text. Documents below the place ``whole`` in ``meta`` keep such
entries until they leave the window, so a store from then opens at once.

A document *waits* for its entry until ``WAITING_MAX`` do: SQLite writes a part of the index for each COMMIT that enters
something, so an entry alone costs as much as many. Those that wait have the places from ``entered`` on, in ``meta``; a
search reads them. A store without that value lets none wait. With it ``places`` and ``stream_time`` are stored, which
follow from the rows meanwhile (``meta_of``).

A removed entry may stay in a file until SQLite merges its parts. For erased texts that is too long: SQLite from 3.42 on
removes it at once (``secure-delete``), and an older one merges the whole index then.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence

from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, UPDATE
from neardup_workers.outside.store.rows import LEADS, PLACE_MAX, StoredRow

# An article is whole; a book of megabytes would hold up a step.
CHARACTERS, CHARACTERS_BEFORE = 100_000, 2000
_WHOLE = "coalesce((SELECT value FROM meta WHERE name = 'whole'), d.place + 1)"
# So many documents wait at most for their entries.
WAITING_MAX = 16
_STORE = "REPLACE INTO meta VALUES ('places', ?), ('stream_time', ?), ('entered', ?)"
# A search regards so many documents at most, the newest ones.
MATCHES_MAX = 100_000
# The documents of an entry whose place is not the number of their story.
OF_OTHERS = f"(status = {UPDATE} OR (status = {DUPLICATE} AND (title NOT NULL OR flags & {LEADS})))"
TABLES = f"""
DROP TABLE IF EXISTS words;
DROP INDEX IF EXISTS documents_updates;
CREATE VIRTUAL TABLE headlines USING fts5 (text, content = '', detail = none, columnsize = 0, tokenize = 'ascii');
CREATE INDEX documents_joined ON documents (place, cluster) WHERE {OF_OTHERS};
CREATE INDEX IF NOT EXISTS documents_source ON documents (source, cluster) WHERE source NOT NULL;
"""
_SECURE = sqlite3.sqlite_version_info >= (3, 42)
_KEPT = f"(d.status IN ({ORIGINAL}, {UPDATE}) OR (d.status = {DUPLICATE} AND d.flags & {LEADS}))"
# Letters of scripts without spaces: each is a word of its own.
_ALONE = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff])"
)
# Accents of Latin, Greek and Cyrillic letters, vowel points of Hebrew and Arabic, and what stretches Arabic letters.
_POINTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0640\u064b-\u065f\u0670]+")
# Spaces and punctuation beyond ASCII.
_BETWEEN = re.compile(
    "[\u0080-\u00bf\u00d7\u00f7\u055a-\u055f\u0589\u05be\u05f3\u05f4\u060c\u061b-\u061f\u066a-\u066d\u06d4"
    "\u0964\u0965\u1361-\u1368\u2000-\u206f\u20a0-\u20bf\u2190-\u2bff\u2e00-\u2e7f\u3000-\u303f\ufe10-\ufe6f"
    "\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
)
# The words that SQLite's tokenizer ``ascii`` makes: every sign beyond ASCII is a letter for it.
_WORD = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")
# The last word of a search may be the beginning of one. Shorter beginnings have too many ends.
_BEGINNING_MIN = 3


def fill(writer: sqlite3.Connection) -> None:
    """Enter the documents of a window, in the open transaction."""
    if _SECURE:
        writer.execute("INSERT INTO headlines (headlines, rank) VALUES ('secure-delete', 1)")
    writer.execute("DELETE FROM meta WHERE name = 'entered'")
    writer.execute("REPLACE INTO meta VALUES ('whole', 0)")
    enter(writer, 0)


def continue_whole(writer: sqlite3.Connection) -> None:
    """Enter whole texts from the next document on, in a store whose entries have the begins of texts."""
    if not writer.execute("SELECT 1 FROM meta WHERE name = 'whole'").fetchone():
        writer.execute("INSERT INTO meta SELECT 'whole', coalesce(max(place) + 1, 0) FROM documents")


def entered(connection: sqlite3.Connection) -> int:
    """Return the place from which on documents wait."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'entered'").fetchone()
    return row[0] if row else PLACE_MAX


def enter(writer: sqlite3.Connection, first: int, last: int = PLACE_MAX) -> None:
    """Enter the documents of places, in the open transaction."""
    entries = _entries(writer, "d.place BETWEEN ? AND ?", first, last)
    writer.executemany("INSERT INTO headlines (rowid, text) VALUES (?, ?)", entries)


class Progress:
    """How far a log is: the place below which words are entered, and what is stored with it."""

    def __init__(self) -> None:
        self._entered, self._stored = -1, PLACE_MAX  # not known; the places that ``meta`` has
        self._now = (0, 0)

    def add(self, writer: sqlite3.Connection, rows: Sequence[StoredRow], places: int, stream_time: int) -> None:
        """Enter what has waited, after the rows of a step; so many ``places`` are assigned."""
        is_known, self._now = self._entered >= 0, (places, stream_time)
        if not is_known:
            self._entered = min(entered(writer), rows[0].place)
        if is_full := rows[-1].place >= self._entered + WAITING_MAX - 1:
            enter(writer, self._entered)
            self._entered = rows[-1].place + 1
        if is_full or not is_known:
            self._store(writer)

    def expire(self, writer: sqlite3.Connection, oldest: int) -> None:
        """Store what follows from rows below a place, before they leave."""
        if oldest > self._stored:
            self._store(writer)

    def _store(self, writer: sqlite3.Connection) -> None:
        writer.execute(_STORE, (*self._now, self._entered))
        self._stored = self._now[0]


def leave(writer: sqlite3.Connection, before: int) -> None:
    """Take out the documents below a place, in the open transaction."""
    _take_out(writer, "d.place < ?", before)


def erase(writer: sqlite3.Connection, id_: bytes, before: int) -> None:
    """Take out the documents of an id below a place, also of the file, in the open transaction."""
    if _take_out(writer, "d.id = ? AND d.place < ?", id_, before) and not _SECURE:
        writer.execute("INSERT INTO headlines (headlines) VALUES ('optimize')")


def left(writer: sqlite3.Connection, id_: bytes, before: int) -> list[int]:
    """Return the stories that lose the document that leads them with the removal of an id below a place."""
    leads = f"(status = {ORIGINAL} OR (status = {DUPLICATE} AND flags & {LEADS}))"
    query = f"SELECT DISTINCT cluster FROM documents WHERE id = ? AND place < ? AND gone = 0 AND {leads}"
    return [cluster for (cluster,) in writer.execute(query, (id_, before))]


def next_of(writer: sqlite3.Connection, cluster: int) -> int | None:
    """Return the place of the first document of a story that was not removed; ``None`` if there is none."""
    query = "SELECT place FROM documents WHERE cluster = ? AND gone = 0 AND status = ? ORDER BY place LIMIT 1"
    row = writer.execute(query, (cluster, DUPLICATE)).fetchone()
    return row[0] if row else None


def take_out(writer: sqlite3.Connection, place: int) -> None:
    """Take out the document of a place, in the open transaction."""
    _take_out(writer, "d.place = ?", place)


def query_of(text: str) -> str | None:
    """Return what a person types as a query: every word must be there. ``None`` without a word."""
    words, is_beginning = _asked(text)
    return " ".join(f'"{word}"' for word in words) + "*" * is_beginning if words else None


def waiting(connection: sqlite3.Connection, text: str) -> list[int]:
    """Return the places of the documents that wait and have what a person types, as ``query_of`` means it."""
    words, is_beginning = _asked(text)
    *others, last = map(str.lower, words)
    found = list[int]()
    for place, said in _entries(connection, "d.place >= ?", entered(connection)):
        own = set(_WORD.findall(said.lower()))
        has_last = last in own or (is_beginning and any(word.startswith(last) for word in own))
        if has_last and own.issuperset(others):
            found.append(place)
    return found


def _asked(text: str) -> tuple[list[str], bool]:
    """Return the words of a search, and whether the last one may be the beginning of one."""
    spaced = _spaced(text)
    words = _WORD.findall(spaced)
    return words, bool(words) and len(words[-1]) >= _BEGINNING_MIN and spaced.endswith(words[-1])


def _take_out(writer: sqlite3.Connection, condition: str, *values: object) -> bool:
    entries = _entries(writer, f"{condition} AND d.place < ?", *values, entered(writer))  # who waits has no entry
    query = "INSERT INTO headlines (headlines, rowid, text) VALUES ('delete', ?, ?)"
    return writer.executemany(query, entries).rowcount > 0


def _entries(writer: sqlite3.Connection, condition: str, *values: object) -> Iterator[tuple[int, str]]:
    """Yield place and words of the documents that have an entry; they are read before the first changes."""
    characters = f"CASE WHEN d.place < {_WHOLE} THEN {CHARACTERS_BEFORE} ELSE {CHARACTERS} END"
    query = (
        f"SELECT d.place, d.id, d.source, d.title, CASE WHEN {_KEPT} THEN substr(t.text, 1, {characters}) END AS kept "
        f"FROM documents d LEFT JOIN texts t USING (place) WHERE {condition} "
        f"AND d.status IN ({ORIGINAL}, {DUPLICATE}, {UPDATE}) AND (kept NOT NULL OR d.title NOT NULL)"
    )
    for place, id_, *said in writer.execute(query, values):
        yield place, _spaced(" ".join((id_.decode(errors="replace"), *(one for one in said if one))))


def _spaced(text: str) -> str:
    """Return a text without accents, and with ASCII alone between its words."""
    if text.isascii():
        return text
    plain = _POINTS.sub("", unicodedata.normalize("NFKD", text).casefold())
    return _ALONE.sub(r" \1 ", _BETWEEN.sub(" ", plain))
