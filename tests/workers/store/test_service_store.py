"""The window of the service on disk: after a restart it answers as if it had never stopped."""

import errno
import os
import random
import sqlite3
from pathlib import Path

import pytest
from cases import CASES
from quick_parameters import quick_first
from service_world import NOW, TEXT, edited, opened
from verdict_sequences import TEXTS

from neardup import Document
from neardup.stories.sources.ledger import Ledger
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.disk.folder import unusable
from neardup_workers.outside.store.disk.sums import PAGE_BYTES
from neardup_workers.outside.store.extra import sources
from neardup_workers.outside.store.log import VERSION
from neardup_workers.outside.store.reading import StoreReader

# Schemes with a sketch, with ragged evidence, without equal contents, and with vectors.
SCHEMES = ("one_permutation chars", "exact", "records exact", "prefix words", "vectors cosine")


def closed(keeper):
    keeper.log.close()


@pytest.mark.long
@pytest.mark.parametrize("name", quick_first(SCHEMES, 3))
def test_a_restart_changes_no_answer(name, tmp_path):
    """The input has versions, copies, removals, and stories that outlive the documents of their original in a moving
    window; one service restarts after every step."""
    case, rng = CASES[name], random.Random(7)
    settings = ServeSettings(**case.settings, window_seconds=600.0, lateness_seconds=60.0, window_documents=60)
    steady, restarted = opened(tmp_path / "steady", settings), opened(tmp_path / "restarted", settings)
    stream, seen, outlived = case.stream(rng, 240), set(), 0
    reader = StoreReader(restarted.log.path)
    for first in range(0, len(stream), 12):
        documents = [
            document._replace(
                id=f"d{rng.randrange(80)}",
                timestamp=NOW + 15.0 * (first + n) - rng.choice((0, 0, 100)),
                source=rng.choice("xyz"),
            )
            for n, document in enumerate(stream[first : first + 12])
        ]
        answers = steady.check(documents)
        assert restarted.check(documents) == answers
        added = [answer.verdict for answer in answers if answer.refused is None]
        seen.update((verdict["status"], verdict["repeated"]) for verdict in added)
        outlived += sum(one["status"] == "duplicate" and one["cluster"] < steady._oldest for one in added)
        last = [answer for answer in answers if answer.refused is None][-1]
        stored = reader.document(last.id.encode())[0]
        assert (stored["status"], stored["duplicate_of"]) == (last.verdict["status"], last.verdict["duplicate_of"])
        assert restarted.probe(documents[:2]) == steady.probe(documents[:2])
        if rng.random() < 0.5:  # a removal counts the documents that wait for the ledger
            closed(restarted)
            restarted = opened(tmp_path / "restarted", settings)
        removed = f"d{rng.randrange(80)}"
        assert restarted.remove(removed) == steady.remove(removed)
        assert reader.ask(sources.overview, 9) == StoreReader(steady.log.path).ask(sources.overview, 9)
        closed(restarted)
        restarted = opened(tmp_path / "restarted", settings)
        for place in range(steady._decider.places):  # removed ones are not known again
            assert restarted._ledger.story(place) in (None, steady._ledger.story(place))
        assert len(steady._ledger._stories) <= steady.matcher.table.documents + len(steady._sources._shared), (
            "the window bounds them"
        )
        for document in documents:
            assert restarted.near(document.id) == steady.near(document.id)
        counts = [keeper.counts() for keeper in (restarted, steady)]
        assert counts[0]["documents"] == counts[1]["documents"] <= 60
        assert counts[0]["stream_time"] == counts[1]["stream_time"]
    assert {("original", False), ("duplicate", False)} <= seen
    assert outlived
    assert restarted.matcher.table.slot_end < steady.matcher.table.slot_end, "the window has moved"
    closed(steady)
    closed(restarted)


