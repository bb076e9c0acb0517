"""Queries of the log on separate connections: readers see the last commit and never wait for the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stream.batches import MICROSECONDS
from stream.verdicts.rule import STATUSES

ORDERS = {"size": "size DESC, cluster", "recent": "last_place DESC"}
# Maximum number of listed members of a cluster.
MEMBERS_MAX = 1000
_ANSWER = """
    SELECT d.place, d.id, d.time, d.status, d.said, d.cluster, d.similarity, d.related, d.previous, o.id AS original_id,
        o.gone AS original_gone, d.place < (SELECT value FROM meta WHERE name = 'oldest') AS expired
    FROM documents d LEFT JOIN documents o ON o.place = d.original
"""


class Reader:
    """Reads the log at ``path``. Any number of threads may share one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            connection.close()

    def document(self, id_: bytes) -> list[dict[str, Any]]:
        """Return the versions of an id in the window, the latest first; empty for an unknown id."""
        with self._connected() as connection:
            rows = connection.execute(f"{_ANSWER} WHERE d.id = ? ORDER BY d.place DESC", (id_,))
            return [version(row) for row in rows]

    def clusters(self, order: str, limit: int, size_min: int) -> list[dict[str, Any]]:
        """Return the clusters of at least ``size_min`` documents, in an order of ``ORDERS``."""
        with self._connected() as connection:
            query = f"SELECT * FROM clusters WHERE size >= ? ORDER BY {ORDERS[order]} LIMIT ?"
            return [_cluster(connection, row) for row in connection.execute(query, (size_min, limit)).fetchall()]

    def cluster(self, number: int) -> dict[str, Any] | None:
        """Return a cluster with its first ``MEMBERS_MAX`` members in order of arrival; ``None`` if it does not
        exist."""
        with self._connected() as connection:
            row = connection.execute("SELECT * FROM clusters WHERE cluster = ?", (number,)).fetchone()
            if row is None:
                return None
            query = f"{_ANSWER} WHERE d.cluster = ? AND d.status < 2 AND d.gone = 0 ORDER BY d.place LIMIT ?"
            members = [version(found) for found in connection.execute(query, (number, MEMBERS_MAX))]
            related = connection.execute("SELECT related FROM documents WHERE place = ?", (number,)).fetchone()
            return {
                **_cluster(connection, row),
                "members": members,
                "related": related["related"] if related else None,
            }

    def after(self, place: int, limit: int) -> list[dict[str, Any]]:
        """Return the first ``limit`` verdicts behind a place, in order of places, without removed documents."""
        with self._connected() as connection:
            rows = connection.execute(
                f"{_ANSWER} WHERE d.place > ? AND d.gone = 0 ORDER BY d.place LIMIT ?", (place, limit)
            )
            return [version(row) for row in rows]

    def texts(self, ids: list[bytes]) -> list[str | None]:
        """Return the texts of the latest versions of ids, ``None`` if no text is stored."""
        query = "SELECT text FROM texts WHERE place = (SELECT max(place) FROM documents WHERE id = ?)"
        with self._connected() as connection:
            found = [connection.execute(query, (id_,)).fetchone() for id_ in ids]
        return [row["text"] if row else None for row in found]


def version(row: sqlite3.Row) -> dict[str, Any]:
    """Return the verdict of one document in the form of the answers."""
    original = row["original_id"]
    return {
        "id": row["id"].decode(),
        "status": STATUSES[row["said"]],
        "duplicate_of": None if original is None or row["original_gone"] else original.decode(),
        "similarity": row["similarity"],
        "cluster": row["cluster"],
        "related": row["related"],
        "previous": row["previous"],
        "place": row["place"],
        "repeated": STATUSES[row["status"]] == "unchanged",
        "time": row["time"] / MICROSECONDS,
        **({"expired": True} if row["expired"] else {}),
    }


def _cluster(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    query = "SELECT id FROM documents WHERE cluster = ? AND status < 2 AND gone = 0 ORDER BY place LIMIT 1"
    first = connection.execute(query, (row["cluster"],)).fetchone()
    head = connection.execute("SELECT gone FROM documents WHERE place = ?", (row["cluster"],)).fetchone()
    return {
        "cluster": row["cluster"],
        "size": row["size"],
        "representative": first["id"].decode() if first else None,
        "original_removed": bool(head and head["gone"]),
        "first_time": row["first_time"] / MICROSECONDS,
        "last_time": row["last_time"] / MICROSECONDS,
    }
