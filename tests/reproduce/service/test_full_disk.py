"""The service on a full disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from program import Program

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


def test_a_removal_on_a_full_disk_is_answered(program: Program, tmp_path: Path) -> None:
    """If the erased data cannot leave the file of changes now, a later commit does it; nothing ends the service."""
    done = program.code(REMOVED, tmp_path / "state")
    assert done.stdout.split() == [b"1", b"0"], done.stderr.decode()


def test_a_full_disk_can_still_be_read(program: Program, tmp_path: Path) -> None:
    """A store of a disk without a free byte opens, and answers what it holds."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=False, capture_output=True
    ).returncode  # fmt: skip
    if not mounted:
        pytest.skip("a small disk can be mounted by root only")
    try:
        made = program.code(OPENED, disk / "state", "add")
        assert made.returncode == 0, made.stderr.decode()
        with (disk / "filler").open("wb", buffering=0) as filler:
            filled = 0
            while True:
                try:
                    filled += filler.write(bytes(4096))
                except OSError:
                    break
        assert filled
        opened = program.code(OPENED, disk / "state")
        assert opened.stdout.split() == [b"16", b"1"], opened.stderr.decode()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
