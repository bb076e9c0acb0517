"""Standard error whose reader leaves, or whose disk is full."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from command import COMMAND, PROCESS_SECONDS_MAX, clean_environment


@pytest.mark.processes
def test_a_reader_of_messages_who_leaves_does_not_end_the_work(tmp_path: Path) -> None:
    """As with ``2>&1 | head``: later messages are dropped, and the file has every kept line."""
    first, second = b'{"text": "the first text"}\n', b'{"text": "another one of them"}\n'
    command, pipe = [*COMMAND, "dedup", "-", "--output", "kept"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, cwd=tmp_path, env=clean_environment()) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"damaged\n" + first)
        process.stdin.flush()
        assert process.stderr.readline()
        process.stderr.close()
        process.stdin.write(b"damaged\n" + second)
        process.stdin.close()
        assert process.wait(PROCESS_SECONDS_MAX) == 0
    assert (tmp_path / "kept").read_bytes() == first + second


@pytest.mark.processes
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_messages_that_find_no_room_end_no_work(tmp_path: Path) -> None:
    """Reports and the summary are lost; the files are whole, and the command succeeds."""
    lines = b'damaged\n{"text": "the first text"}\n'
    command = [*COMMAND, "dedup", "-", "--output", "kept", "--removed", "removed"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, input=lines, stderr=full, cwd=tmp_path, env=clean_environment(), timeout=PROCESS_SECONDS_MAX,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "kept").read_bytes() == b'{"text": "the first text"}\n'
    assert (tmp_path / "removed").read_bytes() == b""
