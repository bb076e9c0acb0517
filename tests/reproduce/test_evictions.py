"""Documents that leave the window of a file before its end."""

from __future__ import annotations

import json

import pytest
from program import Program

# A copy of the first line comes after more lines than the window holds.
LINES = [json.dumps({"id": str(n), "text": f"{n * 7919} {n * 104729} words of no other line {n}"}) for n in range(40)]
INPUT = "\n".join([*LINES, LINES[0].replace('"id": "0"', '"id": "copy"')]).encode()


@pytest.mark.parametrize("command", ["dedup", "run"])
def test_the_last_line_says_loudly_what_was_not_looked_for(program: Program, command: str) -> None:
    """A window that is smaller than the file is the last word of the summary, and a failure with ``--strict``."""
    small = ("--window-documents", "30")
    done = program.run(command, *small, "-", input=INPUT)
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("WARNING: duplicates may be missing: the first 11 documents left the window")
    assert "window_documents (30)" in last
    assert done.returncode == 0
    assert program.run(command, "--strict", *small, "-", input=INPUT).returncode == 13
    assert program.run(command, "--strict", "-", input=INPUT).returncode == 0
