"""The checksums of pages follow what is committed, whatever else stands in the file of changes."""

import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from neardup_workers.outside.store.disk.changes import FRAME_HEADER, WAL_HEADER
from neardup_workers.outside.store.disk.sums import PAGE_BYTES, PageSums

CHANGE = FRAME_HEADER + PAGE_BYTES


def move(sums, writer):
    """Run a checkpoint as the service does."""
    sums.begin()
    (_, counted, moved) = writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    sums.end(counted, moved)


def counted(sums):
    """How many changes have been committed, by a look at them."""
    sums.begin()
    return len(sums._frames)


@pytest.fixture
def database(tmp_path):
    """The path of a database of two tables whose checksums are known, the checksums, and who writes to it."""
    path = tmp_path / "window.sqlite"
    sums = PageSums(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.executescript(f"PRAGMA page_size={PAGE_BYTES}; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0")
        writer.executescript("PRAGMA cache_size=5; CREATE TABLE a (x); CREATE TABLE b (x)")
        for table in "ab":
            writer.executemany(f"INSERT INTO {table} VALUES (hex(zeroblob(300)))", [()] * 40)
        sums.open()
        move(sums, writer)
        assert not len(sums.unknown)
        yield path, sums, writer
    sums.close(is_moved=False)


def test_changes_that_are_undone_after_a_look_at_them_hide_no_later_ones(database):
    """A transaction larger than the cache, or one that finds the disk full, leaves changes in the file, under the name
    of the file; those of the next transaction replace them one by one."""
    path, sums, writer = database
    before = path.with_name("window.sqlite-wal").read_bytes()
    writer.execute("BEGIN")
    writer.execute("UPDATE a SET x = hex(randomblob(300))")
    assert path.with_name("window.sqlite-wal").read_bytes() != before, "it is not committed, and in the file"
    sums.begin()
    writer.execute("ROLLBACK")
    writer.execute("UPDATE b SET x = hex(randomblob(300))")
    move(sums, writer)
    assert not sums.damaged(0, sums.pages)
    assert not len(np.setdiff1d(sums.unknown, sums._pending()))


@pytest.mark.parametrize("rest", [FRAME_HEADER, CHANGE])
def test_a_commit_that_fails_in_its_last_change_hides_no_later_ones(database, rest):
    """Its mark stands in the file, and behind it no byte of the page, or all: the disk was full, or gave no answer."""
    path, sums, writer = database
    other, changes = path.with_name("other.sqlite"), path.with_name("window.sqlite-wal")
    writer.execute("INSERT INTO a VALUES (1)")
    for one in (path, changes):
        shutil.copy(one, path.with_name(one.name.replace("window", "other")))
    with closing(sqlite3.connect(other, isolation_level=None)) as writer_of_other:
        writer_of_other.execute("UPDATE a SET x = hex(randomblob(300))")
        begin, end = (WAL_HEADER + n * CHANGE for n in (counted(sums), counted(PageSums(other))))
        failed = other.with_name("other.sqlite-wal").read_bytes()[begin : end - CHANGE + rest]
    assert len(failed) > 30 * CHANGE
    with changes.open("r+b") as file:
        file.seek(begin)
        file.write(failed)
        file.truncate()
    sums.begin()
    writer.execute("UPDATE b SET x = hex(randomblob(300))")
    move(sums, writer)
    assert not sums.damaged(0, sums.pages)
