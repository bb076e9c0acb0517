"""Standard output and the summary file of a command, and what happens when either cannot be written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any

import orjson

from workers.process.exits import Exit, Failure, output_failure


def standard_output() -> IO[bytes]:
    """Standard output as bytes; raises ``Failure`` if it is closed."""
    if sys.stdout is None:
        raise Failure(Exit.OUTPUT, "cannot write the pairs to standard output: it is closed")
    return sys.stdout.buffer


def output_file(path: str) -> IO[bytes]:
    """A file for the pairs; raises ``Failure`` if it cannot be written."""
    try:
        return Path(path).open("wb")
    except OSError as error:
        raise output_failure(f"the pairs to {path}", error) from None


def write_pairs(output: IO[bytes], data: bytes) -> None:
    """Write lines of pairs at once; raises ``Failure`` when the output accepts no more."""
    try:
        output.write(data)
        output.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_output()
        raise output_failure("the pairs to standard output", error) from None


def write_summary(path: str | None, summary: dict[str, Any]) -> None:
    """Write the summary of a command to a file, if one is named. Raises ``Failure``."""
    if path is None:
        return
    try:
        Path(path).write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    except OSError as error:
        raise output_failure(f"the summary to {path}", error) from None


def abandon_output() -> None:
    """Send what is still buffered to the null device, so that the interpreter does not fail on it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
