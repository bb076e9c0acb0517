"""The version of the program that these tests try."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from program import Program, tried


@pytest.fixture(scope="session")
def program() -> Program:
    """The version that ``make reproduce`` names, or this tree."""
    return tried()
