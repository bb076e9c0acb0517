"""Chromium: on the path of this machine, or from Debian's packages in a cache. Without it, tests of the page skip."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from debian_packages import UnavailableError, unpacked

# Starts the program with the libraries that were unpacked with it.
START = """#!/bin/sh
room=$(dirname "$0")
for folder in "$room"/usr/lib/*-linux-gnu* "$room"/lib/*-linux-gnu*; do
  libraries="$libraries:$folder"
done
LD_LIBRARY_PATH="${libraries#:}" exec "$room/usr/lib/chromium/chromium" "$@"
"""


def find_chromium() -> str:
    """Return the program on the path, else a script in the cache that starts it."""
    found = shutil.which("chromium")
    if found:
        return found
    return str(unpacked("chromium", "usr/lib/chromium/chromium", with_dependencies=True, finish=_finish) / "start")


def _finish(folder: Path) -> None:
    start = folder / "start"
    start.write_text(START)
    start.chmod(0o755)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program."""
    try:
        return find_chromium()
    except UnavailableError as error:
        pytest.skip(f"no Chromium: {error}")
