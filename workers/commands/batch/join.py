"""The pairs of a corpus at rest that share a bucket: the group-by and the joins of ``batch`` in a database.

The database is DuckDB. It runs in the process, without a server, and its large operators (grouping, join, sort, window)
spill to disk beyond ``memory_limit``. A join of Polars holds one of its sides in memory.

Rows are numbered in order of arrival. A **content** is named by the first row that has it; a scheme that compares
copies has a content for each row. The rules are the rules of the stream (``neardup.stream.table``), written for all
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

from neardup.stream.table import NO_TIME
from neardup.stream.table.chains import OLD_PART, OLDEST_MAX

Rows = npt.NDArray[np.int64]
Connection = duckdb.DuckDBPyConnection

_TABLES = """
CREATE TABLE arrivals (n BIGINT, time BIGINT, high UBIGINT, low UBIGINT, id BLOB);
CREATE TABLE postings (key UBIGINT, content BIGINT, payload UBIGINT);
CREATE TABLE found (newer BIGINT, older BIGINT, identical BOOLEAN);
"""
# ``peer`` is the newest earlier row of the content with another id than the row's own; ``latest`` the greatest time
# up to it. Consecutive rows with one id have the same peer: the row before the first of them.
_ITEMS = """
CREATE TABLE named AS
SELECT n, time, min(n) OVER (PARTITION BY id) AS name, {content} AS content FROM arrivals;
DROP TABLE arrivals;
CREATE TABLE items AS
SELECT n, time, name, content,
       last_value(CASE WHEN fresh THEN before END IGNORE NULLS) OVER so_far AS peer,
       max(time) OVER so_far AS latest
FROM (SELECT *, lag(n) OVER arrived AS before, lag(name) OVER arrived IS DISTINCT FROM name AS fresh
      FROM named WINDOW arrived AS (PARTITION BY content ORDER BY n))
