"""Committed changes move to the database on a thread of their own; a COMMIT does not wait for that."""

import errno
import fcntl
import logging
import os
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from service_world import NOW, TEXT, opened

from neardup.documents.document import Document
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.disk.checkpoints import Checkpoints
from neardup_workers.outside.store.disk.reserve import Reserve
from neardup_workers.outside.store.disk.sums import PAGE_BYTES
from neardup_workers.outside.store.log import StoreFull

WAIT_SECONDS = 60.0


@pytest.fixture
def keeper(tmp_path):
    """A window whose checkpoints run at once."""
    keeper = opened(tmp_path, ServeSettings(threshold=0.7))
    use(keeper.log, seconds=0.0)
    yield keeper
    keeper.log.close()


def use(log, **options):
    """Give a log other checkpoints."""
    log._checkpoints.close(sqlite3.connect(":memory:"))
    log._checkpoints = Checkpoints(log.path, **options)
    log._checkpoints.open()


def add(keeper, *names):
    """Add a document for each name, one step each."""
    for name in names:
        [answer] = keeper.check([Document(name, f"{TEXT} {name}", NOW)])
        assert answer.verdict["place"] is not None


def until(condition):
    """Wait for a condition; a test that waits too long fails."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_thread_moves_committed_changes_to_the_database(keeper):
    """No commit does it: the writer's own limit is off."""
    assert keeper.log._writer.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    assert b"harbour-post" not in keeper.log.path.read_bytes()
    add(keeper, "harbour-post")
    until(lambda: b"harbour-post" in keeper.log.path.read_bytes())


def test_an_end_just_after_a_commit_is_not_lost(tmp_path):
    """The thread is asked to end between its wake-up and the moment when it takes note of the commit."""
    (tmp_path / "window.sqlite").touch()
    checkpoints = Checkpoints(tmp_path / "window.sqlite")

    class Late(threading.Event):
        def clear(self):
            checkpoints._stopping.set()
            self.set()
            super().clear()

    checkpoints._committed = Late()
    checkpoints.committed()
    checkpoints._threads[0].join(10)
    assert not checkpoints._threads[0].is_alive()
    checkpoints.close(sqlite3.connect(":memory:"))


def test_the_writer_runs_one_checkpoint_when_the_file_of_changes_is_large(keeper):
    """The thread has seen more pages than the limit; so the writer begins the file again."""
    use(keeper.log, seconds=0.0, pages_max=0)
    add(keeper, "a")
    until(keeper.log._checkpoints.committed)


@pytest.mark.long
def test_a_checkpoint_of_the_writer_lets_the_file_of_changes_begin_again(keeper, monkeypatch):
    """It has a bounded size, however many commits there are."""
    changes = keeper.log.path.with_name("window.sqlite-wal")
    monkeypatch.setattr(keeper.log._checkpoints, "committed", lambda: True)
    add(keeper, *(f"first {n}" for n in range(10)))
    size = changes.stat().st_size
    add(keeper, *(f"more {n}" for n in range(100)))
    assert changes.stat().st_size < 4 * size


def test_a_failed_checkpoint_of_the_writer_leaves_the_answer_as_it_is(keeper, monkeypatch):
    """The document is committed: the outcome is known."""

    class Failing:
        def __init__(self, connection):
            self.connection = connection
            self.failed = []

        def __getattr__(self, name):
            return getattr(self.connection, name)

        def execute(self, query, *values):
            if "wal_checkpoint" in query:
                self.failed.append(query)
                raise sqlite3.OperationalError("disk I/O error")
            return self.connection.execute(query, *values)

    failing = Failing(keeper.log._writer)
    monkeypatch.setattr(keeper.log, "_writer", failing)
    monkeypatch.setattr(keeper.log._checkpoints, "committed", lambda: True)
    add(keeper, "a", "b")
    assert len(failing.failed) == 2
    assert keeper.matcher.table.documents == 2


def test_a_failed_checkpoint_of_the_thread_is_logged_and_tried_again(keeper, caplog, monkeypatch):
    """Commits go on."""
    checkpoints, failed = keeper.log._checkpoints, []
    connection = checkpoints._connection

    class Failing:
        def execute(self, query):
            if len(failed) < 2:
                failed.append(query)
                raise sqlite3.OperationalError("disk I/O error")
            return connection.execute(query)

        def close(self):
            connection.close()

    monkeypatch.setattr(checkpoints, "_connection", Failing())
    with caplog.at_level(logging.WARNING):
        add(keeper, "a")
        until(lambda: len(failed) == 1)
        add(keeper, "b")
        until(lambda: len(failed) == 2)
        add(keeper, "harbour-post")
        until(lambda: b"harbour-post" in keeper.log.path.read_bytes())
    assert [record.getMessage() for record in caplog.records] == [
        "a checkpoint failed, the next one tries again: disk I/O error"
    ] * 2


