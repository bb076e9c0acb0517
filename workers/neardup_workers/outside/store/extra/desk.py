"""What a person has said of a story: that it is not shown, or that each of its new documents is news.

A story with its number keeps the mark while it lives, and so its later copies have it. Numbers are never used twice,
and a person makes few marks, so none is dropped.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

TABLES = "CREATE TABLE desk (story INTEGER PRIMARY KEY, muted INTEGER NOT NULL, follow TEXT);\n"
# The stories that lists, feeds and events leave out.
MUTED = "SELECT story FROM desk WHERE muted"


class Mark(NamedTuple):
    """Whether a story is muted, and where events of its new documents go: an address, empty for the web hook of the
    settings, ``None`` if there are none."""

    muted: bool = False
    follow: str | None = None


def mark_of(connection: sqlite3.Connection, story: int) -> Mark:
    """Return what was said of a story."""
    row = connection.execute("SELECT muted, follow FROM desk WHERE story = ?", (story,)).fetchone()
    return Mark(bool(row[0]), row[1]) if row else Mark()


def store(writer: sqlite3.Connection, story: int, mark: Mark) -> None:
    """Store what is said of a story, in the open transaction; events that it no longer has are dropped."""
    writer.execute("INSERT OR REPLACE INTO desk VALUES (?, ?, ?)", (story, mark.muted, mark.follow))
    if mark.muted:
        writer.execute("DELETE FROM outbox WHERE story = ? AND kind != 'removed'", (story,))
    elif mark.follow is None:
        writer.execute("DELETE FROM outbox WHERE story = ? AND kind = 'joined'", (story,))


def muted(connection: sqlite3.Connection) -> set[int]:
    """Return the stories that are muted."""
    return {story for (story,) in map(tuple, connection.execute(MUTED))}