def test_a_removed_original_hands_its_story_over_also_after_a_restart(tmp_path):
    """The next near-copy is a duplicate of the next member, which names no other original, and so is one after that."""
    settings = ServeSettings(threshold=0.7)
    keeper, reader = opened(tmp_path, settings), StoreReader(tmp_path / "window.sqlite")
    keeper.check([Document(name, f"{TEXT} By {name}.", NOW) for name in "abc"])
    answers = []
    for removed, name in (("a", "d"), ("b", "e")):
        assert keeper.remove(removed) == 1
        closed(keeper)
        keeper = opened(tmp_path, settings)
        [answer] = keeper.check([Document(name, f"{TEXT} By {name}.", NOW)])
        answers.append((answer.verdict["status"], answer.verdict["duplicate_of"], answer.verdict["cluster"]))
    assert answers == [("duplicate", "b", 0), ("duplicate", "c", 0)]
    assert reader.document(b"c")[0]["duplicate_of"] is None
    closed(keeper)


@pytest.mark.parametrize("copies", [1, 6])
def test_a_story_goes_on_without_a_removed_update_also_after_a_restart(copies, tmp_path):
    """Copies of its original, which is still there or has left the window, are duplicates; one of the update is an
    update again, of which nothing is kept."""
    settings = ServeSettings(novelty="words", verify="exact", threshold=0.45, window_documents=4)
    keeper = opened(tmp_path, settings)

    def status(name, text):
        [answer] = keeper.check([Document(name, text, NOW)])
        return answer.verdict["status"], answer.verdict["cluster"]

    assert [status("a", TEXTS["r"]), status("b", TEXTS["l"])] == [("original", 0), ("update", 0)]
    assert {status(f"c{n}", TEXTS["r"]) for n in range(copies)} == {("duplicate", 0)}
    assert keeper.remove("b") == 1
    [kept] = keeper.log.writer.execute("SELECT count(*) FROM contents WHERE place = 1").fetchone()
    assert (kept, keeper.remove("b")) == (0, 0)
    for name in "de":
        assert status(name, TEXTS["r"]) == ("duplicate", 0)
        assert status(f"{name}2", f"{TEXTS['r']} once more") == ("duplicate", 0)
        closed(keeper)
        keeper = opened(tmp_path, settings)
    assert status("f", TEXTS["l"]) == ("update", 0)
    closed(keeper)


def test_the_log_keeps_the_rows_of_the_window_alone(tmp_path):
    """The log drops a row when the table drops its document; places continue."""
    settings = ServeSettings(window_documents=10, threshold=0.7)
    keeper = opened(tmp_path, settings)
    documents = [
        CASES["exact"].stream(random.Random(1), 40)[n]._replace(id=f"d{n}", timestamp=NOW + n) for n in range(40)
    ]
    assert [answer.verdict["place"] for answer in keeper.check(documents)][-1] == 39
    assert [place for rows in keeper.log.rows() for place in rows["place"]] == list(range(30, 40))
    closed(keeper)
    keeper = opened(tmp_path, settings)
    assert keeper.check([documents[0]])[0].verdict["place"] == 40
    closed(keeper)


def test_a_history_keeps_verdicts_whose_documents_have_left_the_window(tmp_path):
    """They can be read and removed, and decide nothing. Without a history they are unknown."""
    settings = ServeSettings(window_documents=10, window_seconds=30.0, threshold=0.7, history_seconds=20.0)
    plain, keeper = opened(tmp_path / "plain", settings), opened(tmp_path / "kept", settings)
    plain._history = 0
    documents = [
        document._replace(id=f"d{n}", timestamp=NOW + n)
        for n, document in enumerate(CASES["exact"].stream(random.Random(1), 80))
    ]
    reader = StoreReader(keeper.log.path)
    for first in range(0, 80, 8):
        assert keeper.check(documents[first : first + 8]) == plain.check(documents[first : first + 8])
        closed(keeper)
        keeper = opened(tmp_path / "kept", settings)
    found = {n: reader.document(b"d%d" % n) for n in range(80)}
    assert [n for n, versions in found.items() if versions] == list(range(29, 80))
    assert [n for n, versions in found.items() if versions and "expired" not in versions[0]] == list(range(70, 80))
    assert keeper.near("d40") is None
    assert keeper.near("d75") is not None
    assert (keeper.remove("d40"), plain.remove("d40")) == (1, 0)
    assert reader.document(b"d40") == []
    stored = sum(len(one) for rows in keeper.log.rows() for one in rows["evidence"])
    assert stored == sum(len(one) for rows in plain.log.rows() for one in rows["evidence"])
    closed(keeper)
    closed(plain)


