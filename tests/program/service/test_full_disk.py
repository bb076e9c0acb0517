"""The service on a full disk."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Run

from neardup_workers.outside.store.disk.reserve import Reserve

# Adds documents until the database must grow, while no file may grow beyond its size; then removes one, and adds one.
REMOVED = """
import os, resource, signal, sys
from pathlib import Path
from neardup.documents.document import Document
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import Log
folder, settings = Path(sys.argv[1]), ServeSettings(threshold=0.7)
fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
log = Log(folder, fingerprints, "normal")
keeper = Keeper(settings, log)
def add(first, end):
    keeper.check([Document(f"d{n}", f"{n} " * 40 + f"{n} and {n}", 1.7e9 + n) for n in range(first, end)])
add(0, 1500)
log.checkpoint()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = os.path.getsize(folder / "window.sqlite")
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
add(1500, 1540)
print(keeper.remove("d3"), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
add(2000, 2001)
print(os.path.getsize(folder / "window.sqlite-wal"))
log.close()
"""
OPENED = """
import sys
from pathlib import Path
from neardup.documents.document import Document
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import Log
settings = ServeSettings(threshold=0.7)
fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
log = Log(Path(sys.argv[1]), fingerprints, "normal")
keeper = Keeper(settings, log)
if len(sys.argv) > 2:
    keeper.check([Document("a", "a text of some words that is there", 1.7e9)])
print(len(log.latest(b"a")[0].content), log.meta()["places"])
log.close()
"""
# Adds documents until the disk is full, takes all of them down, with a block list, and adds one more. With a second
# argument the thread that moves changes is too late.
TAKEN_DOWN = """
import os, sys
from pathlib import Path
from neardup.documents.document import Document
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.blocked import read_block_list
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import Log, StoreFull
disk, settings = Path(sys.argv[1]), ServeSettings(threshold=0.7, keep_texts=True)
fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
log = Log(disk / "state", fingerprints, "full")
if len(sys.argv) > 2:
    log._checkpoints.committed = lambda: False
keeper = Keeper(settings, log, keep_texts=True, blocked=read_block_list(str(disk / "blocked"), create=True))
def add(n):
    keeper.check([Document(f"d{n}", f"{n} and {n * n} are in secret{n} " * 300, 1.7e9 + n)])
(disk / "filler").write_bytes(bytes(1 << 20))
def fill():
    with (disk / "filler").open("ab", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)):
                pass
        except OSError:
            pass
added = refused = 0
while not refused:
    try:
        add(added)
        added += 1
    except StoreFull:
        refused += 1
fill()
removed = sum(keeper.remove(f"d{n}", block=n % 2 == 0) for n in range(40))
fill()
try:
    add(added)
except StoreFull:
    refused += 1
files = b"".join(path.read_bytes() for path in (disk / "state").glob("window.sqlite*"))
left = sum(b"in secret%d " % n in files for n in range(40))
(disk / "filler").unlink()
add(added)
print(removed, refused, left, keeper.check([Document("d0", "other words", 1.7e9 + added)])[0].refused)
log.close()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", folder], check=False, capture_output=True
    ).returncode  # fmt: skip
    if not mounted:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("late", [(), ("late",)], ids=["", "late"])
def test_a_full_disk_takes_documents_down(python: Run, disk: Path, late: tuple[str, ...]) -> None:
    """Every removal is done, blocks, and leaves no text in the files, while no document can be added."""
    done = python("-c", TAKEN_DOWN, disk, *late)
    assert done.stdout.split() == [b"40", b"2", b"0", b"blocked"], done.stderr.decode()


def test_others_get_no_more_of_the_room_for_removals_than_they_take_during_one(disk: Path) -> None:
    """A removal gives it up for a moment. What is left is held again, and all of it when there is room."""
    reserve, free = Reserve(disk), shutil.disk_usage(disk).free
    (disk / "filler").write_bytes(bytes(free - (17 << 20)))
    assert reserve.keep()
    reserve.give_up()
    (disk / "taken").write_bytes(bytes(2 << 20))
    assert not reserve.keep()
    assert shutil.disk_usage(disk).free < 1 << 20
    (disk / "taken").unlink()
    assert reserve.keep()


def test_a_removal_on_a_full_disk_is_answered(python: Run, tmp_path: Path) -> None:
    """If the erased data cannot leave the file of changes now, a later commit does it; nothing ends the service."""
    done = python("-c", REMOVED, tmp_path / "state")
    assert done.stdout.split() == [b"1", b"0"], done.stderr.decode()


def test_a_full_disk_can_still_be_read(python: Run, disk: Path) -> None:
    """A store of a disk without a free byte opens, and answers what it holds."""
    made = python("-c", OPENED, disk / "state", "add")
    assert made.returncode == 0, made.stderr.decode()
    with (disk / "filler").open("wb", buffering=0) as filler:
        filled = 0
        while True:
            try:
                filled += filler.write(bytes(4096))
            except OSError:
                break
    assert filled
    opened = python("-c", OPENED, disk / "state")
    assert opened.stdout.split() == [b"16", b"1"], opened.stderr.decode()
