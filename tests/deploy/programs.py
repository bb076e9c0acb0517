"""The programs of Prometheus: those of this machine, else those of Debian's package; and what to do without.

`promtool` and `prometheus` are those of this machine, else those of Debian's package, fetched by `apt-get` into a cache
and unpacked there without being installed. Where that cannot be had, tests of them skip with the reason; with CI=true
they fail instead.
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
    """The programs on the path, else those in the cache, which is filled when it is empty."""
    found = shutil.which("promtool"), shutil.which("prometheus")
    if found[0] and found[1]:
        return Prometheus(found[0], found[1])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup" / "prometheus"
    if not cache.is_dir():
        fetch(cache)
    return Prometheus(str(cache / "usr/bin/promtool"), str(cache / "usr/bin/prometheus"))


def fetch(cache: Path) -> None:
    """Unpack Debian's package into `cache`, which appears whole or not at all."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError("neither promtool nor apt-get is on this machine: install Prometheus")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
        room = Path(folder)
        for name in ("lists/partial", "cache/archives/partial"):
            (room / name).mkdir(parents=True)
        # Lists and archives of our own: nothing of the system changes, and no root is needed.
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
            if not cache.is_dir():  # else another process was quicker
                raise


def run(command: list[str], folder: Path) -> None:
    """Run one command of the fetching; raises `UnavailableError`."""
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS_MAX)
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UnavailableError(f"{' '.join(command)} ended with {error.returncode}: {' '.join(last)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{' '.join(command)}: {error}") from error


def absent(reason: str) -> NoReturn:
    """Skip, or fail in CI."""
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
