"""The pairs of a corpus at rest that share a bucket: the group-by and the joins of ``batch`` in a database.

The database is DuckDB. It runs in the process, without a server, and its large operators (grouping, join, sort, window)
spill to disk beyond ``memory_limit``. A join of Polars holds one of its sides in memory.

Rows are numbered in order of arrival. A **content** is named by the first row that has it; a scheme that compares
copies has a content for each row. The rules are the rules of the stream (``neardup.window``), written for all
rows at once:

- The nearest row of a content to row n is the newest row before n that is not a version of n's id and lies within the
  window. If n's own content has a nearest row, n is linked to this row, and compared with no other row: n copies give n
  - 1 links.
- Every other row probes: for each content with a common key, it makes a candidate with the nearest row of the content.

So contents are compared once, for any number of copies, and only if they share a key. If more than ``cap`` contents
share a key, each is compared with ``cap`` contents before it in the bucket, by first arrival: the newest ones, and the
``old`` oldest ones of the bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt

from neardup.window import NO_TIME
from neardup_workers.running.commands.batch import queries

Rows = npt.NDArray[np.int64]
Connection = duckdb.DuckDBPyConnection

_TABLES = """
CREATE TABLE arrivals (n BIGINT, time BIGINT, high UBIGINT, low UBIGINT, id BLOB);
CREATE TABLE postings (key UBIGINT, content BIGINT, payload UBIGINT);
CREATE TABLE found (newer BIGINT, older BIGINT, identical BOOLEAN);
"""
_NEAREST = """
SELECT a.n, a.time, a.name, a.other, CASE WHEN i.name = a.name THEN i.peer ELSE i.n END AS older, i.latest
FROM asked a ASOF JOIN items i ON a.other = i.content AND a.n > i.n
"""
# Pairs of contents in both directions, of the table ``pairs`` of rows.
CONTENT_PAIRS = """
SELECT a.content AS one, b.content AS other, similarity FROM {pairs} JOIN items a ON a.n = newer
JOIN items b ON b.n = older
UNION ALL
SELECT b.content AS one, a.content AS other, similarity FROM {pairs} JOIN items a ON a.n = newer
JOIN items b ON b.n = older
"""


class JoinedPairs(NamedTuple):
    """Candidates: the newer and the older row (``int64[m]``), and whether they are copies (``bool[m]``)."""

    newer: Rows
    older: Rows
    identical: npt.NDArray[np.bool_]


class JoinCounts(NamedTuple):
    """Numbers of candidates, of links between copies, and of cases with more than ``cap`` earlier contents in a
    bucket."""

    candidates: int
    copies: int
    cuts: int


def open_database(folder: Path, memory_max: str, threads: int) -> Connection:
    """Open a new database in a folder, to which it also spills beyond ``memory_max`` (such as ``512MB``)."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_max, "threads": threads, "temp_directory": str(folder / "spilled"),
        "preserve_insertion_order": False,
    }  # fmt: skip
    database = duckdb.connect(str(folder / "join.duckdb"), config=config)
    database.execute("SET enable_progress_bar = false")
    database.execute(_TABLES)
    return database


def add_arrivals(
    database: Connection, rows: Rows, times: Rows, contents: npt.NDArray[np.uint64], ids: list[bytes]
) -> None:
    """Add rows: effective times, contents ``uint64[n, 2]``, ids."""
    columns = {
        "n": rows, "time": times, "high": contents[:, 0].copy(), "low": contents[:, 1].copy(),
        "id": np.array([*ids, None], object)[:-1],
    }  # fmt: skip
    insert(database, "arrivals", columns)


def name_contents(database: Connection, *, by_content: bool) -> None:
    """Set the content of every row. Call it after the last row was added."""
    _make(database, "items", queries.ITEMS.format(content=queries.CONTENT[by_content]), "arrivals")


