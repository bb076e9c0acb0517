"""What all tests share: the folder of the real data, and ``tests/support`` on the import path.

Test folders have no ``__init__.py``; with ``tests/support`` and its folders on
the path, tests say ``from oracle import jaccard``.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "support"))
from import_path import folders

sys.path.extend(folders("support"))

from real_sets import folder_of_set

with suppress(ModuleNotFoundError):  # without the compiler, kernels refuse by themselves what they do not declare
    import undeclared  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]

# No deadline and no limit on slow examples: the first example of a test may compile a kernel, on a machine of any
# speed. The same examples in every run: only a change of the code fails a test. A failure prints what reproduces it.
settings.register_profile(
    "neardup", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("neardup"), max_examples=25)  # of "make check"
settings.load_profile("neardup")


def pytest_configure() -> None:
    """Let processes be interrupted."""
    # A job in the background of a shell ignores the signal, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What the tests of these folders need.
NEEDS = {
    "kafka": ("processes", "broker"),
    "browser": ("processes", "browser"),
    "deploy": ("processes",),
    "program": ("processes",),
    "benchmarks": ("long",),
}


# In this order at the beginning, so that no process runs one of them alone at the end. The second compiles for itself
# and the third works in Java mostly: meanwhile the first compiles what most others use.
LONGEST = (
    "laws/test_stream_laws.py",
    "project/test_wheel.py",
    "workers/commands/batch/test_spark.py",
    "deploy/runbooks/test_runbooks.py",
    "simulation/test_schedules.py",
    "laws/test_verdict_sequences.py",
    "benchmarks/test_benchmarks.py",
    "laws/test_shard_laws.py",
    "project/test_scripts.py",
    "stream/test_config.py",
    "stream/table/test_table.py",
    "workers/stages/test_shard_table.py",
    "kafka/transport/test_kafka_rights.py",
    "kafka/workers/test_workers_kafka.py",
    "kafka/growth/test_kafka_growth.py",
    "kafka/transport/test_kafka_secured.py",
    "kafka/workers/test_bench_kafka.py",
    "kafka/torture/test_torture.py",
    "kafka/workers/test_kafka_verdicts.py",
    "kafka/transport/test_transport_laws.py",
    "kafka/torture/test_soak.py",
    "kafka/workers/test_scrape.py",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the modules of a folder whose tests are all left out, as ``make check`` does."""
    terms = config.option.markexpr.split(" and ")
    folder = collection_path.relative_to(ROOT).parts[1:2] if collection_path.is_relative_to(ROOT) else ()
    left_out = any(f"not {name}" in terms for one in folder for name in NEEDS.get(one, ()))
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of whole folders, and those that use a fixture which starts the program; longest files first."""
    rank = {ROOT / "tests" / name: n for n, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    for item in items:
        needs = NEEDS.get(item.path.relative_to(ROOT / "tests").parts[0], ())
        if {"neardup", "start"} & set(getattr(item, "fixturenames", ())):
            needs = (*needs, "processes")
        for name in needs:
            item.add_marker(name)


_STARTED: list[str] = []


# What the first picture of matplotlib starts on a machine: a list of fonts. Whichever test that is starts no process
# otherwise.
_FIRST_TIME = "fc-list"


def _note_process(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and _FIRST_TIME not in str(arguments[1]):
        _STARTED.append(str(arguments[1]))


sys.addaudithook(_note_process)


def _started_by(item: pytest.Item) -> Generator[None]:
    before = len(_STARTED)
    yield
    if len(_STARTED) > before and item.get_closest_marker("processes") is None:
        pytest.fail(f"it started {_STARTED[before]}: mark the test with pytest.mark.processes")


def _skips_before_it_opens() -> Generator[None, object, object]:
    """What was opened before a skip is closed in some later test, by the collector, with a warning that fails it.

    A thread of a fixture may be about to close what it has opened meanwhile; what leaks stays open for any wait.
    """
    before = len(os.listdir("/proc/self/fd"))
    try:
        return (yield)
    except pytest.skip.Exception:
        for _ in range(200):
            if len(os.listdir("/proc/self/fd")) <= before:
                break
            time.sleep(0.05)
        else:
            files = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)]
            pytest.fail(f"it skips after it opened a file or a socket, which stays open: skip before; {files}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """A fixture that skips with more open files than it began with fails its test."""
    return (yield from _skips_before_it_opens())


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """A test that skips with more open files than it began with fails."""
    return (yield from _skips_before_it_opens())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """A fixture that starts a process for a test without the mark ``processes`` fails it too."""
    yield from _started_by(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that starts a process without the mark ``processes`` fails, so that ``make check`` stays quick."""
    yield from _started_by(item)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt modules and collected tests from the garbage collector, because they live to the end.

    A full collection of a million such objects takes a quarter of a second. Benchmarks collect before each run, and
    the imports would cause many.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """The folder of one of the sets next to the clone, ``real_data("licence_texts")``; skips where there is none."""
    return folder_of_set
