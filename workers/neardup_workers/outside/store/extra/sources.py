"""The ledger of sources in a log: what each source published, stored with the step that counted it, and its queries.

A row of ``sources`` is the account of a source in an hour, or in all. ``source_pairs`` says how often a source has what
another one had earlier, and ``source_stories`` who was first in a story that still lives and has a second member. Other
stories are derived from the row of their original. Removals leave the ledger alone: it names sources and counts, no
documents.

To count a document takes half as long as to decide it, and sixteen take little longer than one. So the newest documents
may wait: ``counted`` of ``meta`` is the place of the first one that does, and a restart reads them from their rows.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.stories.sources.accounts import ALL_HOURS, COUNTS, LAG_NAMES, PARTNERS_MAX, Account, partners
from neardup.stories.sources.brake import REPEATED_DOCUMENTS, REPEATED_PERCENT, WEEK_HOURS, repeated
from neardup.stories.sources.ledger import PARTS, Ledger
from neardup.stories.sources.ledger_stories import STORY
from neardup.stories.sources.names import name_of
from neardup.stories.sources.reports import Kept, Reports
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.kept import KeptStories
from neardup.stories.verdicts.records import PLACE
from neardup.stories.verdicts.rule import REMOVED
from neardup.window import NO_TIME
from neardup_workers.outside.store.rows import PLACE_MAX, Columns

_REPEATED = f"documents >= {REPEATED_DOCUMENTS} AND 100 * own >= {REPEATED_PERCENT} * documents AND source != ''"
TABLES = f"""
CREATE TABLE sources (
    source TEXT NOT NULL, hour INTEGER NOT NULL, {", ".join(f"{name} INTEGER NOT NULL" for name in COUNTS)}, lags TEXT,
    PRIMARY KEY (source, hour)
) WITHOUT ROWID;
CREATE INDEX sources_hour ON sources (hour, source);
CREATE INDEX sources_repeated ON sources (hour, source) WHERE {_REPEATED};
CREATE TABLE source_pairs (
    source TEXT NOT NULL, original TEXT NOT NULL, documents INTEGER NOT NULL, PRIMARY KEY (source, original)
) WITHOUT ROWID;
CREATE INDEX source_pairs_original ON source_pairs (original, source);
CREATE TABLE source_stories (
    cluster INTEGER PRIMARY KEY, source TEXT NOT NULL, hour INTEGER NOT NULL, arrival INTEGER NOT NULL,
    date INTEGER NOT NULL, by_date TEXT NOT NULL, by_date_hour INTEGER NOT NULL, by_date_date INTEGER NOT NULL,
    is_shared INTEGER NOT NULL
);
CREATE TABLE source_exceeded (bound TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""


# Documents that wait at most; who reads lets the writer count them first.
WAITING_MAX = 16
COUNTED = "REPLACE INTO meta VALUES ('counted', ?)"
# The stories with a second member.
_SHARED = "SELECT cluster FROM stories WHERE record NOTNULL"


class _Table(NamedTuple):
    """A table of the ledger: its name, its columns, those of its key, which come first, and the types of all values."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    types: tuple[type, ...]

    def is_sound(self, row: Sequence[Any]) -> bool:
        """Whether the values of a row have their types; the last one may be none."""
        types = tuple(map(type, row))
        return types == self.types or (row[-1] is None and types[:-1] == self.types[:-1])


LEDGER: dict[str, _Table] = {
    "account": _Table(
        "sources", ("source", "hour", *COUNTS, "lags"), ("source", "hour"), (str, *(int,) * (1 + len(COUNTS)), str)
    ),
    "pair": _Table("source_pairs", ("source", "original", "documents"), ("source", "original"), (str, str, int)),
    "story": _Table(
        "source_stories", ("cluster", *STORY), ("cluster",), (int, str, int, int, int, str, int, int, int)
    ),
    "exceeded": _Table("source_exceeded", ("bound", "number"), ("bound",), (str, int)),
}  # fmt: skip


def _storing(table: _Table) -> tuple[str, str]:
    """Return the statements that remove a row of a table and that store one. A row that is there is updated: to replace
    it would write each of its indexes, too."""
    where = " AND ".join(f"{name} = ?" for name in table.key)
    changed = ", ".join(f"{name} = excluded.{name}" for name in table.columns[len(table.key) :])
    columns, marks = ", ".join(table.columns), ", ".join("?" * len(table.columns))
    stored = f"INSERT INTO {table.name} ({columns}) VALUES ({marks}) "
    return f"DELETE FROM {table.name} WHERE {where}", f"{stored} ON CONFLICT DO UPDATE SET {changed}"


_STATEMENTS = {kind: _storing(table) for kind, table in LEDGER.items()}


class _Waiting(NamedTuple):
    """Documents that wait, as values of ``Reports``; the stories that have got a second member or have ended with
    them."""

    documents: list[tuple[Any, ...]]
    ids: set[int]
    ended: list[int]


def _documents(reports: Reports) -> list[tuple[Any, ...]]:
    if not reports.sources:  # so it is for refusals of most steps
        return []
    return list(zip(reports.sources, *(column.tolist() for column in reports[1:]), strict=True))


_NOTHING_WAITS = _Waiting([], set(), [])
_TYPES = (np.uint8, np.int64, np.bool_, np.int64, np.int64)


class Sources:
    """The ledger of a log, and which of its stories are stored."""

    def __init__(self, sources_max: int) -> None:
        self.ledger = Ledger(sources_max, stored=PARTS)
        self._shared: set[int] = set()  # stories with a second member
        self._first = PLACE_MAX  # the oldest place of the window, during a restart of the rows
        self._names: dict[Any, str] = {None: ""}  # during a restart: of each source one string
        self._new, self._waiting = _NOTHING_WAITS, _Waiting([], set(), [])  # of the open step; of those before
        self._counts = self._is_stored = False  # the open step counts what waits; ``counted`` is known to be stored

    @property
    def waits(self) -> bool:
        """Whether documents wait to be counted."""
        return bool(self._waiting.documents)

    def open(self) -> None:
        """Begin a step."""
        self._new, self._counts = _NOTHING_WAITS, True

    def report(self, lost: Reports, said: Reports | None = None) -> None:
        """Count what the open step has refused, with it, and what it has decided, with it or later."""
        self._counts = said is None or bool(lost.sources)
        self._new = _Waiting(_documents(lost) + ([] if said is None else _documents(said)), set(), [])

    def follow(self, writer: sqlite3.Connection, changes: KeptStories, oldest: int, places: int) -> None:
        """Store what a step changed, in its open transaction; with it the window begins at the place ``oldest``, and
        the next document has the place ``places``. Stories of one member leave with their row."""
        before, new = self._waiting, self._new
        number = len(before.documents) + len(new.documents)
        self._counts |= number >= WAITING_MAX or oldest > places - number or not self._is_stored
        if changes.ids or changes.ended:
            new = self._new = _Waiting(new.documents, set(changes.ids), list(changes.ended))
        if before.ids or new.ids:  # a restart would not find the story of one that waits: its row leaves, or it ends
            self._counts |= any(place < oldest and place not in self._shared for place in (*before.ids, *new.ids))
        if new.ended:
            clusters = {document[2] for document in (*before.documents, *new.documents)}
            self._counts |= not clusters.isdisjoint(new.ended)
        if not self._counts:
            return
        waiting = self._new = _Waiting(
            before.documents + new.documents, before.ids | new.ids, before.ended + new.ended
        )  # fmt: skip
        ledger, shared, written = self.ledger, self._shared, {*waiting.ids, *waiting.ended}
        if waiting.documents:
            sources, *columns = zip(*waiting.documents, strict=True)
            ledger.add(Reports._make((sources, *map(np.array, columns, _TYPES))))
        writer.execute(COUNTED, (places,))
        ledger.end(waiting.ended)
        ledger.end(place for place in range(self._first, oldest) if place not in shared and place not in written)
        parts = [ledger.kept("story", (place,)) for place in written]
        parts += [
            one
            for one in ledger.pending()
            if one.kind != "story" or (one.key[0] in shared and one.key[0] not in written)
        ]
        store(writer, parts)

    def settle(self, oldest: int) -> None:
        """Close the step, after its transaction."""
        if not self._counts:
            waiting, new = self._waiting, self._new
            waiting.documents.extend(new.documents)
            waiting.ids.update(new.ids)
            waiting.ended.extend(new.ended)
            return
        self._shared.update(self._new.ids)
        self._shared.difference_update(self._new.ended)
        self._first, self._waiting, self._is_stored = oldest, _Waiting([], set(), []), True

    def begin(
        self, rows: Columns, found: Verdicts, times: npt.NDArray[np.int64], *, has_arrivals: bool,
        counted: int | None = None,
    ) -> None:  # fmt: skip
        """Derive stories from rows that a restart reads, in order; those from the place ``counted`` on wait. ``times``
        are theirs; they are those of arrival, or dates."""
        self._first = min(self._first, rows["place"][0])
        none = np.full(len(times), NO_TIME)
        sources = list(map(self._names.setdefault, rows["source"], rows["source"]))
        statuses = found.statuses
        if any(rows["gone"]):
            statuses = np.where(np.array(rows["gone"]) > 0, REMOVED, statuses).astype(np.uint8)
        dates = none
        if rows["date"].count(None) < len(times):
            dates = np.array([NO_TIME if date is None else date for date in rows["date"]], np.int64)
        when = (times, dates) if has_arrivals else (none, times)
        reports = Reports(sources, statuses, found.clusters, found.late, *when)
        self._is_stored |= counted is not None
        if (at := bisect_left(rows["place"], PLACE_MAX if counted is None else counted)) < len(sources):
            self._waiting.documents.extend(one for one in _documents(reports)[at:] if one[1] != REMOVED)
        self.ledger.begin(Reports._make(column[:at] for column in reports))

    def resume(self, writer: sqlite3.Connection, stories: KeptStories, oldest: int) -> None:
        """Go on from what is stored, after the rows; the window begins at the place ``oldest``."""
        shared, first = set(stories.records[:, PLACE].tolist()), self._first
        self._first, self._names = oldest, {None: ""}
        with suppress(sqlite3.OperationalError):  # on a full disk, a later start removes what earlier versions stored
            writer.execute(f"DELETE FROM source_stories WHERE cluster NOT IN ({_SHARED})")
        known = {place for (place,) in writer.execute("SELECT cluster FROM source_stories")}
        joined = {document[2] for document in self._waiting.documents} & shared
        self._waiting.ids.update(joined - known)
        self._shared = shared - self._waiting.ids
        self.ledger.end(shared - known - joined)  # forgotten as one of too many, and derived again
        self.ledger.end(place for place in range(first, oldest) if place not in shared)
        self.ledger.resume(load(writer))
        self.ledger.end(stories.ended)
        self.ledger.settle()


def first_waiting(meta: Mapping[str, Any]) -> int | None:
    """Return ``counted`` of the values of ``meta``; ``None`` if each document is counted: an earlier version has stored
    it never, or has counted more documents since than can wait."""
    counted = meta.get("counted")
    return None if counted is None or meta["places"] - counted >= WAITING_MAX else int(counted)


def store(writer: sqlite3.Connection, changes: Iterable[Kept]) -> None:
    """Store what a step changed of the ledger, in its open transaction."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for kind, key, value in changes:
        removing, storing = _STATEMENTS[kind]
        if value is None:
            rows.setdefault(removing, []).append(key)
        else:
            rows.setdefault(storing, []).append((*key, *value))
    for statement, of_statement in rows.items():
        writer.executemany(statement, of_statement)


def load(source: sqlite3.Connection) -> Iterator[Kept]:
    """Yield the parts of the ledger; what is damaged is left out."""
    for kind, table in LEDGER.items():
        of = f" WHERE cluster IN ({_SHARED})" if kind == "story" else ""
        size, cursor = len(table.key), source.execute(f"SELECT * FROM {table.name}{of}")
        while rows := cursor.fetchmany(4096):
            types = (set(map(type, column)) for column in zip(*rows, strict=True))
            if not all(found == {kind_of} for found, kind_of in zip(types, table.types, strict=True)):
                rows = list(filter(table.is_sound, rows))
            if kind != "story":
                yield from (Kept(kind, row[:size], row[size:]) for row in rows)
            elif rows:
                yield Kept("stories", (), tuple(rows))


# Queries of readers

# Name -> an order of sources; those without the value come last.
ORDERS = {
    "documents": "documents DESC", "source": "source", "copies": "duplicates * 1.0 / nullif(documents, 0) DESC",
    "first_by_arrival": "first_by_arrival DESC", "first_by_date": "first_by_date DESC",
    **{name: f"lag('{name}', lags) DESC" for name in LAG_NAMES},
}  # fmt: skip


def overview(
    connection: sqlite3.Connection, limit: int, part: str | None = None, order: str = "documents", skip: int = 0
) -> dict[str, Any]:
    """Return sources in an order of ``ORDERS``, of those with a part in their name, and how many there are; the hours
    in which one repeated itself, and what the ledger had to forget."""
    named = "FROM sources WHERE hour = ?" + (" AND (instr(source, ?) OR source = ?)" if part else "")
    values = (ALL_HOURS, part.lower(), name_of(part)) if part else (ALL_HOURS,)
    connection.create_function("lag", 2, _lag, deterministic=True)
    listed = f"SELECT * {named} ORDER BY {ORDERS[order]}, source LIMIT ? OFFSET ?"
    rows = connection.execute(listed, (*values, limit, skip)).fetchall()
    return {
        "sources": [_values(connection, row) for row in rows],
        "count": connection.execute(f"SELECT count(*) {named}", values).fetchone()[0],
        "repeating": repeating(connection),
        "exceeded": dict(connection.execute("SELECT bound, number FROM source_exceeded").fetchall()),
    }


def one(connection: sqlite3.Connection, name: str) -> dict[str, Any] | None:
    """Return a source with its hours; ``None`` if it has no account."""
    rows = connection.execute("SELECT * FROM sources WHERE source = ? ORDER BY hour", (name,)).fetchall()
    if not rows:
        return None
    every, *hours = rows  # no hour is less than that of all
    listed = [Account.from_stored(tuple(row)[2:]).of_hour(row["hour"]) for row in hours]
    return {**_values(connection, every), "hours": listed}


def repeating(connection: sqlite3.Connection, since_hour: int = ALL_HOURS + 1) -> list[dict[str, Any]]:
    """Return the hours from one on in which a source repeated itself, unlike in the week before."""
    query = f"SELECT * FROM sources WHERE hour >= ? AND {_REPEATED} ORDER BY hour, source"
    sums = "coalesce(sum(documents), 0), coalesce(sum(own), 0)"
    repeating = []
    for row in connection.execute(query, (since_hour,)):
        hour = row["hour"]
        week = row["source"], max(hour - WEEK_HOURS, ALL_HOURS + 1), hour - 1
        before = connection.execute(f"SELECT {sums} FROM sources WHERE source = ? AND hour BETWEEN ? AND ?", week)
        repeating.append(repeated(row["source"], hour, tuple(row)[2:], tuple(before.fetchone())))
    return [each for each in repeating if each is not None]


def totals(connection: sqlite3.Connection, limit: int) -> list[tuple[str | None, int, int]]:
    """Return name, documents, and duplicates of other ids of the same source, of the largest sources; and those of all
    together, with the name ``None``."""
    query = "SELECT source, documents, own FROM sources WHERE hour = ? ORDER BY documents DESC, source LIMIT ?"
    every = "SELECT NULL, coalesce(sum(documents), 0), coalesce(sum(own), 0) FROM sources WHERE hour = ?"
    rows = *connection.execute(query, (ALL_HOURS, limit)), *connection.execute(every, (ALL_HOURS,))
    return [(name, documents, own) for name, documents, own in rows]


def _lag(name: str, lags: str | None) -> float | None:
    lag: float | None = Account.from_stored([0] * len(COUNTS) + [lags]).values()[name]
    return lag


def _values(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    name = row["source"]
    counts = [
        partners([(-number, other) for other, number in connection.execute(query, (name, PARTNERS_MAX))])
        for query in (
            "SELECT original, documents FROM source_pairs WHERE source = ? ORDER BY documents DESC, original LIMIT ?",
            "SELECT source, documents FROM source_pairs WHERE original = ? ORDER BY documents DESC, source LIMIT ?",
        )
    ]
    values = Account.from_stored(tuple(row)[2:]).values()
    return {"source": name or None, **values, "earlier_in": counts[0], "later_in": counts[1]}
