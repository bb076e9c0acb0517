"""Machine code that was made beforehand, where no compiler is installed; ``make machine`` makes it and runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from command import COMMAND, ROOT, WORDS, clean_environment
from import_path import CLONE, SOURCES
from service_process import Serving

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.skipif("TESTED_TREE" not in os.environ, reason="machine code is made beforehand by make machine"),
]
NEWS = ROOT / "docs" / "examples" / "news.jsonl"
EVERY_OUTPUT = ROOT / "tests" / "support" / "streams" / "every_output.py"


def run(sources, *command, cwd=ROOT):
    """The output of a process with these sources."""
    done = subprocess.run(
        [*map(str, command)], env=clean_environment(PYTHONPATH=sources), cwd=cwd, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_no_compiler_can_be_imported():
    """So all that runs here was made beforehand."""
    for name in ("numba", "llvmlite"):
        code = f"import importlib, neardup\ntry: importlib.import_module('{name}')\nexcept ImportError: print('none')"
        assert run(SOURCES, sys.executable, "-c", code) == b"none\n"
    assert b"\nkernels: built for x86-64-v" in run(SOURCES, *COMMAND, "--version", "--verbose")


def test_every_scheme_gives_what_compiled_kernels_give():
    """Evidence, pairs and verdicts of each case of the laws."""
    built, compiled = (run(sources, sys.executable, EVERY_OUTPUT) for sources in (SOURCES, CLONE))
    assert built.count(b"\n") > 30
    assert built.splitlines() == compiled.splitlines()


@pytest.mark.parametrize("command", ["dedup", "run", "batch"])
def test_a_command_writes_what_it_writes_with_compiled_kernels(command, tmp_path):
    """Byte for byte: standard output and each file."""
    found = []
    for name, sources in (("built", SOURCES), ("compiled", CLONE)):
        (tmp_path / name).mkdir()
        options = {"dedup": ["--verdicts", "verdicts.jsonl"], "run": [], "batch": ["--output", "kept.jsonl"]}[command]
        found.append([run(sources, *COMMAND, command, "--quiet", *options, NEWS, cwd=tmp_path / name)])
        found[-1] += [path.read_bytes() for path in sorted((tmp_path / name).iterdir()) if path.is_file()]
    assert found[0] == found[1]
    assert any(found[0])


def test_the_service_decides(tmp_path):
    """A document and its copy, over a socket."""
    import httpx

    serving = Serving(tmp_path)
    try:
        statuses = [
            httpx.post(f"{serving.url}/v1/check", json={"id": id_, "text": WORDS}).json()["status"] for id_ in "ab"
        ]
    finally:
        serving.stop()
    assert statuses == ["original", "duplicate"], json.dumps(statuses)
