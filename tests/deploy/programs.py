"""The programs of Prometheus: on the path of this machine, or from Debian's package.

If the path has no `promtool` and `prometheus`, `apt-get` fetches Debian's package into a cache; the module unpacks the
package there and does not install it. If the package is unavailable, the tests that need it skip with the reason; with
CI=true they fail instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

FETCH_SECONDS_MAX = 300.0


class Prometheus(NamedTuple):
    """The two programs of the package."""

    promtool: str
    server: str


class UnavailableError(Exception):
    """This machine has no Prometheus and cannot fetch one."""


def find_prometheus() -> Prometheus:
    """Return the programs on the path, else the programs in the cache; fill an empty cache first."""
    found = shutil.which("promtool"), shutil.which("prometheus")
    if found[0] and found[1]:
        return Prometheus(found[0], found[1])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup" / "prometheus"
    if not cache.is_dir():
        fetch(cache)
    return Prometheus(str(cache / "usr/bin/promtool"), str(cache / "usr/bin/prometheus"))


def fetch(cache: Path) -> None:
    """Unpack Debian's package into `cache`, which is complete or absent."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError("neither promtool nor apt-get is on this machine: install Prometheus")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
        room = Path(folder)
        for name in ("lists/partial", "cache/archives/partial"):
            (room / name).mkdir(parents=True)
        # apt-get uses its own lists and archives here: it changes nothing of the system and needs no root.
        own = ["-o", f"Dir::State::Lists={room}/lists", "-o", f"Dir::Cache={room}/cache", "-o", "APT::Sandbox::User="]
        for command in (
            ["apt-get", "--quiet", *own, "update"],
            ["apt-get", "--quiet", *own, "download", "prometheus"],
        ):
            run(command, room)
        packages = list(room.glob("prometheus_*.deb"))
        if len(packages) != 1:
            raise UnavailableError(f"apt-get has brought {[package.name for package in packages]}")
        run(["dpkg-deb", "--extract", str(packages[0]), "unpacked"], room)
        try:
            (room / "unpacked").rename(cache)
        except OSError:
            if not cache.is_dir():  # else another process was faster
                raise


def run(command: list[str], folder: Path) -> None:
    """Run one command of the download; raises `UnavailableError`."""
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS_MAX)
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UnavailableError(f"{' '.join(command)} ended with {error.returncode}: {' '.join(last)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{' '.join(command)}: {error}") from error


def absent(reason: str) -> NoReturn:
    """Skip the test, or fail in CI."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"in CI: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def prometheus() -> Prometheus:
    """The programs of Prometheus."""
    try:
        return find_prometheus()
    except UnavailableError as error:
        absent(f"no Prometheus: {error}")
