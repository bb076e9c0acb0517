"""Chromium: on the path of this machine, or from Debian's packages in a cache. Without it, tests of the page skip."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from debian_packages import UnavailableError, absent, unpacked

# Text needs a font, and a minimal machine has none.
FONTS = ("fonts-dejavu-core",)
# Starts the program with the libraries and fonts that were unpacked with it. Some libraries lie in a folder of their
# own, as libpulsecommon in pulseaudio.
START = """#!/bin/sh
room=$(dirname "$0")
for folder in "$room"/usr/lib/*-linux-gnu* "$room"/lib/*-linux-gnu* "$room"/usr/lib/*-linux-gnu*/pulseaudio; do
  libraries="$libraries:$folder"
done
export LD_LIBRARY_PATH="${libraries#:}" FONTCONFIG_FILE="$room/fonts.conf"
exec "$room/usr/lib/chromium/chromium" "$@"
"""
FONTS_CONF = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <dir prefix="relative">usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


def find_chromium() -> str:
    """Return the program on the path, else a script in the cache that starts it."""
    found = shutil.which("chromium")
    if found:
        return found
    program = "usr/lib/chromium/chromium"
    return str(unpacked("chromium", program, with_dependencies=True, more=FONTS, finish=_finish) / "start")


def _finish(folder: Path) -> None:
    start = folder / "start"
    start.write_text(START)
    start.chmod(0o755)
    (folder / "fonts.conf").write_text(FONTS_CONF)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program."""
    try:
        return find_chromium()
    except UnavailableError as error:
        absent(f"no Chromium: {error}")
