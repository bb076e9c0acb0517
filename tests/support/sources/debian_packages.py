"""Programs from Debian's packages, unpacked into a cache: nothing is installed, and no root is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

FETCH_SECONDS_MAX = 300.0


class UnavailableError(Exception):
    """This machine has no such program and cannot fetch one."""


def absent(reason: str) -> NoReturn:
    """Skip the test of a program that cannot be had, or fail in CI."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"in CI: {reason}", pytrace=False)
    pytest.skip(reason)


def unpacked(
    package: str,
    program: str,
    *,
    with_dependencies: bool = False,
    more: Sequence[str] = (),
    finish: Callable[[Path], None] = lambda folder: None,
) -> Path:
    """Return the cache folder of a package; fill an empty cache first. The folder is complete or absent.

    Args:
        package: name of the package, and of the folder.
        program: path of a file that the package must bring.
        with_dependencies: fetch the packages that it needs and that this machine lacks, too.
        more: packages to fetch with it, if this machine lacks them; only ``with_dependencies``.
        finish: called with the folder before it gets its name.

    Raises:
        UnavailableError: the package cannot be fetched.
    """
    name = "+".join((package, *more))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup" / name
    if cache.is_dir():
        return cache
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError(f"neither {package} nor apt-get is on this machine: install {package}")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as room:
        folder = Path(room) / "unpacked"
        for archive in _fetched([package, *more], Path(room), with_dependencies):
            _run(["dpkg-deb", "--extract", str(archive), str(folder)], Path(room))
        if not (folder / program).is_file():
            raise UnavailableError(f"apt-get has brought no {program}")
        finish(folder)
        try:
            folder.rename(cache)
        except OSError:
            if not cache.is_dir():  # else another process was faster
                raise
    return cache


def _fetched(packages: list[str], room: Path, with_dependencies: bool) -> list[Path]:
    """Download packages into a folder; returns their files."""
    for name in ("lists/partial", "cache/archives/partial"):
        (room / name).mkdir(parents=True)
    # apt-get uses its own lists and archives here, and no lock: it changes nothing of the system and needs no root.
    own = ["-o", f"Dir::State::Lists={room}/lists", "-o", f"Dir::Cache={room}/cache", "-o", "APT::Sandbox::User="]
    apt_get = ["apt-get", "--quiet", *own, "-o", "Debug::NoLocking=true"]
    _run([*apt_get, "update"], room)
    if with_dependencies:
        _run([*apt_get, "install", "--yes", "--no-install-recommends", "--download-only", *packages], room)
        return sorted((room / "cache" / "archives").glob("*.deb"))
    _run([*apt_get, "download", *packages], room)
    return sorted(room.glob("*.deb"))


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS_MAX)
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UnavailableError(f"{' '.join(command)} ended with {error.returncode}: {' '.join(last)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{' '.join(command)}: {error}") from error
