"""axe-core, which finds what assistive technology cannot use: fetched by npm into a cache; without it, tests skip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from debian_packages import absent

VERSION = "4.10.3"
_FILE = "package/axe.min.js"
_SECONDS_MAX = 120.0


@pytest.fixture(scope="session")
def axe() -> str:
    """The script."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup" / f"axe-core-{VERSION}.js"
    if not cache.exists():
        if not shutil.which("npm"):
            absent("no axe-core: there is no npm to fetch it")
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
            command = ["npm", "pack", "--silent", f"axe-core@{VERSION}"]
            try:
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_SECONDS_MAX)
            except (OSError, subprocess.SubprocessError) as error:
                absent(f"no axe-core: {error}")
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                archive.extract(_FILE, folder, filter="data")
            (Path(folder) / _FILE).rename(cache)
    return cache.read_text(encoding="utf-8")


def findings(browser, script: str) -> list[str]:
    """What axe finds in the page as it is: the rule, and the elements that break it."""
    browser.evaluate(f"{script};0")
    run = "axe.run(document, {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})"
    said = "JSON.stringify(found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`))"
    return list(json.loads(browser.evaluate(f"{run}.then((found) => {said})")))
