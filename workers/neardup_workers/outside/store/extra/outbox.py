"""Events of stories that wait to be sent to a web hook: stored by the step that they follow from, in its transaction.

An event has a number, which grows, and an id, which it keeps however often it is sent. Events of one story are sent in
the order of their numbers: an event waits for those of its story before it. An event that could not be sent for too
long is *dead*: it is kept to be read, and nothing waits for it.

A removal takes back what waits about its document, and dead events too. So its id is in the file only until its event
``removed`` has been sent.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import orjson

from neardup.documents.ids import split_id
from neardup.pairs.batches import MICROSECONDS
from neardup.pairs.json_lines import named_collection
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, STATUSES, UPDATE
from neardup_workers.outside.store.extra import desk
from neardup_workers.outside.store.rows import LATE, StoredRow, values_of_more

TABLES = """
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL, kind TEXT NOT NULL, story INTEGER NOT NULL,
    document BLOB NOT NULL, body BLOB NOT NULL, created REAL NOT NULL, due REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, failure TEXT, dead INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX outbox_story ON outbox (story, number) WHERE dead = 0;
CREATE INDEX outbox_dead ON outbox (dead, number);
CREATE INDEX outbox_document ON outbox (document);
CREATE TABLE story_levels (story INTEGER PRIMARY KEY, members INTEGER NOT NULL, sources INTEGER NOT NULL);
CREATE TABLE story_sources (
    story INTEGER NOT NULL, source TEXT NOT NULL, PRIMARY KEY (story, source)
) WITHOUT ROWID;
CREATE TRIGGER story_ends AFTER DELETE ON clusters BEGIN
    DELETE FROM story_levels WHERE story = old.cluster;
    DELETE FROM story_sources WHERE story = old.cluster;
