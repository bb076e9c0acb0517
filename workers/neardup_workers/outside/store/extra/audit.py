"""The audit log: who removed what, when and why, and which settings a start had changed.

A removal is logged in its own transaction. It names the document by the SHA-256 of its id alone, because no file may
hold the id afterwards: who knows the id finds the line.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

TABLES = """
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, who TEXT NOT NULL, did TEXT NOT NULL,
    what TEXT NOT NULL, why TEXT
);
CREATE TABLE audited (settings TEXT NOT NULL);
"""


def hash_of(id_: str) -> str:
    """Return what stands for an id."""
    return sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()


def add(
    writer: sqlite3.Connection, time: float, who: str, did: str, what: Mapping[str, Any], why: str | None = None
) -> None:
    """Add a line, in the open transaction."""
    query = "INSERT INTO audit (time, who, did, what, why) VALUES (?, ?, ?, ?, ?)"
    writer.execute(query, (time, who, did, json.dumps(what), why))


def start(writer: sqlite3.Connection, time: float, settings: Mapping[str, Any]) -> None:
    """Add which settings have changed since the start before, in the open transaction."""
    row = writer.execute("SELECT settings FROM audited").fetchone()
    before = settings if row is None else json.loads(row[0])
    names = sorted(name for name in settings.keys() | before.keys() if settings.get(name) != before.get(name))
    if names:
        add(writer, time, "start", "settings", {name: [before.get(name), settings.get(name)] for name in names})
    if row is None or names:
        writer.execute("DELETE FROM audited")
        writer.execute("INSERT INTO audited VALUES (?)", (json.dumps(settings),))


def read(connection: sqlite3.Connection, before: int, limit: int, id_: str | None = None) -> list[dict[str, Any]]:
    """Return lines with numbers below one, the newest first; of one id if it is named."""
    condition = "number < ?" if id_ is None else "number < ? AND json_extract(what, '$.id_sha256') = ?"
    values = (before,) if id_ is None else (before, hash_of(id_))
    query = f"SELECT number, time, who, did, what, why FROM audit WHERE {condition} ORDER BY number DESC LIMIT ?"
    names = ("number", "time", "who", "did", "what", "why")
    rows = [dict(zip(names, row, strict=True)) for row in connection.execute(query, (*values, limit))]
    return [{**row, "what": json.loads(row["what"])} for row in rows]
