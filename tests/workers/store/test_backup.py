"""A copy of a running service is one of its commits, and another service starts from it."""

import shutil
import threading

import pytest
from service_world import TEXT, world_in

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.store.disk.backup import back_up
from neardup_workers.outside.store.disk.sums import PageSums


def test_a_copy_under_load_has_every_document_that_was_answered_before(tmp_path, capsys):
    """The service that starts from it repeats these verdicts, and goes on alone; the first one never waits."""
    ended, answered = threading.Event(), []
    with world_in(tmp_path / "state", keep_texts=True) as world:

        def send():
            while not ended.is_set():
                n = len(answered)
                answered.append(world.check(f"d{n}", f"{TEXT} {n % 50} and {n % 50}"))

        sender = threading.Thread(target=send)
        sender.start()
        try:
            copies = []
            for n in range(3):
                while len(answered) < 60 * (n + 1):
                    pass
                before = len(answered)
                assert back_up(tmp_path / "state", tmp_path / f"copy{n}") == Exit.SUCCESS
                copies.append((before, len(answered)))
        finally:
            ended.set()
            sender.join()
    assert capsys.readouterr().err.count("documents are in") == 3
    for n, (before, after) in enumerate(copies):
        assert len(PageSums(tmp_path / f"copy{n}" / "window.sqlite")._known)
        with world_in(tmp_path / f"copy{n}", keep_texts=True) as again:
            held = again.keeper.log.meta()["places"]
            assert before <= held <= after + 1
            for place in (0, before - 1):
                repeated = again.check(f"d{place}", f"{TEXT} {place % 50} and {place % 50}")
                assert repeated["repeated"]
                assert repeated["cluster"] == answered[place]["cluster"]
            assert again.check("own", "Words that no other document has, in a text of its own.")["place"] == held + 2


def test_a_copy_takes_no_place_of_another_window(tmp_path):
    """Neither is there a copy of nothing. No other user may read a copy, whatever its folder allows."""
    (tmp_path / "copy").mkdir(mode=0o755)
    with world_in(tmp_path / "state") as world:
        world.check("a", TEXT)
        back_up(tmp_path / "state", tmp_path / "copy")
        assert {one.stat().st_mode & 0o77 for one in (tmp_path / "copy").iterdir()} == {0}
        with pytest.raises(Failure, match="holds a window already"):
            back_up(tmp_path / "state", tmp_path / "copy")
        world.check("b", "Words that no other document has, in a text of its own.")
        (tmp_path / "over").mkdir()
        for folder, ending in (("state", "-wal"), ("state", "-shm"), ("copy", "")):
            shutil.copy(tmp_path / folder / f"window.sqlite{ending}", tmp_path / "over")
        shutil.copy(tmp_path / "copy" / "window.sums", tmp_path / "over")
    with (
        pytest.raises(Failure, match="-wal has changes that are not of this copy: delete it"),
        world_in(tmp_path / "over"),
    ):  # a killed service left them where the copy was put
        pass
    with pytest.raises(Failure, match="there is no window"):
        back_up(tmp_path / "nothing", tmp_path / "other")
