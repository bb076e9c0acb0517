"""The one stateful structure: a windowed table of buckets. Each item probes the table, then is added to it."""

from neardup.stream.table.band_table import BandTable, Candidates
from neardup.stream.table.chains import NO_LIMIT, NO_TIME, NO_WINDOW, Items, Limits
from neardup.stream.table.counters import COUNTERS, Counter

__all__ = ["COUNTERS", "NO_LIMIT", "NO_TIME", "NO_WINDOW", "BandTable", "Candidates", "Counter", "Items", "Limits"]
