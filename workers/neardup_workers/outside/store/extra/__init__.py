"""Tables in addition to those of the window, in the same file and the same transactions. They decide nothing, but
for the counts of rarity.

A store that lacks them, because it is new or a copy, gets them when it is opened, filled from its window. So its
version does not count them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress

from neardup_workers.outside.store import rows, stories
from neardup_workers.outside.store.extra import audit, desk, feeds, growth, identity, outbox, quotes, sources, words

# The first table or index of each script -> the script, and what fills its tables.
_SCRIPTS: dict[str, tuple[str, Callable[[sqlite3.Connection], None] | None]] = {
    "audit": (audit.TABLES, None),
    "audit_pairs": (audit.PAIRS, None),
    "desk": (desk.TABLES, None),
    "feeds": (feeds.TABLES, None),
    "sources": (sources.TABLES, None),
    "outbox": (outbox.TABLES, None),
    "identity": (identity.TABLES, identity.fill),
    "growth": (growth.TABLES, growth.fill),
    "quotes": (quotes.TABLES, None),
    "rarity": (stories.RARITY, None),
    "clusters_larger": (rows.INDEXES, None),
    "headlines": (words.TABLES, words.fill),
}


def prepare(writer: sqlite3.Connection) -> None:
    """Give a connection the functions that the tables need, and make the tables that the store lacks."""
    growth.connect(writer)
    known = {name for (name,) in writer.execute("SELECT name FROM sqlite_master")}
    for name, (script, fill) in _SCRIPTS.items():
        if name not in known:
            writer.execute("BEGIN")
            for statement in statements(script):
                writer.execute(statement)
            if fill is not None:
                fill(writer)
            writer.execute("COMMIT")
    with suppress(sqlite3.OperationalError):  # a full disk takes it another time
        words.continue_whole(writer)


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one: ``executescript`` would commit each."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
