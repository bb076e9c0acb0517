"""A damaged store is refused in one sentence, and salvaged row by row."""

import random
import shutil
import sqlite3
import threading

import numpy as np
import pytest
from quick_parameters import quick_first
from service_world import NOW, TEXT, edited, opened

from neardup.documents.document import Document
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store import log as log_module
from neardup_workers.outside.store.disk import checkpoints
from neardup_workers.outside.store.disk import sums as sums_module
from neardup_workers.outside.store.disk.changes import FRAME_HEADER, WAL_HEADER, Changes
from neardup_workers.outside.store.disk.checkpoints import Checkpoints
from neardup_workers.outside.store.disk.sums import PAGE_BYTES, PageSums
from neardup_workers.outside.store.listing import Filters
from neardup_workers.outside.store.log import Log
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.store.salvage import salvage

SETTINGS = ServeSettings(threshold=0.7, keep_texts=True)
COUNT, TRIALS = 300, 12


def texts():
    """Random texts, every tenth a copy of the one before."""
    rng = random.Random(4)
    made = [" ".join(f"w{rng.randrange(900)}" for _ in range(40)) for _ in range(COUNT)]
    return [made[n - 1] if n % 10 == 9 else text for n, text in enumerate(made)]


@pytest.fixture
def folder(tmp_path):
    """The folder of a stopped service with 300 documents, one of them removed."""
    keeper = opened(tmp_path, SETTINGS)
    keeper.check([Document(f"d{n}", text, NOW + n) for n, text in enumerate(texts())])
    keeper.remove("d7")
    keeper.log.close()
    return tmp_path


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """A start checks all pages, however long it takes."""
    monkeypatch.setattr(checkpoints, "_CHECK_SECONDS", 1e9)


def change(folder, statement, *values):
    """Change a row behind the service's back."""
    with edited(folder / "window.sqlite") as connection:
        connection.execute(statement, values)


def read(folder):
    """Read the window of the folder."""
    log = Log(folder, {"signing": SETTINGS.signing_fingerprint}, "normal")
    try:
        return list(log.rows())
    finally:
        log.close()


@pytest.mark.parametrize("column", ["id", "content", "evidence"])
def test_a_flipped_bit_of_a_binary_value_is_refused(folder, column):
    """The sentence names the place and the remedy."""
    with sqlite3.connect(folder / "window.sqlite") as connection:
        [value] = connection.execute(f"SELECT {column} FROM documents WHERE place = 42").fetchone()
    connection.close()
    change(folder, f"UPDATE documents SET {column} = ? WHERE place = 42", bytes([value[0] ^ 4]) + value[1:])
    with pytest.raises(Failure, match=r"is damaged: the row of place 42 .*--salvage") as failure:
        read(folder)
    assert failure.value.code == Exit.INPUT


def test_numbers_of_a_verdict_are_checked_too(folder):
    """Another original gives other answers."""
    change(folder, "UPDATE documents SET original = 3 WHERE place = 9")
    with pytest.raises(Failure, match="the row of place 9 has another checksum"):
        read(folder)


@pytest.mark.long
def test_salvaged_rows_answer_as_before(folder):
    """Damaged rows become anonymous, sound ones keep verdict, cluster and text; places stay."""
    change(folder, "UPDATE documents SET evidence = zeroblob(length(evidence)) WHERE place IN (5, 20)")
    change(folder, "DELETE FROM documents WHERE place = 30")
    found = salvage(folder, SETTINGS.plan.width)
    assert (found.sound, found.damaged) == (COUNT - 3, 3)
    assert found.kept.exists()
    keeper = opened(folder, SETTINGS)
    reader = StoreReader(keeper.log.path)
    try:
        lost = {"d5", "d20", "d30", "d7"}
        for n, text in enumerate(texts()):
            versions = reader.document(f"d{n}".encode())
            assert [one["place"] for one in versions] == ([] if f"d{n}" in lost else [n])
            if versions:
                original = f"d{n - 1}" if n % 10 == 9 else None
                assert versions[0]["duplicate_of"] == original
                assert reader.version_texts([n]) == [text]
                [pairs] = [answer.pairs for answer in keeper.probe([Document("x", text, NOW)])]
                assert f"d{n}" in {pair.older for pair in pairs} or n % 10 == 8
        assert len(reader.clusters("size", 100, Filters(size_min=2))[0]) == COUNT // 10
        [answer] = keeper.check([Document("new", TEXT, NOW + COUNT)])
        assert answer.verdict["place"] == COUNT
    finally:
        keeper.log.close()