def test_a_folder_has_one_process_and_one_configuration(tmp_path):
    """A second process is refused, and so is another threshold, because it decides differently."""
    keeper = opened(tmp_path, ServeSettings(threshold=0.7))
    with pytest.raises(Failure, match="another process uses") as failure:
        opened(tmp_path, ServeSettings(threshold=0.7))
    assert failure.value.code == Exit.USAGE
    closed(keeper)
    with pytest.raises(Failure, match=r"was made with another .* minor version of Python that it was made") as failure:
        opened(tmp_path, ServeSettings(threshold=0.9))
    assert failure.value.code == Exit.GENERATION


@pytest.mark.parametrize("window_seconds", [100.0, 1000.0])
def test_a_restart_holds_no_more_than_a_running_service(tmp_path, window_seconds):
    """Evidence and names of stories whose documents are in the table are there alone; of others they are kept."""
    settings = ServeSettings(threshold=0.7, window_seconds=window_seconds, clock="event")
    held = []
    for restarts in (False, True):
        keeper = opened(tmp_path / str(restarts), settings)
        for n in range(60):
            keeper.check([Document(f"d{n}", f"{TEXT} {n % 7} of {n % 7}", NOW + 5 * n)])
        if restarts:
            closed(keeper)
            keeper = opened(tmp_path / "True", settings)
        holdings = keeper._decider._holdings
        held.append((sorted(holdings.evidence.values()), holdings.names))
        closed(keeper)
    assert held[0] == held[1]


def test_a_restart_knows_how_far_the_log_is(tmp_path):
    """The number of places and the time of the stream follow from the newest rows, and are stored before these leave
    the window."""
    settings = ServeSettings(threshold=0.7, window_documents=3, clock="event")
    for count in (2, 6, 20):
        keeper = opened(tmp_path / str(count), settings)
        for n in range(count):
            keeper.check([Document(f"d{n}", f"{n} {TEXT * n}", NOW + (90 if n == 1 else n))])
        before, places = keeper.counts()["stream_time"], keeper._decider.places
        closed(keeper)
        keeper = opened(tmp_path / str(count), settings)
        assert (keeper.counts()["stream_time"], keeper._decider.places) == (before, places), count
        closed(keeper)


def test_a_restart_forgets_the_stories_that_the_ledger_had_forgotten(tmp_path, monkeypatch):
    """Of a window that is shorter now, and of more stories than it keeps: a shared one is not begun again."""
    monkeypatch.setitem(Ledger.__init__.__kwdefaults__, "stories_max", 50)
    settings = ServeSettings(threshold=0.7, clock="event", window_seconds=86_400.0)
    keeper = opened(tmp_path, settings)
    texts = [" ".join(f"w{n}x{k}" for k in range(20)) for n in range(120)]
    steps = [(n, texts[n]) for n in range(120)]
    steps[1:1] = [(200, texts[0])]
    for n, text in steps:
        keeper.check([Document(f"d{n}", text, NOW + n % 200, source=f"{n}.example")])
    for _ in range(3):
        exceeded = dict(keeper._ledger.exceeded)
        closed(keeper)
        keeper = opened(tmp_path, settings)
        assert len(keeper._ledger._stories) <= 50
        assert dict(keeper._ledger.exceeded) == exceeded
        assert keeper._ledger.story(0) is None
    closed(keeper)
    keeper = opened(tmp_path, ServeSettings(threshold=0.7, clock="event", window_seconds=10.0, lateness_seconds=0.0))
    keeper.check([Document("new", "what no other document here says", NOW + 120, source="new.example")])
    assert keeper.matcher.table.documents <= 14
    assert len(keeper._ledger._stories) <= 14
    closed(keeper)


