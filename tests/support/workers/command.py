"""The real command in its own process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import forks
from import_path import SOURCES

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
ROOT = Path(__file__).resolve().parents[3]
# A process may compile kernels first, while every core is busy.
PROCESS_SECONDS_MAX = 180.0
COMMAND = [sys.executable, "-m", "neardup"]
WORDS = "the quick brown fox jumps over the lazy dog while seven wizards boil their jugs of liquid in a quiet corner"


def clean_environment(**extra):
    """The environment without the user's settings, wide enough that help does not wrap names."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
    return {**kept, "COLUMNS": "200", "PYTHONPATH": SOURCES, **extra}


_SLOW = ("for this machine", "compiling: ", "stopping: ")


def without_compilation(report):
    """The lines of standard error without those of a first compilation, and of an end that takes its time."""
    return [line for line in report if not any(said in line for said in _SLOW)]


@pytest.fixture(scope="session")
def forked():
    """The words of a command that stand for ``python`` and start it as a fork."""
    with forks(clean_environment()) as words:
        yield words


def _runner(words, folder):
    def run(*args, stdin=b"", environment=None, timeout=PROCESS_SECONDS_MAX, **options):
        done = subprocess.run(
            [*words, *map(str, args)],
            input=stdin,
            capture_output="stdout" not in options,
            cwd=folder,
            env=clean_environment(**(environment or {})),
            timeout=timeout,
            check=False,
            **options,
        )
        if done.stderr is not None:
            report = done.stderr.decode(errors="surrogateescape").splitlines(keepends=True)
            done.stderr = "".join(without_compilation(report)).encode(errors="surrogateescape")
        return done

    return run


@pytest.fixture
def python(forked, tmp_path):
    """Run ``python`` with arguments in a folder of the test; returns the finished process, whose standard error does
    not depend on what is compiled already."""
    return _runner(forked, tmp_path)


@pytest.fixture
def neardup(forked, tmp_path):
    """Run ``neardup`` with arguments, as ``python`` does."""
    return _runner([*forked, "-m", "neardup"], tmp_path)


@pytest.fixture
def start(tmp_path):
    """Start ``neardup`` with pipes on all sides; the end of the test ends it."""
    started = []

    def run(*args):
        process = subprocess.Popen(
            [*COMMAND, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=clean_environment(),
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
