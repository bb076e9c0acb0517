"""What all tests share: fresh kernels, the folder of the real data, and ``tests/support`` on the import path.

Test folders have no ``__init__.py``; with ``tests/support`` and
``tests/support/workers`` on the path, tests say ``from oracle import jaccard``.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parent / "support" / "workers"))

from kernel_cache import drop_stale_kernels

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"

# No deadline and no limit on slow examples: the first example of a test may compile a kernel, on a machine of any
# speed. The same examples in every run: only a change of the code fails a test. A failure prints what reproduces it.
settings.register_profile(
    "neardup", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("neardup")


def pytest_configure(config: pytest.Config) -> None:
    """Drop stale kernels before anything imports ``stream``, under pytest-xdist once; let processes be interrupted."""
    if not hasattr(config, "workerinput"):
        drop_stale_kernels(ROOT / "stream")
    # A job in the background of a shell ignores the signal, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What the tests of these folders need.
NEEDS = {
    "kafka": ("processes", "broker"),
    "browser": ("processes", "browser"),
    "deploy": ("processes",),
    "reproduce": ("processes",),
    "benchmarks": ("long",),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of whole folders, and those that use a fixture which starts the program."""
    for item in items:
        needs = NEEDS.get(item.path.relative_to(ROOT / "tests").parts[0], ())
        if {"neardup", "start"} & set(getattr(item, "fixturenames", ())):
            needs = (*needs, "processes")
        for name in needs:
            item.add_marker(name)


_STARTED: list[str] = []


def _note_process(event: str, arguments: tuple[object, ...]) -> None:
    # The first command on a machine starts a second compiler; whichever test that is starts no process otherwise.
    if event == "subprocess.Popen" and "neardup.workers.process.table_compiler" not in str(arguments[1]):
        _STARTED.append(str(arguments[1]))


sys.addaudithook(_note_process)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that starts a process without the mark ``processes`` fails, so that ``make check`` stays quick."""
    before = len(_STARTED)
    yield
    if len(_STARTED) > before and item.get_closest_marker("processes") is None:
        pytest.fail(f"it started {_STARTED[before]}: mark the test with pytest.mark.processes")


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from the garbage collector, because they live to the end.

    A full collection of a million such objects takes a quarter of a second, and benchmarks collect before each run.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """The folder of one of the sets next to the project, ``real_data("licence_texts")``; skips where there is none."""

    def folder(name: str) -> Path:
        if not (DATA / name).is_dir():
            pytest.skip(f"no real data: {DATA / name} is not there")
        return DATA / name

    return folder
