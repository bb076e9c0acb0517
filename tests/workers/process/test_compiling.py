"""The messages of a first run during compilation, and the second process that compiles half of the program."""

import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest
from command import PROCESS_SECONDS_MAX, clean_environment
from numba.core import event
from typer.testing import CliRunner

from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels import hashing
from neardup_workers.outside.process import compiling, table_compiler
from neardup_workers.outside.process.compiling import Compiling
from neardup_workers.outside.process.table_compiler import TableCompiler
from neardup_workers.outside.store import migrating
from neardup_workers.running.cli.app import app
from neardup_workers.running.commands.tune import sample


def compiles(function):
    """What the compiler says of a function."""
    return event.Event("numba:compile", event.EventStatus.START, {"dispatcher": function})


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty folder of kernels."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


def test_the_first_function_is_announced_and_the_time_of_nested_ones_counts_once():
    """The compiler may nest functions; later functions are only counted."""
    lines, clock = [], iter([10.0, 15.0, 20.0, 21.0])
    watch = Compiling(lines.append, lambda: next(clock))
    outer, inner = compiles(hashing.seed_of), compiles(hashing.derive_seed)
    with watch:
        watch.on_start(outer)
        watch.on_start(inner)
        watch.on_end(inner)
        watch.on_end(outer)
        watch.on_start(outer)
        watch.on_end(outer)
    assert (watch.functions, watch.seconds) == (3, 6.0)
    assert [line.startswith("compiling for this machine, once") for line in lines] == [True]


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        (sample, "_show", ["tune", "--sample", "pyproject.toml"]),
        (migrating, "migrate", ["serve", "migrate", "--state", "old", "--to", "new"]),
    ],
)
def test_commands_that_sign_report_the_first_compilation(module, name, arguments, monkeypatch):
    """Also those without a session: the user waits for half a minute there, too."""

    def compiling(*_, **__):
        with event.trigger_event("numba:compile", {"dispatcher": hashing.seed_of}):
            return 0

    monkeypatch.setattr(module, name, compiling)
    done = CliRunner().invoke(app, arguments)
    assert done.stderr.startswith("neardup: compiling for this machine, once")


@pytest.mark.usefixtures("empty")
def test_the_progress_counts_kernels_of_those_that_are_needed():
    """A kernel names what it calls: three for ``seed_of``, and two of them for ``mix64`` too. The total grows when
    another one begins."""
    watch = Compiling(lambda line: None)
    assert watch.progress() == "waiting for another process, which compiles for this machine"
    with watch:
        assert watch.expect(hashing.seed_of) == {hashing.seed_of, hashing.derive_seed, hashing.mix64}
        assert watch.progress() == "compiling: 0 of 3 kernels"
        watch.on_start(compiles(hashing.seed_of))
        watch.on_start(compiles(hashing.mix64))
        watch.on_end(compiles(hashing.mix64))
        assert watch.progress() == "compiling: 1 of 3 kernels"
        watch.on_end(compiles(hashing.seed_of))
        watch.on_start(compiles(hashing.hash_strings))
        assert watch.progress() == "compiling: 2 of 4 kernels"
        watch.on_end(compiles(hashing.hash_strings))


@pytest.mark.usefixtures("empty")
def test_what_another_process_has_compiled_counts_as_done():
    """It is in the folder. Later nothing of it is expected."""

    def made():
        def twice(x):
            return x + x

        called = inlined(twice)
        return kernel()(lambda x: called(x) + 1)

    lines, watch, ours = [], Compiling(lambda line: None), made()
    watch.expect(ours)
    assert watch.progress() == "compiling: 0 of 2 kernels"
    with Compiling(lines.append):
        made()(1)
    assert watch.progress() == "compiling: 2 of 2 kernels"
    assert watch.expect(ours) == set()
    assert lines == ["compiling for this machine, once for settings like these; later runs load it"]


@pytest.mark.usefixtures("empty")
def test_the_compiler_gives_a_sign_of_life_again_and_again(monkeypatch):
    """Also in a pipe; between compilations there is none."""
    monkeypatch.setattr(compiling, "_LINE_SECONDS", 0.001)
    said, lines = threading.Event(), []

    def say(line):
        lines.append(line)
        if len(lines) == 4:
            said.set()

    with Compiling(say) as watch:
        watch.on_start(compiles(hashing.mix64))
        assert said.wait(PROCESS_SECONDS_MAX)
        watch.on_end(compiles(hashing.mix64))
    assert lines[0].startswith("compiling for this machine, once")
    assert set(lines[1:4]) == {"compiling: 0 of 1 kernels"}
    assert watch._reporter is None


def test_the_compiler_reports_to_it():
    """The compiler's own events report a function that it compiles now."""
    import numba

    lines = []
    with Compiling(lines.append) as watch:
        numba.njit(lambda x: x + 1)(1)
        assert watch.functions == 1
    numba.njit(lambda x: x + 2)(1)
    assert watch.functions == 1
    assert watch.seconds > 0


def test_a_wait_for_the_other_process_and_a_function_at_the_same_time_count_once():
    """One thread may compile for signing while another waits for the table."""
    clock = iter([1.0, 5.0])
    watch = Compiling(lambda line: None, lambda: next(clock))
    with watch, watch.waiting():
        watch.on_start(compiles(hashing.seed_of))
        watch.on_end(compiles(hashing.seed_of))
    assert (watch.functions, watch.seconds) == (1, 4.0)


