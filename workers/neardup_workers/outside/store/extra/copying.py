"""What a store keeps in addition to its window, copied to another store: the queue of the web hook, the conditions of
feeds, the audit log, the marks of stories, what quotes what, and the name of the store, which ids of the Atom feed
contain.

Without it, a copy would send no event that waited, and say each story again to readers of its feed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from neardup.documents.document import RELATIONS
from neardup_workers.outside.store.extra import audit, desk, feeds, identity, outbox, quotes, sources


class _Table(NamedTuple):
    """A table: its script, what its rows are called, and which of its rows are sound."""

    script: str
    plural: str
    is_sound: Callable[[Sequence[Any]], bool]


def _object(text: Any) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


_TABLES = {
    "outbox": _Table(outbox.TABLES, "events for the web hook", lambda row: (_object(row[5]) or {}).get("id") == row[1]),
    "story_levels": _Table("", "sizes of stories in events", lambda row: all(type(value) is int for value in row)),
    "story_sources": _Table(
        "", "sources of stories in events", lambda row: type(row[0]) is int and isinstance(row[1], str)
    ),
    "feeds": _Table(
        feeds.TABLES, "reports of feeds", lambda row: isinstance(row[0], str) and _object(row[2]) is not None
    ),
    "audit": _Table(audit.TABLES, "lines of the audit log", lambda row: _object(row[4]) is not None),
    "desk": _Table(desk.TABLES, "marks of stories", lambda row: type(row[0]) is int and row[1] in (0, 1)),
    "audited": _Table("", "settings of the last start", lambda row: _object(row[0]) is not None),
    "quotes": _Table(quotes.TABLES, "quotes", lambda row: type(row[0]) is type(row[1]) is int and row[2] in RELATIONS),
    "identity": _Table(identity.TABLES, "names of the store", lambda row: isinstance(row[0], str)),
}
SCRIPTS = sources.TABLES + "".join(table.script for table in _TABLES.values())


def copy(source: sqlite3.Connection, target: sqlite3.Connection) -> dict[str, int]:
    """Copy what can be read to a store that has the tables of ``SCRIPTS``, in an open transaction.

    A store whose name is lost gets a new one.

    Returns:
        How many rows are lost, by what they are; at least one of a table that cannot be read to its end. Rows of the
        ledger of sources are not counted.
    """
    for ledger in sources.LEDGER.values():
        copy_table(source, target, ledger.name, ledger.is_sound)
    lost: dict[str, int] = {}
    for name, table in _TABLES.items():
        target.execute(f"DELETE FROM {name}")
        if number := copy_table(source, target, name, table.is_sound):
            lost[table.plural] = number
    if target.execute("SELECT count(*) FROM identity").fetchone()[0] != 1:
        target.execute("DELETE FROM identity")
        identity.fill(target)
    for name in ("story_levels", "story_sources"):  # of stories that ended with what was lost
        target.execute(f"DELETE FROM {name} WHERE story NOT IN (SELECT cluster FROM clusters)")
    return lost


def said(lost: dict[str, int]) -> str:
    """Return a sentence about what is lost; empty for nothing."""
    return f"lost: {', '.join(f'{number:,} {plural}' for plural, number in lost.items())}" if lost else ""


def copy_table(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    name: str,
    is_sound: Callable[[Sequence[Any]], bool] = lambda _: True,
) -> int:
    """Copy the sound rows of a table up to the first that cannot be read; return how many are lost."""
    lost = 0
    try:
        for row in source.execute(f"SELECT * FROM {name}"):
            if is_sound(row):
                target.execute(f"INSERT OR REPLACE INTO {name} VALUES ({', '.join('?' * len(row))})", row)
            else:
                lost += 1
    except sqlite3.DatabaseError:
        lost += 1
    return lost