def test_removal_waits_for_a_checkpoint_that_runs(keeper):
    """Afterwards neither the database nor the file of changes holds the id."""
    for n in range(20):
        add(keeper, f"secret-id-{n}")
        assert keeper.remove(f"secret-id-{n}") == 1
        for path in keeper.log.path.parent.iterdir():
            assert b"secret-id" not in path.read_bytes(), path


def test_a_check_writes_few_bytes_to_the_file_of_changes(tmp_path):
    """Each page that a commit changes is written whole, so pages are small: 20 kB a check of 2,000 documents."""
    keeper = opened(tmp_path, ServeSettings(threshold=0.7))
    texts = [" ".join(f"w{7919 * n * k % 9973}" for k in range(1, 41)) for n in range(1, 2101)]
    for first in range(0, 2000, 50):
        keeper.check([Document(f"d{17 * n % 2003}", texts[n], NOW) for n in range(first, first + 50)])
    use(keeper.log, seconds=1e9)  # nothing begins the file again meanwhile
    keeper.log.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for n in range(2000, 2100):
        keeper.check([Document(f"e{n}", texts[n], NOW)])
    changes = keeper.log.path.with_name("window.sqlite-wal").stat().st_size
    keeper.log.close()
    assert 100 * 4096 < changes < 100 * 20_000


def test_a_checkpoint_reads_many_changes_at_once(tmp_path, monkeypatch):
    """Frames and pages that follow each other are read together; every page has its checksum then."""
    keeper, reads, pread = opened(tmp_path, ServeSettings()), [], os.pread
    keeper.log._checkpoints.committed = lambda: False  # no thread moves changes
    for n in range(40):
        keeper.check([Document(f"d{n}-{m}", f"{TEXT} {n} {m} {m * m} {m**3}", float(NOW)) for m in range(16)])
    frames = ((tmp_path / "window.sqlite-wal").stat().st_size - 32) // (24 + PAGE_BYTES)
    monkeypatch.setattr(os, "pread", lambda *given: (reads.append(given), pread(*given))[1])
    keeper.log.checkpoint()
    sums = keeper.log._checkpoints._sums
    assert frames > 500
    assert len(reads) < frames / 8
    assert len(sums._known) == sums.pages
    assert all(sums._known)
    assert not [page for first in range(0, sums.pages, 256) for page in sums.damaged(first)]
    keeper.log.close()


def test_a_reader_on_a_full_disk_keeps_no_check_waiting(keeper, monkeypatch):
    """What a reader holds back needs room that removals must have, so documents are refused until it has read."""
    waits, checkpoints = [], keeper.log._checkpoints
    monkeypatch.setattr(checkpoints, "lacks_room", lambda: True)
    monkeypatch.setattr(checkpoints, "committed", lambda: False)
    move = checkpoints.move

    def noted(writer, mode="PASSIVE"):
        waits.extend(writer.execute("PRAGMA busy_timeout").fetchone())
        return move(writer, mode)

    monkeypatch.setattr(checkpoints, "move", noted)
    add(keeper, "a")
    with closing(sqlite3.connect(keeper.log.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM documents").fetchone() == (1,)
        with pytest.raises(StoreFull, match="a reader holds back"):
            add(keeper, "b")
        assert keeper.remove("a") == 1
    add(keeper, "b")
    assert waits[:2] == [100, 100]
    assert keeper.log.writer.execute("PRAGMA busy_timeout").fetchone() == (5_000,)


def test_room_is_held_where_the_file_system_cannot_reserve(tmp_path, monkeypatch):
    """The C library then writes to the file, and refuses one that is opened to append."""

    def emulated(file, offset, size):
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND:
            raise OSError(errno.EBADF, "Bad file descriptor")
        os.ftruncate(file, max(offset + size, os.fstat(file).st_size))

    monkeypatch.setattr(os, "posix_fallocate", emulated)
    assert Reserve(tmp_path).keep()
    assert (tmp_path / "reserve").stat().st_size == 16 << 20
