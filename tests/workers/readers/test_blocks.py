"""Blocks of files and pipes."""

import fcntl
import os
import resource
from pathlib import Path

import pytest

from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.blocks import Blocks


def may_widen() -> bool:
    """Whether the system makes a pipe of this user larger."""
    end, begin = os.pipe()
    try:
        fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 1 << 20)
    except (AttributeError, OSError):
        return False
    finally:
        os.close(end)
        os.close(begin)
    return True


@pytest.mark.skipif(not may_widen(), reason="the system makes no pipe larger")
def test_a_pipe_holds_a_block() -> None:
    """What its writer has written meanwhile comes at once: a pipe of the system's size holds 64 KiB."""
    end, begin = os.pipe()
    try:
        blocks = Blocks(Stop()).content(end)
        assert next(blocks) == b""  # nothing is there yet
        os.set_blocking(begin, False)
        assert os.write(begin, bytes(1 << 20)) == 1 << 20
        assert len(next(blocks)) == 1 << 20
        os.close(begin)
        assert list(blocks) == []
    finally:
        os.close(end)


@pytest.mark.parametrize("streams", [False, True])
def test_a_descriptor_of_any_number_is_read(streams: bool, tmp_path: Path) -> None:
    """A process with many connections opens files beyond those that ``select`` knows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_100), hard))
    path = tmp_path / "lines"
    if streams:
        os.mkfifo(path)
    else:
        path.touch()
    given = os.open(path, os.O_RDWR)
    end = fcntl.fcntl(given, fcntl.F_DUPFD, 1_024)
    try:
        os.write(given, b"one\n")
        os.lseek(given, 0, os.SEEK_SET) if not streams else None
        assert next(filter(None, Blocks(Stop()).content(end))) == b"one\n"
    finally:
        os.close(given)
        os.close(end)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
