"""The rules of the stream over all rows at once, as queries that DuckDB and Spark read alike.

The names are those of the tables and views that they read: ``arrivals`` (n, time, high, low, id), ``items``,
``judged``, ``found``, ``postings``, ``shared``, ``candidates``.
"""

from __future__ import annotations

from neardup.window.chains import OLD_PART, OLDEST_MAX

# ``peer`` is the newest earlier row of the content with another id than the row's own; ``latest`` the greatest time
# up to it. Consecutive rows with one id have the same peer: the row before the first of them.
ITEMS = """
SELECT n, time, name, content,
       max(CASE WHEN fresh THEN before END) OVER so_far AS peer,
       max(time) OVER so_far AS latest
FROM (SELECT *, lag(n) OVER arrived AS before, lag(name) OVER arrived IS DISTINCT FROM name AS fresh
      FROM (SELECT n, time, min(n) OVER (PARTITION BY id) AS name, {content} AS content FROM arrivals) named
      WINDOW arrived AS (PARTITION BY content ORDER BY n)) ordered
WINDOW so_far AS (PARTITION BY content ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
"""
# The content of a row, if equal contents are one, and if each row is a content of its own.
CONTENT = {True: "min(n) OVER (PARTITION BY high, low)", False: "n"}
# What asks for the nearest row of a content: every copy for the content of its own.
LINKS_ASKED = "SELECT n, time, name, content AS other FROM items WHERE n > content"
# ``nearest`` has the newest row of the other content before each row, or its peer if it is a version of the row's id.
JUDGED = """
SELECT a.*, abs(a.time - i.time) <= {window} AS inside FROM nearest a JOIN items i ON i.n = a.older
"""
INSIDE = "SELECT n AS newer, older, {identical} AS identical FROM judged WHERE inside"
# A row outside of the window, or a version of the row's own id, is replaced by the next row; few rows are.
OUTSIDE = """
SELECT a.n AS newer, max(i.n) AS older, {identical} AS identical FROM judged a JOIN items i
ON i.content = a.other AND i.n < a.n AND i.name <> a.name AND abs(a.time - i.time) <= {window}
WHERE NOT a.inside AND a.latest >= a.time - {window} GROUP BY a.n, a.other
"""
SHARED = """
SELECT key, content, payload, lo, hi, row_number() OVER (PARTITION BY key ORDER BY content) - 1 AS number
FROM postings SEMI JOIN (SELECT key FROM postings GROUP BY key HAVING count(*) > 1) several USING (key)
JOIN (SELECT content, min(time) AS lo, max(time) AS hi FROM items GROUP BY content) spans USING (content)
"""
_BLOCK = "CAST(floor(number / {cap}) AS BIGINT)"
# A bucket in blocks of ``cap`` entries: the ``cap`` entries before one are in its own block or in the block before,
# and the oldest ones are in every block. So the work is linear in the length of a bucket.
CANDIDATES = f"""
SELECT a.content AS earlier, b.content AS later
FROM (SELECT *, {_BLOCK} AS block FROM shared
      UNION ALL SELECT *, {_BLOCK} + 1 AS block FROM shared
      WHERE key IN (SELECT key FROM shared WHERE number >= {{cap}})
      UNION ALL SELECT shared.*, block FROM shared
      JOIN (SELECT DISTINCT key, {_BLOCK} AS block FROM shared WHERE number >= 2 * {{cap}}) far USING (key)
      WHERE number < {{old}}) a
JOIN (SELECT *, {_BLOCK} AS block FROM shared) b
ON a.key = b.key AND a.block = b.block AND a.number < b.number
AND (b.number - a.number <= {{cap}} - {{old}} OR a.number < {{old}})
WHERE a.content < b.content AND a.lo - b.hi <= {{window}} AND b.lo - a.hi <= {{window}}
GROUP BY a.content, b.content {{admits}}
"""
# How many tokens two sets can share if they share one of these payloads; ``neardup.window.admit.may_reach`` by
# them.
_MOST = "(least(a.payload >> 32, b.payload >> 32) + least(a.payload & 4294967295, b.payload & 4294967295))"
ADMITS = f"""
CAST({_MOST} AS DOUBLE) >= CAST({{ratio}} AS DOUBLE) * CAST((a.payload >> 32) + (a.payload & 4294967295)
+ (b.payload >> 32) + (b.payload & 4294967295) - {_MOST} AS DOUBLE) * (1 - pow(2, -50))
"""
_SIZE_A = "any_value((a.payload >> 32) + (a.payload & 4294967295))"
_SIZE_B = "any_value((b.payload >> 32) + (b.payload & 4294967295))"
# The same predicate of any common key, and ``neardup.window.admit.common_min`` of the number of common keys.
HAVING = f"""
HAVING bool_or({{admits}}) AND count(*) >= CAST({{ratio}} AS DOUBLE) / (1 + CAST({{ratio}} AS DOUBLE))
* ({_SIZE_A} + {_SIZE_B}) * (1 - pow(2, -50)) - floor(CAST({{ratio}} AS DOUBLE) * greatest({_SIZE_A}, {_SIZE_B}))
"""
PROBES_ASKED = """
SELECT i.n, i.time, i.name, c.other
FROM (SELECT earlier AS content, later AS other FROM candidates
      UNION ALL SELECT later AS content, earlier AS other FROM candidates) c
JOIN (SELECT * FROM items ANTI JOIN (SELECT newer AS n FROM found) linked USING (n)) i USING (content)
WHERE c.other < i.n
"""


def candidates_query(window: int, cap: int, admit_ratio: float | None) -> str:
    """Return the query of pairs of contents.

    ``window`` is in microseconds; ``cap`` is the number of contents of a bucket; two payloads satisfy ``admit_ratio``.
    """
    ratio = repr(admit_ratio)
    admits = "" if admit_ratio is None else HAVING.format(admits=ADMITS.format(ratio=ratio), ratio=ratio)
    return CANDIDATES.format(cap=cap, old=min(cap // OLD_PART, OLDEST_MAX), window=window, admits=admits)
