"""The audit log: who removed what, when and why, what a person said of two documents, and which settings a start had
changed.

A line is in the transaction of what it says. It names a document by the SHA-256 of its id alone, because no file may
hold the id after a removal: who knows the id finds the line.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

TABLES = """
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, who TEXT NOT NULL, did TEXT NOT NULL,
    what TEXT NOT NULL, why TEXT
);
CREATE TABLE audited (settings TEXT NOT NULL);
"""


# What a person says of two documents: that they tell the same story, or not.
TOGETHER, APART = "together", "apart"
_OF_PAIRS = f"did IN ('{TOGETHER}', '{APART}')"
# What was said of a pair is found by its ids, however long the log is.
PAIRS = f"""
CREATE INDEX audit_pairs ON audit (
    json_extract(what, '$.id_sha256'), json_extract(what, '$.other_sha256'), json_extract(what, '$.collection')
) WHERE {_OF_PAIRS};
"""


class Noted(NamedTuple):
    """Who asks for a change, when (seconds since the epoch), and why."""

    time: float
    who: str
    why: str | None = None


def hash_of(id_: str) -> str:
    """Return what stands for an id."""
    return sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()


def add(
    writer: sqlite3.Connection, time: float, who: str, did: str, what: Mapping[str, Any], why: str | None = None
) -> None:
    """Add a line, in the open transaction."""
    query = "INSERT INTO audit (time, who, did, what, why) VALUES (?, ?, ?, ?, ?)"
    writer.execute(query, (time, who, did, json.dumps(what), why))


def pair_of(ids: Sequence[str], collection: str | None) -> dict[str, Any]:
    """Return what names a pair of ids in a line, in either order."""
    first, second = sorted(map(hash_of, ids))
    return {"id_sha256": first, "other_sha256": second, "collection": collection}


def last_said(connection: sqlite3.Connection, pair: Mapping[str, Any]) -> tuple[str, float, str] | None:
    """Return what was said last of a pair of ids, when and by whom; ``None`` if nothing was."""
    same = " AND ".join(f"json_extract(what, '$.{name}') IS ?" for name in pair)
    query = f"SELECT did, time, who FROM audit WHERE {_OF_PAIRS} AND {same} ORDER BY number DESC LIMIT 1"
    row: tuple[str, float, str] | None = connection.execute(query, tuple(pair.values())).fetchone()
    return row


class Judged(NamedTuple):
    """What was said last of a pair of ids: the line, whether they tell the same story, the hashes of the ids, and how
    similar the two were by each signal, by the text first (``text``); empty if that was not known."""

    number: int
    time: float
    who: str
    same: bool
    pair: tuple[str, str, str | None]
    by_signal: Mapping[str, float]


def judged(connection: sqlite3.Connection, limit: int) -> list[Judged]:
    """Return what was said last of each pair, of so many lines, the oldest first."""
    query = f"SELECT number, time, who, did, what FROM audit WHERE {_OF_PAIRS} ORDER BY number DESC LIMIT ?"
    found: dict[tuple[str, str, str | None], Judged] = {}
    for number, time, who, did, text in connection.execute(query, (limit,)):
        what = json.loads(text)
        pair = what["id_sha256"], what["other_sha256"], what["collection"]
        text_alone = {} if what.get("similarity") is None else {"text": what["similarity"]}
        by_signal = what.get("by_signal", text_alone)
        found.setdefault(pair, Judged(number, time, who, did == TOGETHER, pair, by_signal))
    return list(found.values())[::-1]


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
    named = "? IN (json_extract(what, '$.id_sha256'), json_extract(what, '$.other_sha256'))"
    condition = "number < ?" if id_ is None else f"number < ? AND {named}"
    values = (before,) if id_ is None else (before, hash_of(id_))
    query = f"SELECT number, time, who, did, what, why FROM audit WHERE {condition} ORDER BY number DESC LIMIT ?"
    names = ("number", "time", "who", "did", "what", "why")
    rows = [dict(zip(names, row, strict=True)) for row in connection.execute(query, (*values, limit))]
    return [{**row, "what": json.loads(row["what"])} for row in rows]