def window_begin(database: Connection, horizon: int) -> int:
    """Return the first row with a time of at least ``horizon``; it must exist."""
    return _number(database, f"SELECT min(n) FROM items WHERE time >= {horizon}")


def stream_time_before(database: Connection, row: int) -> int:
    """Return the greatest time of the rows before ``row``, or ``NO_TIME``."""
    return _number(database, f"SELECT coalesce(max(time), {NO_TIME}) FROM items WHERE n < {row}")


def contents_between(database: Connection, first: int, end: int) -> Rows:
    """Return the rows from ``first`` up to ``end`` that are the first of their content."""
    rows = database.execute(
        "SELECT n FROM items WHERE n = content AND n >= ? AND n < ? ORDER BY n", [first, end]
    ).fetchnumpy()
    return np.asarray(rows["n"], np.int64)


def add_keys(database: Connection, rows: Rows, keys: npt.NDArray[np.uint64], payloads: npt.NDArray[np.uint64]) -> None:
    """Add bucket keys, each with its content and a payload, or without payloads."""
    given = payloads if len(payloads) else np.zeros(len(keys), np.uint64)
    insert(database, "postings", {"key": keys, "content": rows, "payload": given})


def join(database: Connection, window: int, cap: int, admit_ratio: float | None) -> JoinCounts:
    """Find the candidates: ``window`` in microseconds, ``cap`` contents of a bucket, what two payloads must satisfy."""
    _make(database, "asked", queries.LINKS_ASKED)
    _answer(database, window, identical=True)
    _make(database, "shared", queries.SHARED, "postings")
    cuts = _number(database, f"SELECT count(*) FROM shared WHERE number > {cap}")
    _make(database, "candidates", queries.candidates_query(window, cap, admit_ratio), "shared")
    _make(database, "asked", queries.PROBES_ASKED, "candidates")
    _answer(database, window, identical=False)
    copies = _number(database, "SELECT count(*) FROM found WHERE identical")
    return JoinCounts(_number(database, "SELECT count(*) FROM found") - copies, copies, cuts)


def _make(database: Connection, table: str, query: str, used_up: str | None = None) -> None:
    """Make a table, and remove the one that no later query reads."""
    database.execute(f"CREATE TABLE {table} AS {query}")
    if used_up is not None:
        database.execute(f"DROP TABLE {used_up}")


def _answer(database: Connection, window: int, *, identical: bool) -> None:
    """Add the nearest row of each content that is ``asked`` for to ``found``."""
    _make(database, "nearest", _NEAREST, "asked")
    _make(database, "judged", queries.JUDGED.format(window=window), "nearest")
    for query in (queries.INSIDE, queries.OUTSIDE):
        database.execute(f"INSERT INTO found {query.format(window=window, identical=identical)}")
    database.execute("DROP TABLE judged")


def candidates(database: Connection, rows_max: int) -> Iterator[JoinedPairs]:
    """Return the candidates, at most ``rows_max`` at a time, by newer row; for each, the newest older rows first."""
    cursor = database.execute("SELECT newer, older, identical FROM found ORDER BY newer, older DESC")
    while rows := cursor.fetchmany(rows_max):
        newer, older, identical = zip(*rows, strict=True)
        yield JoinedPairs(np.array(newer, np.int64), np.array(older, np.int64), np.array(identical, np.bool_))


def insert(database: Connection, table: str, columns: dict[str, npt.NDArray[Any]]) -> None:
    """Add rows to a table; the columns are in its order."""
    execute_with(database, f"INSERT INTO {table} SELECT * FROM columns", columns)


def execute_with(database: Connection, query: str, columns: dict[str, npt.NDArray[Any]]) -> None:
    """Execute a query that reads arrays as the table ``columns``."""
    database.register("columns", columns)
    database.execute(query)
    database.unregister("columns")


def _number(database: Connection, query: str) -> int:
    row = database.execute(query).fetchone()
    return int(row[0]) if row else 0
