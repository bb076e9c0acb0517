"""Lists of stories and of documents, page by page, with filters.

A *cursor* names the last row of a page by the key of its order and its number. Keys of stories only grow while
documents come. So no story is on two pages, and a story that does not change between two pages is not left out. Places
of documents never change: their pages have each document once.
"""

from __future__ import annotations

import re
import sqlite3
from typing import NamedTuple

from neardup.documents.ids import full_id, stored_id
from neardup.stories.verdicts.rule import STATUSES
from neardup_workers.outside.store.extra.desk import MUTED
from neardup_workers.outside.store.extra.words import MATCHES_MAX, OF_OTHERS, query_of, waiting

_STORIES, _ALONE = "clusters c", "c.size = 1"
# Order of stories -> of each part its table, condition and key, greatest first; all have an index. Stories of one
# document are the second part, if there is one. ``newest`` is the story that began last, ``recent`` the one with the
# newest document.
STORY_ORDERS = {
    "size": ((_STORIES, "c.size > 1", "c.size"), (_STORIES, _ALONE, "c.size")),
    "recent": (
        (_STORIES, "c.last_place <> c.cluster", "c.last_place"), (_STORIES, "c.last_place = c.cluster", "c.cluster"),
    ),
    "growth": (("growth g JOIN clusters c USING (cluster)", "true", "g.heat"),),
    "newest": ((_STORIES, "true", "c.cluster"),),
}  # fmt: skip
# Order of documents -> the comparison with the cursor, the direction.
DOCUMENT_ORDERS = {"newest": ("<", "DESC"), "oldest": (">", "ASC")}
_CURSOR = re.compile(r"(-?\d{1,18})\.(\d{1,18})")
# A page of documents looks at so many at most. The next page continues there.
_LOOKS_MAX = 200_000
# Ids that begin with a text: so many count at most.
_IDS_MAX = 10_000
# The id of a document of a story. Its original may have left.
_STORY_ID = "(SELECT id FROM documents WHERE cluster = c.cluster AND gone = 0 LIMIT 1)"
_STORIES_OF = "SELECT cluster FROM documents WHERE source = ?"


class Filters(NamedTuple):
    """What rows of a list have in common; ``None`` says nothing. ``text`` is searched: as words of kept documents, as
    the beginning of an id, and as a source. Times are in microseconds. ``size_max`` is of stories, ``status`` of
    documents. A story has the sources of all its documents. If ids are full ids (``separate``), ``collection`` is that
    of the rows, and ids are searched within it. Stories are muted ones alone, or those that are not."""

    text: str | None = None
    source: str | None = None
    since: int | None = None
    until: int | None = None
    size_min: int = 1
    size_max: int | None = None
    status: str | None = None
    collection: str | None = None
    separate: bool = False
    muted: bool = False


class PageCursor(NamedTuple):
    """The last row of a page."""

    key: int
    number: int

    def __str__(self) -> str:
        return f"{self.key}.{self.number}"


def cursor_of(text: str) -> PageCursor | None:
    """Return the cursor that ``str`` gave; ``None`` for another text."""
    match = _CURSOR.fullmatch(text)
    return PageCursor(int(match[1]), int(match[2])) if match else None


def list_stories(
    connection: sqlite3.Connection, order: str, limit: int, filters: Filters, after: PageCursor | None
) -> tuple[list[sqlite3.Row], PageCursor | None]:
    """Return rows of ``clusters`` in an order of ``STORY_ORDERS``, and where the next page begins."""
    source = filters.source
    conditions = _conditions({
        "c.size >= ?": filters.size_min, "c.size <= ?": filters.size_max,
        "c.last_time >= ?": filters.since, "c.first_time <= ?": filters.until,
        f"c.cluster IN ({_STORIES_OF})": None if source is None else source.lower(),
    })  # fmt: skip
    conditions.append((f"c.cluster {'IN' if filters.muted else 'NOT IN'} ({MUTED})", ()))
    if filters.collection is not None:
        conditions.append(_of_collection(_STORY_ID, filters))
    if filters.text is not None:
        conditions.append(_stories_with(connection, filters.text, filters))
    parts, values = list[str](), list[object]()
    for table, condition, key in STORY_ORDERS[order][: 1 if filters.size_min > 1 else None]:
        of_part: list[_Condition] = [(condition, ()), *conditions]
        if after is not None and (condition != _ALONE or after.key > 1):
            of_part.append((f"({key}, c.cluster) < (?, ?)", tuple(after)))
        elif after is not None:  # those that are alone have one key
            of_part.append(("c.cluster < ?", (after.number,)))
        where, of_where = _where(of_part)
        parts.append(f"SELECT c.*, {key} AS key FROM {table} WHERE {where}")
        values += of_where
    query = f"{' UNION ALL '.join(parts)} ORDER BY key DESC, cluster DESC LIMIT ?"
    rows = connection.execute(query, (*values, limit + 1)).fetchall()
    page = rows[:limit]
    return page, PageCursor(page[-1]["key"], page[-1]["cluster"]) if len(rows) > limit else None


