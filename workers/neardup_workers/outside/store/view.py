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
from neardup.documents.ids import bare_ids
from neardup.stories.sources.names import Shown
from neardup.stories.verdicts.fields import Field
from neardup.stories.verdicts.rule import REFUSED, REMOVED, UNCHANGED
from neardup_workers.outside.store.extra import words
from neardup_workers.outside.store.log import Log
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.store.rows import LATE, MORE, StoredRow, encoded_more

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


class TopicVerdict(NamedTuple):
    """A verdict of the topic.

    ``number`` is its arrival number, ``document`` its place in ``documents``. ``status`` is a number of ``STATUSES``,
    ``time`` in microseconds. ``fields`` are those of ``MESSAGE_FIELDS`` that it has; they name places in ``documents``.
    ``shown`` are source, URL and title. A removal has an id alone, a refusal nothing. An id is a full id if there are
    collections.
    """

    number: int
    document: int
    status: int
    id: bytes
    time: int
    content: bytes
    fields: Mapping[str, Any]
    shown: Shown


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

    def add(self, verdicts: Sequence[TopicVerdict]) -> list[StoredRow | int]:
        """Add verdicts in the open transaction; a verdict that is there already is left out.

        Returns:
            For each verdict its row; for a removal the number of removed versions, 0 for a refusal.
        """
        added = [self._added(verdict) for verdict in verdicts]
        if verdicts:
            times = [verdict.time for verdict in verdicts]
            self._writer.execute(
                "UPDATE meta SET value = max(coalesce(value, ?1), ?1) WHERE name = 'places'", (verdicts[-1].number + 1,)
            )
            self._writer.execute(
                "UPDATE meta SET value = max(coalesce(value, ?1), ?1) WHERE name = 'stream_time'", (max(times),)
            )
        return added

    def _added(self, verdict: TopicVerdict) -> StoredRow | int:
        if verdict.status == REMOVED:
            self.remove_pairs(verdict.id)
            return self.erase(verdict.id, verdict.number)
        if verdict.status == REFUSED:
            return 0
        known = self._place(verdict.document)
        earlier = None if known is None else self.row(known)
        if earlier is not None:
            return earlier
        fields = verdict.fields
        original, previous = self._place(fields.get("original")), self._place(fields.get("previous"))
        before = None if verdict.status != UNCHANGED or previous is None else self.row(previous)
        self._name("numbers", verdict.document, verdict.number)
        cluster = self._place(fields["cluster"])
        if cluster is None:
            cluster = self._place(fields["cluster"], "lost")
        if cluster is None:
            cluster = verdict.number
            self._name("lost", fields["cluster"], cluster)
        said = verdict.status if verdict.status != UNCHANGED else 0 if before is None else before.said
        row = StoredRow(
            verdict.number, verdict.id, verdict.time, verdict.content, b"", verdict.status, said, cluster, original,
            fields.get("similarity"), self._place(fields.get("related")) if before is None else before.related,
            previous, 0, self._place(fields.get("matched")), LATE * fields.get("late", False), None, *verdict.shown,
            encoded_more({field.name: self._more(field, fields.get(field.name)) for field in MORE}),
        )  # fmt: skip
        self.insert([row])
        words.enter(self._writer, row.place, row.place)
        return row

    def _more(self, field: Field, value: Any) -> Any:
        return self._place(value) if field.kind == "place" else bool(value) if field.kind == "flag" else value

    def _place(self, document: int | None, table: str = "numbers") -> int | None:
        query = f"SELECT place FROM {table} WHERE document = ?"
        row = None if document is None else self._writer.execute(query, (document,)).fetchone()
        return row[0] if row else None

    def _name(self, table: str, document: int | None, place: int) -> None:
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


class ViewReader(StoreReader):
    """Reads a view. Any number of threads may share one."""

    def size(self) -> int:
        """Return about how many documents the view holds: the distance of the newest from the oldest place."""
        with self._connected() as connection:
            first, last = connection.execute("SELECT min(place), max(place) FROM documents").fetchone()
            return 0 if last is None else last - first + 1

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
