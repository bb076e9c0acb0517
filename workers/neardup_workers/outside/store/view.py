"""The view of a deployment on Kafka: the tables of the log, filled from verdicts and pairs that others have made.

Theory of operation. The place of a row is the *arrival number* of its verdict, which grows over all partitions of
``documents``. Verdicts name documents by their place in ``documents``, and the table ``numbers`` translates. If the
original of a cluster was never in the view, the cluster has the number of its first document that is (``lost``). Each
step is one transaction, together with the positions in the topics. So a restart goes on exactly where the last commit
was.

Rows leave from the old end when they are older than the window. Nothing else reads the view as state: it may be deleted
at any time, and is filled again from the topics.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from neardup.documents.document import Pair
from neardup.documents.ids import bare_ids, stored_id
from neardup.pairs.batches import MICROSECONDS
from neardup.stories.verdicts.fields import MESSAGE_FIELDS
from neardup.stories.verdicts.rule import REFUSED, REMOVED, STATUSES, UNCHANGED
from neardup_workers.outside.store.extra import words
from neardup_workers.outside.store.log import Log
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.store.rows import LATE, MORE, StoredRow, encoded_more
from neardup_workers.outside.topics.places import parse_place, place_of

# The fields of a verdict that name documents by their places in ``documents``.
_PLACES = tuple(field.name for field in MESSAGE_FIELDS if field.kind == "place")

_TABLES = """
CREATE TABLE numbers (document INTEGER PRIMARY KEY, place INTEGER NOT NULL);
CREATE INDEX numbers_place ON numbers (place);
CREATE TABLE lost (document INTEGER PRIMARY KEY, place INTEGER NOT NULL);
CREATE TABLE pairs (
    newer BLOB NOT NULL, older BLOB NOT NULL, similarity REAL NOT NULL, buckets INTEGER NOT NULL, time INTEGER NOT NULL,
    PRIMARY KEY (newer, older)
) WITHOUT ROWID;
CREATE INDEX pairs_older ON pairs (older);
CREATE INDEX pairs_time ON pairs (time);
CREATE TABLE positions (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
"""


class PairRow(NamedTuple):
    """A pair of the topic; ``time`` is the time of the newer document in microseconds."""

    newer: bytes
    older: bytes
    similarity: float
    buckets: int
    time: int


class View(Log):
    """The view in a folder, opened by its only writer. See ``Log`` for the arguments."""

    schema = Log.schema + _TABLES

    def add(self, lines: Sequence[tuple[int, Mapping[str, Any]]], *, separate: bool = False) -> list[StoredRow | int]:
        """Add verdicts, each a partition and its fields (``neardup_workers.outside.topics.verdicts``), in order of
        arrival, in the open transaction; a verdict that is there already is left out. ``separate``: the ids of the view
        are full ids.

        Returns for each verdict its row; for a removal the number of removed versions, 0 for a refusal.
        """
        added = [self._added(place_of(partition, line["offset"]), line, separate) for partition, line in lines]
        if lines:
            newest = {"places": lines[-1][1]["arrival"] + 1, "stream_time": max(_time(line) for _, line in lines)}
            query = "UPDATE meta SET value = max(coalesce(value, ?2), ?2) WHERE name = ?1"
            self._writer.executemany(query, newest.items())
        return added

    def _added(self, document: int, line: Mapping[str, Any], separate: bool) -> StoredRow | int:
        number, status = line["arrival"], STATUSES.index(line["status"])
        id_ = stored_id(str(line.get("id", "")), line.get("collection"), separate=separate)
        if status == REMOVED:
            self.remove_pairs(id_)
            return self.erase(id_, number)
        if status == REFUSED:
            return 0
        known = self._place(document)
        earlier = None if known is None else self.row(known)
        if earlier is not None:
            return earlier
        if line.get("judged"):
            self.remove_pairs(id_)
            self.erase(id_, number)
        self._name("numbers", document, number)
        named = {field: parse_place(line[field]) for field in _PLACES if field in line}
        fields = {**line, **dict.fromkeys(_PLACES), **{field: self._place(place) for field, place in named.items()}}
        if fields["cluster"] is None:
            fields["cluster"] = self._place(named["cluster"], "lost")
        if fields["cluster"] is None:
            fields["cluster"] = number
            self._name("lost", named["cluster"], number)
        previous = fields["previous"]
        before = None if status != UNCHANGED or previous is None else self.row(previous)
        answered = status if status != UNCHANGED else 0 if before is None else before.answered
        row = StoredRow(
            number, id_, _time(line), bytes.fromhex(line.get("content", "")), b"", status, answered, fields["cluster"],
            fields["original"], line.get("similarity"), fields["related"] if before is None else before.related,
            previous, 0, fields["matched"], LATE * line.get("late", False), None,
            line.get("source"), line.get("url"), line.get("title"),
            encoded_more({
                field.name: bool(fields.get(field.name)) if field.kind == "flag" else fields.get(field.name)
                for field in MORE
            }),
        )  # fmt: skip
        self.insert([row])
        words.enter(self._writer, row.place, row.place)
        return row

    def _place(self, document: int, table: str = "numbers") -> int | None:
        row = self._writer.execute(f"SELECT place FROM {table} WHERE document = ?", (document,)).fetchone()
        return row[0] if row else None

    def _name(self, table: str, document: int, place: int) -> None:
        self._writer.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", (document, place))

    def add_pairs(self, pairs: Iterable[PairRow]) -> None:
        """Add pairs in the open transaction; a pair of the same ids is replaced."""
        self._writer.executemany("INSERT OR REPLACE INTO pairs VALUES (?, ?, ?, ?, ?)", pairs)

    def remove_pairs(self, id_: bytes) -> None:
        """Remove the pairs of an id in the open transaction."""
        self._writer.execute("DELETE FROM pairs WHERE newer = ?1 OR older = ?1", (id_,))

    def drop_before(self, time: int) -> None:
        """Remove documents and pairs older than a time (microseconds) in the open transaction: documents from the old
        end, some thousand at a time."""
        first = self.first_since(time)
        if self._writer.execute("SELECT 1 FROM documents WHERE place < ?", (first,)).fetchone():
            self.drop(first)
            for table in ("numbers", "lost"):  # a cluster keeps its number as long as it has documents
                members = f"SELECT 1 FROM documents WHERE cluster = {table}.place"
                self._writer.execute(f"DELETE FROM {table} WHERE place < ? AND NOT EXISTS ({members})", (first,))
        self._writer.execute("DELETE FROM pairs WHERE time < ?", (time,))

    def positions(self, topic: str) -> dict[int, int]:
        """Return the offset of the next record of each partition."""
        query = "SELECT partition, position FROM positions WHERE topic = ?"
        return dict(self._writer.execute(query, (topic,)).fetchall())

    def move(self, topic: str, positions: Mapping[int, int]) -> None:
        """Store positions in the open transaction."""
        rows = [(topic, partition, position) for partition, position in positions.items()]
        self._writer.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", rows)


def _time(line: Mapping[str, Any]) -> int:
    """Return the time of a verdict in microseconds."""
    seconds: float = line.get("timestamp", 0)
    return round(seconds * MICROSECONDS)


class Latest(NamedTuple):
    """The latest version of an id: its place in the view, its place in ``documents``, its content, its cluster."""

    place: int
    document: int
    content: bytes
    cluster: int


class ViewReader(StoreReader):
    """Reads a view. Any number of threads may share one."""

    def latest(self, id_: bytes) -> Latest | None:
        """Return the latest version of an id, ``None`` for an unknown id."""
        query = "SELECT d.place, document, content, cluster FROM documents d JOIN numbers n ON n.place = d.place"
        with self._connected() as connection:
            row = connection.execute(f"{query} WHERE id = ? ORDER BY d.place DESC LIMIT 1", (id_,)).fetchone()
            return None if row is None else Latest(*row)

    def near(self, id_: bytes) -> tuple[Pair, ...] | None:
        """Return the pairs of an id, with earlier and later documents, the most similar first; ``None`` for an unknown
        id."""
        with self._connected() as connection:
            if connection.execute("SELECT 1 FROM documents WHERE id = ?", (id_,)).fetchone() is None:
                return None
            query = "SELECT * FROM pairs WHERE newer = ?1 OR older = ?1 ORDER BY similarity DESC, time DESC"
            return tuple(self._pair(row, id_) for row in connection.execute(query, (id_,)))

    def earlier(self, id_: bytes) -> tuple[Pair, ...]:
        """Return the pairs of an id with earlier documents, the most similar first."""
        with self._connected() as connection:
            query = "SELECT * FROM pairs WHERE newer = ? ORDER BY similarity DESC, time DESC"
            return tuple(self._pair(row, id_) for row in connection.execute(query, (id_,)))

    def _pair(self, row: sqlite3.Row, id_: bytes) -> Pair:
        ids = [one.decode() for one in (row["older"] if row["newer"] == id_ else row["newer"], id_)]
        older, newer = bare_ids(ids) if self.separate else ids
        return Pair(older, newer, row["similarity"], row["buckets"])
