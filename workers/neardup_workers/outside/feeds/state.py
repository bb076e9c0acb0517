"""What is remembered of feeds: the validators of the last answer, and the items that were written.

``FeedStates`` keeps it in a file of SQLite, so that a restart writes no item twice. The caller saves the state of a
feed after its items were taken. A crash between the two writes them once more, under the same ids. The condition of a
feed is kept apart, because it changes with each request. A key is kept for addresses that hubs know.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import orjson

from neardup_workers.outside.feeds.condition import Condition
from neardup_workers.outside.feeds.websub.discovery import Offer
from neardup_workers.outside.process.exits import Exit, Failure, output_failure

# "neardup feed state" in the header of the file, so that no other database is taken for one.
_APPLICATION_ID = 0x6E646673
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
CREATE TABLE feeds (
    url TEXT PRIMARY KEY, address TEXT NOT NULL, etag TEXT NOT NULL, modified TEXT NOT NULL, seen BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE conditions (url TEXT PRIMARY KEY, condition TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE offers (url TEXT PRIMARY KEY, offer TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE keys (key BLOB NOT NULL);
"""


class FeedState(NamedTuple):
    """What is remembered of one feed."""

    address: str  # where the feed is; another one than was given if that is a page that names its feed
    etag: str  # the validator of the last answer that was read, empty for none
    modified: str  # its time of change, empty for none
    seen: dict[str, bytes]  # hash of each remembered item by its id, the one that was longest away first
    offer: Offer | None = None  # what the feed offers to subscribe to, ``None`` for nothing


class FeedStates:
    """The states of feeds by given address. Without a connection nothing is remembered."""

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        self._connection = connection

    def load(self, url: str) -> FeedState | None:
        """Return the state of a feed, ``None`` for a new one."""
        if self._connection is None:
            return None
        query = "SELECT address, etag, modified, seen, offer FROM feeds LEFT JOIN offers USING (url) WHERE url = ?"
        row = self._connection.execute(query, (url,)).fetchone()
        if row is None:
            return None
        address, etag, modified, seen, offer = row
        topic, hubs = orjson.loads(offer or "[null,[]]")
        items = {id_: bytes.fromhex(digest) for id_, digest in orjson.loads(seen)}
        return FeedState(address, etag, modified, items, Offer(topic, tuple(hubs)) if hubs else None)

    def condition(self, url: str) -> Condition | None:
        """Return the condition of a feed after its last request, ``None`` for a new one."""
        if self._connection is None:
            return None
        row = self._connection.execute("SELECT condition FROM conditions WHERE url = ?", (url,)).fetchone()
        return None if row is None else Condition(**orjson.loads(row[0]))

    def key(self) -> bytes:
        """Return random bytes that stay the same; without a connection, as long as the process."""
        if self._connection is None:
            return secrets.token_bytes(32)
        self._connection.execute(
            "INSERT INTO keys SELECT ? WHERE NOT EXISTS (SELECT 1 FROM keys)", (secrets.token_bytes(32),)
        )
        return bytes(self._connection.execute("SELECT key FROM keys").fetchone()[0])

    def save(self, url: str, condition: Condition, state: FeedState | None) -> None:
        """Store the condition of a feed, and its state if that has changed. Raises ``sqlite3.Error``."""
        if self._connection is None:
            return
        values = orjson.dumps(condition._asdict()).decode()
        self._connection.execute("BEGIN")
        self._connection.execute("INSERT OR REPLACE INTO conditions VALUES (?, ?)", (url, values))
        if state is not None:
            seen = orjson.dumps([(id_, digest.hex()) for id_, digest in state.seen.items()])
            self._connection.execute("INSERT OR REPLACE INTO feeds VALUES (?, ?, ?, ?, ?)", (url, *state[:3], seen))
            if state.offer is None:
                self._connection.execute("DELETE FROM offers WHERE url = ?", (url,))
            else:
                offer = orjson.dumps(list(state.offer)).decode()
                self._connection.execute("INSERT OR REPLACE INTO offers VALUES (?, ?)", (url, offer))
        self._connection.execute("COMMIT")


@contextmanager
def open_states(path: str | None) -> Iterator[FeedStates]:
    """Open a file of states, for this process alone; it is made if it does not exist.

    Raises:
        Failure: the file is no file of states, another process has it open, or it cannot be read or written.
    """
    if path is None:
        yield FeedStates()
        return
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # addresses of feeds may hold secrets
    except OSError as error:
        raise output_failure(f"the state {path}", error) from None
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            if application == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
                connection.execute("COMMIT")
                connection.executescript(_SCHEMA)
            elif application == _APPLICATION_ID:
                connection.execute("COMMIT")
            else:
                raise Failure(Exit.INPUT, f"{path} is a database of another program: name another file with --state")
            yield FeedStates(connection)
    except sqlite3.Error as error:
        held = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
        why = "another process has it open" if held else str(error)
        raise Failure(Exit.OUTPUT, f"cannot use the state {path}: {why}") from None