END;
"""
# The kinds of events.
NEW, GROWN, UPDATED, REMOVED, JOINED = ("new", "grown", "updated", "removed", "joined")
_KIND_OF = {ORIGINAL: NEW, UPDATE: UPDATED}
# Sources of a story that are counted at most.
_SOURCES_MAX = 10_000


class Rules(NamedTuple):
    """Which events there are."""

    now: Callable[[], float]  # seconds since the epoch
    # A story has grown when it has so many members, and then each time it has doubled; 0 for never. By default three:
    # two are often a version and its correction.
    members: int = 3
    sources: int = 3  # the same for the sources that tell it


class Event(NamedTuple):
    """A stored event; ``body`` is what is sent. ``due``: when it is sent next, in seconds since the epoch."""

    number: int
    id: str
    story: int
    body: bytes
    created: float
    due: float
    attempts: int
    failure: str | None
    to: str | None = None  # the address, if it is not that of the web hook


class Outcome(NamedTuple):
    """What came of sending an event: it was sent, or why not and when it is due again, ``None`` for never."""

    number: int
    failure: str | None = None
    due: float | None = None


class Outbox:
    """Writes the events of steps; without rules it writes nothing. ``separate``: the ids of rows are full ids
    (``neardup.documents.ids``)."""

    def __init__(self, rules: Rules | None = None, *, separate: bool = False) -> None:
        self._rules, self._separate = rules, separate

    def added(self, writer: sqlite3.Connection, rows: Iterable[StoredRow]) -> None:
        """Store the events of rows that a step has added, in its open transaction."""
        if self._rules is None:
            return
        for row in rows:
            if row.flags & LATE:  # it begins nothing, and no story grows by it
                continue
            counts = row.source is not None and row.status in (ORIGINAL, DUPLICATE)
            if counts and _sources(writer, row.cluster) < _SOURCES_MAX:
                writer.execute("INSERT OR IGNORE INTO story_sources VALUES (?, ?)", (row.cluster, row.source))
            mark = desk.mark_of(writer, row.cluster)
            if mark.muted:
                continue
            if mark.follow is not None and row.status in (DUPLICATE, UPDATE):
                self._store(writer, JOINED, row.cluster, row.id, shown := self._document(row), text=_sentence(shown))
            if row.status in _KIND_OF:
                self._store(writer, _KIND_OF[row.status], row.cluster, row.id, self._document(row))
            elif row.status == DUPLICATE and (reached := _grown(writer, row.cluster, self._rules)):
                self._store(writer, GROWN, row.cluster, row.id, self._document(row), reached=reached)

    def removed(self, writer: sqlite3.Connection, id_: bytes, ended: Iterable[int], handed_over: Iterable[int]) -> None:
        """Store the events of a removal, in its open transaction, before the rows of the id are erased. ``ended`` are
        stories that the id began, if they have several members; a story whose first version is in the window
        ends, too, unless it is one of ``handed_over``, which go on with another original.
        """
        writer.execute("DELETE FROM outbox WHERE document = ? AND kind != ?", (id_, REMOVED))
        if self._rules is None:
            return
        query = "SELECT cluster, max(status = ?) FROM documents WHERE id = ? AND gone = 0 GROUP BY cluster"
        stories = dict(writer.execute(query, (ORIGINAL, id_))) | dict.fromkeys(ended, 1)
        stories |= dict.fromkeys(handed_over, 0)
        for story, is_begun in sorted(stories.items()):
            self._store(writer, REMOVED, story, id_, self._named(id_), ended=bool(is_begun))

    def _named(self, id_: bytes) -> dict[str, Any]:
        """Return the id of a row, and its collection."""
        named = id_.decode(errors="replace")
        if not self._separate:
            return {"id": named}
        collection, named = split_id(named)
        return {"id": named, **named_collection(collection)}

    def _document(self, row: StoredRow) -> dict[str, Any]:
        return {
            **self._named(row.id),
            "status": STATUSES[row.status],
            "similarity": None if row.similarity is None else round(row.similarity, 4),
            "place": row.place,
            "time": row.time / MICROSECONDS,
            "date": None if row.date is None else row.date / MICROSECONDS,
            "source": row.source,
            "url": row.url,
            "title": row.title,
            **({"new": new} if (new := values_of_more(row.more).get("new")) else {}),
        }

    def _store(
        self, writer: sqlite3.Connection, kind: str, story: int, id_: bytes, document: dict[str, Any], **more: object
    ) -> None:
        rules = self._rules
        if rules is None:
            return
        event, now = f"evt_{secrets.token_hex(16)}", rules.now()
        size = writer.execute("SELECT size FROM clusters WHERE cluster = ?", (story,)).fetchone()
        counted = {"members": size[0] if size else 0, "sources": _sources(writer, story)}
        values = {"id": event, "event": kind, "time": now, "story": story, **counted, **more, "document": document}
        writer.execute(
            "INSERT INTO outbox (event, kind, story, document, body, created, due) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (event, kind, story, id_, orjson.dumps(values), now, now),
        )


def _sentence(document: dict[str, Any]) -> str:
    """Return what a chat shows of a document that a followed story has got.

    >>> _sentence({"id": "a", "title": "Rain", "source": "b.example", "url": "https://b.example/1"})
    'Rain, b.example, https://b.example/1'
    """
    named = document["title"] or document["id"], document["source"], document["url"]
    return ", ".join(dict.fromkeys(filter(None, named)))


def _sources(writer: sqlite3.Connection, story: int) -> int:
    count: int = writer.execute("SELECT count(*) FROM story_sources WHERE story = ?", (story,)).fetchone()[0]
    return count


def _level(number: int, first: int) -> int:
    """Return how often a number has reached ``first`` or a double of it.

    >>> [_level(number, 3) for number in (2, 3, 5, 6, 12)]
    [0, 1, 1, 2, 3]
    """
    return (number // first).bit_length() if first else 0


def _grown(writer: sqlite3.Connection, story: int, rules: Rules) -> dict[str, int]:
    """Return what a story has reached for the first time, by what is counted; empty for nothing."""
    size = writer.execute("SELECT size FROM clusters WHERE cluster = ?", (story,)).fetchone()
    now = {"members": _level(size[0] if size else 0, rules.members), "sources": 0}
    now["sources"] = _level(_sources(writer, story), rules.sources) if rules.sources else 0
    row = writer.execute("SELECT members, sources FROM story_levels WHERE story = ?", (story,)).fetchone() or (0, 0)
    before = dict(zip(now, row, strict=True))
    reached = {name: getattr(rules, name) << level - 1 for name, level in now.items() if level > before[name]}
    if reached:
        levels = [max(now[name], before[name]) for name in now]
        writer.execute("INSERT OR REPLACE INTO story_levels VALUES (?, ?, ?)", (story, *levels))
    return reached


# Sending

_TO = "CASE WHEN kind = 'joined' THEN nullif((SELECT follow FROM desk d WHERE d.story = o.story), '') END"
_COLUMNS = f"number, event, story, body, created, due, attempts, failure, {_TO}"


def due(connection: sqlite3.Connection, now: float, limit: int) -> list[Event]:
    """Return the first events in order of their numbers that are due, without those whose story waits for an earlier
    one that is not; those to who follows the story have an order of their own."""
    earlier = (
        "SELECT 1 FROM outbox e WHERE e.dead = 0 AND e.story = o.story AND e.number < o.number AND e.due > ?1 "
        "AND (e.kind = 'joined') = (o.kind = 'joined')"
    )
    query = f"SELECT {_COLUMNS} FROM outbox o WHERE dead = 0 AND due <= ?1 AND NOT EXISTS ({earlier}) ORDER BY number"
    return [Event(*row) for row in connection.execute(f"{query} LIMIT ?2", (now, limit))]


def next_due(connection: sqlite3.Connection) -> float | None:
    """Return when the next event is due, ``None`` if none waits."""
    due: float | None = connection.execute("SELECT min(due) FROM outbox WHERE dead = 0").fetchone()[0]
    return due


def settle(writer: sqlite3.Connection, outcomes: Iterable[Outcome], dead_max: int) -> int:
    """Store what came of events, in an open transaction; returns how many dead ones had no room and are lost."""
    for number, failure, again in outcomes:
        if failure is None:
            writer.execute("DELETE FROM outbox WHERE number = ?", (number,))
        else:
            writer.execute(
                "UPDATE outbox SET attempts = attempts + 1, failure = ?, due = coalesce(?, due), dead = ? "
                "WHERE number = ?",
                (failure, again, again is None, number),
            )
    return _bound_dead(writer, dead_max)


def bound_waiting(writer: sqlite3.Connection, waiting_max: int, dead_max: int) -> tuple[int, int]:
    """Let the oldest events die that are more than may wait; returns how many, and how many dead ones are lost."""
    waiting = count(writer)[0]
    if waiting <= waiting_max:
        return 0, 0
    oldest = "SELECT number FROM outbox WHERE dead = 0 ORDER BY number LIMIT ?"
    failure = f"more than {waiting_max:,} events waited"
    query = f"UPDATE outbox SET dead = 1, failure = ? WHERE number IN ({oldest})"
    died = writer.execute(query, (failure, waiting - waiting_max)).rowcount
    return died, _bound_dead(writer, dead_max)


def _bound_dead(writer: sqlite3.Connection, dead_max: int) -> int:
    more = count(writer)[1] - dead_max
    if more <= 0:
        return 0
    oldest = "SELECT number FROM outbox WHERE dead = 1 ORDER BY number LIMIT ?"
    return writer.execute(f"DELETE FROM outbox WHERE number IN ({oldest})", (more,)).rowcount


def count(connection: sqlite3.Connection) -> tuple[int, int, float | None]:
    """Return how many events wait, how many are dead, and when the oldest that waits was created."""
    waiting, created = connection.execute("SELECT count(*), min(created) FROM outbox WHERE dead = 0").fetchone()
    return waiting, connection.execute("SELECT count(*) FROM outbox WHERE dead = 1").fetchone()[0], created


def dead(connection: sqlite3.Connection, after: int, limit: int) -> list[Event]:
    """Return dead events behind a number, in order."""
    query = f"SELECT {_COLUMNS} FROM outbox o WHERE dead = 1 AND number > ? ORDER BY number LIMIT ?"
    return [Event(*row) for row in connection.execute(query, (after, limit))]


# Of a window without a web hook.
NOTHING_ANNOUNCED = Outbox()
