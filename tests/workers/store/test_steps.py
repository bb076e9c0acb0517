"""Steps that are on the disk and not in the database yet: none is lost, in whatever moment the process ends."""

import random
import shutil
import sqlite3
from contextlib import closing

import pytest
from service_world import NOW, opened

from neardup import Document
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.disk.backup import back_up
from neardup_workers.outside.store.log import Log
from neardup_workers.outside.store.migrating import migrate
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.store.salvage import salvage

SETTINGS = ServeSettings(threshold=0.7, keep_texts=True, window_documents=30)
WORDS = [" ".join(f"w{7919 * n * k % 9973}" for k in range(1, 30)) for n in range(1, 60)]


def document(n):
    """Every fifth is a copy of the one before."""
    return Document(f"d{n}", WORDS[n - (n % 5 == 4)] + " end" * (n % 5 == 4), NOW + n, source=f"s{n % 3}.example")


@pytest.fixture
def waiting(tmp_path):
    """A window with steps that wait: its folder, the keeper, and their answers; no thread moves them."""
    keeper = opened(tmp_path / "state", SETTINGS)
    keeper.log._checkpoints.committed = lambda: False
    answers = [keeper.check([document(n)])[0] for n in range(36)]
    keeper.log.settle()
    answers += [keeper.check([document(n)])[0] for n in range(36, 44)]
    assert len(keeper.log._writer._waiting) == 8
    yield tmp_path / "state", keeper, answers
    keeper.log.close()


def copied(folder, to, steps=None):
    """The folder as a process that is killed leaves it, with other bytes as its steps."""
    shutil.copytree(folder, to)
    if steps is not None:
        (to / "window.steps").write_bytes(steps)
    return to


def answered_again(folder, answers):
    """Whether the documents of the window are known there, and the answers about new ones are those of a process that
    never stopped."""
    keeper = opened(folder, SETTINGS)
    places = keeper.log.meta()["places"]
    for n in range(keeper._oldest, min(places, len(answers))):
        row = keeper.log.row(n)
        assert (row.id.decode(), row.cluster) == (answers[n].id, answers[n].verdict["cluster"])
        assert keeper.log.text(n) == document(n).text
    found = [keeper.check([document(n)])[0] for n in range(places, 55)]
    keeper.log.close()
    return places, found


def test_a_killed_process_loses_no_step(waiting, tmp_path):
    """The database lacks them; the next start has them, also if it is killed at once; a copy and a salvaged folder
    too. What has left the window meanwhile is not there again."""
    folder, keeper, answers = waiting
    killed = copied(folder, tmp_path / "killed")
    with closing(sqlite3.connect(killed / "window.sqlite")) as raw:
        assert raw.execute("SELECT max(place) FROM documents").fetchone() == (35,)
    back_up(folder, tmp_path / "copy")
    salvaged = copied(folder, tmp_path / "salvaged")
    assert salvage(salvaged, SETTINGS.plan.width)[1::2] == (0, {})  # nothing is damaged or lost
    again = opened(copied(folder, tmp_path / "twice"), SETTINGS)
    copied(tmp_path / "twice", tmp_path / "thrice")
    again.log.close()
    later = [keeper.check([document(n)])[0] for n in range(44, 55)]
    for name in ("killed", "copy", "salvaged", "thrice"):
        assert answered_again(tmp_path / name, answers) == (44, later)


def test_who_reads_sees_them(waiting, tmp_path):
    """The writer, a reader of the process, and another one after the thread has moved them."""
    folder, keeper, _ = waiting
    reader = StoreReader(folder / "window.sqlite", before=keeper.log.settle)
    assert StoreReader(folder / "window.sqlite").document(b"d43") == []
    assert reader.document(b"d43")[0]["place"] == 43
    assert reader.document(b"d1") == []  # it has left the window
    [answer] = keeper.check([document(44)])
    assert keeper.log.latest(b"d44")[0].place == answer.verdict["place"]


def test_a_step_that_is_half_written_was_not_answered_and_the_others_stay(waiting, tmp_path):
    """At each of some hundred lengths of the last record."""
    folder, keeper, answers = waiting
    data, end = (folder / "window.steps").read_bytes(), keeper.log._writer._at
    before = copied(folder, tmp_path / "before")
    keeper.check([document(44)])
    longer, new_end = (folder / "window.steps").read_bytes(), keeper.log._writer._at
    for length in random.Random(3).sample(range(end, new_end), 12):
        torn = longer[:length] + data[length:]
        assert answered_again(copied(before, tmp_path / f"torn{length}", torn), answers)[0] in (44, 45)


def test_a_flipped_bit_loses_no_step_without_a_word(waiting, tmp_path):
    """It is refused, or makes no difference."""
    folder, keeper, answers = waiting
    data, rng, refused = (folder / "window.steps").read_bytes(), random.Random(4), 0
    for n in range(25):
        flipped, bit = bytearray(data), rng.randrange(8 * keeper.log._writer._at)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            places, _ = answered_again(copied(folder, tmp_path / f"flipped{n}", flipped), answers)
        except Failure as failure:
            refused += "window.steps is damaged" in str(failure)
        else:
            assert places == 44
    assert refused


def test_a_removal_leaves_no_text_in_the_steps(waiting):
    """They are overwritten."""
    folder, keeper, _ = waiting
    assert WORDS[43].encode() in (folder / "window.steps").read_bytes()
    assert keeper.remove("d43") == 1
    assert WORDS[43].encode() not in (folder / "window.steps").read_bytes()


def test_a_step_that_fails_or_has_no_room_goes_to_the_database_or_nowhere(waiting, monkeypatch):
    """A record that the file cannot take is a transaction of its own."""
    folder, keeper, _ = waiting
    monkeypatch.setattr(Log, "append", lambda *_: (_ for _ in ()).throw(ValueError("a fault")))
    with pytest.raises(ValueError, match="a fault"):
        keeper.check([document(44)])
    monkeypatch.undo()
    keeper.check([document(44)._replace(text="long " * 60_000)])
    assert not keeper.log._writer.waits
    assert StoreReader(folder / "window.sqlite").document(b"d44")[0]["place"] == 44


def test_a_window_is_signed_again_with_steps_that_wait(waiting, tmp_path):
    """The old one stays as it is."""
    folder, _, _ = waiting
    old = copied(folder, tmp_path / "old")
    migrate(ServeSettings(threshold=0.6), old, tmp_path / "new")
    assert StoreReader(tmp_path / "new" / "window.sqlite").document(b"d43")
    assert StoreReader(old / "window.sqlite").document(b"d43") == []
