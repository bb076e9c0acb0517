"""A transaction of a log: all of it is stored, or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from neardup_workers.outside.store.log import Log, StoreFull, is_full


@contextmanager
def transaction(log: Log) -> Iterator[None]:
    """Run what is inside as one transaction.

    Raises:
        StoreFull: the disk is full; nothing has changed.
        sqlite3.Error: the outcome is unknown; the process must end.
    """
    log.begin()
    try:
        yield
        log.commit()
    except sqlite3.Error as error:
        if not is_full(error):
            raise
        log.rollback()
        raise StoreFull(str(error)) from error
    except BaseException:
        log.rollback()
        raise
