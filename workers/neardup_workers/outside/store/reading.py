"""Queries of the log on separate connections: readers see the last commit and never wait for the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from neardup.documents.ids import split_id
from neardup.pairs.batches import MICROSECONDS
from neardup.pairs.json_lines import named_collection
from neardup.stories.verdicts.rule import UPDATE
from neardup_workers.outside.store.answers import verdict_of
from neardup_workers.outside.store.extra import desk, identity, quotes, sources
from neardup_workers.outside.store.extra.newest import Story, newest_stories
from neardup_workers.outside.store.listing import Filters, PageCursor, list_documents, list_stories

P = ParamSpec("P")
T = TypeVar("T")
# Maximum number of listed members of a cluster.
MEMBERS_MAX = 1000
# A list counts the sources of so many members of a cluster: those of 24 clusters of ten thousand would take .26 s.
SOURCES_OF_MAX = 1000
# Lists show so many characters of a text, so many other members of a cluster and so many of its newest updates. A strip
# has so many spans, and counts so many members at most.
_PREVIEW_CHARACTERS, _OTHERS, _UPDATES, _STRIP_SPANS, _STRIP_MEMBERS = 240, 4, 20, 48, 4096
_MEMBERS_OF = "cluster = ? AND status < 2 AND gone = 0"
_ANSWER = """
    SELECT d.place, d.id, d.time, d.status, d.said AS answered, d.cluster, d.similarity, d.related, d.previous,
        d.matched, d.flags, d.date, d.source, d.url, d.title, d.more, coalesce(o.id, nullif(s.id, d.id)) AS original_id,
        o.gone AS original_gone, d.place < (SELECT value FROM meta WHERE name = 'oldest') AS expired
    FROM documents d LEFT JOIN documents o ON o.place = d.original
    LEFT JOIN stories s ON d.original NOTNULL AND s.cluster = d.cluster
