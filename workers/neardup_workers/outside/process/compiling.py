"""Watches the compiler of a clone: a first run reports the compilation, and its time does not count as reading.

A wheel has its machine code. In a clone, kernels are compiled when they are first called, and stored on disk: a second
run loads them. Of several processes that need the same kernel at the same time, one compiles it, and the others wait.

Locks next to the compiled kernels see to that. The files there are loaded as code, so the folder must belong to this
user alone. The system releases the locks of a process that ends. Different kernels are compiled at the same time. A
process takes the lock of a kernel before those of the kernels that it calls, and no kernel calls itself, so two
processes never wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from neardup.kernel_folder import BUILT

# From one line to the next while the compiler works: a sign of life.
_LINE_SECONDS = 10.0
# Several times what the slowest kernel takes: a process that is stopped delays the others no longer than this.
_WAIT_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.05
_FIRST = "compiling for this machine, once for settings like these; later runs load it"
_WAITING = "waiting for another process, which compiles for this machine"


def say(line: str) -> None:
    """Write a line to standard error, now."""
    sys.stderr.write(f"neardup: {line}\n")
    sys.stderr.flush()


class Compiling:
    """Reports what is compiled, as a context manager; ``seconds`` is the time in which at least one kernel was in
    compilation, by this process or by one that this one waited for, and ``kernels`` is their number. ``say`` gets a
    line when the first kernel is compiled, and then every ten seconds while the compiler works, from a thread."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self.kernels = 0
        self.seconds = 0.0
        self._say, self._now = say, now
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._held: dict[str, int | None] = {}  # path of the kernel -> descriptor of its lock
        self._since = 0.0
        self._left = threading.Event()
        self._reporter: threading.Thread | None = None
        self._before: Any = None

    def __enter__(self) -> Compiling:
        if not BUILT:
            from neardup.machine.stored import take_turns

            self._before = take_turns(self)
            self._left.clear()
        return self

    def __exit__(self, *_: object) -> None:
        if not BUILT:
            from neardup.machine.stored import take_turns

            take_turns(self._before)
        for path in list(self._held):
            self._release(path)
        self._left.set()
        if self._reporter is not None:
            self._reporter.join()
            self._reporter = None

    def begin(self, path: str) -> None:
        """Return when no other process compiles the kernel of this file, or after two minutes, or if no lock can be
        made."""
        with self._lock:
            if path in self._held:
                return
            if not self._held:
                self._since = self._now()
            self._held[path] = None
            if self._reporter is None:
                self._reporter = threading.Thread(target=self._report, daemon=True)
                self._reporter.start()
        is_free = True
        with suppress(OSError):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            descriptor = self._held[path] = os.open(_lock(path), os.O_RDWR | os.O_CREAT, 0o600)
            is_free, end = _locked(descriptor), time.monotonic() + _WAIT_SECONDS_MAX
            if not is_free:
                self._say_once(_WAITING)
            while not _locked(descriptor) and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
        if is_free:
            self._say_once(_FIRST)

    def end(self, path: str) -> None:
        """Let the processes that wait load the kernel. If it is not there, the next one compiles it."""
        if self._release(path):
            self.kernels += 1

    def _release(self, path: str) -> bool:
        with self._lock:
            if path not in self._held:
                return False
            descriptor = self._held.pop(path)
            if not self._held:
                self.seconds += self._now() - self._since
        if descriptor is not None:
            with suppress(OSError):
                Path(_lock(path)).unlink()  # a process that waits has it open; a later one finds the kernel
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked process may have a copy of the descriptor
            os.close(descriptor)
        return True

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)

    def _report(self) -> None:
        """Say the progress every ten seconds while the compiler works."""
        while not self._left.wait(_LINE_SECONDS):
            if self._held:
                self._say(f"compiling: {self.kernels} kernels are done")


def _lock(path: str) -> str:
    return f"{path}.lock"


def _locked(descriptor: int) -> bool:
    """Lock a file unless another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
