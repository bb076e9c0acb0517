"""The one stateful structure: a windowed table of buckets. Each item probes the table, then is added to it."""

from neardup.stream.table.band_table import BandTable, Candidates
from neardup.stream.table.chains import FOREIGN, NO_LIMIT, NO_TIME, NO_WINDOW, OWN, REMOVAL, Items, Limits
from neardup.stream.table.counters import COUNTERS, Counter

__all__ = [
    "COUNTERS",
    "FOREIGN",
    "NO_LIMIT",
    "NO_TIME",
    "NO_WINDOW",
    "OWN",
    "REMOVAL",
    "BandTable",
    "Candidates",
    "Counter",
    "Items",
    "Limits",
]
