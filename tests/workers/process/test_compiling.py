"""The messages of a first run during compilation, and kernels that several processes need at the same time."""

import subprocess
import sys
import threading

import pytest
from command import PROCESS_SECONDS_MAX, clean_environment
from typer.testing import CliRunner

from neardup.machine.compile import kernel
from neardup_workers.outside.process import compiling
from neardup_workers.outside.process.compiling import Compiling
from neardup_workers.outside.store import migrating
from neardup_workers.running.cli.app import app
from neardup_workers.running.commands.tune import sample

FIRST = "compiling for this machine, once for settings like these; later runs load it"


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty folder of kernels."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


def compile_one():
    """Call a kernel as a new process does."""

    def twice(x):
        return x + x

    return kernel()(twice)(2)


def test_the_first_kernel_is_announced_and_the_time_of_nested_ones_counts_once(tmp_path):
    """The compiler may nest kernels; later ones are only counted."""
    lines, clock = [], iter([10.0, 20.0, 20.0, 21.0])
    outer, inner = str(tmp_path / "outer.nbc"), str(tmp_path / "inner.nbc")
    with Compiling(lines.append, lambda: next(clock)) as watch:
        watch.begin(outer)
        watch.begin(inner)
        watch.end(inner)
        watch.end(outer)
        watch.begin(outer)
        watch.end(outer)
        watch.end(outer)
    assert (watch.kernels, watch.seconds) == (3, 11.0)
    assert lines == [FIRST]


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        (sample, "_show", ["tune", "--sample", "pyproject.toml"]),
        (migrating, "migrate", ["serve", "migrate", "--state", "old", "--to", "new"]),
    ],
)
def test_commands_that_sign_report_the_first_compilation(module, name, arguments, monkeypatch):
    """Also those without a session: the user waits for half a minute there, too."""
    monkeypatch.setattr(module, name, lambda *_, **__: 0 * compile_one())
    done = CliRunner().invoke(app, arguments)
    assert done.stderr.startswith(f"neardup: {FIRST}")


@pytest.mark.usefixtures("empty")
def test_what_is_compiled_counts_once_and_later_runs_load_it():
    """A kernel that is on disk is not reported."""
    lines = []
    with Compiling(lines.append) as first:
        compile_one()
    with Compiling(lines.append) as second:
        compile_one()
    assert (first.kernels, second.kernels, lines) == (1, 0, [FIRST])
    assert first.seconds > second.seconds == 0


@pytest.mark.usefixtures("empty")
def test_the_compiler_gives_a_sign_of_life_again_and_again(monkeypatch, tmp_path):
    """Also in a pipe; between compilations there is none."""
    monkeypatch.setattr(compiling, "_LINE_SECONDS", 0.001)
    said, lines = threading.Event(), []

    def say(line):
        lines.append(line)
        if len(lines) == 4:
            said.set()

    with Compiling(say) as watch:
        watch.begin(str(tmp_path / "one.nbc"))
        assert said.wait(PROCESS_SECONDS_MAX)
        watch.end(str(tmp_path / "one.nbc"))
    assert set(lines) == {FIRST, "compiling: 0 kernels are done"}  # in any order: they come from two threads
    assert watch._reporter is None


@pytest.mark.processes
def test_a_kernel_that_another_process_compiles_is_waited_for(tmp_path):
    """The wait is reported once, and ends when the other process ends, however it does."""
    path, lines = str(tmp_path / "kernel.nbc"), []
    code = """
import sys
from neardup_workers.outside.process.compiling import Compiling
watch = Compiling(lambda line: None)
for path in sys.argv[1:]:
    watch.begin(path)
print("holds", flush=True)
input()
"""
    command = [sys.executable, "-c", code, path, f"{path}2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as other:
        assert other.stdout.readline() == b"holds\n"

        def say(line):
            lines.append(line)
            other.kill()

        with Compiling(say) as watch:
            watch.begin(path)
            watch.begin(f"{path}2")
            assert sorted(tmp_path.iterdir()) == [tmp_path / "kernel.nbc.lock", tmp_path / "kernel.nbc2.lock"]
    assert lines[0] == "waiting for another process, which compiles for this machine"
    assert set(lines[1:]) <= {FIRST}
    assert watch.seconds > 0
    assert not list(tmp_path.iterdir())


def test_a_process_that_stops_in_a_compilation_delays_the_others_for_a_limited_time(tmp_path, monkeypatch):
    """After a time, the process that waits compiles too, and leaves the lock to its holder."""
    monkeypatch.setattr(compiling, "_WAIT_SECONDS_MAX", 0.0)
    path = str(tmp_path / "kernel.nbc")
    with Compiling(lambda line: None) as holder:
        holder.begin(path)
        with Compiling(lambda line: None) as other:
            other.begin(path)
            assert list(other._held) == [path]
    assert not list(tmp_path.iterdir())


def test_without_a_place_for_locks_each_process_compiles(tmp_path):
    """The kernel cannot be kept there either."""
    (tmp_path / "file").write_text("")
    with Compiling(lambda line: None) as watch:
        watch.begin(str(tmp_path / "file" / "kernel.nbc"))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
