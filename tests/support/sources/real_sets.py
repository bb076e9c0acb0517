"""The folder of real data next to the clone, which most machines do not have. Without it, tests on it are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
NO_DATA = "no real data: the folder shared/data next to the clone is not there"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=NO_DATA)


def folder_of_set(name: str) -> Path:
    """The folder of a set; skips the test where it is not there.

    Call it before the test opens anything: what is open stays open where a test is skipped.
    """
    if not DATA.is_dir():
        pytest.skip(NO_DATA)
    if not (DATA / name).is_dir():
        pytest.skip(f"no real data: shared/data next to the clone has no folder {name}")
    return DATA / name
