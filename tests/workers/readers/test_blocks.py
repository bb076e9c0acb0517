"""Blocks of files and pipes."""

import fcntl
import os

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
