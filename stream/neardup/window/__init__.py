"""The one stateful structure: a windowed table of buckets. Each item probes the table, then is added to it."""

from neardup.window.band_table import BandTable, Candidates
from neardup.window.chains import FOREIGN, NO_LIMIT, NO_TIME, NO_WINDOW, OWN, REMOVAL, Items
from neardup.window.counters import COUNTERS, Counter, Limits

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
