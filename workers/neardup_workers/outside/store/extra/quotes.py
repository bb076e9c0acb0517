"""Which documents quote which, where the scheme knows what texts share: the newer one says it when it is added.

A document names the documents of other stories that it shares most with, and each of them is named by those that quote
it. Rows hold places alone, so a removal leaves nothing to read: what is removed is named no more, as what is hidden.
They leave with the older document.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from neardup.documents.document import Pair
from neardup.documents.ids import split_id, stored_id
from neardup_workers.outside.store.extra.desk import MUTED
from neardup_workers.outside.store.rows import StoredRow

TABLES = """
CREATE TABLE quotes (
    newer INTEGER NOT NULL, older INTEGER NOT NULL, relation TEXT NOT NULL, PRIMARY KEY (newer, older)
) WITHOUT ROWID;
CREATE INDEX quotes_older ON quotes (older, newer);
"""
# A document names so many others, and is named by so many, the newest ones.
QUOTES_MAX = 8
_LATEST = "SELECT place, cluster FROM documents WHERE id = ?2 AND place < ?1 ORDER BY place DESC LIMIT 1"
_INSERT = f"INSERT OR IGNORE INTO quotes SELECT ?1, place, ?3 FROM ({_LATEST}) WHERE cluster <> ?4"
_NAMED = f"""
    SELECT d.id, d.cluster, d.source, d.url, d.title, q.relation FROM quotes q JOIN documents d ON d.place = q.{{other}}
    WHERE q.{{one}} = ? AND d.gone = 0 AND d.cluster NOT IN ({MUTED}) ORDER BY d.place DESC LIMIT ?
"""


def store(
    writer: sqlite3.Connection, rows: Sequence[StoredRow], pairs: Sequence[Sequence[Pair]], *, separate: bool
) -> None:
    """Store what the documents of a step quote, in its open transaction; their rows are stored. The pairs of each have
    the document as the newer one, the most similar first; ``separate``: the ids of rows are full ids."""
    for row, pairs_of in zip(rows, pairs, strict=True):
        quoted = [(pair, pair.relation) for pair in pairs_of if pair.relation is not None and pair.older != pair.newer]
        for pair, relation in quoted[:QUOTES_MAX]:
            older = stored_id(pair.older, pair.collection, separate=separate)
            writer.execute(_INSERT, (row.place, older, relation.kind, row.cluster))


def move(writer: sqlite3.Connection, place: int, to: int) -> None:
    """Give a document that is decided again what it had under its place before."""
    for column in ("newer", "older"):
        writer.execute(f"UPDATE quotes SET {column} = ?2 WHERE {column} = ?1", (place, to))


def leave(writer: sqlite3.Connection, before: int) -> None:
    """Remove what quotes documents with places below ``before``."""
    writer.execute("DELETE FROM quotes WHERE older < ?", (before,))


def add_to(versions: Sequence[dict[str, Any]], connection: sqlite3.Connection, *, separate: bool) -> None:
    """Add to stored versions what they ``quotes``, and what they are ``quoted_by``, where that is not empty."""
    if connection.execute("SELECT 1 FROM quotes LIMIT 1").fetchone() is None:  # so it is for schemes that know nothing
        return
    for version in versions:
        for name, one, other in (("quotes", "newer", "older"), ("quoted_by", "older", "newer")):
            rows = connection.execute(_NAMED.format(one=one, other=other), (version["place"], QUOTES_MAX))
            if named := [_named(row, separate) for row in rows]:
                version[name] = named


def _named(row: sqlite3.Row, separate: bool) -> dict[str, Any]:
    id_: str = row["id"].decode()
    return {**dict(row), "id": split_id(id_)[1] if separate else id_}
