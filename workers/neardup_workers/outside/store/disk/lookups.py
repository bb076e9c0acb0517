"""What the writer of a log looks up in it, including rows of the open transaction."""

from __future__ import annotations

import sqlite3

from neardup_workers.outside.store.rows import FIELDS, StoredRow

# Rows of the old end that one step looks at: more than a step adds.
_EXPIRE_ROWS_MAX = 4096


class Lookups:
    """The looks at single rows."""

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection of the writer, with every step in the database."""
        raise NotImplementedError

    def row(self, place: int) -> StoredRow | None:
        """Return the row at a place, including rows of the open transaction."""
        values = self.writer.execute(f"SELECT {FIELDS} FROM documents WHERE place = ?", (place,)).fetchone()
        return StoredRow(*values) if values else None

    def latest(self, id_: bytes) -> tuple[StoredRow, str | None] | None:
        """Return the latest row of an id, with its text if texts are stored."""
        query = f"SELECT {FIELDS}, (SELECT text FROM texts t WHERE t.place = d.place) FROM documents d WHERE id = ?"
        values = self.writer.execute(f"{query} ORDER BY place DESC LIMIT 1", (id_,)).fetchone()
        return (StoredRow(*values[:-1]), values[-1]) if values else None

    def text(self, place: int) -> str | None:
        """Return the text of the version at a place if it is stored; that of a content of a story stays after its
        row."""
        query = (
            "SELECT coalesce((SELECT text FROM texts WHERE place = ?1), (SELECT text FROM contents WHERE place = ?1))"
        )
        (text,) = self.writer.execute(query, (place,)).fetchone()
        return None if text is None else str(text)

    def decided(self, id_: bytes, original: bytes) -> StoredRow | None:
        """Return the latest row of an id if its verdict names an original."""
        story = "SELECT id FROM stories s WHERE s.cluster = d.cluster"
        name = f"(SELECT id FROM documents o WHERE o.place = d.original), ({story})"
        query = f"SELECT {FIELDS} FROM documents d WHERE id = ? AND original NOTNULL AND coalesce({name}) = ?"
        values = self.writer.execute(f"{query} ORDER BY place DESC LIMIT 1", (id_, original)).fetchone()
        return StoredRow(*values) if values else None

    def contents(self, id_: bytes, first: int) -> list[bytes]:
        """Return the content hashes of the rows of an id from a place on."""
        query = "SELECT content FROM documents WHERE id = ? AND place >= ?"
        return [content for (content,) in self.writer.execute(query, (id_, first))]

    def first_since(self, time: int) -> int:
        """Return the place of the first row that is not older than a time (microseconds), or of the row behind the
        first ``_EXPIRE_ROWS_MAX``."""
        query = "SELECT place, time FROM documents ORDER BY place LIMIT ?"
        rows = self.writer.execute(query, (_EXPIRE_ROWS_MAX,)).fetchall()
        return next((place for place, at in rows if at >= time), rows[-1][0] + 1 if rows else 0)