WINDOW so_far AS (PARTITION BY content ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW);
DROP TABLE named;
"""
_CONTENT = {True: "min(n) OVER (PARTITION BY high, low)", False: "n"}
_LINKS_ASKED = "CREATE TABLE asked AS SELECT n, time, name, content AS other FROM items WHERE n > content;"
# A row outside of the window, or a version of the row's own id, is replaced by the next row; for most rows, the second
# table is not read.
_ANSWERED = """
CREATE TABLE nearest AS
SELECT a.n, a.time, a.name, a.other, CASE WHEN i.name = a.name THEN i.peer ELSE i.n END AS older, i.latest
FROM asked a ASOF JOIN items i ON a.other = i.content AND a.n > i.n;
DROP TABLE asked;
CREATE TABLE judged AS
SELECT a.*, abs(a.time - i.time) <= {window} AS inside FROM nearest a JOIN items i ON i.n = a.older;
DROP TABLE nearest;
INSERT INTO found SELECT n, older, {identical} FROM judged WHERE inside;
INSERT INTO found
SELECT a.n, max(i.n), {identical} FROM judged a JOIN items i
ON i.content = a.other AND i.n < a.n AND i.name <> a.name AND abs(a.time - i.time) <= {window}
WHERE NOT a.inside AND a.latest >= a.time - {window} GROUP BY a.n, a.other;
DROP TABLE judged;
"""
_SHARED = """
CREATE TABLE shared AS
SELECT key, content, payload, lo, hi, row_number() OVER (PARTITION BY key ORDER BY content) - 1 AS place
FROM postings SEMI JOIN (SELECT key FROM postings GROUP BY key HAVING count(*) > 1) USING (key)
JOIN (SELECT content, min(time) AS lo, max(time) AS hi FROM items GROUP BY content) USING (content);
DROP TABLE postings;
"""
# A bucket in blocks of ``cap`` places: the ``cap`` places before a place are in its own block or in the block before,
# and the oldest ones are in every block. So the work is linear in the length of a bucket.
_CANDIDATES = """
CREATE TABLE candidates AS
SELECT a.content AS earlier, b.content AS later
FROM (SELECT *, place // {cap} AS block FROM shared
      UNION ALL SELECT *, place // {cap} + 1 AS block FROM shared
      WHERE key IN (SELECT key FROM shared WHERE place >= {cap})
      UNION ALL SELECT shared.*, block FROM shared
      JOIN (SELECT DISTINCT key, place // {cap} AS block FROM shared WHERE place >= 2 * {cap}) USING (key)
      WHERE place < {old}) a
JOIN (SELECT *, place // {cap} AS block FROM shared) b
ON a.key = b.key AND a.block = b.block AND a.place < b.place
AND (b.place - a.place <= {cap} - {old} OR a.place < {old})
WHERE a.content < b.content AND a.lo - b.hi <= {window} AND b.lo - a.hi <= {window}
GROUP BY a.content, b.content {admits};
DROP TABLE shared;
"""
# How many tokens two sets can share if they share one of these payloads; ``neardup.stream.table.admit.may_reach`` by
# them.
_MOST = "(least(a.payload >> 32, b.payload >> 32) + least(a.payload & 4294967295, b.payload & 4294967295))"
_ADMITS = f"""
{_MOST}::DOUBLE >= {{ratio}}::DOUBLE * ((a.payload >> 32) + (a.payload & 4294967295) + (b.payload >> 32)
+ (b.payload & 4294967295) - {_MOST})::DOUBLE * (1 - pow(2, -50))
"""
# The same predicate of any common key, and ``neardup.stream.table.admit.common_min`` of the number of common keys.
_HAVING = """
HAVING bool_or({admits}) AND count(*) >= {ratio}::DOUBLE / (1 + {ratio}::DOUBLE)
* (any_value((a.payload >> 32) + (a.payload & 4294967295)) + any_value((b.payload >> 32) + (b.payload & 4294967295)))
* (1 - pow(2, -50)) - floor({ratio}::DOUBLE * greatest(any_value((a.payload >> 32) + (a.payload & 4294967295)),
any_value((b.payload >> 32) + (b.payload & 4294967295))))
"""
_PROBES_ASKED = """
CREATE TABLE asked AS
SELECT i.n, i.time, i.name, c.other
FROM (SELECT earlier AS content, later AS other FROM candidates
      UNION ALL SELECT later AS content, earlier AS other FROM candidates) c
JOIN (SELECT * FROM items ANTI JOIN (SELECT newer AS n FROM found) USING (n)) i USING (content)
WHERE c.other < i.n;
DROP TABLE candidates;
"""
# Pairs of contents in both directions, of the table ``pairs`` of rows.
CONTENT_PAIRS = """
SELECT a.content AS one, b.content AS other, similarity FROM {pairs} JOIN items a ON a.n = newer
JOIN items b ON b.n = older
UNION ALL
SELECT b.content AS one, a.content AS other, similarity FROM {pairs} JOIN items a ON a.n = newer
JOIN items b ON b.n = older
"""


class Found(NamedTuple):
    """Candidates: the newer and the older row (``int64[m]``), and whether they are copies (``bool[m]``)."""

    newer: Rows
    older: Rows
    identical: npt.NDArray[np.bool_]


class Counts(NamedTuple):
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
    database.execute(_ITEMS.format(content=_CONTENT[by_content]))


def window_begin(database: Connection, horizon: int) -> int:
    """Return the first row with a time of at least ``horizon``; it must exist."""
    return _number(database, f"SELECT min(n) FROM items WHERE time >= {horizon}")


def stream_time_before(database: Connection, row: int) -> int:
    """Return the greatest time of the rows before ``row``, or ``NO_TIME``."""
    return _number(database, f"SELECT coalesce(max(time), {NO_TIME}) FROM items WHERE n < {row}")


def contents_between(database: Connection, first: int, end: int) -> Rows:
    """Return the rows from ``first`` up to ``end`` that are the first of their content."""
    found = database.execute(
        "SELECT n FROM items WHERE n = content AND n >= ? AND n < ? ORDER BY n", [first, end]
    ).fetchnumpy()
    return np.asarray(found["n"], np.int64)


def add_keys(database: Connection, rows: Rows, keys: npt.NDArray[np.uint64], payloads: npt.NDArray[np.uint64]) -> None:
    """Add bucket keys, each with its content and a payload, or without payloads."""
    given = payloads if len(payloads) else np.zeros(len(keys), np.uint64)
    insert(database, "postings", {"key": keys, "content": rows, "payload": given})


def join(database: Connection, window: int, cap: int, admit_ratio: float | None) -> Counts:
    """Find the candidates: ``window`` in microseconds, ``cap`` contents of a bucket, what two payloads must satisfy."""
    ratio = repr(admit_ratio)
    admits = "" if admit_ratio is None else _HAVING.format(admits=_ADMITS.format(ratio=ratio), ratio=ratio)
    database.execute(_LINKS_ASKED)
    database.execute(_ANSWERED.format(window=window, identical=True))
    database.execute(_SHARED)
    cuts = _number(database, f"SELECT count(*) FROM shared WHERE place > {cap}")
    database.execute(_CANDIDATES.format(cap=cap, old=min(cap // OLD_PART, OLDEST_MAX), window=window, admits=admits))
    database.execute(_PROBES_ASKED)
    database.execute(_ANSWERED.format(window=window, identical=False))
    copies = _number(database, "SELECT count(*) FROM found WHERE identical")
    return Counts(_number(database, "SELECT count(*) FROM found") - copies, copies, cuts)


def candidates(database: Connection, rows_max: int) -> Iterator[Found]:
    """Return the candidates, at most ``rows_max`` at a time, by newer row; for each, the newest older rows first."""
    cursor = database.execute("SELECT newer, older, identical FROM found ORDER BY newer, older DESC")
    while rows := cursor.fetchmany(rows_max):
        newer, older, identical = zip(*rows, strict=True)
        yield Found(np.array(newer, np.int64), np.array(older, np.int64), np.array(identical, np.bool_))


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
