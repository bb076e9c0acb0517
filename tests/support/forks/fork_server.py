"""Starts Python as often as it is asked, each time in a fork of a process that has imported the library already.

A start takes a tenth of the time: what takes the rest, the imports and the load of compiled kernels, is done once. What
is imported before is installed, or the library; a script finds the rest by its own path. What a test must not share
with others, such as the first use of a kernel, a signal or a variable that the interpreter reads, needs a real process.
"""

from __future__ import annotations

import gc
import importlib
import io
import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from fork_client import HEAD_BYTES

CLIENT = Path(__file__).with_name("fork_client.py")
SECONDS_MAX = 180  # a process that takes longer is killed
# Runs a script up to its main part: every import is made.
STARTED = "started"
IMPORTED = (
    "pytest", "neardup_workers.running.cli.app", "neardup_workers.outside.settings.load",
    "neardup_workers.running.commands.run",
    "neardup_workers.running.commands.dedup.command", "neardup_workers.outside.process.logs",
)  # fmt: skip


@contextmanager
def forks(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """A server of forks; the value is what stands for ``python`` in a command."""
    with tempfile.TemporaryDirectory(prefix="forks-") as folder:
        address = f"{folder}/socket"
        command = [sys.executable, __file__, address]
        alone = {**environment, "OPENBLAS_NUM_THREADS": "1"}  # only a process without threads forks safely
        with subprocess.Popen(
            command, env=alone, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        ) as server:  # fmt: skip
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield [sys.executable, "-S", "-E", str(CLIENT), address]


def execute(arguments: Sequence[str]) -> None:
    """Do what ``python`` does with ``-m MODULE``, ``-c CODE`` or a script; ``started FOLDER SCRIPT`` imports."""
    first, *rest = arguments
    if first == "-m":
        sys.path[0], sys.argv = os.getcwd(), rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        del sys.path[0]
        sys.argv, sys.modules["__main__"] = ["-c", *rest[1:]], ModuleType("__main__")
        exec(rest[0], vars(sys.modules["__main__"]))
    elif first == STARTED:
        sys.path[0], sys.argv = rest[0], rest[1:]
        runpy.run_path(rest[1], run_name=STARTED)
    else:
        sys.path[0], sys.argv = str(Path(first).resolve().parent), list(arguments)
        runpy.run_path(first, run_name="__main__")


def reopen() -> None:
    """Make new files of the standard streams, which are others than those that the server began with."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        buffer = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        lines = number == 2 or os.isatty(number)
        made = io.TextIOWrapper(buffer, before.encoding, before.errors, line_buffering=lines)
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)


def code_of(arguments: Sequence[str]) -> int:
    """Run it; the exit code is the one that the interpreter makes of its end."""
    code: object = 1
    try:
        execute(arguments)
        code = 0
    except SystemExit as left:
        code = left.code or 0
        if not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


def answer(connection: socket.socket) -> None:
    """Start what a client asks for, wait for its end, and send its exit code."""
    head, streams, _, _ = socket.recv_fds(connection, HEAD_BYTES, 3)
    with connection.makefile("rb") as file:
        folder, arguments, environment = marshal.loads(file.read(int.from_bytes(head, "big")))
    child = os.fork()
    if not child:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        reopen()
        os._exit(code_of(arguments))
    for stream in streams:
        os.close(stream)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(SECONDS_MAX)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    connection.sendall(bytes([code if code >= 0 else 128 - code]))


def warm() -> None:
    """Import what most processes import, and load the kernels of the defaults."""
    for name in IMPORTED:
        importlib.import_module(name)
    from neardup import Deduplicator, Document

    texts = ("a text of a few words", "a text of a few words", "a text of a few words more", "something else")
    for done in (Deduplicator().decide, Deduplicator().process):
        done([Document(str(n), text, float(n)) for n, text in enumerate(texts)])
    gc.freeze()  # a collection in a fork would copy all that is shared


def reap() -> None:
    """End those that have answered."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(address: str) -> None:
    """Answer each connection in a process of its own, until standard input ends."""
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as ready:
        listening.bind(address)
        listening.listen(64)
        os.write(1, b"ready\n")
        ready.register(listening, selectors.EVENT_READ)
        ready.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd == 0:
                    return
                connection, _ = listening.accept()
                if not os.fork():
                    listening.close()
                    answer(connection)
                    os._exit(0)
                connection.close()
                reap()


if __name__ == "__main__":
    warm()
    serve(sys.argv[1])
