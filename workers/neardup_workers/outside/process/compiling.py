"""Watches the compiler: a first run reports the compilation, and its time does not count as reading.

The kernels of the library are compiled when they are first called, and stored on disk: a second run loads them. Of
several processes that need a kernel at the same time, one compiles it, and the others wait. The
compiler reports the beginning and the end of each function, on the thread that calls it. Compilations may be nested.

A kernel names what it calls, so at its beginning it is known how many kernels are to be compiled for it. The total
grows when a kernel begins that was not known before.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core import event

from neardup.machine.stored import Turns, lacking, take_turns

_EVENT = "numba:compile"
# From one line to the next while the compiler works: a sign of life.
_LINE_SECONDS = 10.0
# Several times what the slowest kernel takes: a process that is stopped delays the others no longer than this.
_WAIT_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.05
_WAITING = "waiting for another process, which compiles for this machine"
# The compiler's own package declares no types.
_register: Callable[[str, event.Listener], None] = event.register
_unregister: Callable[[str, event.Listener], None] = event.unregister


def say(line: str) -> None:
    """Write a line to standard error, now."""
    sys.stderr.write(f"neardup: {line}\n")
    sys.stderr.flush()


class Compiling(event.Listener):
    """Counts compiled functions, as a context manager; ``seconds`` is the time in which at least one was in
    compilation.

    Args:
        say: gets one line when the first function is compiled, and then one every ten seconds while the compiler works,
            from a thread.
        now: the clock.
    """

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self.functions = 0
        self.seconds = 0.0
        self._say, self._now = say, now
        self._lock = threading.Lock()
        self._awaited: set[Any] = set()  # the kernels that were not kept when it was known that they are needed
        self._done: set[Any] = set()  # those that this process has compiled
        self._left = threading.Event()
        self._reporter: threading.Thread | None = None
        self._depth = 0
        self._since = 0.0
        self._has_waited = False
        self._turns = CompilerTurns(self._waiting_for_another)
        self._turns_before: Turns | None = None

    def __enter__(self) -> Compiling:
        _register(_EVENT, self)
        self._turns_before = take_turns(self._turns)
        self._left.clear()
        return self

    def __exit__(self, *_: object) -> None:
        _unregister(_EVENT, self)
        take_turns(self._turns_before)
        self._turns.end_all()
        self._left.set()
        if self._reporter is not None:
            self._reporter.join()
            self._reporter = None

    def expect(self, *kernels: Any) -> set[Any]:
        """Count kernels that will be called, and what they call, in the total; returns those that must be compiled."""
        found = lacking(kernels)
        with self._lock:
            self._awaited |= found
        return found

    def progress(self) -> str:
        """Return one line: how many kernels are compiled, by this process or by another, of how many."""
        with self._lock:
            awaited, done = set(self._awaited), set(self._done)
        if awaited:
            return f"compiling: {len(awaited - lacking(awaited) | done)} of {len(awaited)} kernels"
        return f"compiling: {self.functions} kernels" if self.functions else _WAITING

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of a block as compilation: another process compiles during the block, and so may threads of
        this one."""
        self._begin()
        self._start_reporter()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def _waiting_for_another(self) -> Iterator[None]:
        """Say once that another process compiles, and count the wait as compilation."""
        if not self._has_waited:
            self._has_waited = True
            self._say(_WAITING)
        with self.waiting():
            yield

    def on_start(self, event: Any) -> None:
        """Handle the beginning of a compilation: what it is comes before the first line of progress."""
        with self._lock:
            is_awaited = event.data["dispatcher"] in self._awaited
        if not is_awaited:
            self.expect(event.data["dispatcher"])
        if self._begin() and not self.functions:
            self._say("compiling for this machine, once for settings like these; later runs load it")
        self._start_reporter()

    def on_end(self, event: Any) -> None:
        """Handle the end of a compilation."""
        with self._lock:
            self.functions += 1
            self._done |= self._awaited & {event.data["dispatcher"]}
        self._end()

    def _report(self) -> None:
        """Say the progress every ten seconds while the compiler works."""
        while not self._left.wait(_LINE_SECONDS):
            with self._lock:
                works = self._depth > 0
            if works:
                self._say(self.progress())

    def _begin(self) -> bool:
        """Count one more function or wait in progress; returns whether it is the only one."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._since = self._now()
            return self._depth == 1

    def _start_reporter(self) -> None:
        """Start the thread that says the progress, unless it runs."""
        with self._lock:
            if self._reporter is None:
                self._reporter = threading.Thread(target=self._report, daemon=True)
                self._reporter.start()

    def _end(self) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self.seconds += self._now() - self._since


class CompilerTurns:
    """Locks next to the compiled kernels: of several processes that need the same kernel, one compiles it.

    The files there are loaded as code, so the folder must belong to this user alone. The system releases the locks of a
    process that ends. Different kernels are compiled at the same time. A process takes the lock of a kernel before
    those of the kernels that it calls, and no kernel calls itself, so two processes never wait for each other.
    """

    def __init__(self, waiting: Callable[[], AbstractContextManager[None]]) -> None:
        """``waiting`` is entered while another process compiles."""
        self._waiting = waiting
        self._held: dict[str, int] = {}  # path of the kernel -> descriptor of its lock

    def begin(self, path: str) -> None:
        """Return when no other process compiles this kernel, or after two minutes, or if no lock can be made."""
        if path in self._held:
            return
        with suppress(OSError):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(_lock(path), os.O_RDWR | os.O_CREAT, 0o600)
            self._held[path] = descriptor
            if not _locked(descriptor):
                with self._waiting():
                    end = time.monotonic() + _WAIT_SECONDS_MAX
                    while not _locked(descriptor) and time.monotonic() < end:
                        time.sleep(_POLL_SECONDS)

    def end(self, path: str) -> None:
        """Let the processes that wait load the kernel. If it is not there, the next one compiles it."""
        descriptor = self._held.pop(path, None)
        if descriptor is not None:
            with suppress(OSError):
                Path(_lock(path)).unlink()  # a process that waits has it open; a later one finds the kernel
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked process may have a copy of the descriptor
            os.close(descriptor)

    def end_all(self) -> None:
        """Release every lock."""
        for path in list(self._held):
            self.end(path)


def _lock(path: str) -> str:
    return f"{path}.lock"


def _locked(descriptor: int) -> bool:
    """Lock a file unless another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