def test_a_page_of_zeros_is_refused_and_salvaged(folder):
    """A page that the database cannot read loses its rows and no others. No other user may read the new file."""
    path = folder / "window.sqlite"
    data = bytearray(path.read_bytes())
    with sqlite3.connect(path) as connection:
        [place] = connection.execute("SELECT min(place) + 100 FROM documents").fetchone()
        [evidence] = connection.execute("SELECT evidence FROM documents WHERE place = ?", (place,)).fetchone()
    connection.close()
    page = data.index(evidence) // PAGE_BYTES
    data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(data)
    with pytest.raises(Failure, match=r"is damaged: .*--salvage"):
        read(folder)
    found = salvage(folder, SETTINGS.plan.width)
    assert (0 < found.damaged < 40, path.stat().st_mode & 0o77) == (True, 0)
    keeper = opened(folder, SETTINGS)
    assert keeper.matcher.table.documents == COUNT
    keeper.log.close()


def test_damaged_newest_rows_keep_their_places(tmp_path):
    """The number of places may not be stored yet: a later document gets none of theirs."""
    keeper = opened(tmp_path, SETTINGS)
    for n, text in enumerate(texts()[:20]):
        keeper.check([Document(f"name{n}", text, NOW + n)])
    keeper.log.close()
    data = bytearray((tmp_path / "window.sqlite").read_bytes())
    for page in range(PAGE_BYTES, len(data), PAGE_BYTES):
        if b"name19" in data[page : page + PAGE_BYTES]:
            data[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
    (tmp_path / "window.sqlite").write_bytes(data)
    salvage(tmp_path, SETTINGS.plan.width)
    keeper = opened(tmp_path, SETTINGS)
    [answer] = keeper.check([Document("later", TEXT, NOW + 20)])
    assert keeper.log.latest(b"name0") is not None
    assert answer.verdict["place"] >= 20
    keeper.log.close()


def test_a_newest_row_of_a_damaged_place_brings_no_places(tmp_path):
    """Only as many may be missing in ``meta`` as can wait, and a time counts if its row is sound."""
    keeper = opened(tmp_path, SETTINGS)
    for n, text in enumerate(texts()[:20]):
        keeper.check([Document(f"name{n}", text, NOW + n)])
    keeper.log.close()
    with edited(tmp_path / "window.sqlite") as store:
        store.execute("UPDATE documents SET place = place + 2097152, time = time + 1099511627776 WHERE place = 19")
    found = salvage(tmp_path, SETTINGS.plan.width)
    assert (found.sound, 1 <= found.damaged < 16) == (19, True)
    keeper = opened(tmp_path, SETTINGS)
    assert keeper.counts()["stream_time"] == (NOW + 18) * 1_000_000
    keeper.log.close()


def test_a_folder_without_a_window_has_nothing_to_salvage(tmp_path):
    """A wrong folder is not made silently."""
    with pytest.raises(Failure, match="nothing to salvage"):
        salvage(tmp_path, SETTINGS.plan.width)


def files_of(folder):
    """The files of a service that say what is stored."""
    names = [f"window.{ending}" for ending in ("sqlite", "sqlite-wal", "sqlite-shm", "sums")]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """What the tests of flipped bits copy: the files of a killed service and of a stopped one, with titles, texts,
    sources and stories."""
    folder = tmp_path_factory.mktemp("sound")
    keeper = opened(folder, SETTINGS)
    keeper.log._checkpoints.committed = lambda: False  # no thread moves changes
    for first in range(0, COUNT, 20):
        if first == 20:
            keeper.log.checkpoint()
        if first == COUNT - 100:
            killed = files_of(folder)
        keeper.check(
            [
                Document(f"d{n}", texts()[n], NOW + n, source=f"s{n % 7}", title=f"headline {n}")
                for n in range(first, first + 20)
            ]
        )
    keeper.remove("d7")
    keeper.log.close()
    return killed, files_of(folder)


@pytest.fixture
def sound(images):
    """The files of the stopped service."""
    return images[1]


@pytest.mark.parametrize("seed", quick_first(range(5), 1))
def test_a_flipped_bit_anywhere_is_refused_and_salvage_says_nothing_false(sound, tmp_path, seed):
    """In any table, index or free page; what is salvaged is what was stored, or is left out."""
    rng, stored, salvaged, codes = random.Random(seed), dict(enumerate(texts())), 0, set()
    for trial in range(TRIALS):
        folder = tmp_path / str(trial)
        folder.mkdir()
        data, bit = bytearray(sound["window.sqlite"]), rng.randrange(8 * len(sound["window.sqlite"]))
        data[bit // 8] ^= 1 << bit % 8
        (folder / "window.sqlite").write_bytes(data)
        (folder / "window.sums").write_bytes(sound["window.sums"])
        with pytest.raises(Failure, match=r"^\S+ is damaged: .*--salvage for the sound rows$") as failure:
            read(folder)
        assert failure.value.code == Exit.INPUT
        try:
            salvage(folder, SETTINGS.plan.width)
            keeper = opened(folder, SETTINGS)
        except Failure as unsalvageable:
            codes.add(unsalvageable.code)
            continue
        salvaged += 1
        reader = StoreReader(keeper.log.path)
        for version in reader.documents("oldest", COUNT, Filters(), None)[0]:
            place = version["place"]
            assert (version["id"], version["title"]) == (f"d{place}", f"headline {place}")
            assert reader.version_texts([place]) in ([stored[place]], [None])
        assert keeper.check([Document("new", TEXT, NOW + COUNT)])[0].verdict["place"] == COUNT
        keeper.log.close()
        shutil.rmtree(folder)
    assert codes <= {Exit.INPUT}
    assert salvaged > TRIALS * 0.8


def test_a_flipped_bit_in_the_changes_of_a_killed_service_is_refused(images, tmp_path):
    """SQLite takes it for the end of what was committed. A salvage loses the page of that change at most."""
    rng, [killed, _], stored = random.Random(3), images, dict(enumerate(texts()))
    for trial in range(12):
        folder = tmp_path / str(trial)
        data, end = changes_in(folder, killed)
        bit = rng.randrange(8 * end) if trial else 8 * 17
        data[bit // 8] ^= 1 << bit % 8
        (folder / "window.sqlite-wal").write_bytes(data)
        with pytest.raises(Failure, match=r"is damaged: change \d+ in its -wal .*--salvage") as failure:
            read(folder)
        assert failure.value.code == Exit.INPUT
        salvage(folder, SETTINGS.plan.width)
        keeper = opened(folder, SETTINGS)
        reader = StoreReader(keeper.log.path)
        found = reader.documents("oldest", COUNT, Filters(), None)[0]
        assert len(found) > COUNT - 110
        assert all(reader.version_texts([one["place"]])[0] in (stored[one["place"]], None) for one in found)
        keeper.log.close()


def changes_in(folder, files):
    """Write the files of a service; return the file of its changes, and where those that were committed end."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    pages = Changes(folder / "window.sqlite", PAGE_BYTES, knows_boot=True).pages
    return bytearray(files["window.sqlite-wal"]), WAL_HEADER + (PAGE_BYTES + FRAME_HEADER) * len(pages)


def test_a_change_that_a_loss_of_power_kept_from_the_disk_ends_the_changes(images, tmp_path, monkeypatch):
    """Later ones have reached it: the start goes on from the commit before it, as SQLite does."""
    data, end = changes_in(tmp_path / "state", images[0])
    at = end // 2 // 4096 * 4096
    data[at : at + 4096] = bytes(4096)
    (tmp_path / "state" / "window.sqlite-wal").write_bytes(data)
    monkeypatch.setattr(sums_module, "_boot", lambda: np.ones(4, "<u4"))  # the machine has started again
    kept = sum(len(rows["place"]) for rows in read(tmp_path / "state"))
    assert 0 < kept < COUNT - 100


def test_an_index_of_other_changes_says_nothing(images, tmp_path):
    """A copy of a folder may have an older index than changes: all of these are sound, so the start goes on."""
    changes_in(tmp_path / "state", images[0])
    path = tmp_path / "state" / "window.sqlite"
    sound = len(Changes(path, PAGE_BYTES, knows_boot=True).pages)
    index = path.with_name("window.sqlite-shm")
    data = bytearray(index.read_bytes())
    for at in (32, 48 + 32):  # the names of the file of changes, twice
        data[at] ^= 255
    index.write_bytes(data)
    changes = Changes(path, PAGE_BYTES, knows_boot=True)
    assert (changes.damaged, len(changes.pages)) == ([], sound)


def test_a_database_that_is_cut_off_is_salvaged_as_far_as_it_goes(sound, tmp_path):
    """Pages behind its end are damaged, too."""
    (tmp_path / "window.sqlite").write_bytes(sound["window.sqlite"][: -PAGE_BYTES * 20])
    (tmp_path / "window.sums").write_bytes(sound["window.sums"])
    with pytest.raises(Failure, match=r"is damaged: .*--salvage"):
        read(tmp_path)
    assert salvage(tmp_path, SETTINGS.plan.width).sound > COUNT // 2


def test_a_start_checks_rows_where_it_could_not_check_pages(images, tmp_path, monkeypatch):
    """Those of a killed service, too, whose last pages are changes."""
    asked = []
    monkeypatch.setattr(log_module, "is_sound", lambda row, stored: asked.append(row.place) or True)
    for files in images:
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
        assert sum(len(rows["place"]) for rows in read(tmp_path)) >= COUNT - 100
        assert not asked
        for name in files:
            (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "window.sqlite").write_bytes(files["window.sqlite"])
    read(tmp_path)
    assert asked == list(range(COUNT))


def test_a_flip_in_the_checksums_refuses_nothing(sound, tmp_path):
    """They have one of their own; those that are lost are computed again."""
    for name, data in sound.items():
        (tmp_path / name).write_bytes(data)
    data = bytearray(sound["window.sums"])
    data[4096 + 40] ^= 2
    (tmp_path / "window.sums").write_bytes(data)
    assert len(read(tmp_path)) == 1
    log = Log(tmp_path, {"signing": SETTINGS.signing_fingerprint}, "normal")
    log.check_rest(lambda: None)
    log._checkpoints._threads[-1].join()
    log.close()
    assert not np.count_nonzero(PageSums(log.path)._known == 0)


def test_the_rest_is_checked_while_the_service_runs(sound, tmp_path, monkeypatch):
    """A start looks at what a second allows; damage that is found later ends the process with the same sentence."""
    for name, data in sound.items():
        (tmp_path / name).write_bytes(data)
    with (tmp_path / "window.sqlite").open("r+b") as file:
        file.seek(-100, 2)
        file.write(b"\xff\x0f\xaa")
    monkeypatch.setattr(Checkpoints, "check", lambda self, seconds: [])
    log, found = Log(tmp_path, {"signing": SETTINGS.signing_fingerprint}, "normal"), threading.Event()
    log.check_rest(found.set)
    assert found.wait(60)
    assert "has another checksum" in str(log.damage)
    assert log.damage.code == Exit.INPUT
    log.close()
