"""``serve migrate``: a window that is signed again keeps its documents, its verdicts and its stories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from service_world import NOW, opened

from neardup import Document
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.answers import Answer
from neardup_workers.outside.store.listing import Filters
from neardup_workers.outside.store.migrating import migrate
from neardup_workers.outside.store.reading import StoreReader

OLD = ServeSettings(keep_texts=True, threshold=0.7, window_documents=30, k=5)
NEW = ServeSettings(keep_texts=True, threshold=0.6, window_documents=30, k=4, verify="exact")


def text(story: int, copy: int) -> str:
    rng = random.Random(story)
    words = [f"{rng.choice(('rain', 'coast', 'ferry', 'tree'))}{rng.randrange(500)}" for _ in range(60)]
    words[copy % 60] = f"copy{copy}"
    return " ".join(words)


def filled(folder: Path) -> list[Answer]:
    """Answers about twenty stories of six members; copies of story 0 come all the time, its original leaves."""
    keeper, answers = opened(folder, OLD), list[Answer]()
    for n in range(120):
        story = 0 if n % 6 == 0 else n // 6
        answers += keeper.check([Document(f"d{n}", text(story, n), NOW + n)])
    assert keeper.remove("d100") == 1
    keeper.log.close()
    return answers


@pytest.mark.long
def test_a_window_that_is_signed_again_keeps_documents_verdicts_and_stories(tmp_path: Path) -> None:
    """Also a story whose original has left the window; the old window is as before."""
    answers = filled(tmp_path / "old")
    before = (tmp_path / "old" / "window.sqlite").read_bytes()
    assert migrate(NEW, tmp_path / "old", tmp_path / "new") == Exit.SUCCESS
    assert (tmp_path / "old" / "window.sqlite").read_bytes() == before
    old, new = (StoreReader(tmp_path / name / "window.sqlite") for name in ("old", "new"))
    for answer in answers:
        assert new.document(answer.id.encode()) == old.document(answer.id.encode())
    listed = [[{**one, "first_time": 0} for one in reader.clusters("size", 100, Filters())[0]] for reader in (old, new)]
    assert listed[0] == listed[1]  # a cluster begins with its oldest document that is still there
    keeper = opened(tmp_path / "new", NEW)
    assert keeper.check([Document("d119", text(19, 119), NOW + 200)])[0].verdict["repeated"]
    [copy] = keeper.check([Document("late copy", text(0, 500), NOW + 201)])
    assert (copy.verdict["status"], copy.verdict["cluster"], copy.verdict["duplicate_of"]) == ("duplicate", 0, "d0")
    [copy] = keeper.check([Document("another", text(18, 501), NOW + 202)])
    assert (copy.verdict["status"], copy.verdict["cluster"]) == ("duplicate", answers[113].verdict["cluster"])
    assert new.document(b"d100") == []
    keeper.log.close()
    keeper = opened(tmp_path / "new", NEW)
    assert keeper.check([Document("after a restart", text(0, 502), NOW + 203)])[0].verdict["cluster"] == 0
    keeper.log.close()
    again = tmp_path / "again"  # the texts of contents that have left the window are there, too
    assert migrate(OLD, tmp_path / "new", again) == Exit.SUCCESS
    keeper = opened(again, OLD)
    assert keeper.check([Document("and back", text(0, 503), NOW + 204)])[0].verdict["cluster"] == 0
    keeper.log.close()


def test_what_cannot_be_signed_again_is_said(tmp_path: Path) -> None:
    """A window without texts, a folder that holds a window, and one that holds none; a document without a text."""
    keeper = opened(tmp_path / "bare", ServeSettings(threshold=0.7))
    keeper.check([Document("a", text(1, 1), NOW)])
    keeper.log.close()
    with pytest.raises(Failure, match="stores no text"):
        migrate(NEW, tmp_path / "bare", tmp_path / "new")
    with pytest.raises(Failure, match="holds a window already"):
        migrate(NEW, tmp_path / "bare", tmp_path / "bare")
    with pytest.raises(Failure, match="there is no window"):
        migrate(NEW, tmp_path / "none", tmp_path / "new")
    keeper = opened(tmp_path / "bare", ServeSettings(threshold=0.7, keep_texts=True))
    [kept] = keeper.check([Document("b", text(2, 2), NOW)])
    keeper.log.close()
    migrate(NEW, tmp_path / "bare", tmp_path / "new")
    reader = StoreReader(tmp_path / "new" / "window.sqlite")
    assert reader.document(b"a") == []
    assert [version["place"] for version in reader.document(b"b")] == [kept.verdict["place"]]
