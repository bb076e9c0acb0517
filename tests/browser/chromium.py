"""Chromium: on the path of this machine, or from Debian's packages.

If the path has no `chromium`, `apt-get` fetches Debian's packages (those that this machine lacks) into a cache; the
module unpacks them there and installs nothing. If that fails, the tests of the page skip with the reason.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from programs import UnavailableError, run


def find_chromium() -> str:
    """Return the program on the path, else a script in the cache that starts it; fill an empty cache first."""
    found = shutil.which("chromium")
    if found:
        return found
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup" / "chromium"
    if not cache.is_dir():
        fetch(cache)
    return str(cache / "start")


def fetch(cache: Path) -> None:
    """Unpack Debian's packages into `cache`, which is complete or absent."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError("neither chromium nor apt-get is on this machine: install Chromium")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
        room = Path(folder)
        for name in ("lists/partial", "cache/archives/partial"):
            (room / name).mkdir(parents=True)
        # apt-get uses its own lists and archives here, and no lock: it changes nothing of the system and needs no root.
        own = ["-o", f"Dir::State::Lists={room}/lists", "-o", f"Dir::Cache={room}/cache", "-o", "APT::Sandbox::User="]
        own += ["-o", "Debug::NoLocking=true"]
        run(["apt-get", "--quiet", *own, "update"], room)
        install = ["install", "--yes", "--no-install-recommends", "--download-only", "chromium"]
        run(["apt-get", "--quiet", *own, *install], room)
        unpacked = room / "unpacked"
        for package in (room / "cache" / "archives").glob("*.deb"):
            run(["dpkg-deb", "--extract", str(package), str(unpacked)], room)
        if not (unpacked / "usr/lib/chromium/chromium").is_file():
            raise UnavailableError("apt-get has brought no program of this name")
        start = unpacked / "start"
        start.write_text(
            "#!/bin/sh\n"
            'room=$(dirname "$0")\n'
            'for folder in "$room"/usr/lib/*-linux-gnu* "$room"/lib/*-linux-gnu*; do\n'
            '  libraries="$libraries:$folder"\n'
            "done\n"
            'LD_LIBRARY_PATH="${libraries#:}" exec "$room/usr/lib/chromium/chromium" "$@"\n'
        )
        start.chmod(0o755)
        try:
            unpacked.rename(cache)
        except OSError:
            if not cache.is_dir():  # else another process was faster
                raise


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program."""
    try:
        return find_chromium()
    except UnavailableError as error:
        pytest.skip(f"no Chromium: {error}")