"""


class StoreReader:
    """Reads the log at ``path``. Any number of threads may share one. ``separate``: its ids are full ids
    (``neardup.documents.ids``)."""

    def __init__(self, path: Path, *, separate: bool = False) -> None:
        self.path, self.separate = path, separate

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("BEGIN")  # all queries see one commit
            yield connection
        finally:
            connection.close()

    def ask(self, query: Callable[Concatenate[sqlite3.Connection, P], T], *values: P.args, **named: P.kwargs) -> T:
        """Return what a query of ``extra`` returns about the last commit."""
        with self._connected() as connection:
            return query(connection, *values, **named)

    def document(self, id_: bytes) -> list[dict[str, Any]]:
        """Return the versions of an id in the window, the latest first; empty for an unknown id."""
        with self._connected() as connection:
            rows = connection.execute(f"{_ANSWER} WHERE d.id = ? ORDER BY d.place DESC", (id_,))
            return [self._version(row) for row in rows]

    def _version(self, row: sqlite3.Row) -> dict[str, Any]:
        return version(row, separate=self.separate)

    def documents(
        self, order: str, limit: int, filters: Filters, after: PageCursor | None
    ) -> tuple[list[dict[str, Any]], PageCursor | None]:
        """Return documents in an order of ``DOCUMENT_ORDERS``, and where the next page begins."""
        with self._connected() as connection:
            filters = filters._replace(separate=self.separate)
            rows, follows = list_documents(connection, _ANSWER, order, limit, filters, after)
            return [self._version(row) for row in rows], follows

    def clusters(
        self, order: str, limit: int, filters: Filters, after: PageCursor | None = None, *, strips: bool = False
    ) -> tuple[list[dict[str, Any]], PageCursor | None]:
        """Return clusters in an order of ``STORY_ORDERS``, and where the next page begins; with the strips of their
        arrivals if requested."""
        with self._connected() as connection:
            filters = filters._replace(separate=self.separate)
            rows, follows = list_stories(connection, order, limit, filters, after)
            strips_of = [{"strip": _strip(connection, row)} if strips else {} for row in rows]
            stories = [_cluster(connection, row, separate=self.separate, looked_at=SOURCES_OF_MAX) for row in rows]
            return [one | strip for one, strip in zip(stories, strips_of, strict=True)], follows

    def cluster(self, number: int, after: int = -1, limit: int = MEMBERS_MAX) -> dict[str, Any] | None:
        """Return a cluster with its first ``limit`` members behind the place ``after`` in order of arrival, with
        ``next``, the place to continue behind, and with its newest updates, the newest first; ``None`` if the cluster
        does not exist."""
        with self._connected() as connection:
            row = connection.execute("SELECT * FROM clusters WHERE cluster = ?", (number,)).fetchone()
            if row is None:
                return None
            members_of = "d.cluster = ? AND d.place > ? AND d.status < 2 AND d.gone = 0"
            query = f"{_ANSWER} WHERE {members_of} ORDER BY d.place LIMIT ?"
            members = [self._version(member) for member in connection.execute(query, (number, after, limit + 1))]
            query = f"{_ANSWER} WHERE d.cluster = ? AND d.status = ? AND d.gone = 0 ORDER BY d.place DESC LIMIT ?"
            updates = list(map(self._version, connection.execute(query, (number, UPDATE, _UPDATES))))
            quotes.add_to([*members[:limit], *updates], connection, separate=self.separate)
            return {
                **_cluster(connection, row, separate=self.separate, looked_at=-1),
                "strip": _strip(connection, row),
                "members": members[:limit],
                "next": members[limit - 1]["place"] if len(members) > limit else None,
                "updates": updates,
            }

    def after(self, place: int, limit: int) -> list[dict[str, Any]]:
        """Return the first ``limit`` verdicts behind a place, in order of places, without removed documents."""
        with self._connected() as connection:
            rows = connection.execute(
                f"{_ANSWER} WHERE d.place > ? AND d.gone = 0 ORDER BY d.place LIMIT ?", (place, limit)
            )
            return [self._version(row) for row in rows]

    def size(self) -> int:
        """Return about how many documents there are: the distance of the newest from the oldest place."""
        with self._connected() as connection:
            first, last = connection.execute("SELECT min(place), max(place) FROM documents").fetchone()
            return 0 if last is None else last - first + 1

    def last(self) -> int:
        """Return the place of the newest document, -1 without one."""
        with self._connected() as connection:
            newest: int | None = connection.execute("SELECT max(place) FROM documents").fetchone()[0]
            return -1 if newest is None else newest

    def newest_stories(
        self, size_min: int, sources_min: int, limit: int, collection: str | None = None
    ) -> tuple[str, list[Story]]:
        """Return the name of the store, and the stories of enough documents and sources that grew last, without those
        that are muted; of a collection if it is named."""
        filters = Filters(size_min=size_min, collection=collection, separate=self.separate)
        with self._connected() as connection:
            stories = newest_stories(connection, filters, sources_min, limit)
            if self.separate:
                stories = [
                    story._replace(members=tuple(one._replace(id=split_id(one.id)[1]) for one in story.members))
                    for story in stories
                ]
            return identity.read(connection), stories

    def version_texts(self, places: Sequence[int]) -> list[str | None] | None:
        """Return the texts of the versions at places, ``None`` for one that is not stored; or ``None`` if a place has
        no version. The text of a content of a story is there after its row has left."""
        content = "FROM contents WHERE place = ?1"
        query = f"SELECT coalesce((SELECT text FROM texts WHERE place = ?1), (SELECT text {content}))"
        known = f"SELECT 1 FROM documents WHERE place = ?1 AND gone = 0 UNION ALL SELECT 1 {content}"
        with self._connected() as connection:
            if not all(connection.execute(known, (place,)).fetchone() for place in places):
                return None
            return [connection.execute(query, (place,)).fetchone()[0] for place in places]

    def collection_at(self, place: int) -> str | None:
        """Return the collection of the version at a place, empty without one; ``None`` where ids have none, or if there
        is no row."""
        if not self.separate:
            return None
        with self._connected() as connection:
            row = connection.execute("SELECT id FROM documents WHERE place = ? AND gone = 0", (place,)).fetchone()
            return None if row is None else _named(row["id"], separate=True)[0] or ""

    def previews(self, places: list[int]) -> dict[int, dict[str, str | None]]:
        """Return the first words of the documents at places, as far as their texts are stored, and the sources of the
        originals that their verdicts name."""
        marks = ", ".join("?" * len(places))
        query = f"""
            SELECT place, substr(text, 1, {_PREVIEW_CHARACTERS}) AS preview,
                (SELECT source FROM documents o WHERE o.place = d.original AND o.gone = 0) AS original_source
            FROM documents d LEFT JOIN texts USING (place) WHERE place IN ({marks})
        """
        with self._connected() as connection:
            rows = connection.execute(query, places).fetchall()
            return {place: {"preview": preview, "original_source": source} for place, preview, source in rows}

    def source_totals(self, limit: int) -> list[tuple[str | None, int, int]]:
        """Return name, documents, and duplicates of other ids of the same source, of the largest sources; and those of
        all together, with the name ``None``."""
        with self._connected() as connection:
            return sources.totals(connection, limit)

    def repeating(self, since_hour: int) -> list[dict[str, Any]]:
        """Return the hours, from one since the epoch on, in which a source repeated itself."""
        with self._connected() as connection:
            return sources.repeating(connection, since_hour)


def _named(id_: bytes, *, separate: bool) -> tuple[str | None, str]:
    """Return the collection and the id of a row."""
    return split_id(id_.decode()) if separate else (None, id_.decode())


def version(row: sqlite3.Row, *, separate: bool = False) -> dict[str, Any]:
    """Return the verdict of one document in the form of the answers."""
    original, (collection, id_) = row["original_id"], _named(row["id"], separate=separate)
    hides = original is None or row["original_gone"]
    return {
        "id": id_,
        **verdict_of(row, None if hides else _named(original, separate=separate)[1]),
        **({"expired": True} if row["expired"] else {}),
        **named_collection(collection),
    }


def _cluster(connection: sqlite3.Connection, row: sqlite3.Row, *, separate: bool, looked_at: int) -> dict[str, Any]:
    """Return a cluster; the sources of so many of its members are counted, -1 for all."""
    query = f"""
        SELECT id, source, url, title,
            (SELECT substr(text, 1, {_PREVIEW_CHARACTERS}) FROM texts t WHERE t.place = d.place) AS preview
        FROM documents d WHERE {_MEMBERS_OF} ORDER BY place LIMIT {_OTHERS + 1}
    """
    first = f"SELECT source, coalesce(date, time) AS date FROM documents WHERE {_MEMBERS_OF} ORDER BY place LIMIT ?"
    looked = f"SELECT count(DISTINCT source) AS sources, min(date) AS oldest, max(date) AS newest FROM ({first})"
    found = connection.execute(looked, (row["cluster"], looked_at)).fetchone()
    dates = [None if found[name] is None else found[name] / MICROSECONDS for name in ("oldest", "newest")]
    named = connection.execute(query, (row["cluster"],)).fetchall()
    ids = [_named(one["id"], separate=separate) for one in named]
    head = connection.execute("SELECT gone, related FROM documents WHERE place = ?", (row["cluster"],)).fetchone()
    mark = desk.mark_of(connection, row["cluster"])
    return {
        "cluster": row["cluster"],
        "size": row["size"],
        "representative": ids[0][1] if ids else None,
        **{name: named[0][name] if named else None for name in ("preview", "source", "url", "title")},
        "others": [id_ for _, id_ in ids[1:]],
        "other_sources": [one["source"] for one in named[1:]],
        "sources": found["sources"],
        "original_removed": bool(head and head["gone"]),
        "related": head["related"] if head else None,
        "first_time": row["first_time"] / MICROSECONDS,
        "last_time": row["last_time"] / MICROSECONDS,
        "first_date": dates[0],
        "last_date": dates[1],
        "muted": mark.muted,
        "followed": mark.follow is not None,
        **named_collection(ids[0][0] if ids else None),
    }


def _strip(connection: sqlite3.Connection, row: sqlite3.Row) -> list[int]:
    """Return how many members arrived in each of equal spans from the first time to the last. Of a large cluster, every
    n-th place counts."""
    first, last = row["first_time"], row["last_time"]
    every = row["size"] // _STRIP_MEMBERS + 1
    query = f"""
        SELECT min((time - ?) * {_STRIP_SPANS} / ?, {_STRIP_SPANS - 1}) AS span, count(*) AS members FROM documents
        WHERE {_MEMBERS_OF} AND place % ? = 0 GROUP BY span
    """
    strip = [0] * _STRIP_SPANS
    for span, members in connection.execute(query, (first, max(last - first, 1), row["cluster"], every)):
        strip[span] = members * every
    return strip