def list_documents(
    connection: sqlite3.Connection, answer: str, order: str, limit: int, filters: Filters, after: PageCursor | None
) -> tuple[list[sqlite3.Row], PageCursor | None]:
    """Return documents in an order of ``DOCUMENT_ORDERS``, and where the next page begins: a page may have fewer than
    ``limit``. ``answer`` is the query of their verdicts."""
    compare, direction = DOCUMENT_ORDERS[order]
    oldest, newest = connection.execute("SELECT min(place), max(place) FROM documents").fetchone()
    if newest is None:
        return [], None
    is_down = direction == "DESC"
    begin = after.number if after else newest + 1 if is_down else oldest - 1
    end = max(begin - _LOOKS_MAX, oldest) if is_down else min(begin + _LOOKS_MAX, newest)
    source, status = filters.source, filters.status
    conditions = _conditions({
        "d.gone = ?": 0, f"d.place {compare} ?": begin, f"d.place {'>=' if is_down else '<='} ?": end,
        "d.said = ?": None if status is None else STATUSES.index(status),
        "d.time >= ?": filters.since, "d.time <= ?": filters.until,
        "d.source = ?": None if source is None else source.lower(),
    })  # fmt: skip
    if filters.collection is not None:
        conditions.append(_of_collection("d.id", filters))
    if filters.text is not None:
        conditions.append(_documents_with(connection, filters.text, filters))
    where, values = _where(conditions)
    query = f"{answer} WHERE {where} ORDER BY d.place {direction} LIMIT ?"
    rows = connection.execute(query, (*values, limit + 1)).fetchall()
    page = rows[:limit]
    if len(rows) > limit:
        return page, PageCursor(0, page[-1]["place"])
    return page, PageCursor(0, end) if end != (oldest if is_down else newest) else None


# A condition of a query, and the values in it.
_Condition = tuple[str, tuple[object, ...]]


def _conditions(values: dict[str, object]) -> list[_Condition]:
    """Return the conditions that have a value."""
    return [(condition, (value,)) for condition, value in values.items() if value is not None]


def _where(conditions: list[_Condition]) -> tuple[str, list[object]]:
    """Return the condition that all of some hold, and its values."""
    return " AND ".join(condition for condition, _ in conditions), [one for _, values in conditions for one in values]


def _of_collection(id_: str, filters: Filters) -> _Condition:
    """Return the condition that an id is one of a collection."""
    begin = full_id("", filters.collection).encode("utf-8", "surrogatepass")
    return f"{id_} >= ? AND {id_} < ?", (begin, begin[:-1] + b"\x20")


def _stories_with(connection: sqlite3.Connection, text: str, filters: Filters) -> _Condition:
    """Return the condition that a story has a document with a text: in its words, or at the begin of its id."""
    ids, values = _ids(text, filters)
    queries = [f"SELECT cluster FROM (SELECT d.cluster FROM documents d WHERE {ids} AND d.gone = 0 LIMIT {_IDS_MAX})"]
    queries.append(_STORIES_OF)
    values = (*values, text.lower())
    words = query_of(text)
    if words is not None:
        # An original has the number of its story; only other documents must be looked up.
        others = f"documents INDEXED BY documents_joined WHERE {OF_OTHERS}"
        entered = "SELECT rowid AS named FROM headlines WHERE headlines MATCH ? AND rowid >= ?"
        story = f"coalesce((SELECT cluster FROM {others} AND place = named), named)"
        queries.append(f"SELECT {story} FROM ({entered} UNION ALL {_waiting(connection, text)})")
        # From the place on from which ``MATCHES_MAX`` documents have the words.
        query = (
            f"SELECT rowid FROM headlines WHERE headlines MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET {MATCHES_MAX - 1}"
        )
        row = connection.execute(query, (words,)).fetchone()
        values = *values, words, row[0] if row else 0
    return f"c.cluster IN ({' UNION ALL '.join(queries)})", values


def _waiting(connection: sqlite3.Connection, text: str) -> str:
    """Return the query of the places that wait for their entry and have the words of a text."""
    return f"SELECT place FROM documents WHERE place IN ({', '.join(map(str, waiting(connection, text)))})"


def _documents_with(connection: sqlite3.Connection, text: str, filters: Filters) -> _Condition:
    ids, values = _ids(text, filters)
    words = query_of(text)
    if words is None:
        return ids, values
    entered = "SELECT rowid FROM headlines WHERE headlines MATCH ?"
    return f"(({ids}) OR d.place IN ({entered} UNION ALL {_waiting(connection, text)}))", (*values, words)


def _ids(text: str, filters: Filters) -> _Condition:
    """Return the condition that an id begins with a text: in UTF-8 no byte is 255."""
    begin = stored_id(text, filters.collection, separate=filters.separate)
    return "d.id >= ? AND d.id < ?", (begin, begin + b"\xff")
