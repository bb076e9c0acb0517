"""The programs of Prometheus: on the path of this machine, or from Debian's package in a cache.

If the package is unavailable, the tests that need it skip with the reason; with CI=true they fail instead.
"""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest
from debian_packages import UnavailableError, absent, unpacked


class Prometheus(NamedTuple):
    """The two programs of the package."""

    promtool: str
    server: str


def find_prometheus() -> Prometheus:
    """Return the programs on the path, else the programs in the cache."""
    found = shutil.which("promtool"), shutil.which("prometheus")
    if found[0] and found[1]:
        return Prometheus(found[0], found[1])
    cache = unpacked("prometheus", "usr/bin/prometheus")
    return Prometheus(str(cache / "usr/bin/promtool"), str(cache / "usr/bin/prometheus"))


@pytest.fixture(scope="session")
def prometheus() -> Prometheus:
    """The programs of Prometheus."""
    try:
        return find_prometheus()
    except UnavailableError as error:
        absent(f"no Prometheus: {error}")