def test_a_restart_makes_room_for_the_stories_that_there_are(tmp_path):
    """Not for one a document, which takes 350 MB of a million; a source of many stories is one object."""
    keeper = opened(tmp_path, ServeSettings())
    texts = [" ".join(f"{n}x{m}" for m in range(8)) for n in range(4000)]
    for first in range(0, len(texts), 100):
        step = [Document(f"d{n}", texts[n], NOW, source=f"{n % 2}.example") for n in range(first, first + 100)]
        keeper.check(step)
    taken, of_table = keeper._decider.decisions.memory_bytes()[1], keeper.matcher.table.store.heads.entries.nbytes
    closed(keeper)
    keeper = opened(tmp_path, ServeSettings())
    assert keeper._decider.decisions.memory_bytes()[1] <= 1.1 * taken
    assert keeper.matcher.table.store.heads.entries.nbytes <= 1.1 * of_table
    assert len({id(keeper._ledger.story(place)[0]) for place in range(4000) if keeper._ledger.story(place)}) <= 4
    closed(keeper)


def test_a_store_of_another_version_is_refused(tmp_path):
    """Its tables are not those of this program; nothing in it is changed."""
    closed(opened(tmp_path, ServeSettings()))
    with edited(tmp_path / "window.sqlite") as store:
        store.execute("UPDATE meta SET value = ? WHERE name = 'version'", (VERSION - 1,))
    with pytest.raises(
        Failure, match=f"another version .{VERSION - 1}, now {VERSION}.: .*name another --state"
    ) as failure:
        opened(tmp_path, ServeSettings())
    assert failure.value.code == Exit.GENERATION


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    """A file has the name of the folder."""
    (tmp_path / "file").write_text(TEXT)
    with pytest.raises(Failure, match="cannot use") as failure:
        opened(tmp_path / "file", ServeSettings())
    assert failure.value.code == Exit.OUTPUT


def test_a_check_writes_few_pages(tmp_path):
    """An account of a source that changes leaves its indexes alone: their pages would be written with each check."""
    keeper = opened(tmp_path, ServeSettings(), clock=lambda: NOW)
    keeper.log._checkpoints.committed = lambda: False  # no thread moves changes
    changes, sizes = tmp_path / "window.sqlite-wal", []
    for n in range(300):
        keeper.check([Document(f"d{n}", f"{TEXT} {n} {n * n} {n**3}", source=f"s{n % 20}.example")])
        sizes.append(changes.stat().st_size)
    pages = (sizes[-1] - sizes[99]) / 200 / PAGE_BYTES
    assert pages < 16
    closed(keeper)


def test_a_store_of_another_signing_says_why_once_and_stays_as_it_is(tmp_path, caplog):
    """Not that its verdicts stay and the settings of now decide, before it refuses; that is said of matching alone."""
    closed(opened(tmp_path, ServeSettings()))
    with pytest.raises(Failure, match="made with another signing"):
        opened(tmp_path, ServeSettings(threshold=0.6))
    closed(opened(tmp_path, ServeSettings()))
    assert not caplog.messages
    closed(opened(tmp_path, ServeSettings(bucket_candidates_max=77)))
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(errno.EROFS, "mounted for reading alone"), (errno.EACCES, "the right to write"), (errno.ENOSPC, "with room"),
     (errno.ENOTDIR, "is a file"), (errno.EIO, "correct that")],
)  # fmt: skip
def test_a_folder_that_cannot_be_used_is_refused_with_cause_and_remedy(code, remedy):
    """More room mends a full disk alone."""
    failure = unusable(Path("window"), OSError(code, os.strerror(code)))
    assert os.strerror(code) in str(failure)
    assert remedy in str(failure).rpartition(";")[2]


def test_a_file_that_sqlite_may_not_write_is_no_full_disk(tmp_path):
    """SQLite has errors of its own for what the system says."""
    with sqlite3.connect(tmp_path / "window.sqlite") as writer:
        writer.execute("CREATE TABLE a (b)")
    reader = sqlite3.connect(f"file:{tmp_path}/window.sqlite?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError) as error:
        reader.execute("INSERT INTO a VALUES (1)")
    assert "the right to write" in str(unusable(tmp_path, error.value))
