"""The k most similar documents of every document of a corpus at rest: the join and the ranking of ``batch --top``.

``join`` finds the contents that share a bucket. Their similarities go to the table ``alike``, in both directions. A
document is then compared with one row of each such content, and of its own content: the newest row that is not a
version of its id and lies within its window. The best k rows are its neighbours. Nearly always this row is the newest
row of the content, or the newest with another id; a lookup in ``newest`` finds both. The remaining cases need a join
with every row of the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt

from neardup_workers.running.commands.batch.join import CONTENT_PAIRS, insert

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_BEGIN = "CREATE TABLE scored (newer BIGINT, older BIGINT, similarity DOUBLE)"
_RANKED = """
CREATE TABLE alike AS
SELECT one, other, max(similarity) AS similarity FROM (
    {content_pairs} UNION ALL
    SELECT content AS one, content AS other, 1.0 AS similarity FROM items GROUP BY content HAVING count(*) > 1
) GROUP BY one, other;
CREATE TABLE newest AS
SELECT content, max(n) AS last, arg_max(name, n) AS name FROM items GROUP BY content;
CREATE TABLE newest_other AS
SELECT i.content, max(i.n) AS last FROM items i JOIN newest w ON i.content = w.content AND i.name <> w.name
GROUP BY i.content;
CREATE TABLE asked AS
SELECT a.n, a.name, a.time, p.other AS content, p.similarity,
       CASE WHEN w.name <> a.name THEN w.last ELSE o.last END AS other
FROM items a JOIN alike p ON p.one = a.content JOIN newest w ON w.content = p.other
LEFT JOIN newest_other o ON o.content = p.other;
CREATE TABLE answered AS
SELECT q.n, q.other, q.similarity FROM asked q JOIN items i ON i.n = q.other WHERE abs(q.time - i.time) <= {window}
UNION ALL
SELECT q.n, max(i.n) AS other, q.similarity FROM asked q JOIN items l ON l.n = q.other
JOIN items i ON i.content = q.content AND i.name <> q.name AND abs(q.time - i.time) <= {window}
WHERE abs(q.time - l.time) > {window} GROUP BY q.n, q.content, q.similarity;
CREATE TABLE best AS
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY n ORDER BY similarity DESC, other DESC) AS rank FROM answered)
WHERE rank <= {k};
"""


class RankedRows(NamedTuple):
    """Rows from ``first`` up to ``end`` with their neighbours: row (``int64[m]``, ascending), neighbour (``int64[m]``)
    and similarity (``float64[m]``, of one row descending)."""

    first: int
    end: int
    rows: Rows
    others: Rows
    similarity: Floats


class Ranking:
    """The scores of a corpus: call ``add``, then read ``best``. It has its own cursor, so open results of ``database``
    remain readable."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._cursor = database.cursor()
        self._cursor.execute(_BEGIN)

    def add(self, newer: Rows, older: Rows, similarity: Floats) -> None:
        """Add scored pairs of rows."""
        insert(self._cursor, "scored", {"newer": newer, "older": older, "similarity": similarity})

    def best(self, count: int, window: int, k: int, rows_max: int) -> Iterator[RankedRows]:
        """Yield the ``k`` best neighbours of ``count`` rows, ``rows_max`` rows at a time; ``window`` in
        microseconds."""
        self._cursor.execute(_RANKED.format(content_pairs=CONTENT_PAIRS.format(pairs="scored"), window=window, k=k))
        for first in range(0, count, rows_max):
            end = min(first + rows_max, count)
            query = "SELECT n, other, similarity FROM best WHERE n >= ? AND n < ? ORDER BY n, rank"
            columns = self._cursor.execute(query, [first, end]).fetchnumpy()
            rows, others = (np.asarray(columns[name], np.int64) for name in ("n", "other"))
            yield RankedRows(first, end, rows, others, np.asarray(columns["similarity"], np.float64))
