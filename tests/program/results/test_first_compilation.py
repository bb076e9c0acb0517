"""Commands and workers that compile for the first time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from command import COMMAND, clean_environment

# Compiles when a line arrives, and prints the number of functions that it compiled.
_COMPILE = """
import numpy as np
from numba.core import event
from neardup.pairs.batches import id_hashes
from neardup_workers.outside.process.compiling import Compiling
class Watch(event.Listener):
    count = 0
    def on_start(self, event): self.count += 1
    def on_end(self, event): pass
watch = Watch()
event.register("numba:compile", watch)
print("ready", flush=True)
input()
with Compiling(lambda line: None):
    id_hashes(np.arange(4, dtype=np.uint8), np.array([0, 2, 4]))
print(watch.count)
"""


def compiled_functions(folder: Path, count: int) -> list[int]:
    """Start processes that compile into one folder at the same time; how many functions each one compiled."""
    environment = clean_environment(NUMBA_CACHE_DIR=str(folder))
    command = [sys.executable, "-c", _COMPILE]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [int(process.communicate(timeout=600)[0]) for process in processes]


def test_two_processes_that_start_together_compile_as_much_as_one(tmp_path: Path) -> None:
    """Each kernel is compiled by one of them, and the other one waits and loads it."""
    (alone,) = compiled_functions(tmp_path / "alone", 1)
    assert alone >= 2
    assert sum(compiled_functions(tmp_path / "together", 2)) == alone


def test_a_command_that_compiles_says_so_where_standard_error_is_no_terminal(tmp_path: Path) -> None:
    """Only a terminal showed it, so a job in a log stood still for half a minute."""
    environment = clean_environment(NUMBA_CACHE_DIR=str(tmp_path))
    command = [*COMMAND, "dedup", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write('{"id": "a", "text": "some words"}\n')
        process.stdin.close()
        first = process.stderr.readline()
        process.kill()  # a signal that it handles would wait for the compiler
    assert first.startswith("compiling for this machine, once"), first


def test_a_worker_that_compiles_says_so_and_ends_at_a_signal(tmp_path: Path) -> None:
    """There is no work to finish: it ends before its kernels are loaded."""
    settings = ["--bootstrap-servers", "localhost:9", "--health-port", "0", "--window-seconds", "3600"]
    command = [*COMMAND, "sign", *settings]
    environment = clean_environment(NUMBA_CACHE_DIR=str(tmp_path))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "compiling for this machine" in line or "kernels loaded" in line:
                process.terminate()
    assert process.returncode == 0
    assert any("compiling for this machine" in line for line in lines), lines
    assert not any("kernels loaded" in line for line in lines), lines