@pytest.mark.processes
def test_the_second_process_compiles_what_every_scheme_calls():
    """The kernels of the table, of pairs and of verdicts have one signature, so nothing compiles them again."""
    code = """
from neardup import Config, Deduplicator, Document
from neardup.pairs.batches import _fill_keys
from neardup.schemes.interface import _gather
from neardup.schemes.signatures.banding import _agreement, _keys
from neardup.window.step import run
from neardup.stories.verdicts.rule import decide
from neardup_workers.outside.process.table_compiler import compile_pairs, compile_table, compile_verdicts
compile_table()
documents = [Document("a", "a text"), Document("b", "another")]
dedup = Deduplicator(Config())
compile_pairs(dedup.config, dedup.signer.sign(documents).batch)
compile_verdicts(dedup.config)
dedup.decide(documents)
for scheme in ("one_permutation", "prefix", "identical"):
    Deduplicator(Config(scheme=scheme)).process(documents)
print([len(kernel.signatures) for kernel in (run, _fill_keys, _keys, _gather, _agreement, decide)])
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, check=True, env=clean_environment(), timeout=PROCESS_SECONDS_MAX
    )
    assert done.stdout == b"[1, 1, 1, 1, 1, 1]\n"


@pytest.mark.processes
def test_this_process_compiles_the_rest_only_while_the_other_works(monkeypatch):
    """The rest is compiled once, before the wait ends; without a second process, each kernel compiles at its use."""
    monkeypatch.setattr(table_compiler.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    done = []
    for kept in (False, True):
        monkeypatch.setattr(Compiling, "expect", lambda self, *kernels, kept=kept: set() if kept else set(kernels))
        with TableCompiler(Compiling(lambda line: None)) as compiler:
            compiler.wait(lambda: done.append("pairs"), lambda: done.append("verdicts"))
            compiler.wait(lambda: done.append("again"))
    assert done == ["pairs", "verdicts"]


@pytest.mark.processes
def test_a_second_process_that_fails_holds_up_nothing(monkeypatch):
    """The first process then compiles everything; the wait counts as compilation."""
    monkeypatch.setattr(Compiling, "expect", lambda self, *kernels: set(kernels))
    monkeypatch.setattr(table_compiler.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    clock = iter([1.0, 3.0])
    watch = Compiling(lambda line: None, lambda: next(clock))
    with TableCompiler(watch) as compiler:
        compiler.wait()
        compiler.wait()
    assert watch.seconds == 2.0


@pytest.mark.parametrize(
    ("kept", "writable", "cores"), [(True, True, {0, 1}), (False, False, {0, 1}), (False, True, {0})]
)
def test_no_second_process_starts_where_it_gains_nothing(monkeypatch, kept, writable, cores):
    """No second process starts with a full cache, without a cache, or on one core."""
    monkeypatch.setattr(Compiling, "expect", lambda self, *kernels: set() if kept else set(kernels))
    monkeypatch.setattr(table_compiler, "can_write", lambda folder: writable)
    monkeypatch.setattr(table_compiler.os, "sched_getaffinity", lambda pid: cores)
    monkeypatch.setattr(table_compiler.subprocess, "Popen", None)
    with TableCompiler(Compiling(lambda line: None)) as compiler:
        compiler.wait()


@pytest.mark.processes
def test_a_kernel_that_another_process_compiles_is_waited_for(tmp_path):
    """The wait is reported once, and ends when the other process ends, however it does."""
    path, lines = str(tmp_path / "kernel.nbc"), []
    code = """
import sys
from contextlib import nullcontext
from neardup_workers.outside.process.compiling import CompilerTurns
turns = CompilerTurns(nullcontext)
for path in sys.argv[1:]:
    turns.begin(path)
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
            watch._turns.begin(path)
            watch._turns.begin(f"{path}2")
            assert sorted(tmp_path.iterdir()) == [tmp_path / "kernel.nbc.lock", tmp_path / "kernel.nbc2.lock"]
    assert lines == ["waiting for another process, which compiles for this machine"]
    assert watch.seconds > 0
    assert not list(tmp_path.iterdir())


def test_a_process_that_stops_in_a_compilation_delays_the_others_for_a_limited_time(tmp_path, monkeypatch):
    """After a time, the process that waits compiles too, and leaves the lock to its holder."""
    monkeypatch.setattr(compiling, "_WAIT_SECONDS_MAX", 0.0)
    path = str(tmp_path / "kernel.nbc")
    holder = compiling.CompilerTurns(nullcontext)
    holder.begin(path)
    other = compiling.CompilerTurns(nullcontext)
    other.begin(path)
    assert list(other._held) == [path]
    other.end_all()
    holder.end_all()
    assert not list(tmp_path.iterdir())


def test_without_a_place_for_locks_each_process_compiles(tmp_path):
    """The kernel cannot be kept there either."""
    (tmp_path / "file").write_text("")
    turns = compiling.CompilerTurns(nullcontext)
    turns.begin(str(tmp_path / "file" / "kernel.nbc"))
    turns.end_all()
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
