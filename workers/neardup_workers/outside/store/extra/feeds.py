"""The conditions of feeds, as processes that watch feeds have reported them: one row a feed, by its address."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

TABLES = """
CREATE TABLE feeds (url TEXT PRIMARY KEY, reported REAL NOT NULL, condition TEXT NOT NULL) WITHOUT ROWID;
"""
# Feeds that are kept at most: those that were reported last. A feed leaves after so many seconds without a report.
FEEDS_MAX = 10_000
KEPT_SECONDS = 30 * 86_400.0


def store(writer: sqlite3.Connection, conditions: Mapping[str, str], unlisted: Iterable[str], now: float) -> None:
    """Store reports in an open transaction: conditions as JSON by the address of the feed, and the feeds that are
    watched no longer. ``now`` is in seconds since the epoch."""
    rows = ((url, now, condition) for url, condition in conditions.items())
    writer.executemany("INSERT OR REPLACE INTO feeds VALUES (?, ?, ?)", rows)
    writer.executemany("DELETE FROM feeds WHERE url = ?", ((url,) for url in unlisted))
    writer.execute("DELETE FROM feeds WHERE reported < ?", (now - KEPT_SECONDS,))
    newest = f"SELECT url FROM feeds ORDER BY reported DESC, url LIMIT {FEEDS_MAX}"
    writer.execute(f"DELETE FROM feeds WHERE (SELECT count(*) FROM feeds) > {FEEDS_MAX} AND url NOT IN ({newest})")


def read(connection: sqlite3.Connection) -> list[tuple[str, float, str]]:
    """Return address, time of the report and condition of every feed."""
    return [tuple(row) for row in connection.execute("SELECT url, reported, condition FROM feeds ORDER BY url")]
