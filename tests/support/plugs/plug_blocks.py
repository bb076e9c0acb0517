"""The blocks of ``docs/PLUGS.md``, run as scripts with the program that they import."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command import PROCESS_SECONDS_MAX, ROOT, clean_environment

PAGE = ROOT / "docs" / "PLUGS.md"
LINES_MAX = 10


def block_of(package: str, language: str = "python") -> str:
    """The block of the page that imports, or names, a package first."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if re.search(rf"\b{package}\b", block))


def lines_of(block: str) -> int:
    """How many lines of a block are not blank."""
    return sum(bool(line.strip()) for line in block.splitlines())


def needs(package: str) -> None:
    """Skip the test where a package is absent."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def run_block(package: str, folder: Any, code: str | None = None) -> str:
    """What a block prints in a folder that holds the file of the examples; without ``code``, the block of the page."""
    needs(package)
    script = block_of(package) if code is None else code
    if code is None:
        assert lines_of(script) <= LINES_MAX
    shutil.copy(ROOT / "docs" / "examples" / "wire.jsonl", folder)
    (Path(folder) / "script.py").write_text(script, encoding="utf-8")
    environment = clean_environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=PROCESS_SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
