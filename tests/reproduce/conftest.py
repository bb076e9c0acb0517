"""The version of the program that these tests try."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fork_server import forks
from program import Program, kept_environment, this_tree, tried


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """The version that ``make reproduce`` names, or this tree."""
    found = tried()
    if found != this_tree():
        yield found
        return
    with forks(kept_environment()) as words:
        yield found._replace(forked=tuple(words))
