"""Standard error whose reader leaves."""

from __future__ import annotations

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
