"""What a store keeps in addition to its window, copied to another store: the queue of the web hook, the conditions of
feeds and the name of the store, which ids of the Atom feed contain.

Without it, a copy would send no event that waited, and say each story again to readers of its feed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from neardup_workers.outside.store.extra import feeds, identity, outbox


class _Table(NamedTuple):
    """A table: its script, what its rows are called, and which of its rows are sound."""

    script: str
    plural: str
    is_sound: Callable[[Sequence[Any]], bool]


def _is_event(row: Sequence[Any]) -> bool:
    try:
        return bool(orjson.loads(row[5])["id"] == row[1])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False


def _is_condition(row: Sequence[Any]) -> bool:
    try:
        return isinstance(row[0], str) and isinstance(orjson.loads(row[2]), dict)
    except orjson.JSONDecodeError:
        return False


def _is_name(row: Sequence[Any]) -> bool:
    return isinstance(row[0], str)


def _is_level(row: Sequence[Any]) -> bool:
    return all(type(value) is int for value in row)


def _is_source(row: Sequence[Any]) -> bool:
    return type(row[0]) is int and isinstance(row[1], str)


_TABLES = {
    "outbox": _Table(outbox.TABLES, "events for the web hook", _is_event),
    "story_levels": _Table("", "sizes of stories in events", _is_level),
    "story_sources": _Table("", "sources of stories in events", _is_source),
    "feeds": _Table(feeds.TABLES, "reports of feeds", _is_condition),
    "identity": _Table(identity.TABLES, "names of the store", _is_name),
}
SCRIPTS = "".join(table.script for table in _TABLES.values())


def copy(source: sqlite3.Connection, target: sqlite3.Connection) -> dict[str, int]:
    """Copy what can be read to a store that has the tables of ``SCRIPTS``, in an open transaction.

    A store whose name is lost gets a new one.

    Returns:
        How many rows are lost, by what they are; at least one of a table that cannot be read to its end.
    """
    lost: dict[str, int] = {}
    for name, table in _TABLES.items():
        target.execute(f"DELETE FROM {name}")
        number = _copied(source, target, name, table)
        if number:
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


def _copied(source: sqlite3.Connection, target: sqlite3.Connection, name: str, table: _Table) -> int:
    """Copy a table; return how many of its rows are lost."""
    lost = 0
    try:
        for row in source.execute(f"SELECT * FROM {name}"):
            if table.is_sound(row):
                target.execute(f"INSERT OR REPLACE INTO {name} VALUES ({', '.join('?' * len(row))})", row)
            else:
                lost += 1
    except sqlite3.DatabaseError:
        lost += 1
    return lost
