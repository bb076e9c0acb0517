"""Runs mutants: a copy of the tree, one guard less, and the tests that must fail on it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
COPIED = (
    "stream",
    "textbook",
    "workers",
    "tests",
    "benchmarks",
    "deploy",
    "docs",
    "pyproject.toml",
    "README.md",
    "Makefile",
)
TESTS_FAILED = 1  # pytest's exit code; others say that nothing was tested
SECONDS_MAX = 900.0


class Mutant(NamedTuple):
    """One guard less: ``old`` stands once in ``file``; ``tests`` are what pytest is given."""

    name: str
    layer: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def tell(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def copied(folder: Path) -> Path:
    """A copy of the tree that the tests run in, compiled kernels included."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy2(source, folder / name)
    return folder


def run_tests(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """The exit code of pytest in the copy, and the end of what it wrote."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(folder / root) for root in ("stream", "textbook", "workers")),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    return done.returncode, "\n".join((done.stdout + done.stderr).splitlines()[-12:])


def verdict(mutant: Mutant, folder: Path) -> tuple[str, str]:
    """``killed``, ``survives`` or ``lost``, and what there is to say of it."""
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    found = text.count(mutant.old)
    if found != 1:
        return "lost", f"{mutant.file} holds its text {found} times, it must be once; follow the code:\n{mutant.old}"
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, last = run_tests(folder, mutant.tests)
    finally:
        path.write_text(text, encoding="utf-8")
    lines = [line for line in last.splitlines() if line.startswith("FAILED")]
    if code == TESTS_FAILED and lines:
        return "killed", lines[0]
    return "survives", f"pytest ended with {code}:\n{last}"


def chosen(mutants: Sequence[Mutant], words: Sequence[str], layer: str | None) -> list[Mutant]:
    """The mutants of a layer whose names hold one of the words."""
    rows = [mutant for mutant in mutants if layer is None or mutant.layer == layer]
    return [mutant for mutant in rows if not words or any(word in mutant.name for word in words)]


def run_mutants(mutants: Sequence[Mutant], description: str) -> int:
    """Run the mutants that the command line chooses; returns the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("words", nargs="*", help="parts of names; without any, all")
    parser.add_argument("--layer", choices=sorted({mutant.layer for mutant in mutants}))
    parser.add_argument("--no-baseline", action="store_true", help="do not look first whether the tests pass as it is")
    given = parser.parse_args()
    rows = chosen(mutants, given.words, given.layer)
    folder = copied(Path(tempfile.mkdtemp(prefix="neardup-mutants-")))
    results: list[tuple[Mutant, str, float]] = []
    try:
        if not given.no_baseline:
            code, last = run_tests(folder, sorted({test for mutant in rows for test in mutant.tests}))
            if code != 0:
                tell(f"the tests do not pass without any mutant:\n{last}")
                return 1
        for mutant in rows:
            began = time.monotonic()
            outcome, why = verdict(mutant, folder)
            results.append((mutant, outcome, time.monotonic() - began))
            tell(f"{outcome}: {mutant.name}\n    {why}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tell("\n| mutant | layer | outcome | seconds |\n|---|---|---|---|")
    for mutant, outcome, seconds in results:
        tell(f"| {mutant.name} | {mutant.layer} | {outcome} | {seconds:.0f} |")
    return 0 if all(outcome == "killed" for _, outcome, _ in results) else 1
