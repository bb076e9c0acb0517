"""The name of a store: random, made with it, the same for as long as it exists."""

from __future__ import annotations

import sqlite3
import uuid

TABLES = """
CREATE TABLE identity (name TEXT NOT NULL);
"""


def fill(writer: sqlite3.Connection) -> None:
    """Give a store its name."""
    writer.execute("INSERT INTO identity VALUES (?)", (str(uuid.uuid4()),))


def read(connection: sqlite3.Connection) -> str:
    """Return the name of a store."""
    name: str = connection.execute("SELECT name FROM identity").fetchone()[0]
    return name
