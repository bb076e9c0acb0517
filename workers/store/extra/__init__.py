"""Extra tables, in the file of the window and the same transactions: nothing of the window is decided by them.

They are made when a store is opened that lacks them, so the version of the window's tables does not count them.
"""

from __future__ import annotations

from neardup.workers.store.extra import feeds, sources

TABLES = feeds.TABLES + sources.TABLES
