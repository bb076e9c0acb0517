"""How fast stories grow: a number for each story with a copy, by which stories can be ordered at any time.

The growth of a story at a time is the sum over its copies of 2 to the power of minus their age in hours: a copy counts
1 when it arrives, and half of that an hour later. All sums fall alike. So their order needs no clock: ``heat`` is the
time at which the sum was, or will be, exactly 1. Members that are removed stay counted.
"""

from __future__ import annotations

import math
import sqlite3
from itertools import groupby
from operator import itemgetter

# Microseconds in which the sum falls to a half.
_HALF = 3_600_000_000
TABLES = """
CREATE TABLE growth (cluster INTEGER PRIMARY KEY, heat INTEGER NOT NULL);
CREATE INDEX growth_heat ON growth (heat, cluster);
CREATE TRIGGER grows AFTER INSERT ON documents WHEN new.status = 1 BEGIN
    INSERT INTO growth VALUES (new.cluster, new.time)
    ON CONFLICT (cluster) DO UPDATE SET heat = warmer(heat, new.time);
END;
CREATE TRIGGER ends AFTER DELETE ON clusters BEGIN
    DELETE FROM growth WHERE cluster = old.cluster;
END;
"""


def connect(writer: sqlite3.Connection) -> None:
    """Give a connection the function that the tables need."""
    writer.create_function("warmer", 2, warmer, deterministic=True)


def warmer(heat: int, time: int) -> int:
    """Return the heat of a story with one more copy, which arrived at ``time`` (microseconds)."""
    later, earlier = max(heat, time), min(heat, time)
    return later + round(_HALF * math.log2(1.0 + 2.0 ** ((earlier - later) / _HALF)))


def fill(writer: sqlite3.Connection) -> None:
    """Compute the growth of the stories of a window."""
    copies = "SELECT cluster, time FROM documents JOIN clusters USING (cluster) WHERE status = 1 AND gone = 0"
    for cluster, rows in groupby(writer.execute(f"{copies} ORDER BY cluster"), itemgetter(0)):
        times = [time for _, time in rows]
        heat = times[0]
        for time in times[1:]:
            heat = warmer(heat, time)
        writer.execute("INSERT INTO growth VALUES (?, ?)", (cluster, heat))
